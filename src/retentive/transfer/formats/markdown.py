"""A folder of notes in Markdown or plain text: each passage of each file is a memory that knows its file and lines."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from retentive.transfer.formats import Item, Noticed, Skipped
from retentive.transfer.formats.front_matter import date_in_name, read_front_matter
from retentive.transfer.formats.passages import Fits, passages
from retentive.transfer.formats.text_files import MAX_BYTES, SUFFIXES, Decoded, Unreadable, decode, read_bytes, walk

MOST_PASSAGES = 20_000
"""Of one file. Three times what the largest file of prose has; a file made of headings could have a million."""


class MarkdownFolder:
    """Notes of a folder, or of one file, as memories."""

    name = "markdown"

    def __init__(self, *, fits: Fits | None = None, most_bytes: int = MAX_BYTES) -> None:
        self._fits = fits
        self._most_bytes = most_bytes

    def cutting(self, fits: Fits) -> MarkdownFolder:
        """Notes in passages that fit."""
        return MarkdownFolder(fits=fits, most_bytes=self._most_bytes)

    def recognises(self, path: Path) -> bool:
        """Whether this is a folder with notes in it, or a note."""
        if path.is_dir():
            return any(not isinstance(found, Skipped) for found in walk(path))
        return path.suffix.lower() in SUFFIXES and path.is_file()

    def read(self, path: Path) -> Iterator[Item | Skipped | Noticed]:
        """Every passage, file by file in the order of their paths."""
        if not path.is_dir():
            named = path.resolve()  # links are not followed inside a folder; one that somebody names is meant
            yield from self.read_file(named.parent, named.name)
            return
        for found in walk(path):
            if isinstance(found, Skipped):
                yield found
            else:
                yield from self.read_file(path, found.path)

    def read_file(self, folder: Path, path: str) -> Iterator[Item | Skipped | Noticed]:
        """Every passage of a file, by its path in a folder."""
        try:
            decoded = decode(read_bytes(folder, path, most=self._most_bytes))
        except Unreadable as error:
            yield Skipped(path, str(error))
            return
        if decoded.note:
            yield Noticed(path, decoded.note)
        seen: Counter[str] = Counter()
        try:
            for draft in drafts(path, decoded, fits=self._fits):
                # By what it says, not by its lines: a paragraph that moved down is the same memory.
                says = hashlib.blake2b(draft["text"].encode(), digest_size=12).hexdigest()
                seen[says] += 1
                yield Item(draft, f"{path}#{says}.{seen[says]}", draft["source"])
        except Unreadable as error:
            yield Skipped(path, f"{error}; what is behind them was passed over")


def drafts(path: str, decoded: Decoded, *, fits: Fits | None = None) -> Iterator[dict[str, Any]]:
    """A draft for each passage of a file.

    It happened on the day that the front matter or the file's name tells. The time at which the file was last written
    is not taken for it: copying, checking out and correcting a letter change that, and the past does not move.
    `Unreadable` where there are too many.
    """
    lines = decoded.lines()
    front = read_front_matter(lines)
    told = {"title": front.title, "tags": list(front.tags)}
    shared: dict[str, Any] = {name: value for name, value in told.items() if value}
    occurred = front.date or date_in_name(PurePosixPath(path).stem)
    found = passages(lines[front.lines :], fits=fits, first=front.lines + 1, title=front.title)
    for number, passage in enumerate(found):
        if number == MOST_PASSAGES:
            raise Unreadable(f"it has more than {MOST_PASSAGES:,} passages")
        place = {"file": path, "lines": [passage.first, passage.last], "headings": list(passage.headings)}
        draft = {
            "text": passage.text,
            "kind": "semantic",
            "source": f"{path}#L{passage.first}-L{passage.last}",
            "metadata": {**place, **shared},
        }
        yield draft if occurred is None else {**draft, "occurred": occurred}
