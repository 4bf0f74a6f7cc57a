"""Reads and writes on a server: reads are retried if it is lost, writes take effect once, errors are ours."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from time import monotonic, sleep
from typing import Any, TypeVar
from uuid import UUID, uuid4

import psycopg
from psycopg.pq import TransactionStatus

from retentive.errors import RetentiveError, Unavailable
from retentive.stores.postgres.address import Address
from retentive.stores.postgres.error_mapping import first_line, is_lost, is_rolled_back, to_store_error
from retentive.stores.postgres.pool import Connection, Pool

log = logging.getLogger(__name__)

T = TypeVar("T")
Rows = list[tuple[Any, ...]]
Execute = Callable[[bytes, Mapping[str, Any]], Rows]
"""Runs a statement with its parameters and returns its rows."""

_REPLICA_PAUSE = 5.0
"""Seconds for which a replica is not used after it has failed."""

_REPLICA_WAIT = 1.0
"""Seconds to wait for a connection to the replica, before the primary server is used instead."""

_PARAMETER = re.compile(rb"%\((\w+)\)s|%%")
_BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_RECORD_TOKEN = "INSERT INTO writes (token) VALUES (%s) ON CONFLICT DO NOTHING RETURNING true"  # noqa: S105 - not a password


class Connections:
    """Reads and writes on a primary server, and reads on a replica if there is one, for any number of threads."""

    def __init__(self, address: Address, *, wait_seconds: float) -> None:
        self.address = address
        writing = {"lock_timeout": f"{int(wait_seconds * 1000)}ms"}
        reading = {
            **writing,
            "default_transaction_read_only": "on",
            # Statements are planned once, as planning takes as long as a search. That may happen while the tables are
            # still empty; sequential scans are disabled, or such a plan would read whole tables later.
            "plan_cache_mode": "force_generic_plan",
            "enable_seqscan": "off",
        }
        self._writers = Pool(address.server, size=address.writers, settings=writing)
        self.readers = Pool(address.server, size=address.readers, settings=reading)
        self.replicas = Pool(address.replica, size=address.readers, settings=reading) if address.replica else None
        self.is_open = False
        self.after_write: Callable[[], None] | None = None
        self._replica_paused_until = 0.0
        self._written, self._replayed = 0, 0

    def use_schema(self, schema: str) -> None:
        """Set the schema of the store, before the first connection is taken."""
        for pool in (self._writers, self.readers, self.replicas):
            if pool is not None:
                pool.schema = schema

    def close(self) -> None:
        """Close all connections; one in use is closed when it is returned."""
        for pool in (self._writers, self.readers, self.replicas):
            if pool is not None:
                pool.close()

    def attempts(self) -> Iterator[float]:
        """Yield the deadline once for each attempt, after a pause that grows. The caller stops when it has passed."""
        deadline, pause = monotonic() + self.address.deadline, 0.02
        while True:
            yield deadline
            sleep(pause * (0.5 + random.random() / 2))  # noqa: S311 - so that clients do not all return at once
            pause = min(2 * pause, 0.5)

    # Reading

    def read(self, work: Callable[[Connection], T], *, primary: bool = False) -> T:
        """Return the result of `work`. It may run several times and must only read. See `Reader`."""
        with closing(Reader(self, primary=primary)) as reader:
            return reader.read(work)

    def fetch(
        self, statement: bytes, parameters: Sequence[Any] | Mapping[str, Any] | None = None, *, primary: bool = False
    ) -> Rows:
        """Return the rows of one statement that only reads."""
        return self.read(lambda one: one.execute(statement, parameters, binary=True).fetchall(), primary=primary)

    def take_from_replica(self) -> Connection | None:
        """Return a connection to a replica that has replayed all our writes; None if there is no such replica."""
        if self.replicas is None or monotonic() < self._replica_paused_until:
            return None
        connection = None
        try:
            connection = self.replicas.take(monotonic() + _REPLICA_WAIT)
            if self._written > self._replayed:
                [row] = connection.execute("SELECT pg_last_wal_replay_lsn()::text").fetchall()
                self._replayed = _log_position(row[0])
            if self._written <= self._replayed:
                return connection
            self.replicas.give_back(connection)
        except (psycopg.Error, RetentiveError) as error:
            if connection is not None:
                self.replicas.give_back(connection, error)
            self.pause_replica(error)
        return None

    def pause_replica(self, error: Exception) -> None:
        """Use the primary server alone for a while."""
        log.warning("the replica is not used for %g seconds: %s", _REPLICA_PAUSE, error)
        self._replica_paused_until = monotonic() + _REPLICA_PAUSE

    # Writing

    def write(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """Return the result of `work`, run in a transaction that takes effect once and is durable on return.

        If the server is lost during a commit, nobody knows whether the commit succeeded. Therefore the transaction
        stores a token. The next attempt uses the same token, until the deadline: if the token exists, it had.
        """
        token = uuid4()
        done: list[T] = []
        for deadline in self.attempts():
            try:
                with self._writers.connection(deadline) as connection:
                    result = self._run_once(connection, work, token, done, durable=durable)
                if self.after_write is not None:
                    self.after_write()
                return result
            except psycopg.Error as error:
                if not (is_lost(error) or is_rolled_back(error)) or monotonic() > deadline:
                    committed = bool(done) and is_lost(error)
                    raise self.error_of(error, may_be_committed=committed) from error
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def _run_once(
        self, connection: Connection, work: Callable[[Connection], T], token: UUID, done: list[T], *, durable: bool
    ) -> T:
        with connection.pipeline():
            connection.execute("BEGIN", prepare=False)
            if not durable:
                connection.execute("SET LOCAL synchronous_commit = off", prepare=False)
            # Waits for the end of an earlier attempt that is still running on the server.
            recorded = connection.execute(_RECORD_TOKEN, (token,))
        if recorded.fetchone() is None:
            connection.execute("ROLLBACK", prepare=False)
            return done[-1]
        result = work(connection)
        done.append(result)
        connection.execute("COMMIT", prepare=False)
        self.record_log_position(connection)
        return result

    def record_log_position(self, connection: Connection) -> None:
        """Store the current end of the server's log. A replica that has not replayed it lacks our last write."""
        if self.replicas is not None:
            [row] = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
            self._written = max(self._written, _log_position(row[0]))

    def error_of(self, error: psycopg.Error, *, may_be_committed: bool = False) -> RetentiveError:
        """Return our own error. Once the store is open, only the log has the address of the server."""
        if self.is_open:
            log.warning("%s: %s", self.address.shown, first_line(error))
        return to_store_error(error, None if self.is_open else self.address.shown, may_be_committed=may_be_committed)

    # Other connections

    @contextmanager
    def maintenance(self) -> Iterator[Connection]:
        """Take a connection without a transaction, for statements that take long and may be interrupted."""
        with self._errors_mapped(), self._writers.connection(monotonic() + self.address.deadline) as connection:
            yield connection

    @contextmanager
    def plain(self) -> Iterator[Connection]:
        """Open a connection that needs neither our schema nor pgvector."""
        with self._errors_mapped(), psycopg.connect(self._writers.conninfo, autocommit=True) as connection:
            yield connection

    @contextmanager
    def _errors_mapped(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self.error_of(error) from error
        except OSError as error:
            where = "the database server cannot be reached" if self.is_open else f"{self.address.shown}: {error}"
            raise Unavailable(where) from error


class Reader:
    """Reads on one connection, which is taken when the first one starts and returned by `close`.

    They run on the replica if there is one that has replayed our last write, unless `primary` is set. If the connection
    breaks, the current read runs again on a new one, until the deadline; if the replica fails, on the primary server.
    """

    def __init__(self, connections: Connections, *, primary: bool = False) -> None:
        self._connections = connections
        self._connection: Connection | None = None
        self._pool: Pool | None = None
        self._replica_allowed = not primary
        self._closed = False

    def read(self, work: Callable[[Connection], T]) -> T:
        """Return the result of `work`."""
        if self._closed:
            raise Unavailable("this search is closed; open another one")
        connection = self._connection_of_replica()
        if connection is not None:
            try:
                return work(connection)
            except (psycopg.Error, RetentiveError) as error:
                # It is unreachable, has not replayed the creation of our tables, or cancelled the statement to go on
                # replaying. An error of the statement itself occurs on the primary server too.
                self._release(error)
                self._connections.pause_replica(error)
        for deadline in self._connections.attempts():
            try:
                if self._connection is None:
                    self._pool = self._connections.readers
                    self._connection = self._pool.take(deadline)
                return work(self._connection)
            except psycopg.Error as error:
                self._release(error)
                if not is_lost(error) or monotonic() > deadline:
                    raise self._connections.error_of(error) from error
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    def execute(self, statement: bytes, parameters: Mapping[str, Any]) -> Rows:
        """Return the rows of a statement. All statements run in one snapshot, unless the connection breaks."""
        return self.read(lambda connection: _execute_in_snapshot(connection, statement, parameters))

    def try_execute(self, statement: bytes, parameters: Mapping[str, Any]) -> Rows | psycopg.Error:
        """Like `execute`, but return an error of the statement, which ends the snapshot, instead of retrying."""

        def work(connection: Connection) -> Rows | psycopg.Error:
            try:
                return _execute_in_snapshot(connection, statement, parameters)
            except psycopg.Error as error:
                return error

        result = self.read(work)
        if isinstance(result, psycopg.Error):
            self._release(result)
        return result

    def close(self) -> None:
        """End the transaction and return the connection."""
        self._closed = True
        self._release()

    def _connection_of_replica(self) -> Connection | None:
        if self._connection is None and self._replica_allowed:
            self._connection, self._pool = self._connections.take_from_replica(), self._connections.replicas
        return self._connection if self._pool is self._connections.replicas else None

    def _release(self, error: BaseException | None = None) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and self._pool is not None:
            self._pool.give_back(connection, error)


def _execute_in_snapshot(connection: Connection, statement: bytes, parameters: Mapping[str, Any]) -> Rows:
    numbered, names = _numbered(statement)
    cursor, values = psycopg.RawCursor(connection), [parameters[name] for name in names]
    if connection.info.transaction_status != TransactionStatus.IDLE:
        return cursor.execute(numbered, values, binary=True).fetchall()
    with connection.pipeline():  # one round trip for both
        connection.execute(_BEGIN_SNAPSHOT, prepare=False)
        cursor.execute(numbered, values, binary=True)
    return cursor.fetchall()


@lru_cache(maxsize=500)
def _numbered(statement: bytes) -> tuple[bytes, list[str]]:
    """Return a statement with $1 for its first parameter, and the names of its parameters.

    psycopg would do the same at each execution of a long statement.
    """
    names: dict[bytes, int] = {}

    def number(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        return b"$%d" % names.setdefault(found[1], len(names) + 1)

    return _PARAMETER.sub(number, statement), [name.decode() for name in names]


def execute_on(connection: Connection) -> Execute:
    """Return a function that runs statements on this connection."""
    return lambda statement, parameters: connection.execute(statement, parameters, binary=True).fetchall()


def _log_position(lsn: str | None) -> int:
    """Return a position in the server's log as a number; later positions are larger."""
    high, _, low = (lsn or "0/0").partition("/")
    return (int(high, 16) << 32) + int(low, 16)
