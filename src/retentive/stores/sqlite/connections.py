"""Connections to one SQLite file: writers in turn, a pool of readers, schema migrations, SQLite's errors as ours."""

from __future__ import annotations

import errno
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from importlib import resources
from pathlib import Path
from time import monotonic, sleep
from typing import Literal
from urllib.parse import quote

import apsw

from retentive.errors import Conflict, Damaged, Invalid, RetentiveError, Unavailable
from retentive.extras import pip_install
from retentive.settings import default_store
from retentive.stores.sqlite.checkpoints import LOG_PAGES, Checkpoints

if sys.platform != "win32":  # there, processes wait for SQLite's lock in no order
    import fcntl

log = logging.getLogger(__name__)

WAIT_SECONDS = 60
"""How long a writer waits for other processes that hold the write lock."""

_POLL_SECONDS = 0.001

_CLOSED = "the store is closed; open it again"
_LOCKED = "another process held the lock on {} for too long; nothing was changed, try again"
_MOVED = (
    "{} was deleted, moved or replaced while it was open, so {}. "
    "Move the original file back, or close the store and open it again to use the file that is there now"
)

SIDE_FILES = ("", "-wal", "-shm", "-journal", "-queue")
"""What is added to the path of a store in the names of its files."""

APPLICATION_ID = 0x52434C54
"""Identifies our files in their header. The value predates the name Retentive and must not change."""

FIRST_VERSION = 14
"""The version of `schema.sql`. No earlier one was ever released."""

UPGRADES: tuple[str, ...] = ()
"""The scripts that lead from there to the following versions, one each."""

SCRIPTS = ("schema.sql", *UPGRADES)


class Connections:
    """Transactions on one file, for any number of threads."""

    def __init__(self, path: str, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self.path = path
        self._wait_seconds = wait_seconds
        self._queue = WriteQueue(path)
        self._checkpoints = Checkpoints(path)
        self._log_pages = 0
        self._files: list[tuple[int, int]] = []
        self._has_log = False
        self._failing = False
        self._idle: list[apsw.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        self.read_only = _is_read_only(path)
        with self.errors():
            if not self.read_only:
                _create_private(Path(path).resolve())
            self._writer = self._connect()
            if self.read_only:
                return
            # Deleted content is overwritten with zeros, not only unlinked.
            self._writer.execute("PRAGMA secure_delete = ON").fetchall()
            self._writer.set_wal_hook(self._after_commit)

    def use_wal(self, *, new: bool) -> None:
        """Switch the file to WAL mode, in which readers do not wait for a writer. The file must be known as ours.

        Files that an earlier version created become private.

        A new file returns free pages to the file system; another one begins to when it is compacted.
        """
        if self.read_only:
            return
        with self.errors():
            if os.name != "nt":
                _take_rights_of_others(Path(self.path).resolve())
            deadline = monotonic() + self._wait_seconds
            if new:
                self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL").fetchall()
            while True:
                try:
                    self._writer.execute("PRAGMA journal_mode = WAL").fetchall()
                    self._has_log = True
                    return
                except apsw.BusyError:
                    # The busy timeout does not apply here: two processes that create a file at once would fail.
                    if monotonic() > deadline:
                        raise
                sleep(0.005)

    def _connect(self) -> apsw.Connection:
        connection = _open_read_only(self.path) if self.read_only else apsw.Connection(self.path)
        connection.set_busy_timeout(int(self._wait_seconds * 1000))
        connection.execute("PRAGMA cache_size = -65536; PRAGMA mmap_size = 2147418112")
        return connection

    @contextmanager
    def write(self, *, durable: bool = True) -> Iterator[apsw.Connection]:
        """A write transaction: committed when the block ends, rolled back if it raises.

        A transaction that is not durable survives a killed process, but perhaps not a power cut. What comes after the
        commit is maintenance: its failure is logged, and the write has succeeded.
        """
        with self.errors(), self._transaction("FULL" if durable else "NORMAL"):
            yield self._writer
        if self._log_pages >= LOG_PAGES:
            self._checkpoint(truncate=False)

    @contextmanager
    def _transaction(self, synchronous: Literal["FULL", "NORMAL"]) -> Iterator[None]:
        started = monotonic()
        with self._queue.turn(self._wait_seconds):
            if self._closed:
                raise Unavailable(_CLOSED)
            if self.read_only:
                raise Unavailable(
                    f"{self.path} can only be read here; nothing was changed, copy it to where it can be written"
                )
            self._writer.execute(f"PRAGMA synchronous = {synchronous}")
            deadline = started + self._wait_seconds
            with self._queue.first_of_all_processes(deadline):
                # SQLite's own busy handler pauses for up to 100 ms, in which nobody writes.
                self._writer.set_busy_handler(partial(_poll, deadline))
                self._writer.execute("BEGIN IMMEDIATE")
            try:
                self._check_files("nothing was changed")
                yield
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            self._check_files("this change may be lost")

    @contextmanager
    def alone(self) -> Iterator[apsw.Connection]:
        """A connection for a statement that rewrites the whole file; other writers wait until the block ends.

        Its temporary files are on disk: the copy that VACUUM makes is as large as the store.
        """
        deadline = monotonic() + self._wait_seconds
        with self.errors(), self._queue.turn(self._wait_seconds), self._queue.first_of_all_processes(deadline):
            if self._closed:
                raise Unavailable(_CLOSED)
            connection = apsw.Connection(self.path)
            try:
                connection.set_busy_timeout(int(self._wait_seconds * 1000))
                connection.wal_autocheckpoint(0)
                connection.execute("PRAGMA secure_delete = ON; PRAGMA temp_store = FILE").fetchall()
                yield connection
            finally:
                self._close(connection)

    def _check_files(self, consequence: str) -> None:
        """Raise `Unavailable` if the paths of the store and of its log are no longer those of the open files."""
        try:
            found = [(file.st_dev, file.st_ino) for file in (Path(self.path).stat(), Path(self.path + "-wal").stat())]
        except FileNotFoundError:
            found = []
        if not self._files:
            self._files = found
        if not found or found != self._files:
            raise Unavailable(_MOVED.format(self.path, consequence))

    def in_place(self) -> bool:
        """Whether the path of the store is still that of the open file."""
        try:
            file = Path(self.path).stat()
        except FileNotFoundError:
            return False
        return not self._files or (file.st_dev, file.st_ino) == self._files[0]

    def truncate_log(self) -> None:
        """Checkpoint and truncate the write-ahead log, so that forgotten text does not remain in it.

        An active reader prevents that; then nobody waits, and the log is truncated after a later write or when the
        last process closes the file.
        """
        self._checkpoint(truncate=True)

    def _checkpoint(self, *, truncate: bool) -> None:
        """Run a checkpoint; the write before it has succeeded, so that a failure is logged and nothing else."""
        try:
            self._checkpoints.run(truncate=truncate)
            self._failing = False
        except (apsw.Error, OSError) as error:
            if not self._failing:
                self._failing = True
                log.warning(
                    "%s: the change was stored, but its log could not be moved into the file (%s); "
                    "the next write tries it again",
                    self.path,
                    error,
                )

    def _after_commit(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    @contextmanager
    def read(self) -> Iterator[apsw.Connection]:
        """A connection for reading that no other thread uses during the block."""
        connection = self.acquire()
        with self.errors():
            yield connection
        self.release(connection)

    @contextmanager
    def snapshot(self) -> Iterator[apsw.Connection]:
        """A connection for several reads of one snapshot."""
        connection = self.acquire()
        try:
            with self.errors(), connection:
                yield connection
        finally:
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
        self._close(connection)

    def close(self) -> None:
        """Close everything; a connection in use is closed when it comes back."""
        with self._queue.turn(None), self._guard:
            if self._closed:
                return
            self._closed = True
            try:
                if self._has_log:
                    self._checkpoints.open()
            except (apsw.Error, OSError) as error:
                log.warning("%s was closed, but its log could not be moved into the file (%s)", self.path, error)
            for connection in (*self._idle, self._writer):
                self._close(connection)
            self._idle.clear()
            self._checkpoints.close()
            self._queue.close()

    def _close(self, connection: apsw.Connection) -> None:
        """Close a connection without a checkpoint: only `Checkpoints` clears the pages that it writes."""
        if self._has_log:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()

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
        except (apsw.Error, OSError, UnicodeDecodeError) as error:
            raise _to_our_error(error, self.path, full=self._is_full(error)) from error

    def _is_full(self, error: Exception) -> bool:
        """Whether the disk is full; an exceeded quota or file size limit appears as an I/O error."""
        if isinstance(error, apsw.IOError):
            return not self._closed and self._writer.system_errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        return isinstance(error, apsw.FullError) or getattr(error, "errno", None) == errno.ENOSPC


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
                    self._file = os.open(self._path + "-queue", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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


def _is_read_only(path: str) -> bool:
    """Whether the file exists and cannot be written, or its folder cannot, where SQLite writes its log."""
    file = Path(path)
    return file.exists() and not (os.access(file, os.W_OK) and os.access(file.resolve().parent, os.W_OK))


def _create_private(path: Path) -> None:
    """Create a file and its folder for their owner alone. SQLite gives the files beside it the same permissions."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _take_rights_of_others(file: Path) -> None:
    """Let only the owner read and write the files of a store, and the default folder.

    Another folder may be shared for a reason. What belongs to another user stays as it is: `doctor` tells about it.
    """
    places = [Path(f"{file}{end}") for end in SIDE_FILES]
    if file.parent.name == "retentive" and file == Path(default_store()).resolve():
        places.append(file.parent)
    for place in places:
        if place.is_file() or place.is_dir():
            status = place.stat()
            if status.st_uid == os.geteuid() and status.st_mode & 0o077:
                place.chmod(status.st_mode & 0o700)


def _open_read_only(path: str) -> apsw.Connection:
    """Open a file on a read-only medium. Without a log, nobody writes to it, and SQLite needs no file beside it."""
    log = Path(path + "-wal")
    mode = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"file:{quote(str(Path(path).resolve()))}?{mode}", flags=flags)


def _poll(deadline: float, _tries: int) -> bool:
    """Wait a little for SQLite's lock; return whether to try again."""
    sleep(_POLL_SECONDS)
    return monotonic() < deadline


def _to_our_error(error: Exception, path: str, *, full: bool) -> RetentiveError:
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Unavailable(_LOCKED.format(path))
    if full:
        return Unavailable(f"the disk of {path} is full; make room and try again, nothing was changed")
    if Path(path).is_dir():
        return Invalid(f"{path} is a folder, and a store is a file; name it, such as {Path(path) / 'memories.db'}")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError | OSError):
        return Unavailable(f"{path} cannot be opened for writing ({error}); check the path and its permissions")
    if isinstance(error, apsw.NotADBError):
        return Invalid(
            f"{path} is not a Retentive store; name another file, or, if it was one and is damaged, "
            "save what can be read: retentive recover FILE"
        )
    if isinstance(error, apsw.CorruptError | UnicodeDecodeError):
        return Damaged(
            f"{path} is damaged ({error}); run: retentive doctor --repair. If that fails, save what can be read into a "
            "new file: retentive recover FILE"
        )
    if isinstance(error, apsw.ConstraintError):
        return Conflict(f"the store already holds that ({error})")
    return Unavailable(f"{path}: {error}")


def migrate(connections: Connections) -> None:
    """Create the tables, or apply the missing upgrades. A file of another program or version is rejected."""
    connection = connections.acquire()
    try:
        with connections.errors():
            version = _version(connection, connections.path)
    finally:
        connections.release(connection)
    connections.use_wal(new=version == 0)
    if version == _latest():
        return
    if connections.read_only:
        raise Unavailable(
            f"{connections.path} was written by an older Retentive and must be upgraded, but it can only be read here; "
            "copy it to where it can be written"
        )
    while True:
        with connections.write() as connection:
            version = _version(connection, connections.path)
            if version == _latest():
                return
            following = max(version + 1, FIRST_VERSION)
            script = resources.files("retentive.stores.sqlite").joinpath("sql", SCRIPTS[following - FIRST_VERSION])
            connection.execute(script.read_text(encoding="utf-8"))
            # The version is set in the same transaction as the step.
            connection.execute(f"PRAGMA user_version = {following}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _latest() -> int:
    return FIRST_VERSION - 1 + len(SCRIPTS)


def _version(connection: apsw.Connection, path: str) -> int:
    with connection:  # in one snapshot: another process may be creating the tables
        version: int = connection.pragma("user_version")
        application: int = connection.pragma("application_id")
        tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (tables or version):
        raise Invalid(f"{path} is an SQLite file of another program; choose another file")
    if version > _latest():
        raise Invalid(
            f"{path} was written by a newer Retentive (schema {version}, this one knows {_latest()}); "
            f"upgrade with: {pip_install(options='--upgrade')}"
        )
    if 0 < version < FIRST_VERSION:
        raise Invalid(f"{path} has schema {version}; this Retentive upgrades stores from schema {FIRST_VERSION} on")
    return version
