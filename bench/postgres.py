"""Retentive on PostgreSQL, compared with SQLite and with one plain SQL statement on the same database."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg

from bench.corpus import Corpus
from bench.figures import Row, Table, Target
from bench.plain_sql import EF_SEARCH, PlainSql
from bench.progress import Progress
from bench.retentive_peer import BATCH, FilledStore, RetentivePeer
from bench.timing import Spread
from retentive.models import Model
from retentive.stores.base import Store

if TYPE_CHECKING:
    from bench.run import SearchResults
    from retentive.stores.postgres import PostgresStore

SERVER_VARIABLE = "RETENTIVE_BENCH_PG"
OURS = "Retentive on PostgreSQL, default"
CLASSIC = "Retentive on PostgreSQL, classic-rrf"
IN_SCOPE, WHOLE = 2.0, 1.0
"""Limits of the time of a recall, relative to SQLite in a scope and to the plain statement in the whole store."""

_SETTINGS = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "effective_cache_size": "4GB",
    "work_mem": "32MB",
    "maintenance_work_mem": "1GB",
    "max_wal_size": "4GB",
    "random_page_cost": "1.1",
    "jit": "off",
}
"""Settings of the server that is started here: those of a small server, with full durability."""


class OnPostgres:
    """A database with the corpus twice: as a Retentive store, and as a plain table."""

    def __init__(self, address: str, corpus: Corpus, model: Model, progress: Progress) -> None:
        self._address = address
        self.ours = FilledStore(address, corpus, model, progress, name="Retentive on PostgreSQL")
        with progress.task("Retentive on PostgreSQL: build the vector index"):
            self.index_seconds = _build_index(self.ours.store)
        self.plain = PlainSql(address, corpus, progress)
        with progress.task("PostgreSQL: vacuum, as autovacuum would"), self._connect() as connection:
            connection.execute("VACUUM (ANALYZE)")
        engine, store, rows = self.ours.engine, self.ours.store, self.ours.rows
        self.peer = RetentivePeer(engine, store, rows, name=OURS)
        self.classic = RetentivePeer(engine, store, rows, tuning="classic-rrf", name=CLASSIC)
        self._size = len(corpus.texts)

    @contextmanager
    def _connect(self) -> Iterator[psycopg.Connection]:
        with psycopg.connect(self._address, autocommit=True) as connection:
            yield connection

    def server(self) -> str:
        """Return the versions and settings that the server reports."""
        with self._connect() as connection:
            values = {name: connection.execute(f"SHOW {name}").fetchone() for name in ("server_version", *_SETTINGS)}
            vector = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        settings = ", ".join(f"{name} {row[0]}" for name, row in values.items() if row and name != "server_version")
        version = values["server_version"]
        return f"PostgreSQL {version and version[0]}, pgvector {vector and vector[0]}; {settings}"

    def disk(self) -> tuple[float, float]:
        """Return the MiB of Retentive's tables, and of the plain one."""
        with self._connect() as connection:
            whole = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert whole is not None
        plain = self.plain.bytes()
        return (int(whole[0]) - plain) / 2**20, plain / 2**20

    def tables(self, stages: Mapping[str, tuple[Spread, Spread]]) -> list[Table]:
        """Return the tables of stages, writing and disk."""
        rows = [Row(name, (one.p50, one.p95, all.p50, all.p95)) for name, (one, all) in stages.items()]
        columns = ("scope p50, ms", "scope p95, ms", "whole p50, ms", "whole p95, ms")
        ours, plain = self.disk()
        stored, indexed = self.ours.seconds, self.ours.seconds + self.index_seconds
        loaded = (
            Row(f"Retentive, {BATCH:,} at a time, searchable", (self._size / stored, stored, None)),
            Row("Retentive, with the index of vectors", (self._size / indexed, indexed, ours)),
            Row(
                "plain table by COPY, indexed afterwards", (self._size / self.plain.seconds, self.plain.seconds, plain)
            ),
        )
        note = f"{self.server()}. The plain statement has hnsw.ef_search {EF_SEARCH}, iterative_scan relaxed_order."
        return [
            Table("Stages of a recall on PostgreSQL", columns, tuple(rows), "The vectors of the queries are given."),
            Table("Remembering on PostgreSQL", ("memories/s", "s", "disk, MiB"), loaded, note),
        ]

    def close(self) -> None:
        """Close the connections."""
        self.plain.close()
        self.ours.close()


def _build_index(store: Store) -> float:
    """Return the seconds to build the vector index, which the store does by itself after a while without writes."""
    started = perf_counter()
    while not cast("PostgresStore", store).run_maintenance():
        sleep(0.1)  # it has started by itself
    return perf_counter() - started


def targets(scoped: SearchResults, whole: SearchResults, *, sqlite: str, plain: str) -> list[Target]:
    """Return the targets of a recall on PostgreSQL."""
    found = [
        Target(
            "PostgreSQL, p50 in scope / that of SQLite",
            scoped.times[OURS].p50 / scoped.times[sqlite].p50,
            "≤",
            IN_SCOPE,
            "×",
        )
    ]
    # The default ranks by more than the statement does (neighbours, sessions, the score of each retriever for the
    # candidates of the other); with the classic preset both do the same work.
    for name, peer in (("", OURS), (", classic-rrf", CLASSIC)):
        figure = whole.times[peer].p50 / whole.times[plain].p50
        found.append(Target(f"PostgreSQL{name}, p50 in whole store / that of {plain}", figure, "≤", WHOLE, "×"))
    return found


@contextmanager
def database(name: str) -> Iterator[str]:
    """Yield the address of an empty database, on the configured server or on one that is started here."""
    named = os.environ.get(SERVER_VARIABLE)
    if named:
        yield from _database_at(named, name)
        return
    from tests.stores.postgres_server import Server

    server = Server(settings="\n".join(f"{setting} = {value}" for setting, value in _SETTINGS.items()))
    try:
        yield from _database_at(server.address(), name)
    finally:
        server.close()


def _database_at(root: str, name: str) -> Iterator[str]:
    with psycopg.connect(root, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}"')
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield urlunsplit(urlsplit(root)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(root, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
