"""Checkpoints of the write-ahead log that clear the unused part of every page they write.

`secure_delete` overwrites what a statement deletes. But when SQLite moves rows from one page to another, their old
bytes stay in the unallocated part of the first page, where no later deletion reaches them. Every page passes through a
checkpoint before it is in the store file, so that is where the unallocated part is filled with zeros.
"""

from __future__ import annotations

import threading
from functools import cache

import apsw

LOG_PAGES = 1000
"""Pages in the log after which a write is followed by a checkpoint."""

_LEAVES, _INTERIOR = (10, 13), (2, 5)
_HEADER = 100
_MOST_PAGES = 2 << 24
"""In a larger file, an overflow page could begin with the same byte as a page of rows."""

_ZEROS = bytes(65536)
_VFS = "retentive-clearing"


def clear_unallocated(page: bytes, *, first: bool = False) -> bytes:
    """A page of rows with zeros between its cell pointers and its cells; any other page unchanged.

    `first` is for page 1, which begins with the file header.
    """
    start = _HEADER if first else 0
    kind = page[start]
    if kind not in _LEAVES and kind not in _INTERIOR:
        return page
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    content = int.from_bytes(page[start + 5 : start + 7], "big") or 65536
    gap = start + (8 if kind in _LEAVES else 12) + 2 * cells
    if not gap < content <= len(page) or page[gap:content] == _ZEROS[: content - gap]:
        return page
    return page[:gap] + bytes(content - gap) + page[content:]


def is_pointer_map(number: int, size: int) -> bool:
    """Whether a page lists the parents of others, in a file that returns its free pages: bytes 52 to 55 are not 0."""
    reserved = 0x40000000 // size + 1  # never used; a pointer map that would be there is in the next page
    place = number - 1 if number - 1 == reserved else number
    return number > 1 and (place - 2) % (size // 5 + 1) == 0


class _ClearingFile(apsw.VFSFile):
    """The store file: pages are cleared when they are written."""

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        size = len(data)
        if size >= 512 and offset % size == 0 and offset // size < _MOST_PAGES:
            number = offset // size + 1
            # A checkpoint writes page 1 first, so the header in the file is that of the page to be written.
            if not (is_pointer_map(number, size) and any(self.xRead(4, 52))):
                data = clear_unallocated(data, first=number == 1)
        super().xWrite(data, offset)


class _ClearingVFS(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(_VFS, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        kind = _ClearingFile if flags[0] & apsw.SQLITE_OPEN_MAIN_DB else apsw.VFSFile
        return kind("", name, flags)


@cache
def _register() -> _ClearingVFS:
    """Register the VFS. SQLite has it as long as the object exists."""
    return _ClearingVFS()


class Checkpoints:
    """The only connection that moves pages from the log to the file. For any number of threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None

    def run(self, *, truncate: bool) -> None:
        """Move the log's pages to the file; with `truncate`, leave the log empty unless somebody reads it.

        It waits for nobody. The pages are copied without the write lock, which only the truncation takes.
        """
        with self._lock:
            connection = self._opened()
            try:
                connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
                if truncate:
                    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                pass

    def close(self) -> None:
        """Close the connection. As the last one on the file, it runs a checkpoint and deletes the log."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def open(self) -> None:
        """Open the log, so that this connection has it when the others are closed."""
        with self._lock:
            self._opened().execute("SELECT count(*) FROM sqlite_schema").fetchall()

    def _opened(self) -> apsw.Connection:
        if self._connection is None:
            _register()
            connection = apsw.Connection(self._path, vfs=_VFS)
            connection.execute("PRAGMA synchronous = FULL").fetchall()
            self._connection = connection
        return self._connection
