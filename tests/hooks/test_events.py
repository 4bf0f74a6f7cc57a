"""What the clients send, and the form of the answers: recorded examples of the clients' documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retentive.chat.prompt_block import INTRODUCTION, note_line, prompt_block
from retentive.hooks.events import CLIENTS, EVENTS, MAX_CAPTURED, format_answer, parse_event
from retentive.hooks.options import HookOptions, parse_options
from retentive.models import Memory

RECORDED = Path(__file__).parent / "recorded"
SESSIONS = {
    "claude-code": "00893aaf-19fa-41d2-8238-13269b9b3ca0",
    "codex": "019d2f10-9a52-7c21-9d8e-2c3b1f0a4e55",
    "cursor": "668320d2-2fd8-4888-b33c-2a466fec86e7",
    "openclaw": "b7f0c1f2-6d5e-4a39-a6fd-0c1d5b6a7e88",
}


def recorded(client: str, event: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / client / f"{event}.json").read_text())
    return found


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("client", CLIENTS)
def test_each_recorded_event_names_its_session_and_project(client: str, event: str) -> None:
    parsed = parse_event(client, recorded(client, event))
    assert parsed is not None
    assert parsed.session == f"{client}:{SESSIONS[client]}"
    assert parsed.project == ("docs" if (client, event) == ("claude-code", "turn-end") else "boat")


@pytest.mark.parametrize("client", CLIENTS)
def test_the_prompt_and_the_answer_are_read_without_tool_noise(client: str) -> None:
    prompt, turn = (parse_event(client, recorded(client, event)) for event in ("prompt", "turn-end"))
    assert prompt is not None
    assert turn is not None
    assert prompt.prompt == "Where is the boat moored?"
    assert turn.answer == "The boat is moored at pier nine."
    assert (prompt.turn == turn.turn != "") is (client != "claude-code")  # Claude Code names no turn


def specific(event: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": "x"}}


@pytest.mark.parametrize(
    ("client", "event", "answer"),
    [
        ("claude-code", "prompt", specific("UserPromptSubmit")),
        ("codex", "session-start", specific("SessionStart")),
        ("openclaw", "prompt", {"prependContext": "x"}),
        ("cursor", "session-start", {"additional_context": "x"}),
        ("cursor", "prompt", {"continue": True}),
        ("cursor", "turn-end", None),
        ("claude-code", "turn-end", None),
        ("codex", "session-end", None),
    ],
)
def test_an_answer_has_the_form_of_its_client(client: str, event: str, answer: Any) -> None:
    assert format_answer(client, event, "x") == answer


@pytest.mark.parametrize("client", ["claude-code", "codex", "openclaw"])
def test_nothing_is_printed_for_nothing(client: str) -> None:
    assert format_answer(client, "prompt", "") is None


@pytest.mark.parametrize("sent", [{}, {"session_id": 7}, {"prompt": "x"}])
def test_an_event_without_a_session_is_none(sent: dict[str, Any]) -> None:
    assert parse_event("claude-code", sent) is None


def test_a_command_of_the_client_is_no_prompt_and_a_long_one_is_cut() -> None:
    command = parse_event("claude-code", {"session_id": "s", "prompt": "<command-name>/clear</command-name>"})
    long = parse_event("claude-code", {"session_id": "s", "prompt": "x" * (MAX_CAPTURED + 5) + "\ud800"})
    assert command is not None
    assert long is not None
    assert command.prompt == ""
    assert long.prompt == "x" * MAX_CAPTURED + " …"


def block(*texts: str, nonce: str = "5eed") -> str:
    """A block as hooks print it."""
    noon = datetime(2026, 8, 1, 12, tzinfo=UTC)
    memories = [Memory(id=str(number), text=text, created=noon) for number, text in enumerate(texts)]
    return prompt_block([note_line(memory, "recalled") for memory in memories], nonce)


def prompt_of(text: str) -> str:
    event = parse_event("claude-code", {"session_id": "s", "prompt": text})
    assert event is not None
    return event.prompt


@pytest.mark.parametrize("client", CLIENTS)
def test_our_own_block_is_cut_from_a_prompt_and_from_an_answer(client: str) -> None:
    quoting = f"{INTRODUCTION}\n<memory 5eed>\n</memory 5eed>"  # a note with our own sentence and markers
    text = f"{block('The berth costs 300', quoting)}\n\n{block('A second one', nonce='a')}\n\nWhere is the boat?"
    messages = [{"role": "user", "content": text}, {"role": "assistant", "content": "Here."}]
    event = parse_event(client, {"session_id": "s", "prompt": text, "text": text, "messages": messages})
    assert event is not None
    assert event.prompt == "Where is the boat?"
    assert event.answer == ("Here." if client == "openclaw" else "Where is the boat?")


@pytest.mark.parametrize(
    "text",
    [
        f"What does this mean: {INTRODUCTION}",
        f"{INTRODUCTION}\n<memory a>\nno end",
        f"{INTRODUCTION}\n<memory a>\nx\n</memory b> of another block",
        "<memory a>\nx\n</memory a>\nwithout an introduction",
        "a </system-reminder> b <system-reminder> c",
    ],
)
def test_what_only_resembles_an_addition_is_kept(text: str) -> None:
    assert prompt_of(text) == text


def test_reminders_of_the_client_are_cut() -> None:
    assert prompt_of("<system-reminder>a\nb</system-reminder>one<system-reminder></system-reminder> two") == "one two"


@pytest.mark.parametrize(
    "part",
    [
        "<system-reminder>",
        "\n</memory a",
        f"{INTRODUCTION}\n<memory a>\n",
        f"{INTRODUCTION}\n<memory a>\n\n</memory b>",
        "\n<memory a>\n\n</memory a>",
    ],
)
def test_the_time_for_a_long_message_grows_with_its_length_only(part: str) -> None:
    text = part * (5_000_000 // len(part))
    assert prompt_of(text) == f"{text.strip()[:MAX_CAPTURED]} …"  # this would take hours if it grew with the square


def test_the_options_of_a_hook_survive_the_command_line() -> None:
    options = HookOptions(
        event="prompt",
        client="codex",
        store="/a b/m.db",
        config="/a b/retentive.toml",
        url="http://127.0.0.1:4000",
        profile="ana",
        embedder="none",
        project="boat",
        scope="project",
        budget=700,
        deadline=250,
        capture=False,
    )
    assert vars(parse_options(["prompt", *options.words()])) == vars(options)
    short = parse_options(["prompt", "--client", "cursor", "--store", "m.db"])
    assert vars(short) == vars(HookOptions(event="prompt", client="cursor", store="m.db"))
    for words in (["prompt"], ["prompt", "--client=vim"], ["prompt", "--client=codex", "--odd=1"]):
        with pytest.raises(ValueError, match=r"option|--client"):
            parse_options(words)
