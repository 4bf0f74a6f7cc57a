"""A workspace of OpenClaw: `MEMORY.md` and the notes in `memory/`.

Documented at docs.openclaw.ai (concepts/memory): `MEMORY.md` is the long-term memory, `memory/YYYY-MM-DD.md` and
`memory/YYYY-MM-DD-<slug>.md` are the notes of a day, and notes without a date in their name do not fade, as `MEMORY.md`
does not. Files are cut into passages as other Markdown is.

The notes of a day are a session of that day; everything else is evergreen. Other files of the workspace (`AGENTS.md`,
`SOUL.md`, …) instruct the agent and are not memories.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from retentive.transfer.formats import Entry, Item, Skipped
from retentive.transfer.formats.front_matter import date_in_name
from retentive.transfer.formats.markdown import MarkdownFolder
from retentive.transfer.formats.passages import Fits
from retentive.transfer.formats.text_files import walk

_LONG_TERM = ("MEMORY.md", "memory.md")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")


class OpenClaw:
    """The memories in a workspace of OpenClaw."""

    name = "openclaw"

    def __init__(self, *, fits: Fits | None = None) -> None:
        self._notes = MarkdownFolder(fits=fits)

    def cutting(self, fits: Fits) -> OpenClaw:
        """A workspace in passages that fit."""
        return OpenClaw(fits=fits)

    def recognises(self, path: Path) -> bool:
        if not path.is_dir():
            return False
        dated = (path / "memory").is_dir() and any(_DATED.match(file.name) for file in (path / "memory").glob("*.md"))
        return dated or any((path / name).is_file() for name in _LONG_TERM)

    def read(self, path: Path) -> Iterator[Entry]:
        for found in walk(path):
            if isinstance(found, Skipped):
                yield found
            elif _is_memory(found.path):
                yield from self._file(path, found.path)
            else:
                yield Skipped(found.path, "it is not a memory of OpenClaw")

    def _file(self, folder: Path, path: str) -> Iterator[Entry]:
        position = 0
        for entry in self._notes.read_file(folder, path):
            if isinstance(entry, Item):
                yield replace(entry, draft={**entry.draft, **_of_day(path, position)})
                position += 1
            else:
                yield entry


def _is_memory(path: str) -> bool:
    return path in _LONG_TERM or (path.startswith("memory/") and path.lower().endswith(".md"))


def _of_day(path: str, position: int) -> dict[str, Any]:
    """What a passage has from its file: its day and its place in it, or that it does not fade."""
    stem = PurePosixPath(path).stem
    day = date_in_name(stem) if path.startswith("memory/") and _DATED.match(stem) else None
    if day is None:
        return {"evergreen": True}
    name = path.removeprefix("memory/").rpartition(".")[0]  # of two notes of a day, each in its own folder, each is one
    return {"kind": "episodic", "occurred": day, "session": f"openclaw:{name}", "position": position}
