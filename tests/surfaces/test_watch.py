"""`retentive watch` as a real process on a real folder."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from retentive.engine import Engine
from tests.surfaces.service import PROGRAM, until
from tests.surfaces.test_cli import run
from tests.surfaces.test_failures import Embedder
from tests.transfer.watching.build import write

TWO = "# House\n\nBuilt 1932.\n\n# Garden\n\nPears.\n"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("RETENTIVE_EMBEDDER", "none")
    made = tmp_path / "notes"
    made.mkdir()
    return made


class Watcher:
    """A running `retentive watch`, and what it has told so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.told: list[dict[str, Any]] = []
        self._said: list[str] = []
        self.threads = [
            threading.Thread(target=lambda: self.told.extend(map(json.loads, process.stdout or ()))),
            threading.Thread(target=lambda: self._said.extend(process.stderr or ())),
        ]
        for thread in self.threads:
            thread.start()

    @property
    def said(self) -> str:
        return "".join(self._said)

    def wait_for(self, change: str, file: str = "") -> dict[str, Any]:
        """The first time that this is told."""
        found: list[dict[str, Any]] = []

        def come() -> bool:
            assert self.process.poll() is None or self.threads[0].is_alive(), self.said
            found.extend(one for one in self.told if (one["change"], one["file"]) == (change, file))
            return bool(found)

        until(come)
        return found[0]

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(90)


@contextmanager
def watching(
    store: Path, folder: Path, *options: str, before: Callable[[], None] | None = None, **env: str
) -> Iterator[Watcher]:
    named = {f"RETENTIVE_{name.upper()}": value for name, value in env.items()}
    words = ["--store", str(store), "--json", "watch", str(folder), "--debounce", "0.05", *options]
    process = subprocess.Popen(
        [*PROGRAM, *words], text=True, env={**os.environ, **named}, preexec_fn=before,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    watcher = Watcher(process)
    try:
        yield watcher
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(90)
        for thread in watcher.threads:
            thread.join()
        for pipe in (process.stdout, process.stderr):
            if pipe:
                pipe.close()


def texts(store: Path) -> dict[str, str]:
    """What is remembered, by its source; nothing twice, and the store sound."""
    return {source: text for source, (_, text) in contents(store).items()}


def contents(store: Path) -> dict[str, tuple[str, str]]:
    with Engine.open(store, embedder="none") as engine:
        found = engine.list(limit=1000).memories
        assert engine.check() == []
    by_source = {memory.source or "": (memory.id, memory.text) for memory in found}
    assert len(by_source) == len(found)
    return by_source


def test_edits_renames_moves_and_deletes_are_followed_while_it_runs(store, folder):
    write(folder, "a.md", TWO)
    write(folder, "b.md", "second")
    with watching(store, folder) as watcher:
        watcher.wait_for("ready")
        before = contents(store)

        write(folder, "a.md", "# New\n\nAbove.\n\n" + TWO)
        watcher.wait_for("changed", "a.md")
        (folder / "deep/er").mkdir(parents=True)
        (folder / "a.md").rename(folder / "deep/er/a.md")
        assert watcher.wait_for("moved", "deep/er/a.md")["before"] == "a.md"
        draft = write(folder, ".c.md.tmp", "third, as an editor saves it")
        draft.replace(folder / "b.md")
        watcher.wait_for("changed", "b.md")
        (folder / "deep").rename(folder / "shallow")
        watcher.wait_for("moved", "shallow/er/a.md")
        (folder / "b.md").unlink()
        watcher.wait_for("forgotten", "b.md")
        write(folder, "x.md/inside.md", "in a folder named like a file")
        watcher.wait_for("added", "x.md/inside.md")

        assert watcher.end() == 0
        assert watcher.said == ""
    after = contents(store)
    assert after["shallow/er/a.md#L5-L7"] == before["a.md#L1-L3"]
    assert after["shallow/er/a.md#L9-L11"] == before["a.md#L5-L7"]
    assert set(after) == {
        *(f"shallow/er/a.md#{lines}" for lines in ("L1-L3", "L5-L7", "L9-L11")), "x.md/inside.md#L1-L1"
    }  # fmt: skip


def test_what_changed_while_it_did_not_run_is_followed_at_the_next_start(store, folder):
    write(folder, "a.md", TWO)
    write(folder, "b.md", "second")
    with watching(store, folder) as watcher:
        watcher.wait_for("ready")
        assert watcher.end(signal.SIGINT) == 0
    before = contents(store)
    (folder / "a.md").rename(folder / "z.md")
    (folder / "b.md").unlink()
    write(folder, "c.md", "third")

    with watching(store, folder) as watcher:
        watcher.wait_for("ready")

    assert {(one["change"], one["file"]) for one in watcher.told} == {
        ("moved", "z.md"), ("forgotten", "b.md"), ("added", "c.md"), ("ready", "")
    }  # fmt: skip
    assert contents(store)["z.md#L1-L3"] == before["a.md#L1-L3"]
    assert set(texts(store)) == {"z.md#L1-L3", "z.md#L5-L7", "c.md#L1-L1"}


def test_two_thousand_files_survive_kill_9_at_any_moment_and_are_all_there_once(store, folder):
    for number in range(2000):
        write(folder, f"{number % 20}/{number}.md", f"note number {number}")
    for at_least in (1, 500):
        with watching(store, folder) as watcher:
            until(lambda: len(watcher.told) >= at_least or watcher.process.poll() is not None)  # noqa: B023
            watcher.end(signal.SIGKILL)
    with watching(store, folder) as watcher:
        ready = watcher.wait_for("ready")

    assert ready["reason"] == "2000 files, 2000 memories"
    assert (
        len([one for one in watcher.told if one["change"] == "added"]) <= 1500
    )  # what was stored before is not read again
    with Engine.open(store, embedder="none") as engine:
        assert engine.stats().memories == 2000
        assert engine.check() == []
    again = invoke(str(folder), "--once", "--json")
    assert [json.loads(line)["change"] for line in again.stdout.splitlines()] == ["ready"]


def test_with_the_real_model_a_passage_is_found_by_the_heading_above_it_and_its_line_is_shown(folder):
    plain = "It costs forty euros a year and is valid from the first of March."
    write(folder, "car.md", f"# Parking permit\n\n{'Some words that fill the page. ' * 50}\n\n{plain}\n")
    write(folder, "gym.md", f"# Gym membership\n\n{'Some words that fill the page. ' * 50}\n\n{plain}\n")
    invoke(str(folder), "--once", "--embedder", "memory-small")

    for query, place in (("what does parking cost?", f"{folder}/car.md:5"), ("price of the gym", "gym.md:5")):
        answer = run("--embedder", "memory-small", "recall", query).stdout
        assert plain[:20] in answer.splitlines()[0]
        assert place in answer.splitlines()[1]


def drop_the_powers_of_root() -> None:
    """Have even root bound by permissions, in this process and those it starts."""
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


def test_an_unreadable_file_is_reported_once_and_read_when_it_is_readable_again(store, folder):
    write(folder, "a.md", "first")
    write(folder, "closed/b.md", "second")
    write(folder, "c.md", "third")
    with watching(store, folder, before=drop_the_powers_of_root) as watcher:
        watcher.wait_for("ready")
        (folder / "closed").chmod(0)
        draft = write(folder, ".a.md.tmp", "first, again")
        draft.chmod(0)  # before it is in its place: the watcher must not read it between the two
        draft.replace(folder / "a.md")
        watcher.wait_for("unreadable", "a.md")
        watcher.wait_for("unreadable", "closed")
        write(folder, "c.md", "third, again")
        watcher.wait_for("changed", "c.md")
        assert set(texts(store)) == {"a.md#L1-L1", "closed/b.md#L1-L1", "c.md#L1-L1"}

        (folder / "a.md").chmod(0o644)
        (folder / "closed").chmod(0o755)
        watcher.wait_for("changed", "a.md")
        assert watcher.end() == 0

    assert texts(store)["a.md#L1-L1"] == "first, again"
    assert watcher.said.splitlines().count("unreadable a.md: permission denied") == 1


def test_the_memories_of_a_folder_that_disappears_for_a_while_are_not_forgotten(store, folder):
    write(folder, "a.md", "first")
    with watching(store, folder) as watcher:
        watcher.wait_for("ready")
        folder.rename(folder.with_name("away"))
        told = watcher.wait_for("waiting")
        assert "its memories are kept" in told["reason"]
        write(folder.with_name("away"), "b.md", "second")
        folder.with_name("away").rename(folder)
        watcher.wait_for("added", "b.md")
        write(folder, "c.md", "third")
        watcher.wait_for("added", "c.md")

    assert set(texts(store)) == {"a.md#L1-L1", "b.md#L1-L1", "c.md#L1-L1"}


def test_a_store_that_is_locked_is_waited_for(store, folder):
    write(folder, "a.md", "first")
    with watching(store, folder, busy_seconds="0.2") as watcher:
        watcher.wait_for("ready")
        other = sqlite3.connect(store, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        write(folder, "b.md", "second")
        watcher.wait_for("waiting")
        other.execute("ROLLBACK")
        other.close()
        watcher.wait_for("added", "b.md")

    assert watcher.said.count("waiting: another process held") == 1
    assert set(texts(store)) == {"a.md#L1-L1", "b.md#L1-L1"}


def test_with_a_stopped_embedder_notes_are_stored_and_get_their_vectors_when_it_is_back(store, folder):
    embedder = Embedder()
    settings = {
        "embedder": f"http://127.0.0.1:{embedder.port}", "embedder_model": "small", "embedder_retries": "0",
        "embedder_timeout": "2",
    }  # fmt: skip

    def waiting() -> int:
        with Engine.open(store, embedder="none") as engine:
            return engine.stats().unembedded

    try:
        write(folder, "a.md", "first")
        with watching(store, folder, **settings) as watcher:
            watcher.wait_for("ready")
            until(lambda: waiting() == 0)
            embedder.stop()
            write(folder, "b.md", "second")
            watcher.wait_for("added", "b.md")
            watcher.wait_for("waiting")
            assert waiting() == 1
            embedder.start()
            until(lambda: waiting() == 0)
    finally:
        embedder.stop()


def test_only_one_process_watches_a_folder_for_a_store_and_a_killed_one_leaves_no_lock(store, folder, tmp_path):
    write(folder, "a.md", "first")
    with watching(store, folder) as watcher:
        watcher.wait_for("ready")

        assert "another process watches" in invoke(str(folder), "--once", code=4).stderr
        invoke(str(folder), "--dry-run")
        invoke(str(folder), "--once", "--store", str(tmp_path / "other.db"))
        watcher.end(signal.SIGKILL)

    invoke(str(folder), "--once")


def test_the_store_may_lie_in_the_folder_and_of_many_edits_the_last_one_stays(folder):
    store = folder / "store.db"
    write(folder, "a.md", "first")

    def stored() -> set[str]:
        with Engine.open(store, embedder="none") as engine:
            return {memory.text for memory in engine.list().memories}

    with watching(store, folder) as watcher:
        watcher.wait_for("ready")
        for number in range(20):
            write(folder, "a.md", f"edit {number}")
        until(lambda: "edit 19" in stored())
        assert watcher.end() == 0
    assert texts(store) == {"a.md#L1-L1": "edit 19"}
    assert len([one for one in watcher.told if one["change"] == "changed"]) <= 20


def invoke(*words: str, code: int = 0):
    return run("watch", *words, code=code)


def test_once_reports_what_it_did_and_dry_run_what_it_would_do(folder):
    write(folder, "a.md", TWO)

    assert invoke(str(folder), "--dry-run").stdout == "added a.md: 2 added\n"
    assert invoke(str(folder), "--once").stdout == "added a.md: 2 added\nready: 1 file, 2 memories\n"
    assert invoke(str(folder), "--once").stdout == "ready: 1 file, 2 memories\n"


def test_once_has_an_exit_code_for_unreadable_and_for_too_many_missing_files(folder):
    write(folder, "a.md", b"\0")
    assert "unreadable a.md: it is not text" in invoke(str(folder), "--once", code=5).stderr
    (folder / "a.md").unlink()
    for number in range(25):
        write(folder, f"{number}.md", f"note {number}")
    invoke(str(folder), "--once")
    for number in range(25):
        (folder / f"{number}.md").unlink()

    assert "25 of 25 files are missing" in invoke(str(folder), "--once", code=4).stderr
    assert "forgotten 3.md" in invoke(str(folder), "--once", "--yes").stdout


def test_forgetting_a_folder_needs_confirmation_and_does_not_delete_its_files(folder):
    file = write(folder, "a.md", TWO)
    invoke(str(folder), "--once")

    assert "--yes" in str(invoke(str(folder), "--forget", code=2).stderr)
    assert invoke(str(folder), "--forget", "--yes").stdout == "forgotten: 2 forgotten\n"
    assert file.exists()
    assert invoke(str(folder), "--dry-run").stdout == "added a.md: 2 added\n"


def test_names_of_files_cannot_control_the_terminal(folder):
    write(folder, "\x1b[31mred\n.md", "words")

    out = invoke(str(folder), "--once").stdout
    assert "\x1b" not in out
    assert out.splitlines()[0] == "added ·[31mred·.md: 1 added"


def test_a_path_that_is_not_a_folder_is_refused(folder):
    assert "is not a folder" in invoke(str(write(folder, "a.md")), code=2).stderr
    assert f"there is no {folder / 'nowhere'}" in invoke(str(folder / "nowhere"), code=3).stderr
