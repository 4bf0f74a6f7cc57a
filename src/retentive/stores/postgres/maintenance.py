"""What is done for a store's speed beside its use: indexes that are made late, adding up counts, sweeping out."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from psycopg import sql

from retentive.errors import RetentiveError
from retentive.stores.postgres import counts
from retentive.stores.postgres.bm25_extension import INDEX, Bm25Preselector
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.pools import Connection
from retentive.stores.postgres.vector_index import EXACT

log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""So long after the last write the index is made: keeping it up while much is stored would take most of the time."""

PATIENCE = 60.0
"""Where somebody writes without a pause, it is made after this many seconds all the same."""

_LARGE = """
    SELECT m.id, m.dimension FROM models AS m
    WHERE NOT m.retired AND to_regclass('vectors_near_' || m.id::text) IS NULL
      AND (SELECT count(*) FROM (SELECT 1 FROM vectors AS v WHERE v.model = m.id LIMIT %s) AS a_few) > %s
"""

_BROKEN = """
    SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND (
      c.relname LIKE 'vectors\\_near\\_%%'
        AND (NOT i.indisvalid OR c.relname NOT IN (SELECT 'vectors_near_' || id::text FROM models WHERE NOT retired))
      OR c.relname = %s AND NOT i.indisvalid
    )
"""

# Building is many times slower once it no longer fits; more than 2 GB are not taken, nor less than is set.
_ENOUGH_MEMORY = """
    SELECT set_config('maintenance_work_mem', kilobytes::text, false) FROM (
      SELECT least(2000000, count(*) * %(bytes)s / 1000)::bigint AS kilobytes FROM vectors WHERE model = %(model)s
    ) AS needed
    WHERE kilobytes > (SELECT setting::bigint FROM pg_settings WHERE name = 'maintenance_work_mem')
"""


class Tending:
    """Tends a store when it has been quiet for a while, on a thread of its own that ends with the store."""

    def __init__(self, connections: Connections, chooser: Bm25Preselector) -> None:
        self._connections = connections
        self._chooser = chooser
        self._guard = threading.Lock()
        self._timer: threading.Timer | None = None
        self._since = 0.0
        self._closed = False

    def soon(self, *, quietly: bool = True) -> None:
        """Tend the store in some seconds; `quietly` counts them anew, but not for ever."""
        with self._guard:
            if self._closed or (self._timer is not None and not (quietly and monotonic() < self._since + PATIENCE)):
                return
            if self._timer is None:
                self._since = monotonic()
            else:
                self._timer.cancel()
            self._timer = threading.Timer(QUIET_SECONDS, self._try)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Tend no more."""
        with self._guard:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()

    def _try(self) -> None:
        try:
            tend(self._connections, self._chooser)
        except RetentiveError as error:
            if not self._closed:
                log.warning("the index of vectors was not made: %s", error)
                return  # and is not tried again by this process: the timer stays
        with self._guard:
            self._timer = None


def tend(connections: Connections, chooser: Bm25Preselector) -> bool:
    """Do now what there is to do; False if somebody else is at it. Nobody who reads or writes waits for it."""
    with connections.upkeep() as connection:
        lock = "hashtextextended('retentive.tend.' || current_schema(), 0)"
        [(ours,)] = connection.execute(f"SELECT pg_try_advisory_lock({lock})".encode()).fetchall()
        if not ours:
            return False
        try:
            counts.fold(connection)
            counts.sweep(connection)
            _sweep(connection)
            _index(connection)
            chooser.make_index(connection)
        finally:
            if not connection.closed:
                connection.execute(f"SELECT pg_advisory_unlock({lock})".encode())
    return True


def _sweep(connection: Connection) -> None:
    """Take out what a broken-off build and retired models have left."""
    for (name,) in connection.execute(_BROKEN, (INDEX,)).fetchall():
        connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))
    sweep_retired(connection)


def sweep_retired(connection: Connection) -> None:
    """Take out the vectors of retired models, some at a time."""
    while connection.execute(
        "DELETE FROM vectors WHERE ctid = ANY (ARRAY("
        "SELECT v.ctid FROM vectors AS v JOIN models AS m ON m.id = v.model WHERE m.retired LIMIT 5000))"
    ).rowcount:
        pass


def _index(connection: Connection) -> None:
    for model, dimension in connection.execute(_LARGE, (EXACT + 1, EXACT)).fetchall():
        log.info("making the index of vectors of model %s", model)
        connection.execute(_ENOUGH_MEMORY, {"model": model, "bytes": 3 * dimension + 600}, prepare=False)
        connection.execute(
            sql.SQL(
                "CREATE INDEX CONCURRENTLY {name} ON vectors "
                "USING hnsw ((embedding::halfvec({dimension})) halfvec_ip_ops) WHERE model = {model}"
            ).format(
                name=sql.Identifier(f"vectors_near_{model}"), dimension=sql.Literal(dimension), model=sql.Literal(model)
            )
        )
        connection.execute("RESET maintenance_work_mem", prepare=False)
        connection.execute("ANALYZE memories", prepare=False)
        connection.execute("ANALYZE vectors", prepare=False)
