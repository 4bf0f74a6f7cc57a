"""Streams over untrusted files: any Unicode encoding as UTF-8, lines of limited length, zip archives of limited size.

Memory use is one chunk or one line, whatever the file contains.
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

CHUNK_BYTES = 1 << 18
MAX_LINE_BYTES = 32 * 1024 * 1024
"""Longer lines are skipped. A memory has at most a million characters, so an exported line is much shorter."""

MAX_UNPACKED_BYTES = 64 * 1024**3
MAX_COMPRESSION = 200
"""A higher compression ratio is taken for a zip bomb: exports of conversations have 5 to 20."""

ANY_COMPRESSION_BYTES = 16 * 1024 * 1024
"""Files that unpack to less than this may have any compression ratio."""

MAX_INDEX_BYTES = 16 * 1024 * 1024
"""The index of an archive is held in memory, at ten times its size: this is enough for 100,000 files."""

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it starts with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def detect_encoding(head: bytes) -> tuple[str, int]:
    """Return the encoding that the first bytes show, and the length of its byte order mark."""
    for mark, name in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name, len(mark)
    # Text in these formats begins with a character of ASCII, which UTF-16 pads with a zero.
    if len(head) >= 2 and head[0] and not head[1]:
        return "utf-16-le", 0
    if len(head) >= 2 and not head[0] and head[1]:
        return "utf-16-be", 0
    return "utf-8", 0


class Utf8Reader:
    """Reads a file of any Unicode encoding as UTF-8 without a byte order mark.

    `replaced` is whether invalid bytes were replaced by U+FFFD.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        head = file.read(CHUNK_BYTES)
        self.encoding, skip = detect_encoding(head)
        self._rest = head[skip:]
        self._decoder = codecs.getincrementaldecoder(self.encoding)("strict")
        self._pass_through = self.encoding == "utf-8"
        self._ended = False
        self.replaced = False

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        """Return about `size` bytes; none at the end."""
        while not self._ended:
            raw = self._rest or self._file.read(size if size > 0 else CHUNK_BYTES)
            self._rest = b""
            self._ended = not raw
            if self._pass_through and _is_valid_utf8(raw):
                return raw
            text = self._decode(raw)
            # An incomplete character in the decoder must be completed by the next bytes.
            self._pass_through = self.encoding == "utf-8" and not self._decoder.getstate()[0]
            if text:
                return text.encode(errors="replace")
        return b""

    def _decode(self, raw: bytes) -> str:
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


def _is_valid_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return bool(raw)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file without its line feed; `text` is None if the line is too long.

    `ended` is whether a line feed follows, `replaced` whether invalid bytes were replaced.
    """

    number: int
    text: str | None
    ended: bool = True
    replaced: bool = False


def read_lines(file: IO[bytes], *, max_bytes: int | None = None) -> Iterator[Line]:
    """Yield the lines of a file that are not blank, numbered from 1. Only a line feed ends a line."""
    source = Utf8Reader(file)
    limit = max_bytes or MAX_LINE_BYTES
    number, held, too_long, replaced = 1, bytearray(), False, False
    while chunk := source.read(CHUNK_BYTES):
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
def open_file(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; `Invalid` with the reason if it is not a file or cannot be read."""
    try:
        if not path.is_file():
            raise Invalid(f"{path} is not a file" if path.exists() else f"there is no {path}")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None


def is_archive(path: Path) -> bool:
    """Whether this is a zip file, by its first bytes."""
    with open_file(path) as file:
        return file.read(4) == b"PK\x03\x04"


@contextmanager
def open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive; `Invalid` if it cannot be read."""
    try:
        size = _index_size(path)
        if size > MAX_INDEX_BYTES:
            raise Invalid(f"the index of {path} has {size:,} bytes; the limit is {MAX_INDEX_BYTES:,}")
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise Invalid(f"{path} is not a readable zip file: {error}") from None


def _index_size(path: Path) -> int:
    """Return the size of an archive's central directory, as its end record states (APPNOTE.TXT, 4.3.16 and 4.3.14)."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16) - 1024))
        tail = file.read()
    end, large = tail.rfind(b"PK\x05\x06"), tail.rfind(b"PK\x06\x06")
    size = int.from_bytes(tail[end + 12 : end + 16], "little") if end >= 0 else 0
    return int.from_bytes(tail[large + 40 : large + 48], "little") if size == 0xFFFFFFFF and large >= 0 else size


def find_members(archive: zipfile.ZipFile, pattern: str) -> list[zipfile.ZipInfo]:
    """Return the files of an archive whose names match a regular expression, by name."""
    found = (info for info in archive.infolist() if not info.is_dir() and re.search(pattern, info.filename))
    return sorted(found, key=lambda info: info.filename)


def open_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, *, unpacked_before: int = 0) -> IO[bytes]:
    """Open a file of an archive, unpacked while it is read.

    `Invalid` if it is too large, encrypted, or compressed by an unknown method. `unpacked_before` is how many bytes of
    the same archive were unpacked already.
    """
    total = unpacked_before + info.file_size
    if total > MAX_UNPACKED_BYTES:
        raise Invalid(f"the archive unpacks to {total:,} bytes or more; the limit is {MAX_UNPACKED_BYTES:,}")
    if info.file_size > ANY_COMPRESSION_BYTES and info.file_size > MAX_COMPRESSION * max(info.compress_size, 1):
        ratio = info.file_size // max(info.compress_size, 1)
        raise Invalid(
            f"it unpacks to {ratio:,} times its size, which looks like a zip bomb; the limit is {MAX_COMPRESSION}."
            " If you trust it, unpack it and import the file"
        )
    try:
        return io.BufferedReader(_Member(archive.open(info)), CHUNK_BYTES)
    except (RuntimeError, NotImplementedError, zipfile.BadZipFile) as error:
        raise Invalid(f"it cannot be unpacked: {error}") from None


class _Member(io.RawIOBase):
    """A compressed file that ends where it is damaged; what was unpacked before is valid."""

    def __init__(self, file: IO[bytes]) -> None:
        self._packed = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # BufferedReader passes one
        try:
            chunk = self._packed.read(len(view))
        except Exception:  # each compression method has its own errors: zlib.error, LZMAError, OSError, EOFError
            return 0  # the reader reports that the text ends too early
        view[: len(chunk)] = chunk
        return len(chunk)

    def close(self) -> None:
        self._packed.close()
        super().close()
