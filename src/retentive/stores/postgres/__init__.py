"""The store on a PostgreSQL server with pgvector, shared by any number of processes and machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path

from retentive.errors import Invalid
from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Damage, Repair, SetAside, damage_sentences
from retentive.stores.postgres import memories as table
from retentive.stores.postgres import validity
from retentive.stores.postgres.address import parse_address
from retentive.stores.postgres.bm25_extension import Bm25Preselector
from retentive.stores.postgres.catalogue import CatalogueTables, find_homes, place, positions
from retentive.stores.postgres.connections import Connections, Reader, execute_on
from retentive.stores.postgres.maintenance import Maintenance, find_problems
from retentive.stores.postgres.memories import VectorTables
from retentive.stores.postgres.migrations import migrate
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.repair import find_damage, repair
from retentive.stores.postgres.search import PostgresSearch
from retentive.stores.postgres.search_statements import SQL
from retentive.stores.postgres.search_stats import read_search_stats
from retentive.stores.postgres.side_tables import JudgementTable, KeyValueTable, find_request, record_request
from retentive.stores.rules import check_version, is_within, merge_fields, parse_cursor, stays_in_session
from retentive.stores.sql_codec import KIND_NUMBERS, to_micros
from retentive.stores.validity import check_no_ring
from retentive.stores.values import (
    Backup,
    Compaction,
    Duplicates,
    IdempotencyKey,
    Page,
    Progress,
    Record,
    ScanPage,
    SearchRequest,
    SearchResult,
    Vector,
    no_progress,
)
from retentive.text.terms import LAST, index_terms

REMOVE_BATCH = 1000
"""How many memories of a scope are deleted in one transaction."""

VACUUMED = ("memories", "vectors", "judgements", "counts", "count_changes", "kept", "requests", "writes")
VACUUM_NOTE = (
    "PostgreSQL reuses the space of deleted rows and returns it only from the end of a table; "
    "VACUUM FULL returns all of it, and locks the tables meanwhile"
)
"""What VACUUM does not do."""


class PostgresStore(CatalogueTables, KeyValueTable, JudgementTable, VectorTables):
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

    def close(self) -> None:
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

        return self._connections.read(work, primary=True)

    def search(self, request: SearchRequest) -> SearchResult:
        with closing(Reader(self._connections)) as reader:
            search = PostgresSearch(reader, request, preselector=self._preselector, maintenance=self._maintenance)
            result = search.run()
        self._model = result.model
        return result

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        return dict(self._connections.fetch(SQL("vectors"), {"ids": list(ids)}))

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> list[str]:
        parameters = {"profile": profile, "prefix": prefix, "end": prefix + LAST, "limit": limit}
        return [term for (term,) in self._connections.fetch(SQL("terms_with_prefix"), parameters)]

    def add(
        self,
        records: Sequence[Record],
        *,
        model: Model | None,
        idempotency_key: IdempotencyKey | None = None,
        exact: bool = False,
        duplicates: Duplicates | None = None,
    ) -> list[Memory]:
        if not records:
            return []
        table.check_vectors([record.vectors for record in records], model)
        # Computing the terms is the slowest part and needs no lock.
        terms = [index_terms(record.memory.indexed_text) for record in records]

        def work(connection: Connection) -> tuple[list[Memory], list[int]]:
            written = find_request(connection, idempotency_key)
            if written is not None:
                return table.by_ids(connection, written), []
            given = [record.memory for record in records]
            repeated: list[str | None] = [None] * len(records)
            if duplicates is not None:
                table.lock_texts(connection, given)
                homes = find_homes(connection, given, exact=exact)
                repeated = table.repeated_ids(connection, given, homes, duplicates)
            new = [at for at, one in enumerate(repeated) if one is None]
            keys = insert(connection, [records[at] for at in new], [terms[at] for at in new]) if new else []
            table.count_repeats(connection, repeated)
            ids = [one or memory.id for one, memory in zip(repeated, given, strict=True)]
            record_request(connection, idempotency_key, ids)
            return table.by_ids(connection, ids), keys

        def insert(connection: Connection, records: Sequence[Record], terms: Sequence[list[str]]) -> list[int]:
            memories = [record.memory for record in records]
            table.refuse_existing(connection, [memory.id for memory in memories])
            placed = place(connection, memories, exact=exact)
            keyed = any(memory.key is not None for memory in memories)
            settled = validity.settle(connection, memories, placed) if keyed else memories
            entries = list(zip(placed, terms, strict=True))
            keys = table.insert(connection, settled, positions(connection, memories, placed), entries)
            final = [replace(record, memory=memory) for memory, record in zip(settled, records, strict=True)]
            table.add_vectors(connection, zip(keys, placed, final, strict=True), model)
            return keys

        stored, keys = self._connections.write(work)
        self._maintenance.after_add(keys, embedded=model is not None)
        return stored

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        return self._connections.read(lambda connection: table.by_ids(connection, ids, within=within))

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        fields: Collection[str] | None = None,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        expected = record.memory
        table.check_vectors([record.vectors], model)
        terms = index_terms(expected.indexed_text)

        def work(connection: Connection) -> Memory:
            key, current, before = table.lock(connection, expected.id, within=within)
            if find_request(connection, idempotency_key) is not None:
                return current
            check_version(current, if_version)
            memory = merge_fields(current, record, fields)
            check_no_ring(current, memory, validity.ReplacedBy(connection))
            # Another field of it may have been changed meanwhile.
            as_expected = memory.indexed_text == expected.indexed_text
            ids = replace(before[0], kind=KIND_NUMBERS[memory.kind])
            if not stays_in_session(memory, current):
                [ids] = place(connection, [memory])
            after = (ids, terms if as_expected else index_terms(memory.indexed_text))
            memory = validity.settle_updated(connection, current, memory, ids, fields)
            table.replace(connection, key, memory, before, after)
            if memory.indexed_text == current.indexed_text:
                table.move_vectors(connection, key, ids)
            else:
                table.remove_vectors(connection, [key])
                table.add_vectors(connection, [(key, ids, record)] if as_expected else [], model)
            if validity.is_dated(memory) or validity.is_dated(current):
                validity.date_vectors(connection, [memory.id])
            record_request(connection, idempotency_key, [memory.id])
            return table.by_keys(connection, [key])[0]

        return self._connections.write(work)

    def remove(
        self,
        ids: Sequence[str],
        *,
        within: Scope | None = None,
        if_version: str | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> list[str]:
        def work(connection: Connection) -> list[str]:
            removed = find_request(connection, idempotency_key)
            if removed is None:
                removed = table.remove(connection, ids, within=within, if_version=if_version)
                if removed:
                    record_request(connection, idempotency_key, removed)
            return removed

        return self._connections.write(work)

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

    def remove_expired(self, before: datetime, *, limit: int = 1000, profile: str | None = None) -> list[str]:
        def work(connection: Connection) -> list[str]:
            ids = validity.expired_ids(connection, before, limit=limit, profile=profile)
            return table.remove(connection, ids, within=None) if ids else []

        return self._connections.write(work)

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
        return self._connections.write(repair)

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
