"""The watch loop without events, and the lock of a folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, MissingExtra
from retentive.transfer.watching import FileChange, StopFlag, folder_lock, watch_folder
from retentive.transfer.watching.loop import _is_relevant
from tests.surfaces.service import until
from tests.transfer.watching.build import memories, syncing, write


@contextmanager
def followed(engine: Engine, folder: Path) -> Iterator[list[FileChange]]:
    stop, told = StopFlag(), list[FileChange]()
    thread = threading.Thread(
        target=watch_folder,
        args=(syncing(engine, folder), engine.embeddings),
        kwargs={"report": told.append, "stop": stop},
    )
    thread.start()
    try:
        yield told
    finally:
        stop.set()
        thread.join()


def test_without_events_it_syncs_every_few_seconds(open_engine, tmp_path, monkeypatch):
    def no_events(*_: object, **__: object) -> Iterator[object]:
        raise OSError("no more inotify watches")
        yield

    monkeypatch.setattr("watchfiles.watch", no_events)
    monkeypatch.setattr("retentive.transfer.watching.loop.SYNC_INTERVAL_WITHOUT_EVENTS", 0.05)
    engine = open_engine()
    write(tmp_path, "notes/a.md", "first")

    with followed(engine, tmp_path / "notes") as told:
        until(lambda: any(change.change == "ready" for change in told))
        write(tmp_path, "notes/b.md", "second")
        until(lambda: any(change.file == "b.md" for change in told))

    assert set(memories(engine)) == {"a.md#L1-L1", "b.md#L1-L1"}
    assert [change.reason for change in told if change.change == "waiting"] == [
        "no file system events (no more inotify watches): syncing every 0.05 seconds"
    ]


def test_text_files_folders_and_deleted_paths_are_relevant_but_not_the_store_or_hidden_files(tmp_path):
    for path in ("a.md", "store.db", "store.db-wal", ".git/x.md", "v1.2/b.TXT"):
        write(tmp_path, path)

    def wakes(path: str) -> bool:
        return _is_relevant(tmp_path, str(tmp_path / path))

    assert [path for path in ("a.md", "v1.2", "v1.2/b.TXT", "gone", "gone.dir", "") if not wakes(path)] == []
    assert [path for path in ("store.db", "store.db-wal", ".git", ".git/x.md", ".a.md.swp") if wakes(path)] == []


def test_without_its_package_the_error_names_the_extra(open_engine, tmp_path, monkeypatch):
    monkeypatch.setattr("retentive.transfer.watching.loop.find_spec", lambda name: None)
    engine = open_engine()

    with pytest.raises(MissingExtra, match=r"\[watch\]"):
        watch_folder(syncing(engine, tmp_path), engine.embeddings, report=print, stop=StopFlag())


def test_a_folder_is_locked_for_one_process_per_store_and_no_lock_file_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with folder_lock("a.db", tmp_path):
        with (
            pytest.raises(Conflict, match="another process watches"),
            folder_lock(str(Path("a.db").resolve()), tmp_path),
        ):
            pass
        with folder_lock("b.db", tmp_path), folder_lock("a.db", tmp_path / "sub"):
            pass
    with folder_lock("a.db", tmp_path):
        pass

    assert list((tmp_path / "cache/retentive/watch").iterdir()) == []
