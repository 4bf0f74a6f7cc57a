"""A pool of connections to one server, set up for our schema and types."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import generators, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from retentive.errors import Unavailable
from retentive.stores.postgres.error_mapping import is_lost
from retentive.stores.postgres.type_adapters import register_adapters

Connection = psycopg.Connection[Any]

# Defaults for libpq; the address can override them. With these a dead network is noticed within seconds, not hours.
_DEFAULTS = {
    "application_name": "retentive",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
    "client_encoding": "utf8",
}

_SETTINGS = {
    "timezone": "UTC",
    "jit": "off",  # compiling takes longer than any of our statements
    "hnsw.iterative_scan": "relaxed_order",
    "hnsw.ef_search": "120",
    "hnsw.max_scan_tuples": "100000",
    "hnsw.scan_mem_multiplier": "4",
}


class Pool:
    """Up to `size` connections. The one returned last is the next one taken."""

    def __init__(self, server: str, *, size: int, settings: Mapping[str, str]) -> None:
        parts = {**_DEFAULTS, **{name: str(value) for name, value in conninfo_to_dict(server).items()}}
        if "," in parts.get("host", ""):
            parts.setdefault("target_session_attrs", "read-write")  # of several servers, the one that is no standby
        self.conninfo = make_conninfo("", **parts)
        self.schema = ""
        self._settings = {**_SETTINGS, **settings}
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._guard = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self, deadline: float) -> Iterator[Connection]:
        """Take a connection for the duration of a `with` block."""
        connection = self.take(deadline)
        error: BaseException | None = None
        try:
            yield connection
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.give_back(connection, error)

    def take(self, deadline: float) -> Connection:
        """Return a connection for one thread, outside of any transaction. `give_back` must follow."""
        if self._closed:
            raise Unavailable("the store is closed; open it again")
        if not self._free.acquire(timeout=max(deadline - monotonic(), 0.001)):
            raise Unavailable("all connections to the server are in use; try again, or allow more (readers=, writers=)")
        try:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None or not _is_idle(connection):
                connection = self._connect()
            with self._guard:
                self._used.add(connection)
        except BaseException:
            self._free.release()
            raise
        return connection

    def give_back(self, connection: Connection, error: BaseException | None = None) -> None:
        """Return a connection to the pool. An open transaction is ended, a broken connection closed.

        `error` is what the last statement raised. If the server was lost, idle connections are closed too.
        """
        try:
            lost = is_lost(error)
            usable = not (lost or connection.closed or connection.broken) and _end_transaction(connection, error)
            closing: list[Connection] = []
            with self._guard:
                self._used.discard(connection)
                if lost:
                    closing, self._idle = self._idle, []
                if usable and not self._closed:
                    self._idle.append(connection)
                else:
                    closing.append(connection)
            for one in closing:
                one.close()
        finally:
            self._free.release()

    def close(self) -> None:
        """Close idle connections and cancel running statements; used connections are closed when they come back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            used = list(self._used)
        for connection in idle:
            connection.close()
        for connection in used:
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=1)

    def _connect(self) -> Connection:
        connection: Connection = psycopg.connect(self.conninfo, autocommit=True)
        try:
            extension = register_adapters(connection)
            path = sql.SQL(", ").join([sql.Identifier(self.schema), sql.Identifier(extension)]).as_string(connection)
            settings = {**self._settings, "search_path": path}
            with connection.pipeline():
                # The settings of pgvector exist once its library is loaded, which the use of a type does.
                connection.execute("SELECT set_config('search_path', %s, false)", (path,))
                connection.execute("SELECT '[1]'::halfvec")
                connection.execute(
                    "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS s (name, value)",
                    (list(settings), list(settings.values())),
                )
        except BaseException:
            connection.close()
            raise
        connection.prepare_threshold = 0
        return connection


def _end_transaction(connection: Connection, error: BaseException | None) -> bool:
    """End a transaction that is still open, and return whether the connection can be used again.

    Nobody waits for the end of one that only read: `_is_idle` does, when the connection is taken again.
    """
    if connection.info.transaction_status != TransactionStatus.IDLE:
        try:
            if error:
                connection.execute("ROLLBACK", prepare=False)
            else:  # after a ROLLBACK psycopg deallocates all prepared statements
                connection.pgconn.send_query(b"COMMIT")
                connection.pgconn.flush()
        except psycopg.Error:
            return False
    return True


def _is_idle(connection: Connection) -> bool:
    """Wait for the end of the last transaction. False if the server was lost; the connection is closed then."""
    if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
        try:
            connection.wait(generators.fetch_many(connection.pgconn))
        except psycopg.Error:
            connection.close()
            return False
    return True
