"""The text files of a folder: found without leaving it, and read whatever their encoding.

No symbolic link is followed: one that leads out must not be, and what one that stays inside leads to is found anyway.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retentive.transfer.formats import Skipped

SUFFIXES = (".md", ".markdown", ".txt")
MAX_BYTES = 8_000_000
"""A larger file is no note (War and Peace has 3.3 MB); it is passed over, and said."""

MAX_PATH = 450
"""Of the 500 characters of a source, so that the lines fit behind the path."""

_OPEN = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Unreadable(Exception):
    """A file whose text is not to be had, now or at all; the message says why."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of a folder by its path in it, with `/` between the parts, and what tells that it was written again."""

    path: str
    stamp: tuple[int, int, int]
    """Size, and the times in nanoseconds at which it was last written and last changed in any way."""


@dataclass(frozen=True, slots=True)
class Closed(Skipped):
    """A file or folder that could not even be looked at: it is there, and nothing is known of it and what it holds."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a file, and what is to be said of how it was read."""

    text: str
    note: str | None = None

    def lines(self) -> list[str]:
        """Its lines as an editor counts them."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def walk(folder: Path) -> Iterator[TextFile | Skipped]:
    """Every text file in a folder and the folders in it, by path; hidden ones are left out."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as entries:
                found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
        except OSError as error:
            yield Closed(printable(inside), _reason(error))
            continue
        folders = []
        for entry in found:
            path = f"{inside}/{entry.name}" if inside else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.name.lower().endswith(SUFFIXES):
                    yield _file(path, entry)
                elif entry.is_symlink() and entry.is_dir():
                    yield Skipped(printable(path), "a symbolic link is not followed")
            except OSError as error:
                yield Closed(printable(path), _reason(error))
        waiting.extend(reversed(folders))


def _file(path: str, entry: os.DirEntry[str]) -> TextFile | Skipped:
    if entry.is_symlink():
        return Skipped(printable(path), "a symbolic link is not followed")
    if printable(path) != path:
        return Skipped(printable(path), "its name is not text that can be stored; rename it")
    if len(path) > MAX_PATH:
        return Skipped(path, f"its path has more than {MAX_PATH} characters; move it up or shorten it")
    seen = entry.stat(follow_symlinks=False)
    return TextFile(path, (seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns))


def read_bytes(folder: Path, path: str, *, most: int = MAX_BYTES) -> bytes:
    """What a file of the folder holds; `Unreadable` if it is too large, or not in the folder after all.

    The walk saw a file, but what is opened now may be another thing: a link, a pipe, a file under a folder that became
    a link meanwhile.
    """
    whole = folder / path
    try:
        descriptor = os.open(whole, _OPEN)
        try:
            seen = os.fstat(descriptor)
            if not stat.S_ISREG(seen.st_mode):
                raise Unreadable("it is not an ordinary file")
            real = whole.resolve(strict=True)
            if not real.is_relative_to(folder.resolve()) or not os.path.samestat(real.stat(), seen):
                raise Unreadable("it leads out of the folder")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(most + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RuntimeError) as error:
        raise Unreadable(_reason(error)) from None
    if len(data) > most:
        raise Unreadable(f"it has more than {most / 1e6:g} MB; split it")
    return data


def decode(data: bytes) -> Decoded:
    """The text of some bytes: UTF-8, or what their mark says, or Windows-1252 if they are text at all."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return _checked(data.decode(encoding))
            except UnicodeDecodeError as error:
                raise Unreadable(f"it says that it is {encoding.upper()}, but is not: {error.reason}") from None
    try:
        return _checked(data.decode())
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise Unreadable("it is not text") from None
        line = data.count(b"\n", 0, error.start) + 1
        note = f"line {line} is not UTF-8; it was read as Windows-1252, look whether its letters are right"
        # Five of the 256 bytes mean nothing in Windows-1252.
        return Decoded(data.decode("cp1252", errors="replace"), note)


def _checked(text: str) -> Decoded:
    if "\0" in text:
        raise Unreadable("it is not text")
    return Decoded(text)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def printable(path: str) -> str:
    """A path that can be written down, also where the name of a file is no text."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
