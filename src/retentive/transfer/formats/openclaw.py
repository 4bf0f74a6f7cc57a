"""The workspace of an OpenClaw agent: `MEMORY.md` and the notes in `memory/`.

Documented at docs.openclaw.ai (concepts/memory): `MEMORY.md` is the long-term memory, `memory/YYYY-MM-DD.md` and
`memory/YYYY-MM-DD-<slug>.md` are daily notes. `MEMORY.md` and notes without a date in their name do not decay. Files
are split into passages like other Markdown.

Each daily note is a session of that day; all other passages are evergreen. Other files of the workspace (`AGENTS.md`,
`SOUL.md`, …) are instructions for the agent and are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from retentive.transfer.formats.base import Fits, ImportEntry, ImportItem, Skipped
from retentive.transfer.formats.markdown import MarkdownFolder, date_in_name
from retentive.transfer.formats.text_files import find_text_files

_LONG_TERM = ("MEMORY.md", "memory.md")
_DATED = re.compile(r"\d{4}-\d{2}-\d{2}(?!\d)")


class OpenClaw:
    """The memory files in a workspace of OpenClaw."""

    name = "openclaw"

    def __init__(self, *, fits: Fits | None = None) -> None:
        self._markdown = MarkdownFolder(fits=fits)

    def splitting_by(self, fits: Fits) -> OpenClaw:
        """Return this format with passages that fit."""
        return OpenClaw(fits=fits)

    def recognises(self, path: Path) -> bool:
        if not path.is_dir():
            return False
        dated = (path / "memory").is_dir() and any(_DATED.match(file.name) for file in (path / "memory").glob("*.md"))
        return dated or any((path / name).is_file() for name in _LONG_TERM)

    def read(self, path: Path) -> Iterator[ImportEntry]:
        for found in find_text_files(path):
            if isinstance(found, Skipped):
                yield found
            elif _is_memory(found.path):
                yield from self._read_file(path, found.path)
            else:
                yield Skipped(found.path, "not a memory file of OpenClaw")

    def _read_file(self, folder: Path, path: str) -> Iterator[ImportEntry]:
        position = 0
        for entry in self._markdown.read_file(folder, path):
            if isinstance(entry, ImportItem):
                yield replace(entry, draft={**entry.draft, **file_fields(path, position)})
                position += 1
            else:
                yield entry


def _is_memory(path: str) -> bool:
    return path in _LONG_TERM or (path.startswith("memory/") and path.lower().endswith(".md"))


def file_fields(path: str, position: int) -> dict[str, Any]:
    """Return the fields that a passage has from its file: date, session and position, or that it is evergreen."""
    stem = PurePosixPath(path).stem
    day = date_in_name(stem) if path.startswith("memory/") and _DATED.match(stem) else None
    if day is None:
        return {"evergreen": True}
    name = path.removeprefix("memory/").rpartition(".")[0]  # subfolders may have notes of the same day
    return {"kind": "episodic", "occurred": day, "session": f"openclaw:{name}", "position": position}
