"""`SqliteStore`: the store in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import apsw

from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Damage, Repair, SetAside
from retentive.stores.external_index import ExternalIndex, NoIndex, Outbox
from retentive.stores.rules import is_within, no_store, parse_cursor
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
from retentive.stores.sqlite.connections import WAIT_SECONDS, Connections, migrate
from retentive.stores.sqlite.listing import list_page, scan_page
from retentive.stores.sqlite.memory_table import Postings, resolve
from retentive.stores.sqlite.outbox import SqliteOutbox
from retentive.stores.sqlite.row_changes import keyword_entries, remove_rows
from retentive.stores.sqlite.search import SqliteSearch, StoreState, read_state, terms_with_prefix
from retentive.stores.sqlite.space import compact, tidy
from retentive.stores.sqlite.transaction import SqliteTransaction
from retentive.stores.sqlite.vector_index import VectorIndex
from retentive.stores.values import (
    Backup,
    Compaction,
    Day,
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
from retentive.stores.writes import Transaction, Writes

T = TypeVar("T")


class SqliteStore(Writes[int, ScopeIds]):
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
        self.index: ExternalIndex = NoIndex()

    def use_index(self, open_index: Callable[[Outbox], ExternalIndex]) -> None:
        if not self._connections.read_only:  # the index could not be kept up to date
            self.index = open_index(SqliteOutbox(self._connections))

    def close(self) -> None:
        self.index.close()
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
            search = SqliteSearch(
                connection, request.query, self._vector_index, self._dated_keys, self._postings, self.index
            )
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

    def _transaction(self, work: Callable[[Transaction[int, ScopeIds]], T]) -> T:
        with self._write() as connection:
            transaction = SqliteTransaction(connection)
            result = work(transaction)
        if transaction.removed:
            tidy(self._connections)
        elif transaction.replaced:  # the old text must not remain in the log
            self._connections.truncate_log()
        return result

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._connections.read() as connection:
            # The scope first: a memory outside it takes as long as one that does not exist.
            keys = memory_table.keys_within(connection, ids, within)
            found = memory_table.by_keys(connection, keys.values())
        return [found[keys[id]] for id in ids if id in keys and keys[id] in found]

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> list[str]:
        with self._connections.read() as connection:
            return memory_table.ids_with_prefix(connection, prefix, within, limit)

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
            found = [*integrity.permission_problems(self.path), *integrity.problems(connection)]
        return [*found, *self.index.problems()]

    def damaged(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Damage]:
        found: list[Damage] = []
        with self._connections.read() as connection:
            memory_table.by_keys(connection, memory_table.keys_within(connection, ids, within).values(), found)
        return found

    def repair(self, *, at: datetime) -> Repair:
        with self._write() as connection:
            done = repair.repair(connection, at=at)
        self._connections.truncate_log()
        self.index.mend()
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
