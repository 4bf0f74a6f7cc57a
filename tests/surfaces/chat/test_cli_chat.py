"""`retentive chat` in a terminal and in a pipe, against a model server over real HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from retentive.engine import Engine
from tests.surfaces.chatting import said
from tests.surfaces.model_server import DONE, ModelServer, answers, event, fails, hangs, streams, unused_address
from tests.surfaces.terminal import terminal


@pytest.fixture
def key(tmp_path) -> str:
    """The text of a memory in the store that the program uses, which has no vectors: that takes less time."""
    text = "The spare key is under the blue pot"
    with Engine.open(tmp_path / "store.db", embedder="none") as engine:
        engine.remember(text, kind="semantic")
    return text


def stored(tmp_path) -> list[tuple[str | None, str]]:
    with Engine.open(tmp_path / "store.db", embedder="none") as engine:
        return said(engine)


def settings(model: ModelServer) -> dict[str, str]:
    return {"RETENTIVE_LLM_URL": model.url, "RETENTIVE_EMBEDDER": "none"}


def piped(text: str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    own = {**os.environ, "RETENTIVE_EMBEDDER": "none", **env}
    words = [sys.executable, "-m", "retentive", "chat", *options]
    return subprocess.run(words, input=text, env=own, capture_output=True, text=True, check=False)


def test_a_chat_in_a_terminal_shows_what_was_recalled_streams_answers_and_stores_the_turns(model, key, tmp_path):
    model.script = [answers("ignored", role="assistant")]  # the list of models, which has none here
    model.script.append(streams(event("Under the ") + event("pot.") + event(None, finish="stop") + DONE, every=40))
    with terminal("chat", columns=70, **settings(model)) as shown:
        shown.until("you: ")
        shown.type("Where is the spare key?\n")
        turn = shown.until("you: ")
        shown.type("And the car?\n")
        shown.until("you: ")
        shown.type("/exit\n")
        assert shown.end() == 0
        assert f"recalled 1 from the whole profile: {key}" in turn
        assert "Under the pot.\n" in turn
        assert f"\x1b[2mrecalled 1 from the whole profile: {key}" in shown.raw
    assert stored(tmp_path) == [
        ("user", "Where is the spare key?"),
        ("assistant", "Under the pot."),
        ("user", "And the car?"),
        ("assistant", "You said: And the car?"),
    ]
    assert [one["role"] for one in model.prompt if one["role"] != "system"] == ["user", "assistant", "user"]


@pytest.mark.parametrize("key_press", ["\x04", "\x03"], ids=["Ctrl-D", "Ctrl-C"])
def test_ctrl_d_and_ctrl_c_end_a_chat_without_an_error(model, key, key_press):
    with terminal("chat", **settings(model)) as shown:
        shown.until("you: ")
        assert shown.end(press=key_press) == 0
        assert "Traceback" not in shown.text


def test_ctrl_c_in_an_answer_ends_the_chat_and_stores_what_was_said_so_far(model, key, tmp_path):
    with terminal("chat", "--model", "stand-in", **settings(model)) as shown:
        shown.until("you: ")
        model.script = [hangs(event("Once upon"))]
        shown.type("Tell me a story\n")
        shown.until("Once upon")
        assert shown.end(press="\x03") == 0
        assert "Traceback" not in shown.text
    assert stored(tmp_path) == [("user", "Tell me a story"), ("assistant", "Once upon")]


def test_lines_of_a_pipe_are_answered_and_only_answers_are_on_standard_output(model, key):
    done = piped("Where is the spare key?\n", RETENTIVE_LLM_URL=model.url)

    assert (done.returncode, done.stdout) == (0, "You said: Where is the spare key?\n")
    assert f"recalled 1 from the whole profile: {key}" in done.stderr
    assert model.calls[-1].body["model"] == "stand-in"


def test_an_error_of_the_model_is_shown_and_the_chat_goes_on(model, key):
    model.script = [answers("no list"), fails(429, "slow down")]

    done = piped("first\nsecond\n", RETENTIVE_LLM_URL=model.url)

    assert (done.returncode, done.stdout) == (5, "You said: second\n")
    assert "error: slow down" in done.stderr
    assert [one["content"] for one in model.prompt if one["role"] == "user"] == ["second"]


def test_answers_and_errors_of_a_pipe_are_json_if_that_is_asked_for(model, key):
    model.script = [answers("no list"), fails(429, "slow down")]

    done = piped("first\nWhere is the spare key?\n", "--json", RETENTIVE_LLM_URL=model.url)

    [answer] = map(json.loads, done.stdout.splitlines())
    assert answer["answer"] == "You said: Where is the spare key?"
    assert answer["context"]["items"][0]["text"] == key
    error = next(json.loads(line) for line in done.stderr.splitlines() if line.startswith("{"))
    assert (done.returncode, error) == (5, {"error": {"code": "unavailable", "message": "slow down"}})


def test_without_a_model_server_there_is_a_message_that_says_what_to_set(key):
    done = piped("hello\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "RETENTIVE_LLM_URL" in done.stderr

    unreachable = piped("hello\n", RETENTIVE_LLM_URL=unused_address())
    assert unreachable.returncode == 5
    assert "cannot be reached" in unreachable.stderr
    assert "Traceback" not in unreachable.stderr
