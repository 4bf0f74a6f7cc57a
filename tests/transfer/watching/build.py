"""Helpers that write folders, sync them and read their memories, in one line each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from retentive.engine import Engine
from retentive.models import Memory
from retentive.transfer.watching import FileChange, FolderSync, open_folder_state


def write(folder: Path, path: str, text: str | bytes = "Some words.") -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def syncing(engine: Engine, folder: Path, *, project: str | None = None, **options: Any) -> FolderSync:
    state = open_folder_state(engine.store, folder.resolve(), profile=engine.settings.profile, project=project)
    return FolderSync(engine, state, folder.resolve(), **options)


def sync(engine: Engine, folder: Path, **options: Any) -> list[FileChange]:
    """One sync by a new process, as after a restart."""
    return list(syncing(engine, folder, **options).sync())


def told(changes: list[FileChange]) -> list[tuple[str, str]]:
    return [(change.change, change.file) for change in changes]


def memories(engine: Engine) -> dict[str, Memory]:
    """Everything remembered, by its source; nothing may be there twice."""
    found = engine.list(limit=1000).memories
    by_source = {memory.source or "": memory for memory in found}
    assert len(by_source) == len(found), sorted(memory.source or "" for memory in found)
    assert engine.check() == []
    return by_source


def ids(engine: Engine) -> dict[str, str]:
    return {source: memory.id for source, memory in memories(engine).items()}
