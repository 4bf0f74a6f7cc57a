"""Elements of a JSON file, or of the JSON files in an archive, with what was noticed on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from retentive.errors import Invalid, RetentiveError
from retentive.transfer.formats import Broken, Entry, Noticed, Skipped
from retentive.transfer.formats.json_stream import Cut, Element, Ignored, Shape, elements, shape_of
from retentive.transfer.formats.reading import Utf8, is_archive, members, open_member, opened, opened_archive

_NOTHING = Shape(frozenset(), frozenset())


@dataclass(frozen=True, slots=True)
class Found:
    """An object of a document, and where it stands."""

    where: str
    value: dict[str, Any]


def read_each(
    path: Path, each: Callable[[str, Mapping[str, Any]], Iterator[Entry]], *, inside: str, lists: tuple[str, ...] = ()
) -> Iterator[Entry]:
    """What `each` makes of every object, by where it stands; and what else is to be said."""
    for found in _objects(path, inside=inside, lists=lists):
        if isinstance(found, Found):
            yield from each(found.where, found.value)
        else:
            yield found


def _objects(path: Path, *, inside: str, lists: tuple[str, ...]) -> Iterator[Found | Skipped | Noticed | Broken]:
    """The objects of a JSON file; of an archive or folder, those of every file in it whose name matches `inside`."""
    if path.is_dir():
        for name in _names(path, inside):
            try:
                with opened(path / name) as file:
                    yield from _of_file(name, file, lists)
            except Invalid as error:
                yield Broken(name, str(error))
        return
    if not is_archive(path):
        with opened(path) as file:
            yield from _of_file(path.name, file, lists)
        return
    with opened_archive(path) as archive:
        found, unpacked = members(archive, inside), 0
        if not found:
            yield Broken(path.name, f"no file in this archive is named like {inside}")
        for info in found:
            unpacked += info.file_size
            try:
                file = open_member(archive, info, before=unpacked - info.file_size)
            except Invalid as error:
                yield Broken(info.filename, str(error))
                break
            with file:
                yield from _of_file(info.filename, file, lists)
        read = {info.filename for info in found}
        for info in members(archive, r"\.jsonl?$"):
            if info.filename not in read:
                yield Noticed(info.filename, "this file of the archive is not read")


def _names(folder: Path, inside: str) -> list[str]:
    """The files of an unpacked archive, which lie in its folder."""
    return sorted(file.name for file in folder.iterdir() if _is_own(file) and re.search(inside, file.name))


def _is_own(file: Path) -> bool:
    """Whether this is a file of the folder itself: a link may lead anywhere."""
    return file.is_file() and not file.is_symlink()


def _of_file(name: str, file: IO[bytes], lists: tuple[str, ...]) -> Iterator[Found | Skipped | Noticed | Broken]:
    source = Utf8(file)
    where = name
    for element in elements(source, lists=lists):
        if isinstance(element, Ignored):
            yield Noticed(name, f"'{element.name:.80}' is not read")
        elif isinstance(element, Cut):
            yield Broken(f"{name}, behind {where.rpartition(', ')[2]}" if where != name else name, element.reason)
        else:
            where = f"{name}, element {element.number}"
            yield _checked(where, element)
    if source.replaced:
        yield Noticed(name, f"some bytes are not {source.encoding}; they were replaced")


def _checked(where: str, element: Element) -> Found | Skipped:
    if element.problem:
        return Skipped(where, element.problem)
    if not isinstance(element.value, dict):
        return Skipped(where, f"a JSON object was expected, not {type(element.value).__name__}")
    return Found(where, element.value)


def looks(path: Path, *, inside: str) -> Shape:
    """What a JSON file looks like by its beginning, or the first file in an archive whose name matches."""
    try:
        if path.is_dir():
            names = _names(path, inside)
            return looks(path / names[0], inside=inside) if names else _NOTHING
        if not path.is_file():
            return _NOTHING
        if not is_archive(path):
            with opened(path) as file:
                return shape_of(file)
        with opened_archive(path) as archive:
            for info in members(archive, inside)[:1]:
                with open_member(archive, info) as file:
                    return shape_of(file)
    except (RetentiveError, OSError):
        pass  # what cannot be opened cannot be recognised; naming the format tells why
    return _NOTHING
