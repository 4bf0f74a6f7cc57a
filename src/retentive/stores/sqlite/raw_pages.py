"""Read rows from the pages of a damaged SQLite file, without its schema, its indexes and perhaps its header.

Every page of a b-tree is read by itself, so that a damaged page loses only its own rows. The format is described in
https://www.sqlite.org/fileformat2.html.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

DEFAULT_PAGE_SIZE = 4096
"""The page size of every store; used if the header is damaged."""

_INTERIOR_INDEX, _LEAF_INDEX, _LEAF_TABLE = 0x02, 0x0A, 0x0D
_FILE_HEADER = 100
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_SIZES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class RawText(bytes):
    """The bytes of a text, which may not be valid UTF-8."""


class RawRow(NamedTuple):
    """A row of a table with its rowid, or an entry of an index or of a table without rowids, which has none."""

    rowid: int | None
    values: list[Any]


class RawPages:
    """The pages of a file, with the committed pages of its write-ahead log in their place."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        size = path.stat().st_size
        self._content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        given = int.from_bytes(self._content[16:18], "big") if size >= _FILE_HEADER else 0
        given = 65536 if given == 1 else given
        self.page_size = given if given in {512 << at for at in range(8)} else DEFAULT_PAGE_SIZE
        self._logged = _committed_pages(path.with_name(path.name + "-wal"), self.page_size)
        self.count = max(-(-size // self.page_size), *self._logged, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(self._content, mmap.mmap):
            self._content.close()
        self._file.close()

    def rows(self) -> Iterator[RawRow | None]:
        """Yield every row of every table and index; None for one that is damaged."""
        for number in range(1, self.count + 1):
            yield from self._rows_of(number)

    def _page(self, number: int) -> bytes:
        start = (number - 1) * self.page_size
        return self._logged.get(number) or bytes(self._content[start : start + self.page_size])

    def _rows_of(self, number: int) -> Iterator[RawRow | None]:
        page, start = self._page(number), _FILE_HEADER if number == 1 else 0
        if len(page) < self.page_size or page[start] not in (_INTERIOR_INDEX, _LEAF_INDEX, _LEAF_TABLE):
            return
        kind = page[start]
        cells = int.from_bytes(page[start + 3 : start + 5], "big")
        pointers = start + (12 if kind == _INTERIOR_INDEX else 8)
        if pointers + 2 * cells > self.page_size:
            yield None
            return
        for at in range(pointers, pointers + 2 * cells, 2):
            try:
                yield self._cell(page, int.from_bytes(page[at : at + 2], "big"), kind)
            except (IndexError, ValueError, struct.error):
                yield None

    def _cell(self, page: bytes, at: int, kind: int) -> RawRow:
        at += 4 if kind == _INTERIOR_INDEX else 0  # the number of the page below
        length, at = _varint(page, at)
        rowid = None
        if kind == _LEAF_TABLE:
            rowid, at = _varint(page, at)
        return RawRow(rowid, _record(self._payload(page, at, length, table=kind == _LEAF_TABLE)))

    def _payload(self, page: bytes, at: int, length: int, *, table: bool) -> bytes:
        """The bytes of a row, the first in its page and the others in a chain of overflow pages."""
        usable = self.page_size
        if length > usable * self.count:
            raise ValueError("longer than the file")
        largest = usable - 35 if table else (usable - 12) * 64 // 255 - 23
        if length <= largest:
            return page[at : at + length]
        smallest = (usable - 12) * 32 // 255 - 23
        local = smallest + (length - smallest) % (usable - 4)
        local = local if local <= largest else smallest
        parts, missing = [page[at : at + local]], length - local
        following = int.from_bytes(page[at + local : at + local + 4], "big")
        while missing > 0:
            if not 1 <= following <= self.count:
                raise ValueError("the chain of overflow pages is broken")
            overflow = self._page(following)
            parts.append(overflow[4 : 4 + missing])
            missing -= usable - 4
            following = int.from_bytes(overflow[:4], "big")
        return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next value starts."""
    value = 0
    for count in range(9):
        byte = data[at + count]
        if count == 8:
            value = value << 8 | byte
            return value - (1 << 64) if value >> 63 else value, at + 9
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            return value, at + count + 1
    raise AssertionError  # pragma: no cover - the ninth byte returns


def _record(payload: bytes) -> list[Any]:
    """The values of a row."""
    body, at = _varint(payload, 0)
    types = []
    while at < body:
        kind, at = _varint(payload, at)
        types.append(kind)
    values: list[Any] = []
    for kind in types:
        size = _INTEGER_SIZES.get(kind, 0)
        if kind >= 12:
            size = (kind - 12) // 2
        elif kind == 7:
            size = 8
        part = payload[body : body + size]
        if len(part) < size or kind in (10, 11):
            raise ValueError("the row ends too early")
        values.append(_value(kind, part))
        body += size
    return values


def _value(kind: int, part: bytes) -> Any:
    if kind == 0:
        return None
    if kind in _INTEGER_SIZES:
        return int.from_bytes(part, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", part)[0]
    if kind in (8, 9):
        return kind - 8
    return RawText(part) if kind % 2 else part


def _committed_pages(path: Path, page_size: int) -> dict[int, bytes]:
    """The last committed version of each page in a write-ahead log."""
    content = path.read_bytes() if path.exists() else b""
    salts = content[16:24]
    committed: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    at = _WAL_HEADER
    while len(content) >= at + _FRAME_HEADER + page_size and content[at + 8 : at + 16] == salts:
        number, pages_after = struct.unpack(">II", content[at : at + 8])
        pending[number] = content[at + _FRAME_HEADER : at + _FRAME_HEADER + page_size]
        if pages_after:
            committed |= pending
            pending = {}
        at += _FRAME_HEADER + page_size
    return committed
