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
from tools.walk import SURFACES, Trace, Tracer, main, walk

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"

MOST_FILES = {
    "recall": {"cli": 26, "http": 28, "mcp": 26, "library": 18},
    "remember": {"cli": 18, "http": 20, "mcp": 18, "library": 11},
}
DEEPEST = 10

trace = cache(lambda action, via: walk(action, via=via, store="sqlite"))
"""Traces a call once for all tests here."""


def tours() -> dict[str, list[str]]:
    """Return the files of each table below `<!-- walk: ACTION --via SURFACE -->`, by action and surface."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    found = re.findall(r"^<!-- walk: (.+) -->\n((?:\|.*\n)+)", text, flags=re.MULTILINE)
    return {call: re.findall(r"^\| `([^`]+\.py)` \|", table, flags=re.MULTILINE) for call, table in found}


def test_there_is_a_tour_of_a_recall_and_of_a_remember():
    assert {"recall --via cli", "remember --via cli"} <= tours().keys()


@pytest.mark.parametrize("call", tours())
def test_a_tour_names_the_files_that_the_call_passes_through_in_order(call):
    action, via = call.split(" --via ")

    assert tours()[call] == list(trace(action, via).files), f"run: python -m tools.walk {call} --table"


@pytest.mark.parametrize("via", SURFACES)
@pytest.mark.parametrize("action", MOST_FILES)
def test_a_call_passes_through_few_files(action, via):
    assert len(trace(action, via).files) <= MOST_FILES[action][via], trace(action, via).text()


@pytest.mark.parametrize("via", SURFACES)
def test_the_stack_of_a_recall_is_not_deep(via):
    assert len(trace("recall", via).stack) <= DEEPEST, trace("recall", via).text()


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


def test_the_command_prints_json_a_table_or_text_with_the_totals(capsys, monkeypatch):
    traced = Trace({"engine.py": ["Engine.recall"]}, ["engine.py Engine.recall"])
    monkeypatch.setattr("tools.walk.walk", lambda action, *, via, store: traced)

    main(["recall", "--via", "library", "--json"])
    assert json.loads(capsys.readouterr().out) == {"files": traced.files, "stack": traced.stack}

    main(["recall", "--table"])
    assert capsys.readouterr().out.splitlines()[-1].startswith("| `engine.py` | ")

    main(["recall"])
    assert capsys.readouterr().out.splitlines()[-1] == "1 files; deepest stack: 1 frames"


def test_the_command_writes_the_table_of_a_tour(tmp_path, monkeypatch):
    page = tmp_path / "CONTRIBUTING.md"
    page.write_text("Before\n\n<!-- walk: recall --via cli -->\n| old |\n| --- |\n\nAfter\n", encoding="utf-8")
    traced = Trace({"engine.py": ["Engine.recall"]}, ["engine.py Engine.recall"])
    monkeypatch.setattr("tools.walk.walk", lambda action, *, via, store: traced)
    monkeypatch.setattr("tools.walk.CONTRIBUTING", page)

    main(["recall", "--via", "cli", "--write"])
    before, table, after = page.read_text(encoding="utf-8").split("\n\n")
    assert (before, after) == ("Before", "After\n")
    assert table.splitlines() == ["<!-- walk: recall --via cli -->", *traced.table().splitlines()]

    with pytest.raises(SystemExit, match="has no line <!-- walk: remember --via cli -->"):
        main(["remember", "--via", "cli", "--write"])
