"""Bytes of files that nobody vouches for: encodings made one, lines of any length, archives that may be bombs.

Nothing here holds more than a chunk or one line of bounded length, whatever a file claims to be.
"""

from __future__ import annotations

import codecs
import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from retentive.errors import Invalid

CHUNK = 1 << 18
LONGEST_LINE = 32 * 1024 * 1024
"""Longer lines are passed over. A memory has at most a million characters, so no line of ours comes near."""

MOST_UNPACKED = 64 * 1024**3
MOST_RATIO = 200
"""An archive that grows by more than this is a bomb: exports of conversations grow by 5 to 20."""

SMALL = 16 * 1024 * 1024
"""What unpacks to less than this may grow by any factor."""

LARGEST_INDEX = 16 * 1024 * 1024
"""The list of an archive's files is held in memory, at ten times its size: this is enough for 100,000 of them."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def encoding_of(head: bytes) -> tuple[str, int]:
    """The encoding that the first bytes show, and how many of them are its mark."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name, len(mark)
    # Text in these formats begins with a character of ASCII, which UTF-16 pads with a zero.
    if len(head) >= 2 and head[0] and not head[1]:
        return "utf-16-le", 0
    if len(head) >= 2 and not head[0] and head[1]:
        return "utf-16-be", 0
    return "utf-8", 0


class Utf8:
    """A file of any encoding read as UTF-8 without a mark; `replaced` says whether some bytes were no text."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        head = file.read(CHUNK)
        self.encoding, skip = encoding_of(head)
        self._rest = head[skip:]
        self._decoder = codecs.getincrementaldecoder(self.encoding)("strict")
        self._is_utf8 = self.encoding == "utf-8"
        self._ended = False
        self.replaced = False

    def read(self, size: int = CHUNK) -> bytes:
        """The next bytes, about as many as asked for; none at the end."""
        while not self._ended:
            raw = self._rest or self._file.read(size if size > 0 else CHUNK)
            self._rest = b""
            self._ended = not raw
            if self._is_utf8 and _is_good(raw):
                return raw
            text = self._decoded(raw)
            # What is left over of a character keeps the next bytes from being passed on as they are.
            self._is_utf8 = self.encoding == "utf-8" and not self._decoder.getstate()[0]
            if text:
                return text.encode(errors="replace")
        return b""

    def _decoded(self, raw: bytes) -> str:
        before = self._decoder.getstate()
        try:
            return self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError:
            self.replaced = True
            lenient = codecs.getincrementaldecoder(self.encoding)("replace")
            lenient.setstate(before)
            text = lenient.decode(raw, final=not raw)
            self._decoder.setstate(lenient.getstate())
            return text


def _is_good(raw: bytes) -> bool:
    """Whether this is whole characters of UTF-8: most often it is, and need not be made anew."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return bool(raw)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, without its end; `text` is None where it is too long to be held."""

    number: int
    text: str | None
    ended: bool = True
    replaced: bool = False


def lines(file: IO[bytes], *, longest: int | None = None) -> Iterator[Line]:
    """The lines of a file that are not blank, numbered from 1. Only a line feed ends one."""
    source = Utf8(file)
    limit = longest or LONGEST_LINE
    number, held, too_long, replaced = 1, bytearray(), False, False
    while chunk := source.read(CHUNK):
        replaced, source.replaced = replaced or source.replaced, False
        *ends, rest = chunk.split(b"\n")
        for piece in ends:
            if not too_long:
                held += piece
            if too_long or len(held) > limit:
                yield Line(number, None)
            elif held.strip():
                yield Line(number, held.decode(), True, replaced and b"\xef\xbf\xbd" in held)
            number, held, too_long = number + 1, bytearray(), False
        too_long = too_long or len(held) + len(rest) > limit
        held = bytearray() if too_long else held + rest
    if too_long:
        yield Line(number, None, ended=False)
    elif held.strip():
        yield Line(number, held.decode(), False, replaced and b"\xef\xbf\xbd" in held)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file for reading; `Invalid` with the reason if it is none, or if reading fails."""
    try:
        if not path.is_file():
            raise Invalid(f"{path} is not a file" if path.exists() else f"there is no {path}")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None


def is_archive(path: Path) -> bool:
    """Whether this is a zip file, by its first bytes."""
    with opened(path) as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def opened_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """An archive; `Invalid` if it cannot be read."""
    try:
        size = _index_size(path)
        if size > LARGEST_INDEX:
            raise Invalid(f"the list of files in {path} has {size:,} bytes; the most is {LARGEST_INDEX:,}")
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Invalid(f"{path} is not a zip file that can be read: {error}") from None


def _index_size(path: Path) -> int:
    """How many bytes of an archive list its files, as its end says (APPNOTE.TXT, 4.3.16 and 4.3.14)."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16) - 1024))
        tail = file.read()
    end, large = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    size = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    return int.from_bytes(tail[large + 40 : large + 48], "little") if size == 0xFFFFFFFF and large >= 0 else size


def members(archive: zipfile.ZipFile, pattern: str) -> list[zipfile.ZipInfo]:
    """The files in an archive whose names match, in the order of their names."""
    found = (info for info in archive.infolist() if not info.is_dir() and re.search(pattern, info.filename))
    return sorted(found, key=lambda info: info.filename)


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, before: int = 0) -> IO[bytes]:
    """A file in an archive, unpacked as it is read; `Invalid` if it is a bomb, locked, or packed in an unknown way.

    `before` is how much was unpacked of the same archive already.
    """
    if before + info.file_size > MOST_UNPACKED:
        raise Invalid(
            f"it unpacks to {before + info.file_size:,} bytes with all before it; the most is {MOST_UNPACKED:,}"
        )
    if info.file_size > SMALL and info.file_size > MOST_RATIO * max(info.compress_size, 1):
        grows = info.file_size // max(info.compress_size, 1)
        raise Invalid(
            f"it unpacks to {grows:,} times its size, which looks like a bomb; the most is {MOST_RATIO}."
            " If it is what it says, unpack it yourself and import the file"
        )
    try:
        return io.BufferedReader(_Member(archive.open(info)), CHUNK)
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise Invalid(f"it cannot be unpacked: {error}") from None


class _Member(io.RawIOBase):
    """A packed file whose damage ends it: what was unpacked before is good."""

    def __init__(self, file: IO[bytes]) -> None:
        self._packed = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # what BufferedReader hands over is one
        try:
            chunk = self._packed.read(len(view))
        except Exception:  # every way of packing has errors of its own: zlib.error, LZMAError, OSError, EOFError
            return 0  # the reader finds the text cut off, and says so
        view[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._packed.close()
        super().close()
