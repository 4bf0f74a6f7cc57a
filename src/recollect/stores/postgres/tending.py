"""What is done for a store's speed beside its use: the index for the nearest, adding up counts, sweeping out."""

from __future__ import annotations

import logging
import threading

from psycopg import sql

from recollect.errors import RecollectError
from recollect.stores.postgres import counts
from recollect.stores.postgres.connections import Connections
from recollect.stores.postgres.pools import Connection
from recollect.stores.postgres.vector_index import EXACT

log = logging.getLogger(__name__)

QUIET_SECONDS = 5.0
"""So long after the last write the index is made: keeping it up while much is stored would take most of the time."""

_LARGE = """
    SELECT m.id, m.dimension FROM models AS m
    WHERE NOT m.retired AND to_regclass('vectors_near_' || m.id::text) IS NULL
      AND (SELECT count(*) FROM (SELECT 1 FROM vectors AS v WHERE v.model = m.id LIMIT %s) AS a_few) > %s
"""

_BROKEN = """
    SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND c.relname LIKE 'vectors\\_near\\_%%'
      AND (NOT i.indisvalid OR c.relname NOT IN (SELECT 'vectors_near_' || id::text FROM models WHERE NOT retired))
"""


class Tending:
    """Tends a store when it has been quiet for a while, on a thread of its own that ends with the store."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._guard = threading.Lock()
        self._timer: threading.Timer | None = None
        self._closed = False

    def soon(self) -> None:
        """Tend the store once nothing has been stored for some seconds."""
        with self._guard:
            if self._closed:
                return
            if self._timer is not None:
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
            tend(self._connections)
        except RecollectError as error:
            if not self._closed:
                log.warning("the index of vectors was not made: %s", error)


def tend(connections: Connections) -> bool:
    """Do now what there is to do; False if somebody else is at it. Nobody who reads or writes waits for it."""
    with connections.upkeep() as connection:
        lock = "hashtextextended('recollect.tend.' || current_schema(), 0)"
        [(ours,)] = connection.execute(f"SELECT pg_try_advisory_lock({lock})".encode()).fetchall()
        if not ours:
            return False
        try:
            counts.fold(connection)
            _sweep(connection)
            _index(connection)
        finally:
            if not connection.closed:
                connection.execute(f"SELECT pg_advisory_unlock({lock})".encode())
    return True


def _sweep(connection: Connection) -> None:
    """Take out what a broken-off build and retired models have left."""
    for (name,) in connection.execute(_BROKEN).fetchall():
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
        connection.execute(
            sql.SQL(
                "CREATE INDEX CONCURRENTLY {name} ON vectors "
                "USING hnsw ((embedding::halfvec({dimension})) halfvec_ip_ops) WHERE model = {model}"
            ).format(
                name=sql.Identifier(f"vectors_near_{model}"), dimension=sql.Literal(dimension), model=sql.Literal(model)
            )
        )
        connection.execute("ANALYZE memories")
        connection.execute("ANALYZE vectors")
