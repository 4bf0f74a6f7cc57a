"""Maintenance in the background: late indexes, compaction of counts, deletion of what is unused; integrity checks."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from time import monotonic

from psycopg import sql

from retentive.errors import RetentiveError
from retentive.models import counted, hash_text, indexed_text
from retentive.stores.postgres.bm25_extension import INDEX, Bm25Preselector
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import CountName, count_names
from retentive.stores.postgres.sql import Statements
from retentive.stores.rules import stale_vectors
from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds

log = logging.getLogger(__name__)

EXACT_STORE_LIMIT = 5_000
"""Stores of up to this many memories are searched exactly. A model with more vectors gets an HNSW index."""

EXACT_SCOPE_LIMIT = 10_000
"""Scopes of up to this many memories of a larger store are searched exactly: few vectors of the index are in them."""

COMPACT_EVERY_KEYS = 1024
"""The writer of every memory whose key is a multiple of this compacts the counts: many processes write only one."""

COMPACT_EVERY_WRITES = 256
"""Each process compacts the counts after this many writes, whatever they write."""

QUIET_SECONDS = 5.0
"""Maintenance starts this long after the last write: updating an index during many writes takes most of their time."""

MAX_DELAY = 60.0
"""Maintenance starts after this many seconds although writes go on."""

_SQL = Statements("maintenance")

_PROBLEMS = {
    "memories_without_container": (
        "memory is in a profile, project or session that does not exist",
        "memories are in a profile, project or session that does not exist",
    ),
    "vectors_without_memory": ("vector belongs to no memory", "vectors belong to no memory"),
    "vectors_in_other_scope": (
        "vector is in another scope than its memory",
        "vectors are in another scope than their memory",
    ),
    "vectors_of_other_dimension": (
        "vector does not have the dimension of its model",
        "vectors do not have the dimension of their model",
    ),
    "memories_without_terms": ("memory lacks some of its terms", "memories lack some of their terms"),
}


class Maintenance:
    """Maintains a store on a timer thread of its own, once nothing has been written for a while."""

    def __init__(self, connections: Connections, preselector: Bm25Preselector) -> None:
        self._connections = connections
        self._preselector = preselector
        self.creates_hnsw = True  # an index on another server takes its place
        self._guard = threading.Lock()
        self._timer: threading.Timer | None = None
        self._first_scheduled = 0.0
        self._writes = 0
        self._closed = False

    def schedule(self, *, postpone: bool = False) -> None:
        """Run maintenance in some seconds. If it is scheduled already, `postpone` restarts the delay, up to a limit."""
        with self._guard:
            may_restart = postpone and monotonic() < self._first_scheduled + MAX_DELAY
            if self._closed or (self._timer is not None and not may_restart):
                return
            if self._timer is None:
                self._first_scheduled = monotonic()
            else:
                self._timer.cancel()
            self._timer = threading.Timer(QUIET_SECONDS, self._run_on_timer)
            self._timer.daemon = True
            self._timer.start()

    def close(self) -> None:
        """Cancel scheduled maintenance."""
        with self._guard:
            self._closed = True
            if self._timer is not None:
                self._timer.cancel()

    def after_write(self) -> None:
        """Compact the counts after every `COMPACT_EVERY_WRITES` calls."""
        self._writes += 1
        if self._writes % COMPACT_EVERY_WRITES == 0:
            self._compact()

    def after_add(self, keys: Sequence[int], *, embedded: bool) -> None:
        """Schedule or do what new memories with these keys make necessary."""
        if keys and embedded and keys[-1] > EXACT_STORE_LIMIT:
            self.schedule(postpone=True)
        if keys and keys[0] // COMPACT_EVERY_KEYS != (keys[-1] + 1) // COMPACT_EVERY_KEYS:
            self._compact()

    def run(self) -> bool:
        """Do all maintenance now; return False if another process is doing it. Readers and writers do not wait."""
        with self._connections.maintenance() as connection:
            [(acquired,)] = connection.execute(_SQL("try_lock")).fetchall()
            if not acquired:
                return False
            try:
                compact(connection)
                connection.execute("DELETE FROM counts WHERE memories = 0 AND length = 0")
                for (name,) in connection.execute(_SQL("unusable_indexes"), (INDEX,)).fetchall():
                    connection.execute(sql.SQL("DROP INDEX CONCURRENTLY IF EXISTS {}").format(sql.Identifier(name)))
                _delete_retired_vectors(connection)
                if self.creates_hnsw:
                    _create_hnsw_indexes(connection)
                self._preselector.create_index(connection)
            finally:
                if not connection.closed:
                    connection.execute(_SQL("unlock"))
        return True

    def delete_retired_vectors(self) -> None:
        """Delete the vectors of models that are no longer used."""
        with self._connections.maintenance() as connection:
            _delete_retired_vectors(connection)

    def _compact(self) -> None:
        try:
            with self._connections.maintenance() as connection:
                compact(connection)
        except RetentiveError as error:  # the write before it has succeeded
            log.warning("counts were not compacted: %s", error)

    def _run_on_timer(self) -> None:
        try:
            self.run()
        except RetentiveError as error:
            if not self._closed:
                log.warning("maintenance failed, this process does not try again: %s", error)
                return  # a timer that stays set prevents another one
        with self._guard:
            self._timer = None


def compact(connection: Connection) -> None:
    """Add all changes to the counts, so that searches read fewer rows; do nothing if another process is doing it."""
    with connection.transaction():
        [(acquired,)] = connection.execute(_SQL("try_lock_counts")).fetchall()
        if acquired:
            connection.execute(_SQL("compact"))
            connection.execute("DELETE FROM writes WHERE made < now() - interval '1 hour'")


def _delete_retired_vectors(connection: Connection) -> None:
    while connection.execute(_SQL("delete_retired_vectors")).rowcount:
        pass


def _create_hnsw_indexes(connection: Connection) -> None:
    for model, dimension in connection.execute(_SQL("models_without_index"), {"limit": EXACT_STORE_LIMIT}).fetchall():
        log.info("creating the HNSW index of model %s", model)
        connection.execute(_SQL("raise_memory"), {"model": model, "bytes": 3 * dimension + 600}, prepare=False)
        connection.execute(
            _SQL("create_hnsw_index", name=f"vectors_near_{int(model)}", dimension=int(dimension), model=int(model))
        )
        connection.execute("RESET maintenance_work_mem", prepare=False)
        connection.execute("ANALYZE memories", prepare=False)
        connection.execute("ANALYZE vectors", prepare=False)


def find_problems(connection: Connection) -> list[str]:
    """Return a sentence for each disagreement of memories, terms, counts and vectors, and for each unusable index."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")  # one snapshot for all checks
    try:
        problems = []
        for name, sentence in _PROBLEMS.items():
            [(count,)] = connection.execute(_SQL(name)).fetchall()
            if count:
                problems.append(counted(count, *sentence))
        invalid = [name for (name,) in connection.execute(_SQL("invalid_indexes"))]
        problems += [f"the index {name} is not complete; REINDEX it, or wait for a large write" for name in invalid]
        if not _counts_agree(connection):
            problems.append("the counts of terms and memories differ from the memories")
        return [*problems, *stale_vectors(len(stale_keys(connection)))]
    finally:
        connection.execute("ROLLBACK")


def _counts_agree(connection: Connection) -> bool:
    """Whether the stored counts are those of the memories, counted again."""
    expected: Counter[CountName] = Counter()
    lengths: Counter[CountName] = Counter()
    with connection.cursor("every_memory", binary=True) as cursor:
        cursor.itersize = 5000
        for *scope, terms in cursor.execute(_SQL("every_memory")):
            ids, document = ScopeIds(*scope), terms.split()
            expected.update(count_names(ids, document))
            lengths[ids.profile, "="] += len(document) + SCOPE_TOKENS
    stored = connection.execute(_SQL("stored_counts"), binary=True).fetchall()
    return {(profile, name): memories for profile, name, memories, _ in stored} == expected and {
        (profile, name): length for profile, name, _, length in stored if length
    } == lengths


def stale_keys(connection: Connection) -> list[int]:
    """Return the keys of memories with a vector that was made of another text. It runs in a transaction."""
    stale: dict[int, None] = {}
    with connection.cursor("text_hashes", binary=True) as cursor:
        cursor.itersize = 1000
        for key, text_hash, text, speaker in cursor.execute(_SQL("text_hashes")):
            if hash_text(indexed_text(text, speaker)) != text_hash.hex():
                stale[key] = None
    return list(stale)
