"""Counts that all workers share, in a file that each maps into its memory."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path

import numpy as np

SLOTS = 1024
"""How many names one worker counts at once; further ones are not limited."""


class SharedCounts:
    """Counts by name. Each worker changes its own row; a sum is over all rows.

    The lock is one of the file, so that the system releases it if a worker is killed. It is used by one thread of a
    process.
    """

    def __init__(self, path: Path, *, workers: int, index: int = 0) -> None:
        size = workers * SLOTS * 2 * 8
        with suppress(FileExistsError), path.open("xb") as new:
            new.truncate(size)
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), size)
        table = np.frombuffer(self._map, dtype=np.uint64).reshape(workers, SLOTS, 2)
        self._names, self._counts = table[:, :, 0], table[:, :, 1]
        self._index = index

    def enter(self, name: str, limit: int) -> bool:
        """Count one more, unless there are as many as the limit; return whether it was counted."""
        key = _key(name)
        with self._locked():
            if int(self._counts[self._names == key].sum()) >= limit:
                return False
            slot = self._slot(key)
            if slot is not None:
                self._names[self._index, slot] = key
                self._counts[self._index, slot] += np.uint64(1)
            return True

    def leave(self, name: str) -> None:
        """Count one less."""
        key = _key(name)
        with self._locked():
            for slot in np.flatnonzero((self._names[self._index] == key) & (self._counts[self._index] > 0))[:1]:
                self._counts[self._index, slot] -= np.uint64(1)

    def clear(self, index: int) -> None:
        """Forget the counts of a worker that has ended."""
        with self._locked():
            self._counts[index] = 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _slot(self, key: np.uint64) -> int | None:
        own = np.flatnonzero((self._names[self._index] == key) & (self._counts[self._index] > 0))
        free = own if len(own) else np.flatnonzero(self._counts[self._index] == 0)
        return int(free[0]) if len(free) else None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl  # not on every system

        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)


def _key(name: str) -> np.uint64:
    return np.uint64(int.from_bytes(blake2b(name.encode(), digest_size=8).digest()) or 1)
