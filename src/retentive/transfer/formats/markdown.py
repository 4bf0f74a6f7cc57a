"""Folders of Markdown or plain text: each passage of each file is a memory with its file, lines and headings.

Front matter is parsed leniently and without a YAML parser: only the title, date and tags are used, and a file whose
front matter is not valid YAML is still imported.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from retentive.transfer.formats.base import Fits, ImportItem, ReadWarning, Skipped
from retentive.transfer.formats.passages import split_passages
from retentive.transfer.formats.text_files import (
    MAX_BYTES,
    SUFFIXES,
    Decoded,
    Unreadable,
    decode,
    find_text_files,
    read_bytes,
)

MAX_PASSAGES = 20_000
"""Of one file: three times as many as the longest prose has. A file of headings alone could have a million."""

_MAX_FRONT_MATTER_LINES = 200
_MAX_FRONT_MATTER_LINE = 2_000
_FIELD = re.compile(r"([A-Za-z][\w -]{0,60}):(?:[ \t]+(.*))?")
_LIST_ITEM = re.compile(r"[ \t]*-[ \t]+(.+)")
_DATE_IN_NAME = re.compile(r"(?<!\d)((?:19|20)\d\d)([-_.]?)(\d\d)\2(\d\d)(?!\d)")
_DATE_FIELDS = ("date", "created", "created_at", "day")
_TAG_FIELDS = ("tags", "tag", "keywords")


class MarkdownFolder:
    """The text files of a folder, or one text file."""

    name = "markdown"

    def __init__(self, *, fits: Fits | None = None, max_bytes: int = MAX_BYTES) -> None:
        self._fits = fits
        self._max_bytes = max_bytes

    def splitting_by(self, fits: Fits) -> MarkdownFolder:
        """Return this format with passages that fit."""
        return MarkdownFolder(fits=fits, max_bytes=self._max_bytes)

    def recognises(self, path: Path) -> bool:
        """Whether this is a text file, or a folder with one in it."""
        if path.is_dir():
            return any(not isinstance(found, Skipped) for found in find_text_files(path))
        return path.suffix.lower() in SUFFIXES and path.is_file()

    def read(self, path: Path) -> Iterator[ImportItem | Skipped | ReadWarning]:
        """Yield every passage, file by file in the order of their paths."""
        if not path.is_dir():
            named = path.resolve()  # a link that the caller names is followed, one inside a folder is not
            yield from self.read_file(named.parent, named.name)
            return
        for found in find_text_files(path):
            if isinstance(found, Skipped):
                yield found
            else:
                yield from self.read_file(path, found.path)

    def read_file(self, folder: Path, path: str) -> Iterator[ImportItem | Skipped | ReadWarning]:
        """Yield every passage of a file, given by its path in a folder."""
        try:
            decoded = decode(read_bytes(folder, path, max_bytes=self._max_bytes))
        except Unreadable as error:
            yield Skipped(path, str(error))
            return
        if decoded.warning:
            yield ReadWarning(path, decoded.warning)
        repeats: Counter[str] = Counter()
        try:
            for draft in file_drafts(path, decoded, fits=self._fits):
                yield ImportItem(draft, passage_key(path, draft["text"], repeats), draft["source"])
        except Unreadable as error:
            yield Skipped(path, f"{error}; the rest of the file was skipped")


def passage_key(path: str, text: str, repeats: Counter[str]) -> str:
    """Return the key of the next passage of a file; `repeats` counts equal ones.

    It depends on the text, not on the lines: a paragraph that moves down stays the same memory.
    """
    digest = hashlib.blake2b(text.encode(), digest_size=12).hexdigest()
    repeats[digest] += 1
    return f"{path}#{digest}.{repeats[digest]}"


def file_drafts(path: str, decoded: Decoded, *, fits: Fits | None = None) -> Iterator[dict[str, Any]]:
    """Yield the fields of a draft for each passage of a file; `Unreadable` if there are too many.

    `occurred` is the date in the front matter or in the file's name. The file's own times are not used: copying it or
    correcting a letter changes them.
    """
    lines = decoded.lines()
    front = read_front_matter(lines)
    described = {"title": front.title, "tags": list(front.tags)}
    shared: dict[str, Any] = {name: value for name, value in described.items() if value}
    occurred = front.date or date_in_name(PurePosixPath(path).stem)
    found = split_passages(lines[front.lines :], fits=fits, first=front.lines + 1, title=front.title)
    for number, passage in enumerate(found):
        if number == MAX_PASSAGES:
            raise Unreadable(f"it has more than {MAX_PASSAGES:,} passages")
        place = {"file": path, "lines": [passage.first, passage.last], "headings": list(passage.headings)}
        draft = {
            "text": passage.text,
            "kind": "semantic",
            "source": f"{path}#L{passage.first}-L{passage.last}",
            "metadata": {**place, **shared},
        }
        yield draft if occurred is None else {**draft, "occurred": occurred}


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The title, date and tags between two lines of `---` at the start of a file, and how many lines they take."""

    title: str | None = None
    date: datetime | None = None
    tags: tuple[str, ...] = ()
    lines: int = 0


def read_front_matter(lines: Sequence[str]) -> FrontMatter:
    """Return the front matter of a file; an empty one if there is none."""
    if not lines or lines[0].rstrip() != "---":
        return FrontMatter()
    last = min(len(lines), _MAX_FRONT_MATTER_LINES)
    end = next((at for at in range(1, last) if lines[at].rstrip() in ("---", "...")), None)
    if end is None or not any(_FIELD.fullmatch(line[:_MAX_FRONT_MATTER_LINE].rstrip()) for line in lines[1:end]):
        return FrontMatter()  # two thematic breaks with text between them
    fields = _parse_fields(lines[1:end])
    title = " ".join(fields.get("title", []))[:200].strip() or None
    dates = (_parse_date(value) for name in _DATE_FIELDS for value in fields.get(name, [])[:1])
    tags = (tag for name in _TAG_FIELDS for value in fields.get(name, []) for tag in _split_tags(value))
    return FrontMatter(title, next(filter(None, dates), None), tuple(dict.fromkeys(tags))[:100], end + 1)


def date_in_name(name: str) -> datetime | None:
    """Return the date in a file name such as `2026-05-08 kitchen` or `20260508`."""
    dates = (_parse_date(f"{match[1]}-{match[3]}-{match[4]}") for match in _DATE_IN_NAME.finditer(name))
    return next(filter(None, dates), None)


def _parse_date(text: str) -> datetime | None:
    """Return a date or time, in UTC if it has no zone; None if the text is not one."""
    try:
        found = datetime.fromisoformat(text.strip().replace(" +", "+").replace(" -", "-"))
    except ValueError:
        return None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    return found if date(1, 1, 2) < found.date() < date(9999, 12, 30) else None


def _parse_fields(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return each field with its value, or with the items listed under it. Deeper nesting is ignored."""
    fields: dict[str, list[str]] = {}
    values: list[str] = []
    for line in lines:
        short = line[:_MAX_FRONT_MATTER_LINE].rstrip()
        if field := _FIELD.fullmatch(short):
            values = fields.setdefault(field[1].strip().lower(), [])
            if field[2] and field[2].strip():
                values.append(_unquote(field[2]))
        elif item := _LIST_ITEM.fullmatch(short):
            values.append(_unquote(item[1]))
    return fields


def _split_tags(value: str) -> list[str]:
    inner = value.strip().removeprefix("[").removesuffix("]")
    return [tag for part in inner.split(",") if (tag := _unquote(part).lstrip("#")[:100].strip())]


def _unquote(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
