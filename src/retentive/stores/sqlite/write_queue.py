"""The order of writers: first in, first out within a process, and each process in its turn."""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

from retentive.errors import Unavailable

if sys.platform != "win32":  # there, processes wait for SQLite's lock in no order
    import fcntl

_POLL_SECONDS = 0.001


class WriteQueue:
    """Gives one writer of this process its turn, and lets one process at a time wait for SQLite's lock.

    Without it, a writer that has just committed takes the lock again before those that wait have noticed.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()  # the first one has its turn
        self._file: int | None = None

    @contextmanager
    def turn(self, wait_seconds: float | None) -> Iterator[None]:
        """Wait for the threads that came before; None waits without a limit."""
        mine = threading.Lock()
        mine.acquire()
        with self._guard:
            self._waiting.append(mine)
            if len(self._waiting) == 1:
                mine.release()
        try:
            if not mine.acquire(timeout=-1 if wait_seconds is None else wait_seconds):
                raise Unavailable(
                    f"other writes to {self._path} in this process took too long; nothing was changed, try again"
                )
            yield
        finally:
            with self._guard:
                first = self._waiting[0] is mine
                self._waiting.remove(mine)
                if first and self._waiting:
                    self._waiting[0].release()  # hands the turn over

    @contextmanager
    def first_of_all_processes(self, deadline: float) -> Iterator[None]:
        """Hold the lock on a file beside the store, while SQLite's own lock is waited for.

        Only the process that holds it tries to get SQLite's lock, so that the one that has just released that cannot
        take it again first. The order is all that depends on it: where it cannot be had, the block runs without.
        """
        locked = False
        if sys.platform != "win32":
            with suppress(OSError):
                if self._file is None:
                    self._file = os.open(self._path + "-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
                while not locked and monotonic() < deadline:
                    try:
                        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        locked = True
                    except BlockingIOError:
                        sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            if locked and self._file is not None:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file, and delete it if no other process has the store open."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
            if not Path(self._path + "-wal").exists():
                with suppress(OSError):
                    Path(self._path + "-queue").unlink()
