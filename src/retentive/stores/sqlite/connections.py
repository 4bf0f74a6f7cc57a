"""Connections to one SQLite file: one writer, a pool of readers, schema migrations, and SQLite's errors as ours."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import resources
from pathlib import Path
from time import monotonic, sleep

import apsw

from retentive.errors import Conflict, Invalid, RetentiveError, Unavailable

WAIT_SECONDS = 60
"""How long a writer waits for other processes that hold the write lock."""

_CLOSED = "the store is closed; open it again"
_LOCKED = "another process held the lock on {} for too long; nothing was changed, try again"


APPLICATION_ID = 0x52434C54
"""Identifies our files in their header. The value predates the name Retentive and must not change."""

MIGRATIONS = ("001_memories.sql", "002_judgements.sql", "003_requests.sql", "004_no_view.sql", "005_profile_counts.sql")


class Connections:
    """Transactions on one file, for any number of threads."""

    def __init__(self, path: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = path
        self._wait_ms = int(wait_seconds * 1000)
        self._writing = threading.Lock()
        self._idle: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        with self.errors():
            Path(path).resolve().parent.mkdir(parents=True, exist_ok=True)
            self._writer = self._connect()
            # Deleted content is overwritten with zeros, not only unlinked.
            self._writer.execute("PRAGMA secure_delete = ON").fetchall()

    def use_wal(self) -> None:
        """Switch the file to WAL mode, in which readers do not wait for a writer. The file must be known as ours."""
        with self._writing, self.errors():
            deadline = monotonic() + self._wait_ms / 1000
            while True:
                try:
                    self._writer.execute("PRAGMA journal_mode = WAL").fetchall()
                    return
                except apsw.BusyError:
                    # The busy timeout does not apply here: two processes that create a file at once would fail.
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
        """A write transaction: committed when the block ends, rolled back if it raises.

        A transaction that is not durable survives a killed process, but perhaps not a power cut.
        """
        with self._reserved(), self.errors():
            if self._closed:
                raise Unavailable(_CLOSED)
            self._writer.execute("PRAGMA synchronous = FULL" if durable else "PRAGMA synchronous = NORMAL")
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    def truncate_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, so that forgotten text does not remain in it.

        An active reader prevents that; then nobody waits, and the log is truncated after a later write or when the
        last process closes the file.
        """
        with self._reserved(), self.errors():
            if self._closed:
                raise Unavailable(_CLOSED)
            self._writer.set_busy_timeout(0)
            with suppress(apsw.BusyError):
                self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _reserved(self) -> Iterator[None]:
        """Reserve the writer for this thread. Waiting for threads and for processes shares one timeout."""
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
        """A connection for reading that no other thread uses during the block."""
        connection = self.acquire()
        with self.errors():
            yield connection
        self.release(connection)

    def acquire(self) -> apsw.Connection:
        """Take a connection for reading; `release` it afterwards. One that failed is dropped instead."""
        with self._guard:
            if self._closed:
                raise Unavailable(_CLOSED)
            connection = self._idle.pop() if self._idle else None
        with self.errors():
            if connection is None:
                connection = self._connect()
                connection.execute("PRAGMA query_only = ON")
            return connection

    def release(self, connection: apsw.Connection) -> None:
        """Give back a connection that was acquired."""
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
        """The bytes on disk, including the write-ahead log."""
        return sum(file.stat().st_size for end in ("", "-wal") if (file := Path(self.path + end)).exists())

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn SQLite's errors inside the block into ours."""
        try:
            yield
        except RetentiveError:
            raise
        except (apsw.Error, OSError) as error:
            raise _to_our_error(error, self.path, full=self._is_full(error)) from error

    def _is_full(self, error: Exception) -> bool:
        """Whether the disk is full; an exceeded quota or file size limit appears as an I/O error."""
        if isinstance(error, apsw.IOError):
            return not self._closed and self._writer.system_errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return isinstance(error, apsw.FullError) or getattr(error, "errno", None) == errno.ENOSPC


def _to_our_error(error: Exception, path: str, *, full: bool) -> RetentiveError:
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


def migrate(connections: Connections) -> None:
    """Apply the missing steps. A file of another program, or of a newer version, is rejected and left unchanged."""
    connection = connections.acquire()
    try:
        with connections.errors():
            version = _version(connection, connections.path)
    finally:
        connections.release(connection)
    connections.use_wal()
    if version == len(MIGRATIONS):
        return
    while True:
        with connections.write() as connection:
            version = _version(connection, connections.path)
            if version == len(MIGRATIONS):
                return
            script = resources.files("retentive.stores.sqlite").joinpath("sql", MIGRATIONS[version])
            connection.execute(script.read_text(encoding="utf-8"))
            # The version is set in the same transaction as the step.
            connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _version(connection: apsw.Connection, path: str) -> int:
    version: int = connection.pragma("user_version")
    application: int = connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (tables or version):
        raise Invalid(f"{path} is an SQLite file of another program; choose another file")
    if version > len(MIGRATIONS):
        raise Invalid(
            f"{path} was written by a newer Retentive (schema {version}, this one knows {len(MIGRATIONS)}); "
            "upgrade with: pip install -U retentive"
        )
    return version
