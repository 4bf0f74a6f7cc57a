"""Finds and reads the text files of a folder, without following symbolic links out of it.

A link that leads out of the folder must not be followed, and the target of one that stays inside is found anyway.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from retentive.transfer.formats.base import Skipped
from retentive.transfer.formats.streams import BYTE_ORDER_MARKS

SUFFIXES = (".md", ".markdown", ".txt")
MAX_BYTES = 8_000_000
"""Larger files are skipped: they are hardly notes (War and Peace has 3.3 MB)."""

MAX_PATH = 450
"""Of the 500 characters of a source, so that the line numbers fit after the path."""

_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


class Unreadable(Exception):
    """A file that cannot be read as text; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file, by its path in the folder with `/` between the parts, and a stamp that changes when it is written."""

    path: str
    stamp: tuple[int, int, int]
    """Size, modification time and change time, both in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Inaccessible(Skipped):
    """A file or folder that exists but cannot be accessed, so that its contents are unknown."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The text of a file, and a warning about how it was decoded."""

    text: str
    warning: str | None = None

    def lines(self) -> list[str]:
        """Return its lines as an editor counts them."""
        return self.text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def find_text_files(folder: Path) -> Iterator[TextFile | Skipped]:
    """Yield the text files of a folder and its subfolders by path, without hidden ones."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        try:
            with os.scandir(folder / inside) as entries:
                found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
        except OSError as error:
            yield Inaccessible(printable(inside), _reason(error))
            continue
        folders = []
        for entry in found:
            path = f"{inside}/{entry.name}" if inside else entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(path)
                elif entry.name.lower().endswith(SUFFIXES):
                    yield _text_file(path, entry)
                elif entry.is_symlink() and entry.is_dir():
                    yield Skipped(printable(path), "symbolic links are not followed")
            except OSError as error:
                yield Inaccessible(printable(path), _reason(error))
        waiting.extend(reversed(folders))


def _text_file(path: str, entry: os.DirEntry[str]) -> TextFile | Skipped:
    if entry.is_symlink():
        return Skipped(printable(path), "symbolic links are not followed")
    if printable(path) != path:
        return Skipped(printable(path), "its name is not valid text and cannot be stored; rename it")
    if len(path) > MAX_PATH:
        return Skipped(path, f"its path has more than {MAX_PATH} characters; shorten it")
    status = entry.stat(follow_symlinks=False)
    return TextFile(path, (status.st_size, status.st_mtime_ns, status.st_ctime_ns))


def read_bytes(folder: Path, path: str, *, max_bytes: int = MAX_BYTES, root: Path | None = None) -> bytes:
    """Return the contents of a file in the folder; `Unreadable` if it is too large or not in the folder.

    `root` is where the folder was, without links, if it may have become a link since.

    Since it was found, the path may have become something else: a link, a pipe, a file under a folder that is now a
    link.
    """
    whole = folder / path
    try:
        descriptor = os.open(whole, _OPEN_FLAGS)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Unreadable("it is not a regular file")
            real = whole.resolve(strict=True)
            if not real.is_relative_to(root or folder.resolve()) or not os.path.samestat(real.stat(), status):
                raise Unreadable("it is outside of the folder")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(max_bytes + 1)
        finally:
            os.close(descriptor)
    except (OSError, ValueError, RuntimeError) as error:
        raise Unreadable(_reason(error)) from None
    if len(data) > max_bytes:
        raise Unreadable(f"it has more than {max_bytes / 1e6:g} MB; split it")
    return data


def decode(data: bytes) -> Decoded:
    """Return the text of some bytes: by their byte order mark, else UTF-8, else Windows-1252 unless they are binary."""
    for mark, encoding in BYTE_ORDER_MARKS:
        if data.startswith(mark):
            try:
                return _checked(data.removeprefix(mark).decode(encoding))
            except UnicodeDecodeError as error:
                name = encoding.removesuffix("-le").removesuffix("-be").upper()
                raise Unreadable(f"its byte order mark is {name}, but its text is not: {error.reason}") from None
    try:
        return _checked(data.decode())
    except UnicodeDecodeError as error:
        if b"\0" in data:
            raise Unreadable("it is not text") from None
        line = data.count(b"\n", 0, error.start) + 1
        warning = f"line {line} is not UTF-8; the file was read as Windows-1252, check its letters"
        # Five of the 256 bytes have no character in Windows-1252.
        return Decoded(data.decode("cp1252", errors="replace"), warning)


def _checked(text: str) -> Decoded:
    if "\0" in text:
        raise Unreadable("it is not text")
    return Decoded(text)


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)


def printable(path: str) -> str:
    """Return a path as valid text, also where a file name has invalid bytes."""
    return path.encode(errors="surrogateescape").decode(errors="replace")
