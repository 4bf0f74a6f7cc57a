"""A server's own BM25 where it has one, pg_textsearch: it chooses which memories are looked at; ours scores them."""

from __future__ import annotations

import logging
import re
import threading
from contextlib import suppress

import psycopg
from psycopg import errors

from retentive.stores.at_once import Both
from retentive.stores.postgres import hybrid_query
from retentive.stores.postgres.error_mapping import is_lost, is_undone
from retentive.stores.postgres.hybrid_query import PreparedSearch
from retentive.stores.postgres.pools import Connection
from retentive.stores.postgres.search_stats import Extension
from retentive.text.analysis import K1, B

log = logging.getLogger(__name__)

LARGE = 10_000
"""Up to so many memories the GIN index alone is as fast."""

LEAST = (1, 5)
"""Some before it failed on replicas, or refused a memory of a megabyte of different words."""

INDEX = "memories_by_bm25"

_DUE = f"""
    SELECT extversion FROM pg_extension
    WHERE extname = 'pg_textsearch' AND to_regclass('{INDEX}') IS NULL
      AND (SELECT count(*) FROM (SELECT 1 FROM memories LIMIT %s) AS a_few) > %s
"""  # noqa: S608 - a name of our own

# Its parser cuts some of our terms in pieces, on both sides alike.
MAKE = f"""
    CREATE INDEX CONCURRENTLY {INDEX} ON memories USING bm25 (terms) WITH (text_config = 'simple', k1 = {K1}, b = {B})
"""


class Bm25Preselector:
    """The extension as one process uses it: until it fails the first time, and not at all if it is not wanted."""

    def __init__(self, *, wanted: bool) -> None:
        self._guard = threading.Lock()
        self._usable = wanted

    def lacks_index(self, ground: PreparedSearch) -> bool:
        """Whether the extension could choose for this query if it had its index."""
        extension = self._extension(ground)
        return extension is not None and extension.index is None

    def search_both(self, connection: Connection, ground: PreparedSearch) -> Both:
        """What both searches find, by way of the extension where it can help; without it if that fails."""
        extension = self._extension(ground)
        if extension is None or extension.index is None:
            return hybrid_query.search_both(connection, ground)
        try:
            return hybrid_query.search_both(connection, ground, extension)
        except psycopg.Error as error:
            if is_undone(error) or isinstance(error, errors.QueryCanceled):
                raise
            if is_lost(error):
                # Perhaps it has brought the server down. It shall not do so again when this is tried again.
                self._give_up(error)
                raise
            found = hybrid_query.search_both(connection, ground)  # should this fail too, it was not the extension
            self._give_up(error)
            return found

    def make_index(self, connection: Connection) -> None:
        """Make the extension's index if it is due, while others read and write."""
        if not self._usable:
            return
        for (version,) in connection.execute(_DUE, (LARGE + 1, LARGE)).fetchall():
            if _numbers(version) < LEAST:
                self._give_up(f"version {version} is older than {'.'.join(map(str, LEAST))}")
                return
            log.info("making the index of pg_textsearch")
            try:
                connection.execute(MAKE.encode(), prepare=False)
            except psycopg.Error as error:
                self._give_up(error)
                if is_lost(error):
                    raise
                with suppress(psycopg.Error):  # what is left of it is swept out the next time at the latest
                    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}".encode(), prepare=False)

    def _extension(self, ground: PreparedSearch) -> Extension | None:
        """The extension if it is worth asking: a scope that leaves nothing out of a large store, in words it knows."""
        reach, terms = ground.footing.reach, ground.footing.everywhere
        if not self._usable or not terms or reach is None or reach.query is not None or reach.memories <= LARGE:
            return None
        # Its parser drops what has neither letter nor digit: an emoji would not be found.
        return ground.footing.extension if all(any(map(str.isalnum, term)) for term in terms) else None

    def _give_up(self, why: object) -> None:
        with self._guard:
            first, self._usable = self._usable, False
        if first:
            said = (str(why).strip() or type(why).__name__).splitlines()[0]
            log.warning("pg_textsearch is left alone from now on, searches go by the GIN index: %.300s", said)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))
