"""Which messages are queued, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retentive.hooks.capture import end_session, end_turn, note_prompt
from retentive.hooks.events import HookEvent, parse_event
from retentive.hooks.options import HookOptions
from retentive.hooks.state import HookState
from tests.hooks.test_events import block

SESSION = {"sessionId": "s", "runId": "run-1"}


@pytest.fixture
def state(tmp_path: Path) -> HookState:
    return HookState(str(tmp_path / "m.db"))


def options() -> HookOptions:
    return HookOptions(event="", client="openclaw", store="m.db")


def event(**sent: Any) -> HookEvent:
    found = parse_event("openclaw", SESSION | sent)
    assert found is not None
    return found


def note(state: HookState, prompt: str) -> None:
    session = state.session("openclaw:s")
    note_prompt(options(), state, session, event(prompt=prompt))
    session.save()


def end(state: HookState, message: str) -> None:
    messages = [{"role": "user", "content": message}, {"role": "assistant", "content": "At pier nine."}]
    end_turn(options(), state, event(messages=messages))


def queued(state: HookState) -> list[tuple[str, str]]:
    return [(message["memory"]["speaker"], message["memory"]["text"]) for _, message in state.queued()]


@pytest.mark.parametrize("before", ["", block("The berth costs 300") + "\n\n", "From another plugin.\n\n"])
def test_what_openclaw_puts_before_a_prompt_is_not_stored(state: HookState, before: str) -> None:
    note(state, "Where is the boat?")
    end(state, f"{before}Where is the boat?")
    assert queued(state) == [("user", "Where is the boat?"), ("assistant", "At pier nine.")]


def test_without_a_noted_prompt_or_with_another_one_the_message_at_the_end_of_the_turn_is_stored(
    state: HookState,
) -> None:
    end(state, block("The berth costs 300") + "\n\nWhere is the boat?")
    note(state, "Where is the boat?")
    end(state, "Where is the car?")
    said = [text for speaker, text in queued(state) if speaker == "user"]
    assert said == ["Where is the boat?", "Where is the car?"]


def test_the_end_of_a_session_queues_the_prompt_of_an_open_turn_only(state: HookState) -> None:
    note(state, "Where is the boat?")
    end(state, "Where is the boat?")
    end_session(options(), state, event())
    assert len(queued(state)) == 2
    note(state, "Sell it")
    end_session(options(), state, event())
    end_session(options(), state, event())
    assert queued(state)[2:] == [("user", "Sell it")]
