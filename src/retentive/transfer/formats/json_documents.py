"""Objects of a JSON file, or of the JSON files in a zip archive or its unpacked folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from retentive.errors import Invalid, RetentiveError
from retentive.transfer.formats.base import ImportEntry, ImportIssue, ReadWarning, Skipped, Truncated
from retentive.transfer.formats.json_lines import to_text
from retentive.transfer.formats.json_stream import (
    Element,
    IgnoredKey,
    InvalidJson,
    Shape,
    detect_shape,
    read_elements,
)
from retentive.transfer.formats.streams import (
    Utf8Reader,
    find_members,
    is_archive,
    open_archive,
    open_file,
    open_member,
)

_TITLE = 200
"""Of a longer title, this many characters are the name of the session."""

_NO_SHAPE = Shape(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object and its location for a reader."""

    where: str
    value: dict[str, Any]


def read_documents(
    path: Path,
    convert: Callable[[str, Mapping[str, Any]], Iterator[ImportEntry]],
    *,
    names: str,
    lists: tuple[str, ...] = (),
) -> Iterator[ImportEntry]:
    """Yield the entries that `convert` makes of each object, given its location, and all issues of the files.

    `names` is a regular expression for the files to read in an archive or folder. `lists` are the keys under which a
    document that is an object has its elements.
    """
    for found in _read_objects(path, names, lists):
        if isinstance(found, _Object):
            yield from convert(found.where, found.value)
        else:
            yield found


def _read_objects(path: Path, names: str, lists: tuple[str, ...]) -> Iterator[_Object | ImportIssue]:
    if path.is_dir():
        for name in _matching_files(path, names):
            try:
                with open_file(path / name) as file:
                    yield from _read_file(name, file, lists)
            except Invalid as error:
                yield Truncated(name, str(error))
    elif is_archive(path):
        yield from _read_archive(path, names, lists)
    else:
        with open_file(path) as file:
            yield from _read_file(path.name, file, lists)


def _read_archive(path: Path, names: str, lists: tuple[str, ...]) -> Iterator[_Object | ImportIssue]:
    with open_archive(path) as archive:
        members, unpacked = find_members(archive, names), 0
        if not members:
            yield Truncated(path.name, f"no file in this archive has a name like {names}")
        for info in members:
            try:
                file = open_member(archive, info, unpacked_before=unpacked)
            except Invalid as error:
                yield Truncated(info.filename, str(error))
                break
            with file:
                yield from _read_file(info.filename, file, lists)
            unpacked += info.file_size
        read = {info.filename for info in members}
        for info in find_members(archive, r"\.jsonl?$"):
            if info.filename not in read:
                yield ReadWarning(info.filename, "this file of the archive is not read")


def _matching_files(folder: Path, names: str) -> list[str]:
    """Return the names of matching files in a folder. Symbolic links may lead anywhere, so they are left out."""
    files = (file for file in folder.iterdir() if file.is_file() and not file.is_symlink())
    return sorted(file.name for file in files if re.search(names, file.name))


def _read_file(name: str, file: IO[bytes], lists: tuple[str, ...]) -> Iterator[_Object | ImportIssue]:
    source = Utf8Reader(file)
    last = ""
    for element in read_elements(source, lists=lists):
        if isinstance(element, IgnoredKey):
            yield ReadWarning(name, f"'{element.name:.80}' is not read")
        elif isinstance(element, InvalidJson):
            yield Truncated(f"{name}, after {last}" if last else name, element.reason)
        else:
            last = f"element {element.number}"
            yield _to_object(f"{name}, {last}", element)
    if source.replaced:
        yield ReadWarning(name, f"invalid {source.encoding} was replaced")


def _to_object(where: str, element: Element) -> _Object | Skipped:
    if element.problem:
        return Skipped(where, element.problem)
    if not isinstance(element.value, dict):
        return Skipped(where, f"a JSON object was expected, not {type(element.value).__name__}")
    return _Object(where, element.value)


class Heading(NamedTuple):
    """The id, the title and the time of a conversation."""

    id: str | None
    title: Any
    created: datetime | None


def session_names(
    path: Path, heading: Callable[[Mapping[str, Any]], Heading], *, names: str, lists: tuple[str, ...] = ()
) -> dict[str, str]:
    """Return the session of each conversation by its id: the title, and a part of the id where an older one has it.

    The files are read once for it, because a later export may have the conversations in another order.
    """
    found: list[tuple[float, str, str]] = []

    def collect(_: str, conversation: Mapping[str, Any]) -> Iterator[ImportEntry]:
        id, title, created = heading(conversation)
        if id is not None:
            title = " ".join((to_text(title) or "").split())[:_TITLE]
            found.append((created.timestamp() if created else 0.0, id, title))
        return iter(())

    for _ in read_documents(path, collect, names=names, lists=lists):
        pass  # problems are reported when the conversations are read
    sessions: dict[str, str] = {}
    used: set[str] = set()
    for _, id, title in sorted(found):
        choices = (title or id, f"{title} ({id[:8]})", f"{title} ({id})")
        if id not in sessions:
            sessions[id] = next((name for name in choices if name not in used), id)
            used.add(sessions[id])
    return sessions


def document_shape(path: Path, *, names: str) -> Shape:
    """Return the structure at the start of a JSON file, or of the first matching file in an archive or folder."""
    try:
        if path.is_dir():
            found = _matching_files(path, names)
            return document_shape(path / found[0], names=names) if found else _NO_SHAPE
        if not path.is_file():
            return _NO_SHAPE
        if not is_archive(path):
            with open_file(path) as file:
                return detect_shape(file)
        with open_archive(path) as archive:
            for info in find_members(archive, names)[:1]:
                with open_member(archive, info) as file:
                    return detect_shape(file)
    except (RetentiveError, OSError):
        pass  # a file that cannot be opened is not recognised; reading it with a named format reports why
    return _NO_SHAPE
