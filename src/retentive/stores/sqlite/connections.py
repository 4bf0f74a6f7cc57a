"""Connections to one SQLite file: a writer that waits its turn, readers that never wait, errors in our own words."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep

import apsw

from retentive.errors import Conflict, Invalid, RetentiveError, Unavailable

WAIT_SECONDS = 60
"""How long a writer waits for the other processes that use the file."""

_LOCKED = "another process has kept {} locked for too long; try again, nothing was changed"


class Connections:
    """Transactions on one file, for any number of threads."""

    def __init__(self, path: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = path
        self._wait_ms = int(wait_seconds * 1000)
        self._writing = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        with self._errors():
            Path(path).resolve().parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._connect()
            # An acknowledged write survives a power cut too.
            # What is forgotten is overwritten, not only unlinked.
            self._writer.execute("PRAGMA secure_delete = ON").fetchall()

    def use_wal(self) -> None:
        """Let readers go on while somebody writes. It marks the file for good, so the file must be known as ours."""
        with self._writing, self._errors():
            deadline = monotonic() + self._wait_ms / 1000
            while True:
                try:
                    self._writer.execute("PRAGMA journal_mode = WAL").fetchall()
                    return
                except apsw.BusyError:
                    # SQLite does not wait here by itself: processes that open a new file at once would fail.
                    if monotonic() > deadline:
                        raise
                sleep(0.005)

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(self.path)
        connection.set_busy_timeout(self._wait_ms)
        connection.execute("PRAGMA cache_size = -65536; PRAGMA mmap_size = 1073741824; PRAGMA temp_store = MEMORY")
        return connection

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[apsw.Connection]:
        """A transaction that is durable when the block ends, and undone if it raises.

        One that need not be durable survives a killed process all the same, but perhaps not a power cut.
        """
        with self._turn(), self._errors():
            self._check_open()
            self._writer.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = NORMAL")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def empty_log(self) -> None:
        """Leave nothing in the log of what was written, forgotten text among it, if nobody is reading just now.

        A reader that is in the way does not make anybody wait: the log is emptied behind a later write, or when the
        last process closes the file.
        """
        with self._turn(), self._errors():
            self._check_open()
            self._writer.set_busy_timeout(0)
            with suppress(apsw.BusyError):
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """The writer, for one thread; waiting for it and for other processes takes no longer than one wait in all."""
        started = monotonic()
        if not self._writing.acquire(timeout=self._wait_ms / 1000):
            raise Unavailable(_LOCKED.format(self.path))
        try:
            if not self._closed:
                waited = int((monotonic() - started) * 1000)
                self._writer.set_busy_timeout(max(self._wait_ms - waited, 1))
            yield
        finally:
            self._writing.release()

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """A connection for reading, one thread's own for the length of the block."""
        with self._guard:
            self._check_open()
            connection = self._idle.pop() if self._idle else None
        with self._errors():
            if connection is None:
                connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
            yield connection
        with self._guard:
            if not self._closed:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close everything; a connection in use is closed when it comes back."""
        with self._writing, self._guard:
            if self._closed:
                return
            self._closed = True
            for connection in (*self._idle, self._writer):
                connection.close()
            self._idle.clear()

    def size(self) -> int:
        """The bytes on disk, with what is not yet moved from the log into the file."""
        return sum(file.stat().st_size for end in ("", "-wal") if (file := Path(self.path + end)).exists())

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed; open it again")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except RetentiveError:
            raise
        except (apsw.Error, OSError) as error:
            raise _in_our_words(error, self.path, full=self._is_full(error)) from error

    def _is_full(self, error: Exception) -> bool:
        """Whether there is no room; a disk quota and a limit on files show as plain errors of writing."""
        if isinstance(error, apsw.IOError):
            return not self._closed and self._writer.system_errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return isinstance(error, apsw.FullError) or getattr(error, "errno", None) == errno.ENOSPC


def _in_our_words(error: Exception, path: str, *, full: bool) -> RetentiveError:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable(_LOCKED.format(path))
    if full:
        return Unavailable(f"the disk of {path} is full; make room and try again, nothing was changed")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError | OSError):
        return Unavailable(f"{path} cannot be opened for writing ({error}); check the path and its permissions")
    if isinstance(error, apsw.NotADBError):
        return Invalid(f"{path} is not a Retentive store; name another file")
    if isinstance(error, apsw.CorruptError):
        return Unavailable(f"{path} is damaged ({error}); run 'retentive doctor', and restore a copy if it cannot help")
    if isinstance(error, apsw.ConstraintError):
        return Conflict(f"the store already holds that ({error})")
    return Unavailable(f"{path}: {error}")
