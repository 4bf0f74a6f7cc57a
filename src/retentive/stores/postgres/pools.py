"""Connections that are kept open, each of them one thread's own while it is used."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from retentive.errors import Unavailable
from retentive.stores.postgres.error_mapping import is_lost
from retentive.stores.postgres.type_adapters import adapt

Connection = psycopg.Connection[Any]

# What libpq is told unless the address says otherwise: a dead network is noticed within seconds, not hours.
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
    """At most so many connections to one server. The last one given back is the first to be taken again."""

    def __init__(self, server: str, schema: str, *, size: int, settings: Mapping[str, str]) -> None:
        parts = {**_DEFAULTS, **{name: str(value) for name, value in conninfo_to_dict(server).items()}}
        if "," in parts.get("host", ""):
            parts.setdefault("target_session_attrs", "read-write")  # of several servers, the one that is not a standby
        self._conninfo = make_conninfo("", **parts)
        self._schema = schema
        self._settings = {**_SETTINGS, **settings}
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[Connection] = []
        self._used: set[Connection] = set()
        self._guard = threading.Lock()
        self._closed = False

    @contextmanager
    def connection(self, deadline: float) -> Iterator[Connection]:
        """A connection for one thread; one that was lost is not given to anybody again."""
        self._check_open()
        if not self._free.acquire(timeout=max(deadline - monotonic(), 0.001)):
            raise Unavailable("all connections to the server are in use; try again, or allow more (readers=, writers=)")
        try:
            with self._guard:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect()
            with self._guard:
                self._used.add(connection)
            try:
                yield connection
            except psycopg.Error as error:
                if is_lost(error):
                    self._give_up(connection)
                raise
            finally:
                self._take_back(connection)
        finally:
            self._free.release()

    @contextmanager
    def plain(self) -> Iterator[Connection]:
        """A connection that knows nothing of our schema."""
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            yield connection

    def _connect(self) -> Connection:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            # Types of the extension are found wherever it was installed. Its library is loaded by using one of them;
            # its settings are known only from then on.
            found = connection.execute(
                "SELECT n.nspname FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace "
                "WHERE e.extname = 'vector'"
            ).fetchone()
            extension = found[0] if found else "public"
            path = sql.SQL(", ").join([sql.Identifier(self._schema), sql.Identifier(extension)])
            settings = {"search_path": path.as_string(connection), **self._settings}
            connection.execute("SELECT set_config('search_path', %s, false)", (settings["search_path"],))
            connection.execute("SELECT '[1]'::halfvec")
            connection.execute(
                "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS s (name, value)",
                (list(settings), list(settings.values())),
            )
            adapt(connection)
        except BaseException:
            connection.close()
            raise
        connection.prepare_threshold = 0
        return connection

    def _give_up(self, connection: Connection) -> None:
        """Close this one and all that are idle: what happened to it has happened to them."""
        with self._guard:
            idle, self._idle = self._idle, []
        for lost in (*idle, connection):
            lost.close()

    def _take_back(self, connection: Connection) -> None:
        with self._guard:
            self._used.discard(connection)
            usable = not connection.closed and not connection.broken and not self._closed
            if usable and connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close what is idle, and break off what is under way; it is closed when it comes back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
            used = list(self._used)
        for connection in idle:
            connection.close()
        for connection in used:
            with suppress(psycopg.Error):
                connection.cancel_safe(timeout=1)

    def _check_open(self) -> None:
        if self._closed:
            raise Unavailable("the store is closed; open it again")
