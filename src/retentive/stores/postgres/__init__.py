"""The store on a PostgreSQL server with pgvector, shared by any number of processes and machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from retentive.errors import Invalid
from retentive.models import Memory, Scope
from retentive.stores.damage import Damage, Repair, SetAside, damage_sentences
from retentive.stores.external_index import ExternalIndex, NoIndex, Outbox
from retentive.stores.postgres import memories as table
from retentive.stores.postgres import validity
from retentive.stores.postgres.address import parse_address
from retentive.stores.postgres.bm25_extension import Bm25Preselector
from retentive.stores.postgres.catalogue import CatalogueTables
from retentive.stores.postgres.connections import Connections, Reader, execute_on
from retentive.stores.postgres.maintenance import Maintenance, find_problems
from retentive.stores.postgres.memories import VectorTables
from retentive.stores.postgres.migrations import migrate
from retentive.stores.postgres.outbox import PostgresOutbox
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.repair import find_damage, repair
from retentive.stores.postgres.search import PostgresSearch
from retentive.stores.postgres.search_statements import SQL
from retentive.stores.postgres.search_stats import read_search_stats
from retentive.stores.postgres.side_tables import JudgementTable, KeyValueTable
from retentive.stores.postgres.transaction import PostgresTransaction
from retentive.stores.rules import is_within, parse_cursor
from retentive.stores.sql_codec import ScopeIds, to_micros
from retentive.stores.values import (
    Backup,
    Compaction,
    Page,
    Progress,
    Record,
    ScanPage,
    SearchRequest,
    SearchResult,
    Vector,
    no_progress,
)
from retentive.stores.writes import Transaction, Writes
from retentive.text.terms import LAST

T = TypeVar("T")

REMOVE_BATCH = 1000
"""How many memories of a scope are deleted in one transaction."""

VACUUMED = ("memories", "vectors", "judgements", "counts", "count_changes", "kept", "requests", "writes")
VACUUM_NOTE = (
    "PostgreSQL reuses the space of deleted rows and returns it only from the end of a table; "
    "VACUUM FULL returns all of it, and locks the tables meanwhile"
)
"""What VACUUM does not do."""


class PostgresStore(Writes[int, ScopeIds], CatalogueTables, KeyValueTable, JudgementTable, VectorTables):
    """A store in one schema of a database. See `retentive.stores.base.Store` for the contract of each method."""

    def __init__(self, address: str, *, busy_seconds: float = 60, create: bool = True) -> None:
        self._connections = Connections(parse_address(address), wait_seconds=busy_seconds)
        self._preselector = Bm25Preselector(enabled=self._connections.address.bm25)
        self._maintenance = Maintenance(self._connections, self._preselector)
        self._connections.after_write = self._maintenance.after_write
        try:
            migrate(self._connections, create=create)
        except BaseException:
            self._connections.close()
            raise
        self._connections.is_open = True
        self.index: ExternalIndex = NoIndex()

    def use_index(self, open_index: Callable[[Outbox], ExternalIndex]) -> None:
        self.index = open_index(PostgresOutbox(self._connections))
        self._maintenance.creates_hnsw = False

    def close(self) -> None:
        self.index.close()
        self._maintenance.close()
        self._connections.close()

    def run_maintenance(self) -> bool:
        """Create indexes that are due and compact counts now; return False if another process is doing it."""
        return self._maintenance.run()

    def check(self) -> list[str]:
        def work(connection: Connection) -> list[str]:
            damaged = find_damage(connection)
            texts = damage_sentences(damaged, unreadable_remedy="correct these rows in the database")
            return [*texts, *find_problems(connection)]

        return [*self._connections.read(work, primary=True), *self.index.problems()]

    def search(self, request: SearchRequest) -> SearchResult:
        with closing(Reader(self._connections)) as reader:
            search = PostgresSearch(
                reader, request, preselector=self._preselector, maintenance=self._maintenance, index=self.index
            )
            result = search.run()
        self._model = result.model
        return result

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        return dict(self._connections.fetch(SQL("vectors"), {"ids": list(ids)}))

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> list[str]:
        parameters = {"profile": profile, "prefix": prefix, "end": prefix + LAST, "limit": limit}
        return [term for (term,) in self._connections.fetch(SQL("terms_with_prefix"), parameters)]

    def _transaction(self, work: Callable[[Transaction[int, ScopeIds]], T]) -> T:
        def run(connection: Connection) -> tuple[T, PostgresTransaction]:
            transaction = PostgresTransaction(connection)
            return work(transaction), transaction

        result, transaction = self._connections.write(run)
        if transaction.inserted:
            self._maintenance.after_add(transaction.inserted, embedded=transaction.embedded)
        return result

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        return self._connections.read(lambda connection: table.by_ids(connection, ids, within=within))

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        def find(connection: Connection) -> list[int]:
            resolved = read_search_stats(execute_on(connection), scope).scope
            return [] if resolved is None else table.keys_in_scope(connection, resolved)

        def remove(connection: Connection, batch: list[int]) -> int:
            resolved = read_search_stats(execute_on(connection), scope).scope
            return 0 if resolved is None else table.remove_scope(connection, resolved, batch)

        keys = self._connections.read(find, primary=True)
        count = 0
        for at in range(0, len(keys), REMOVE_BATCH):
            batch = keys[at : at + REMOVE_BATCH]
            count += self._connections.write(partial(remove, batch=batch))
            progress(len(batch))
        return count

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> list[str]:
        return self._connections.read(lambda connection: table.ids_with_prefix(connection, prefix, within, limit))

    def superseded(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        found = self._connections.read(lambda connection: validity.superseded(connection, ids))
        return [memory for memory in found if is_within(memory, within)]

    def replacements(self) -> dict[str, str]:
        return self._connections.read(validity.replacements)

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        micros = to_micros(at) or 0
        if ids:
            self._connections.write(lambda connection: table.touch(connection, ids, micros), durable=False)

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        def work(connection: Connection) -> ScanPage:
            keys, following = table.scan_page(connection, cursor=cursor, limit=limit)
            damaged: list[Damage] = []
            memories = table.with_keys(connection, keys, damaged)
            vectors, turns = table.vectors_of(connection, keys), table.previous_turns(connection, keys)
            records = [Record(one, vectors.get(key), turns.get(key)) for key, one in memories.items()]
            return ScanPage(records, following, damaged)

        return self._connections.read(work)

    def damaged(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Damage]:
        def work(connection: Connection) -> list[Damage]:
            found: list[Damage] = []
            table.with_keys(connection, list(table.keys_within(connection, ids, within).values()), found)
            return found

        return self._connections.read(work)

    def repair(self, *, at: datetime) -> Repair:  # noqa: ARG002 - nothing is set aside here
        done = self._connections.write(repair)
        self.index.mend()
        return done

    def compact(self, *, progress: Progress = no_progress) -> Compaction:
        before = self.stats().bytes
        with self._connections.maintenance() as connection:
            for name in VACUUMED:
                connection.execute(f"VACUUM (ANALYZE) {name}".encode(), prepare=False)
                progress(1)
        return Compaction(before, self.stats().bytes, VACUUM_NOTE)

    def backup(
        self,
        folder: Path | None = None,  # noqa: ARG002
        *,
        at: datetime,  # noqa: ARG002
        keep: int | None = None,  # noqa: ARG002
        progress: Progress = no_progress,  # noqa: ARG002
    ) -> Backup:
        raise Invalid(
            "back up a PostgreSQL store with the server's own tools: pg_dump --format=custom --file=FILE DATABASE, "
            "and restore it with pg_restore"
        )

    def set_aside(self) -> list[SetAside]:
        return []  # the server stores no text that cannot be read

    # Defined last: after it, `list` in this class is no longer the type.
    def list(
        self,
        scope: Scope,
        *,
        cursor: str | None = None,
        limit: int = 50,
        current_at: datetime | None = None,
        started_by: datetime | None = None,
        rules: bool = False,
    ) -> Page:
        start = parse_cursor(cursor)

        def work(connection: Connection) -> Page:
            resolved = read_search_stats(execute_on(connection), scope).scope
            if resolved is None:
                return Page(())
            keys, following = table.list_page(
                connection,
                resolved,
                cursor=start,
                limit=limit,
                current_at=current_at,
                started_by=started_by,
                rules=rules,
            )
            damaged = list[Damage]()
            memories = table.with_keys(connection, keys, damaged)
            return Page(tuple(memories.values()), following, tuple(damaged))

        return self._connections.read(work)
