"""What of an answer is given to a client."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from retentive.hooks.events import MAX_ANSWER
from retentive.hooks.lookup import AFTER_JUDGING_MS, Found, Lookup
from retentive.hooks.options import HookOptions
from retentive.hooks.service_client import ServiceClient
from retentive.hooks.state import HookState


def answer(*notes: tuple[str, int]) -> dict[str, Any]:
    """An answer with one line of this length for each note. The id of a note is its place."""
    lines = [str(place).ljust(length, ".") for place, (_, length) in enumerate(notes)]
    items = [{"id": str(place), "part": part} for place, (part, _) in enumerate(notes)]
    return {"text": "\n".join(["Notes", "<memory a>", *lines, "</memory a>"]), "items": items}


FRAME = len("Notes\n<memory a>\n</memory a>")


def test_an_answer_of_the_limit_is_given_whole_and_of_a_longer_one_the_notes_that_fit() -> None:
    half = (MAX_ANSWER - FRAME - 2) // 2
    rest = MAX_ANSWER - FRAME - 2 - half
    whole = answer(("recalled", half), ("recalled", rest))
    assert len(whole["text"]) == MAX_ANSWER
    assert Found.of(whole).text == whole["text"]
    found = Found.of(answer(("recalled", half), ("recalled", rest), ("recalled", 1)))
    assert (found.text, found.ids) == (whole["text"], ("0", "1"))
    found = Found.of(answer(("recalled", half), ("recalled", rest + 1), ("recalled", rest - 1)))
    assert found.ids == ("0", "2")
    assert found.text.splitlines() == [
        "Notes",
        "<memory a>",
        "0".ljust(half, "."),
        "2".ljust(rest - 1, "."),
        "</memory a>",
    ]


def test_facts_are_left_out_before_recent_notes_and_of_those_the_oldest() -> None:
    third = MAX_ANSWER // 3 - FRAME
    found = Found.of(answer(("identity", third), ("facts", third), ("recent", third), ("recent", third)))
    assert found.ids == ("0", "2", "3")
    found = Found.of(answer(("identity", 2 * third), ("facts", third), ("recent", third), ("recent", third)))
    assert found.ids == ("0", "3")


@pytest.mark.parametrize("notes", [[("recalled", MAX_ANSWER)], []])
def test_if_no_note_fits_nothing_is_given(notes: list[tuple[str, int]]) -> None:
    sent = answer(*notes)
    sent["text"] += "." * (MAX_ANSWER if not notes else 0)
    found = Found.of(sent)
    assert (found.text, found.ids) == ("", ())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://[::1]", (b"::1", 80)),
        ("http://[::1]:4000", (b"::1", 4000)),
        ("http://127.0.0.1/", (b"127.0.0.1", 80)),
    ],
)
def test_a_service_may_be_named_without_a_port(url: str, address: tuple[bytes, int]) -> None:
    assert ServiceClient(url, deadline=0)._address == address


def test_a_prompt_is_judged_for_as_long_as_the_deadline_of_the_hook_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[dict[str, Any]] = []

    def find(self: Lookup, path: str, body: dict[str, Any]) -> Found:
        sent.append(body)
        return Found()

    monkeypatch.setattr(Lookup, "_find", find)
    options = HookOptions(event="prompt", client="codex", store=str(tmp_path / "m.db"))
    for seconds in (100.0, 10.0, 0.0):
        lookup = Lookup(options, HookState(options.store), deadline=time.monotonic() + seconds)
        lookup.context("Where is the key?", session="s", project=None, exclude=())
    longest, long, none = (body["deadlineMs"] for body in sent)
    assert (longest, none) == (60_000, 1)
    assert 5_000 < long <= 10_000 - AFTER_JUDGING_MS
