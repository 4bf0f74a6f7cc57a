"""`SqliteStore`: the store in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path

import apsw

from retentive.errors import NotFound
from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Damage, Repair, SetAside, damaged_error
from retentive.stores.rules import check_version, check_versions, is_within, merge_fields, no_store, parse_cursor
from retentive.stores.sql_codec import ScopeIds, to_micros
from retentive.stores.sqlite import (
    catalogue,
    integrity,
    memory_table,
    repair,
    side_tables,
    validity,
    vector_blocks,
)
from retentive.stores.sqlite.batches import FIRST_BATCH, batches
from retentive.stores.sqlite.block_reclaim import reclaim
from retentive.stores.sqlite.connections import WAIT_SECONDS, Connections, migrate
from retentive.stores.sqlite.listing import list_page, scan_page
from retentive.stores.sqlite.memory_table import Postings, resolve
from retentive.stores.sqlite.row_changes import (
    check_new,
    count_repeats,
    insert_rows,
    keyword_entries,
    remove_rows,
    repeated_ids,
    replace_row,
    updated_scope,
)
from retentive.stores.sqlite.search import SqliteSearch, StoreState, read_state, terms_with_prefix
from retentive.stores.sqlite.space import compact, tidy
from retentive.stores.sqlite.vector_index import VectorIndex
from retentive.stores.validity import check_no_ring
from retentive.stores.values import (
    Backup,
    Compaction,
    Day,
    Duplicates,
    IdempotencyKey,
    Judgement,
    Page,
    Profile,
    Progress,
    Project,
    Record,
    ScanPage,
    SearchRequest,
    SearchResult,
    Session,
    Stats,
    Vector,
    no_progress,
)
from retentive.text.terms import index_terms


class SqliteStore:
    """Everything in one file. See `retentive.stores.base.Store` for what each method does."""

    def __init__(
        self, path: str | os.PathLike[str], *, busy_seconds: float = WAIT_SECONDS, create: bool = True
    ) -> None:
        self.path = str(path)
        if not create and not Path(self.path).exists():
            raise no_store(self.path)
        self._connections = Connections(self.path, wait_seconds=busy_seconds)
        try:
            migrate(self._connections)
        except BaseException:
            self._connections.close()
            raise
        self._index: VectorIndex | None = None
        self._dated: validity.DatedKeys | None = None
        self._postings = Postings()

    def close(self) -> None:
        self._connections.close()

    def in_place(self) -> bool:
        """Whether the file was not deleted, moved or replaced since it was opened."""
        return self._connections.in_place()

    @contextmanager
    def _write(self, *, durable: bool = True) -> Iterator[apsw.Connection]:
        """A write transaction that readers notice by the store's sequence number."""
        with self._connections.write(durable=durable) as connection:
            vector_blocks.raise_sequence(connection)
            yield connection

    # Search

    def search(self, request: SearchRequest) -> SearchResult:
        with self._connections.snapshot() as connection:
            search = SqliteSearch(connection, request.query, self._vector_index, self._dated_keys, self._postings)
            return search.run(request)

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        with self._connections.snapshot() as connection:
            state, keys = read_state(connection), memory_table.keys_of(connection, ids)
            index = self._vector_index(state)
            vectors: Mapping[int, Vector] = {}
            if index is not None:
                vectors = index.in_snapshot(connection, state.sequence).first_vectors(connection, [*keys.values()])
        return {id: vectors[keys[id]] for id in ids if id in keys and keys[id] in vectors}

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> list[str]:
        with self._connections.read() as connection:
            return terms_with_prefix(connection, profile, prefix, limit)

    def _dated_keys(self, connection: apsw.Connection, state: StoreState) -> validity.DatedKeys:
        """The memories with an end or a given start in this snapshot, read again after they have changed."""
        known = self._dated
        if known is None or known.dated != state.dated:
            known = validity.read_dated(connection, state.dated)
            if self._dated is None or self._dated.dated < known.dated:
                self._dated = known
        return known

    def _vector_index(self, state: StoreState) -> VectorIndex | None:
        """The index of the active model; created anew when the model or most of it has changed."""
        if state.model_id is None or state.model is None:
            return None
        index = self._index
        if index is None or index.model != state.model_id or index.is_sparse:
            index = self._index = VectorIndex(state.model_id, state.model.dimension)
        return index

    # Memories

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
        # Extracting terms is the slowest part and needs no lock.
        terms = [index_terms(record.memory.indexed_text) for record in records]
        ids = [record.memory.id for record in records]
        with self._write() as connection:
            written = side_tables.written_before(connection, idempotency_key) if idempotency_key else None
            if written is None:
                repeated: list[str | None] = [None] * len(records)
                if duplicates is not None:
                    repeated = repeated_ids(connection, [one.memory for one in records], duplicates, exact=exact)
                    ids = [one or id for one, id in zip(repeated, ids, strict=True)]
                new = [at for at, one in enumerate(repeated) if one is None]
                if new:
                    self._insert(connection, [records[at] for at in new], [terms[at] for at in new], model, exact=exact)
                count_repeats(connection, repeated)
                if idempotency_key:
                    side_tables.record_write(connection, idempotency_key, ids)
            ids = ids if written is None else written
            found = memory_table.by_ids(connection, ids)
        return [found[id][1] for id in ids if id in found]

    def _insert(
        self,
        connection: apsw.Connection,
        records: Sequence[Record],
        terms: Sequence[list[str]],
        model: Model | None,
        *,
        exact: bool,
    ) -> None:
        check_new(connection, [record.memory.id for record in records])
        keys, scopes = insert_rows(connection, [record.memory for record in records], terms, exact=exact)
        self._add_vectors(connection, list(zip(keys, scopes, records, strict=True)), model)

    def _add_vectors(
        self, connection: apsw.Connection, entries: Sequence[tuple[int, ScopeIds, Record]], model: Model | None
    ) -> None:
        if model is not None and any(record.vectors is not None for _, _, record in entries):
            id = vector_blocks.register(connection, model)
            full = vector_blocks.add_vectors(connection, entries, model=id, dimension=model.dimension)
            if full:  # much of a block may have been forgotten while it was filled
                reclaim(connection, full)

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._connections.read() as connection:
            # The scope first: a memory outside it takes as long as one that does not exist.
            keys = memory_table.keys_within(connection, ids, within)
            found = memory_table.by_keys(connection, keys.values())
        return [found[keys[id]] for id in ids if id in keys and keys[id] in found]

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> list[str]:
        with self._connections.read() as connection:
            return memory_table.ids_with_prefix(connection, prefix, within, limit)

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
        id = record.memory.id
        terms = index_terms(record.memory.indexed_text)
        with self._write() as connection:
            key = memory_table.keys_within(connection, [id], within).get(id, 0)
            damaged: list[Damage] = []
            current = memory_table.by_keys(connection, [key], damaged).get(key)
            if current is None:
                raise damaged_error(damaged[0]) if damaged else NotFound(f"there is no memory {id}")
            if idempotency_key and side_tables.written_before(connection, idempotency_key) is not None:
                return current
            check_version(current, if_version)
            memory = merge_fields(current, record, fields)
            check_no_ring(current, memory, partial(validity.replaced_by, connection))
            if memory.indexed_text != record.memory.indexed_text:  # another field of it was changed meanwhile
                terms = index_terms(memory.indexed_text)
            scope = updated_scope(connection, key, memory, current)
            memory = validity.settle_updated(connection, current, memory, scope, fields)
            replace_row(connection, key, memory, scope, terms)
            same_text = memory.indexed_text == current.indexed_text
            if same_text:
                vector_blocks.move_vectors(connection, {key: scope})
            else:
                emptied = vector_blocks.remove_vectors(connection, [key])
                reclaim(connection, emptied + vector_blocks.remove_turns(connection, [key]))
                if memory.indexed_text == record.memory.indexed_text:
                    self._add_vectors(connection, [(key, scope, record)], model)
            if idempotency_key:
                side_tables.record_write(connection, idempotency_key, [id])
            updated = memory_table.by_keys(connection, [key])[key]
        if not same_text:  # the old text must not remain in the log
            self._connections.truncate_log()
        return updated

    def remove(
        self,
        ids: Sequence[str],
        *,
        within: Scope | None = None,
        if_version: str | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> list[str]:
        with self._write() as connection:
            written = side_tables.written_before(connection, idempotency_key) if idempotency_key else None
            if written is not None:
                return written
            found = memory_table.keys_within(connection, ids, within)
            if if_version is not None:
                check_versions(found, memory_table.by_keys(connection, found.values()).values(), if_version)
            removed = [*found, *repair.forget_set_aside(connection, ids, within)]
            if idempotency_key and removed:
                side_tables.record_write(connection, idempotency_key, removed)
            remove_rows(connection, sorted(found.values()))
        tidy(self._connections)
        return removed

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        with self._connections.read() as connection:
            resolved = resolve(connection, scope)
            keys = [] if resolved is None else memory_table.list_keys(connection, resolved)
        if resolved is None:
            return 0
        count = 0
        for batch in batches(keys):
            with self._write() as connection:
                there = memory_table.list_keys(connection, resolved, among=batch)  # others may have moved some
                remove_rows(connection, there)
            count += len(there)
            progress(len(batch))
        with self._write() as connection:
            repair.forget_set_aside_scope(connection, resolved)
        tidy(self._connections)
        return count

    def superseded(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._connections.read() as connection:
            found = memory_table.by_keys(connection, validity.superseded_keys(connection, ids))
        return [memory for memory in found.values() if is_within(memory, within)]

    def replacements(self) -> dict[str, str]:
        with self._connections.read() as connection:
            return validity.replacements(connection)

    def remove_expired(self, before: datetime, *, limit: int = 1000, profile: str | None = None) -> list[str]:
        with self._write() as connection:
            keys = validity.expired_keys(connection, to_micros(before) or 0, limit=limit, profile=profile)
            ids = [memory_table.id_of(connection, key) for key in keys]
            remove_rows(connection, keys)
        if keys:
            tidy(self._connections)
        return ids

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        if self._connections.read_only:
            return
        with self._write(durable=False) as connection:
            connection.executemany(
                "UPDATE memories SET access_count = access_count + 1, accessed = max(coalesce(accessed, 0), ?) "
                "WHERE id = ?",
                [(to_micros(at), id) for id in memory_table.storable_ids(ids)],
            )

    def stats(self) -> Stats:
        with self._connections.read() as connection:
            return catalogue.stats(connection, vector_blocks.active_model(connection), size=self._connections.size())

    # Catalogue

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._connections.read() as connection:
            return catalogue.sessions(connection, profile, project)

    def projects(self, profile: str) -> list[Project]:
        with self._connections.read() as connection:
            return catalogue.projects(connection, profile)

    def move_session(
        self,
        profile: str,
        session: str,
        *,
        project: str | None,
        from_project: str | None = None,
        progress: Progress = no_progress,
    ) -> Session:
        with self._write() as connection:
            move = catalogue.begin_move(connection, profile, session, from_project, project)
            catalogue.move_memories(connection, move, move.keys[:FIRST_BATCH])
        progress(len(move.keys[:FIRST_BATCH]))
        for batch in batches(move.keys[FIRST_BATCH:]):
            with self._write() as connection:
                catalogue.move_memories(connection, move, batch)
            progress(len(batch))
        with self._connections.read() as connection:
            return catalogue.sessions(connection, profile, id=move.session)[0]

    def drop_session(self, profile: str, session: str, *, project: str | None) -> bool:
        with self._write() as connection:
            return catalogue.drop_session(connection, profile, session, project)

    def profiles(self) -> list[Profile]:
        with self._connections.read() as connection:
            return catalogue.profiles(connection)

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        with self._connections.read() as connection:
            return catalogue.days(connection, profile, project)

    # Key-value entries

    def get_value(self, name: str) -> str | None:
        with self._connections.read() as connection:
            value: str | None = connection.execute("SELECT value FROM kept WHERE name = ?", (name,)).get
            return value

    def list_values(self, prefix: str) -> dict[str, str]:
        with self._connections.read() as connection:
            return side_tables.list_values(connection, prefix)

    def compare_and_set(
        self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None
    ) -> bool:
        with self._write() as connection:
            return side_tables.compare_and_set(connection, changes, expected or {})

    # Models of the vectors

    def model(self) -> Model | None:
        with self._connections.read() as connection:
            return vector_blocks.active_model(connection)

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        with self._connections.read() as connection:
            keys = vector_blocks.unembedded_keys(connection, model, limit=limit)
            return list(memory_table.by_keys(connection, keys).values())

    def count_unembedded(self, model: Model) -> int:
        with self._connections.read() as connection:
            return len(vector_blocks.unembedded_keys(connection, model))

    def attach(self, records: Sequence[Record], *, model: Model) -> int:
        with self._write() as connection:
            found = memory_table.by_ids(connection, [record.memory.id for record in records])
            unchanged = {
                found[record.memory.id][0]: record
                for record in records
                if record.memory.id in found and found[record.memory.id][1].indexed_text == record.memory.indexed_text
            }
            if not unchanged:
                return 0
            number = vector_blocks.register(connection, model)
            embedded = {
                key
                for key, slots in vector_blocks.slots_of(connection, unchanged).items()
                if any(slot >> vector_blocks.MODEL_SHIFT == number for slot in slots)
            }
            turns = vector_blocks.previous_turns(connection, embedded, number)
            again = [key for key in embedded if unchanged[key].previous not in (None, turns.get(key))]
            vector_blocks.remove_vectors(connection, again, model=number)
            embedded.difference_update(again)
            # Another process may have embedded a memory meanwhile; then its vectors stay.
            missing = [
                (key, scope, unchanged[key])
                for key, _, scope in keyword_entries(connection, unchanged)
                if key not in embedded
            ]
            vector_blocks.add_vectors(connection, missing, model=number, dimension=model.dimension)
            return len(missing)

    def previous(self, memories: Sequence[Memory]) -> list[Memory | None]:
        return self._turns(memories, memory_table.turn_before)

    def following(self, memories: Sequence[Memory]) -> list[Memory | None]:
        return self._turns(memories, memory_table.turn_after)

    def _turns(self, memories: Sequence[Memory], find: Callable[[apsw.Connection, Memory], int]) -> list[Memory | None]:
        if all(memory.session is None for memory in memories):
            return [None] * len(memories)
        with self._connections.read() as connection:
            keys = [find(connection, memory) for memory in memories]
            found = memory_table.by_keys(connection, [key for key in keys if key])
        return [found.get(key) for key in keys]

    def remove_stale_vectors(self) -> int:
        with self._connections.read() as connection:
            if not vector_blocks.stale_keys(connection):
                return 0  # reading every text takes long, and meanwhile nobody else could write
        with self._write() as connection:
            stale = vector_blocks.stale_keys(connection)
            vector_blocks.remove_vectors(connection, stale)
            return len(stale)

    def switch_model(self, model: Model, *, without: Collection[str] = ()) -> bool:
        with self._write() as connection:
            keys = memory_table.keys_of(connection, list(without)).values()
            return vector_blocks.switch(connection, model, without=frozenset(keys))

    # Relevance judgements

    def judge(self, judgements: Sequence[Judgement]) -> None:
        with self._write() as connection:
            side_tables.add_judgements(connection, judgements)

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        with self._connections.read() as connection:
            return side_tables.list_judgements(connection, profile, project)

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        with self._write() as connection:
            return side_tables.remove_judgements(connection, judgements)

    # Scan and check

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        damaged: list[Damage] = []
        # A cursor of an earlier version was an id, and the order another one: then the scan starts again.
        after = int(cursor) if cursor and cursor.isdecimal() else 0
        with self._connections.read() as connection:
            keys, last = scan_page(connection, after=after, limit=limit)
            found = memory_table.by_keys(connection, keys, damaged)
            active: int | None = connection.execute("SELECT active_model FROM state").get
            vectors = vector_blocks.stored_vectors(connection, found, active) if active else {}
            turns = vector_blocks.previous_turns(connection, found, active) if active else {}
        records = [Record(found[key], vectors.get(key), turns.get(key)) for key in keys if key in found]
        return ScanPage(records, None if last is None else str(last), damaged)

    def check(self) -> list[str]:
        with self._connections.read() as connection:
            return [*integrity.permission_problems(self.path), *integrity.problems(connection)]

    def damaged(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Damage]:
        found: list[Damage] = []
        with self._connections.read() as connection:
            memory_table.by_keys(connection, memory_table.keys_within(connection, ids, within).values(), found)
        return found

    def repair(self, *, at: datetime) -> Repair:
        with self._write() as connection:
            done = repair.repair(connection, at=at)
        self._connections.truncate_log()
        return done

    def compact(self, *, progress: Progress = no_progress) -> Compaction:
        return compact(self._connections, progress)

    def backup(
        self, folder: Path | None = None, *, at: datetime, keep: int | None = None, progress: Progress = no_progress
    ) -> Backup:
        from retentive.stores.sqlite.backup import backup

        return backup(self._connections, folder, keep=keep, at=at, progress=progress)

    def set_aside(self) -> list[SetAside]:
        with self._connections.read() as connection:
            return repair.list_set_aside(connection)

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
        start, damaged = parse_cursor(cursor), list[Damage]()
        with self._connections.read() as connection:
            resolved = resolve(connection, scope)
            if resolved is None:
                return Page(())
            keys, following = list_page(
                connection,
                resolved,
                cursor=start,
                limit=limit,
                current_at=current_at,
                started_by=started_by,
                rules=rules,
            )
            found = memory_table.by_keys(connection, keys, damaged)
        return Page(tuple(found[key] for key in keys if key in found), following, tuple(damaged))
