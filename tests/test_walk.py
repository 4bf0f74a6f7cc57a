"""The tours in CONTRIBUTING.md name the files that a call passes through, and a call passes through few."""

from __future__ import annotations

import json
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest
from tools.walk import CONTRIBUTING, SURFACES, TOUR, Trace, Tracer, main, update_tours, walk

MOST_FILES = {
    "recall": {"cli": 30, "http": 28, "mcp": 26, "library": 21},
    "remember": {"cli": 22, "http": 21, "mcp": 24, "library": 14},
}
"""The numbers of today: a change may lower them, and must not raise them."""
DEEPEST = {"cli": 10, "http": 10, "mcp": 10, "library": 10}

trace = cache(lambda action, via: walk(action, via=via, store="sqlite"))
"""Traces a call once for all tests here."""


def tours(page: Path = CONTRIBUTING) -> dict[str, list[str]]:
    """Return the files that each tour names, by its call."""
    found = TOUR.finditer(page.read_text(encoding="utf-8"))
    return {tour["call"]: re.findall(r"^\| `(.+?)` \|", tour["table"], flags=re.MULTILINE) for tour in found}


def test_there_is_a_tour_of_a_recall_and_one_of_a_remember():
    assert {call.split()[0] for call in tours()} == {"recall", "remember"}


@pytest.mark.parametrize("call", tours())
def test_a_tour_names_the_files_that_the_call_passes_through_in_order(call):
    action, via = call.split(" --via ")

    assert tours()[call] == list(trace(action, via).files), "run: make references"


@pytest.mark.parametrize("via", SURFACES)
@pytest.mark.parametrize("action", MOST_FILES)
def test_a_call_passes_through_few_files(action, via):
    assert len(trace(action, via).files) <= MOST_FILES[action][via], trace(action, via).text()


@pytest.mark.parametrize("via", SURFACES)
def test_the_stack_of_a_recall_is_not_deep(via):
    assert len(trace("recall", via).stack) <= DEEPEST[via], trace("recall", via).text()


# The tracer itself


def inner() -> threading.Thread:
    return threading.current_thread()


def outer(pool: ThreadPoolExecutor) -> threading.Thread:
    return pool.submit(lambda: inner()).result()


def test_calls_on_worker_threads_are_recorded_and_frames_without_a_name_are_not():
    tracer = Tracer(root=Path(__file__).parent)
    with tracer.installed(), ThreadPoolExecutor(1) as pool:
        outer(pool)  # the worker has started by now
        assert tracer.trace.files == {}
        with tracer.recording():
            worker = outer(pool)

    assert worker is not threading.current_thread()
    assert tracer.trace.files == {"test_walk.py": ["outer", "inner"]}
    assert tracer.trace.stack[-1] == "test_walk.py outer"
    assert sys.getprofile() is None


TRACED = Trace({"engine.py": ["Engine.recall"], "errors.py": ["Invalid"]}, ["engine.py Engine.recall"])


def test_the_command_prints_the_trace_as_text_with_totals_or_as_json(capsys, monkeypatch):
    monkeypatch.setattr("tools.walk.walk", lambda action, *, via, store: TRACED)

    main(["recall"])
    assert capsys.readouterr().out.splitlines()[-1] == "2 files; deepest stack: 1 frames"

    main(["recall", "--via", "library", "--json"])
    assert json.loads(capsys.readouterr().out) == {"files": TRACED.files, "stack": TRACED.stack}


def test_an_update_writes_the_table_of_every_tour_and_leaves_the_rest(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.walk.walk", lambda action, *, via, store: TRACED)
    page = tmp_path / "page.md"
    page.write_text("before\n\n<!-- walk: recall --via cli -->\n| file |\n| `old.py` |\n\nafter\n")

    update_tours(page)

    lines = page.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert tours(page) == {"recall --via cli": ["engine.py", "errors.py"]}
