"""Where a memory stands in a file, as terminals and editors open it: `notes/kitchen.md:12`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from retentive.engine import Engine
from retentive.models import Memory

_OF_NOTES = ("markdown", "openclaw")
"""Formats whose memories stand in files of the folder that was imported."""


class Places:
    """Finds the files that memories are from, in the folders that are kept in step or were imported."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self._folders = tuple(folders)

    def of(self, memory: Memory) -> str | None:
        """The file and line: as it is to be opened from here if it is found, else as the memory has it."""
        file, lines = memory.metadata.get("file"), memory.metadata.get("lines")
        if not isinstance(file, str) or not isinstance(lines, list) or not lines:
            return None
        return f"{self._found(file) or file}:{lines[0]}"

    def _found(self, file: str) -> Path | None:
        if "\0" in file or ".." in PurePosixPath(file).parts or PurePosixPath(file).is_absolute():
            return None
        for folder in self._folders:
            whole = folder / file
            try:
                if whole.is_file():
                    here = Path.cwd()
                    return whole.relative_to(here) if whole.is_relative_to(here) else whole
            except OSError:
                continue
        return None


def places_of(engine: Engine, memories: Iterable[Memory]) -> Places:
    """Where these memories stand; the folders are looked up only if one of them is from a file."""
    if not any("file" in memory.metadata for memory in memories):
        return Places()
    from retentive.transfer.watching.state import watched_folders

    profile = engine.settings.profile
    return Places([*watched_folders(engine.store, profile=profile), *_imported_folders(engine, profile)])


def _imported_folders(engine: Engine, profile: str) -> Iterator[Path]:
    """The folders that a profile has notes of from imports, the last one first."""
    for run in engine.imports.list():
        if run.profile == profile and run.format in _OF_NOTES:
            path = Path(run.path)
            yield path.parent if path.is_file() else path
