"""The embedded store: one SQLite file for memories, words and vectors, shared by any number of processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import cast

import apsw

from retentive.models import Day, Judgement, Key, Memory, Model, Page, Profile, Project, Scope, Session, Stats
from retentive.stores import Found, IdempotencyKey, Record, ScanPage, Vector
from retentive.stores.sql_codec import ScopeIds, to_micros
from retentive.stores.sqlite import (
    catalogue,
    idempotency,
    integrity,
    judgement_table,
    key_value,
    memory_table,
    models,
    vector_blocks,
    word_index,
)
from retentive.stores.sqlite.connections import WAIT_SECONDS, Connections
from retentive.stores.sqlite.migrations import migrate
from retentive.stores.sqlite.rows import by_ids, by_keys, storable_ids
from retentive.stores.sqlite.scopes import NameRegistry, ResolvedScope, resolve
from retentive.stores.sqlite.state import Lately, State, raise_sequence, read_state
from retentive.stores.sqlite.vector_index import VectorIndex
from retentive.text.analysis import MAX_QUERY_LENGTH, index_terms


class SqliteStore:
    """Everything in one file. See `retentive.stores.Store` for what each method promises."""

    def __init__(self, path: str | os.PathLike[str], *, busy_seconds: float = WAIT_SECONDS) -> None:
        self.path = str(path)
        self._connections = Connections(self.path, wait_seconds=busy_seconds)
        try:
            migrate(self._connections)
        except BaseException:
            self._connections.close()
            raise
        self._index: VectorIndex | None = None
        self._reaches: Lately[Scope, ResolvedScope | None] = Lately()
        self._asked: Lately[tuple[str, Scope], word_index.Terms] = Lately()

    def close(self) -> None:
        self._connections.close()

    @contextmanager
    def _write(self, *, durable: bool = True) -> Iterator[apsw.Connection]:
        """A transaction of which every reader can see that it happened."""
        with self._connections.write(durable=durable) as connection:
            raise_sequence(connection)
            yield connection

    # Keeping

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        if not records:
            return []
        # Terms are the slowest part and need no lock.
        terms = [index_terms(record.memory.indexed_text) for record in records]
        with self._write() as connection:
            ids = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
            if ids is not None:
                return by_ids(connection, ids)
            memory_table.refuse_known(connection, [record.memory.id for record in records])
            registrar = NameRegistry(connection)
            key: int = connection.execute(
                "UPDATE state SET next_key = next_key + ? RETURNING next_key - ?", (len(records), len(records))
            ).get
            stored, entries = [], []
            for at, record in enumerate(records):
                numbers = registrar.numbers(record.memory)
                position = registrar.position(record.memory, numbers.session)
                stored.append(memory_table.row(key + at, record.memory, numbers, position, terms[at]))
                entries.append((key + at, numbers, record.vectors))
            connection.executemany(memory_table.INSERT, stored)
            word_index.add_words(
                connection, [(key, terms[at], numbers) for at, (key, numbers, _) in enumerate(entries)]
            )
            self._add_vectors(connection, entries, model)
            if idempotency_key:
                idempotency.note(connection, idempotency_key, [record.memory.id for record in records])
            found = by_keys(connection, range(key, key + len(records)))
        return [found[key + at] for at in range(len(records))]

    def _add_vectors(
        self, connection: apsw.Connection, entries: Iterable[tuple[int, ScopeIds, Vector | None]], model: Model | None
    ) -> None:
        embedded = [(key, numbers, vectors) for key, numbers, vectors in entries if vectors is not None]
        if embedded and model is not None:
            number = models.register(connection, model)
            vector_blocks.add_vectors(connection, embedded, model=number, dimension=model.dimension)

    def get(self, ids: Sequence[str]) -> list[Memory]:
        with self._connections.read() as connection:
            return by_ids(connection, ids)

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        keep_vectors: bool = False,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        memory = record.memory
        terms = index_terms(memory.indexed_text)
        with self._write() as connection:
            key = memory_table.key_of(connection, memory.id)
            if idempotency_key and idempotency.made_before(connection, idempotency_key) is not None:
                return by_keys(connection, [key])[key]
            numbers = NameRegistry(connection).numbers(memory)
            word_index.remove_words(connection, catalogue.indexed(connection, [key]))
            connection.execute("DELETE FROM memories WHERE key = ?", (key,))
            position = memory.position if numbers.session else None
            connection.execute(memory_table.INSERT, memory_table.row(key, memory, numbers, position, terms))
            word_index.add_words(connection, [(key, terms, numbers)])
            if keep_vectors:
                vector_blocks.move_vectors(connection, {key: numbers})
            else:
                vector_blocks.remove_vectors(connection, [key])
                self._add_vectors(connection, [(key, numbers, record.vectors)], model)
            if idempotency_key:
                idempotency.note(connection, idempotency_key, [memory.id])
            updated = by_keys(connection, [key])[key]
        if not keep_vectors:  # its text has changed, and the old one is to be gone
            self._connections.empty_log()
        return updated

    def remove(self, ids: Sequence[str], *, idempotency_key: IdempotencyKey | None = None) -> int:
        with self._write() as connection:
            earlier = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
            if earlier is not None:
                return len(earlier)
            there = [memory.id for memory in by_ids(connection, list(dict.fromkeys(ids)))] if idempotency_key else []
            if idempotency_key and there:
                idempotency.note(connection, idempotency_key, there)
            removed = memory_table.remove(connection, sorted(memory_table.keys_of(connection, ids)))
        self._connections.empty_log()
        return removed

    def remove_scope(self, scope: Scope) -> int:
        with self._write() as connection:
            reach = resolve(connection, scope)
            if reach is None:
                return 0
            removed = memory_table.remove(connection, memory_table.list_keys(connection, reach))
        self._connections.empty_log()
        return removed

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        with self._write(durable=False) as connection:
            connection.executemany(
                "UPDATE memories SET access_count = access_count + 1, accessed = max(coalesce(accessed, 0), ?) "
                "WHERE id = ?",
                [(to_micros(at), id) for id in storable_ids(ids)],
            )

    def stats(self) -> Stats:
        with self._connections.read() as connection:
            return catalogue.stats(connection, models.active_model(connection), size=self._connections.size())

    # Searching

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        with self._connections.read() as connection:
            state = read_state(connection)
            reach = self._reach(connection, state, scope)
            if reach is None:
                return []
            terms = self._terms(connection, state, query, scope, reach, common)
            keys = memory_table.keys_of(connection, exclude)
            return word_index.search_words(connection, state, terms, reach, limit=limit, exclude=keys)

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        with self._connections.read() as connection:
            state = read_state(connection)
            reach = self._reach(connection, state, scope)
            index = self._vector_index(connection, state)
            if reach is None or index is None:
                return []
            keys = memory_table.keys_of(connection, exclude)
            return index.search(connection, vector, reach, limit=limit, exclude=keys)

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        with self._connections.read() as connection:
            return cast("Mapping[Key, Memory]", by_keys(connection, cast("Sequence[int]", keys)))

    def keys(self, ids: Sequence[str]) -> Mapping[str, Key]:
        with self._connections.read() as connection:
            return cast("Mapping[str, Key]", memory_table.keys_by_id(connection, ids))

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        with self._connections.read() as connection:
            state = read_state(connection)
            reach = self._reach(connection, state, scope)
            if reach is None:
                return dict.fromkeys(keys, 0.0)
            terms = self._terms(connection, state, query, scope, reach, None)
            scores = word_index.score_words(connection, state, terms, cast("Sequence[int]", keys))
            return cast("Mapping[Key, float]", scores)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        with self._connections.read() as connection:
            index = self._vector_index(connection, read_state(connection))
            wanted = cast("Sequence[int]", keys)
            return cast("Mapping[Key, float]", index.score(connection, vector, wanted) if index else {})

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        with self._connections.read() as connection:
            found = memory_table.neighbours(connection, cast("Sequence[int]", keys))
            return cast("Mapping[Key, tuple[Key | None, Key | None]]", found)

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        with self._connections.read() as connection:
            index = self._vector_index(connection, read_state(connection))
            wanted = cast("Sequence[int]", keys)
            return cast("Mapping[Key, Vector]", index.first_vectors(connection, wanted) if index else {})

    def _vector_index(self, connection: apsw.Connection, state: State) -> VectorIndex | None:
        """The index of the model now in use, up to date; made anew when the model has changed."""
        if state.model is None or state.dimension is None:
            return None
        index = self._index
        if index is None or index.model != state.model:
            index = self._index = VectorIndex(state.model, state.dimension)
        index.refresh(connection, state.sequence)
        return index

    def _reach(self, connection: apsw.Connection, state: State, scope: Scope) -> ResolvedScope | None:
        """The scope in numbers; both retrievers of a recall ask for the same one."""
        return self._reaches.get(scope, state.sequence, lambda: resolve(connection, scope))

    def _terms(
        self,
        connection: apsw.Connection,
        state: State,
        query: str,
        scope: Scope,
        reach: ResolvedScope,
        common: float | None,
    ) -> word_index.Terms:
        """The terms of a query; a recall asks for them when searching and, whichever searched, when scoring."""
        asked = (query[:MAX_QUERY_LENGTH], scope)
        if common is None:
            known = self._asked.peek(asked, state.sequence)
            if known is not None:
                return known
        return self._asked.put(
            asked, state.sequence, word_index.terms_of(connection, state, query, reach, common=common or 1.0)
        )

    # Cataloguing

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._connections.read() as connection:
            return catalogue.sessions(connection, profile, project)

    def projects(self, profile: str) -> list[Project]:
        with self._connections.read() as connection:
            return catalogue.projects(connection, profile)

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        with self._write() as connection:
            return catalogue.move_session(connection, profile, session, project)

    def profiles(self) -> list[Profile]:
        with self._connections.read() as connection:
            return catalogue.profiles(connection)

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        with self._connections.read() as connection:
            return catalogue.days(connection, profile, project)

    # Noting

    def get_value(self, name: str) -> str | None:
        with self._connections.read() as connection:
            return key_value.get_value(connection, name)

    def list_values(self, prefix: str) -> dict[str, str]:
        with self._connections.read() as connection:
            return key_value.list_values(connection, prefix)

    def keep(self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None) -> bool:
        with self._write() as connection:
            return key_value.keep(connection, changes, expected or {})

    # Modelling

    def model(self) -> Model | None:
        with self._connections.read() as connection:
            return models.active_model(connection)

    def unembedded(self, model: Model, *, limit: int) -> Mapping[Key, Memory]:
        with self._connections.read() as connection:
            keys = models.unembedded_keys(connection, model, limit=limit)
            return cast("Mapping[Key, Memory]", by_keys(connection, keys))

    def count_unembedded(self, model: Model) -> int:
        with self._connections.read() as connection:
            return len(models.unembedded_keys(connection, model))

    def attach(self, vectors: Mapping[Key, Vector], *, model: Model) -> None:
        with self._write() as connection:
            entries = catalogue.indexed(connection, cast("Iterable[int]", vectors))
            if not entries:
                return
            number = models.register(connection, model)
            scopes = {key: numbers for key, _, numbers in entries}
            done = {
                key
                for key, slots in vector_blocks.slots_of(connection, scopes).items()
                if any(slot >> vector_blocks.MODEL_SHIFT == number for slot in slots)
            }
            # Gone meanwhile, or embedded by another process meanwhile: nothing to attach.
            new = [(key, numbers, vectors[key]) for key, numbers in scopes.items() if key not in done]
            vector_blocks.add_vectors(connection, new, model=number, dimension=model.dimension)

    def switch_model(self, model: Model) -> bool:
        with self._write() as connection:
            return models.switch(connection, model)

    # Judging

    def judge(self, judgements: Sequence[Judgement]) -> None:
        with self._write() as connection:
            judgement_table.add(connection, judgements)

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        with self._connections.read() as connection:
            return judgement_table.listed(connection, profile, project)

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        with self._write() as connection:
            return judgement_table.remove(connection, judgements)

    # Walking

    def walk(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        with self._connections.read() as connection:
            keys = memory_table.walk_keys(connection, cursor=cursor, limit=limit + 1)
            found = by_keys(connection, keys)
            state = read_state(connection)
            vectors = vector_blocks.stored_vectors(connection, keys, state.model) if state.model else {}
        records = [Record(found[key], vectors.get(key)) for key in keys]
        return ScanPage(records[:limit], records[limit - 1].memory.id if len(records) > limit else None)

    def check(self) -> list[str]:
        with self._connections.read() as connection:
            return integrity.problems(connection)

    # Defined last: behind it, `list` is no longer the type.
    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        with self._connections.read() as connection:
            reach = resolve(connection, scope)
            if reach is None:
                return Page(())
            keys = memory_table.list_keys(connection, reach, cursor=cursor, limit=limit + 1)
            found = by_keys(connection, keys)
        memories = [found[key] for key in keys if key in found]
        return Page(tuple(memories[:limit]), memories[limit - 1].id if len(memories) > limit else None)
