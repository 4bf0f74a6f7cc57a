"""Preselection of keyword candidates by the BM25 extension pg_textsearch, where the server has it.

It selects which memories are scored. Our own BM25 scores them, so that a memory has the same score without it.
"""

from __future__ import annotations

import logging
import re
import threading
from contextlib import suppress

import psycopg

from retentive.stores.postgres.error_mapping import first_line, is_lost
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import Bm25Extension, SearchStats
from retentive.text.bm25 import K1, B

log = logging.getLogger(__name__)

MIN_MEMORIES = 10_000
"""In stores of up to this many memories the GIN index alone is as fast."""

MIN_VERSION = (1, 5)
"""Earlier versions failed on replicas, or refused a memory with a megabyte of different words."""

INDEX = "memories_by_bm25"

_VERSION_WITHOUT_INDEX = f"""
    SELECT extversion FROM pg_extension
    WHERE extname = 'pg_textsearch' AND to_regclass('{INDEX}') IS NULL
      AND (SELECT count(*) FROM (SELECT 1 FROM memories LIMIT %s) AS limited) > %s
"""  # noqa: S608 - a name of our own

# The extension's parser splits some of our terms, in queries as in memories.
CREATE_INDEX = f"""
    CREATE INDEX CONCURRENTLY {INDEX} ON memories USING bm25 (terms) WITH (text_config = 'simple', k1 = {K1}, b = {B})
"""


class Bm25Preselector:
    """Whether this process uses the extension: until it fails once, and not at all if it is turned off."""

    def __init__(self, *, enabled: bool) -> None:
        self._guard = threading.Lock()
        self._enabled = enabled

    def applicable(self, stats: SearchStats) -> Bm25Extension | None:
        """Return the extension if it can help: in a large store, for all of it, with terms that it can parse."""
        scope, terms = stats.scope, stats.frequencies
        if not self._enabled or not terms or scope is None or scope.query is not None or scope.memories <= MIN_MEMORIES:
            return None
        # Its parser drops terms that have neither a letter nor a digit, such as emoji.
        return stats.extension if all(any(map(str.isalnum, term)) for term in terms) else None

    def create_index(self, connection: Connection) -> None:
        """Create the extension's index if it is missing and the store is large; readers and writers do not wait."""
        if not self._enabled:
            return
        for (version,) in connection.execute(_VERSION_WITHOUT_INDEX, (MIN_MEMORIES + 1, MIN_MEMORIES)).fetchall():
            if tuple(map(int, re.findall(r"\d+", version)[:2])) < MIN_VERSION:
                self.disable(f"version {version} is older than {'.'.join(map(str, MIN_VERSION))}")
                return
            log.info("creating the index of pg_textsearch")
            try:
                connection.execute(CREATE_INDEX.encode(), prepare=False)
            except psycopg.Error as error:
                self.disable(error)
                if is_lost(error):
                    raise
                with suppress(psycopg.Error):  # otherwise the next maintenance drops it
                    connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {INDEX}".encode(), prepare=False)

    def disable(self, reason: object) -> None:
        """Do not use the extension in this process any more."""
        with self._guard:
            was_enabled, self._enabled = self._enabled, False
        if was_enabled:
            log.warning(
                "pg_textsearch is not used any more, searches use the GIN index alone: %.300s", first_line(reason)
            )
