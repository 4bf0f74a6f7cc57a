"""The store on a PostgreSQL server with pgvector, shared by any number of processes and machines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar, cast

from retentive.errors import RetentiveError
from retentive.models import Day, Judgement, Key, Memory, Model, Page, Profile, Project, Scope, Session, Stats
from retentive.stores import Found, IdempotencyKey, Record, ScanPage, Vector
from retentive.stores.at_once import Asked, Both, Seen
from retentive.stores.postgres import (
    catalogue,
    counts,
    hybrid_query,
    idempotency,
    integrity,
    judgement_table,
    key_value,
    maintenance,
    memory_table,
    models,
    names,
    vector_index,
)
from retentive.stores.postgres.address import parse_address
from retentive.stores.postgres.bm25_extension import Bm25Preselector
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.hybrid_query import PreparedSearch
from retentive.stores.postgres.migrations import migrate
from retentive.stores.postgres.pools import Connection
from retentive.stores.postgres.rows import by_ids, by_keys
from retentive.stores.postgres.search_stats import read_search_stats
from retentive.stores.sql_codec import ScopeIds, to_micros
from retentive.text.analysis import index_terms

log = logging.getLogger(__name__)

T = TypeVar("T")

_GROUNDS = 256

_FOLDED_EVERY = 256
"""After so many writes of whatever kind a process folds counts."""


class PostgresStore:
    """Everything in one schema of a database. See `retentive.stores.Store` for what each method promises."""

    def __init__(self, address: str, *, busy_seconds: float = 60) -> None:
        self._connections = Connections(parse_address(address), wait_seconds=busy_seconds)
        self._chooser = Bm25Preselector(wanted=self._connections.address.bm25)
        self._tending = maintenance.Tending(self._connections, self._chooser)
        try:
            migrate(self._connections)
        except BaseException:
            self._connections.close()
            raise
        self._model: Model | None = None
        self._writes = 0
        self._grounds: dict[tuple[str | None, Scope], PreparedSearch] = {}

    def close(self) -> None:
        self._tending.close()
        self._connections.close()

    def tend(self) -> bool:
        """Make indexes now that are due, and add up counts; False if somebody else is at it."""
        return maintenance.tend(self._connections, self._chooser)

    def _write(self, work: Callable[[Connection], T], *, durable: bool = True) -> T:
        """What a piece of writing gives; now and then, what it leaves behind is added up."""
        outcome = self._connections.write(work, durable=durable)
        self._writes += 1
        if self._writes % _FOLDED_EVERY == 0:
            self._fold()
        return outcome

    def _fold(self) -> None:
        """Add up counts. It is worth a try and never worth an error."""
        try:
            with self._connections.upkeep() as connection:
                counts.fold(connection)
        except RetentiveError as error:
            log.warning("counts were not added up: %s", error)

    # Keeping

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        if not records:
            return []
        memories = [record.memory for record in records]
        vector_index.check_vectors([record.vectors for record in records], model)
        # Terms are the slowest part and need no lock.
        terms = [index_terms(memory.indexed_text) for memory in memories]

        def work(connection: Connection) -> tuple[list[Memory], list[int]]:
            ids = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
            if ids is not None:
                return by_ids(connection, ids), []
            memory_table.refuse_known(connection, [memory.id for memory in memories])
            placed = names.place(connection, memories)
            positions = names.positions(connection, memories, placed)
            keys = memory_table.new_keys(connection, len(memories))
            memory_table.insert(connection, keys, memories, placed, positions, terms)
            counts.note(connection, come=zip(placed, terms, strict=True))
            vectors = [record.vectors for record in records]
            self._add_vectors(connection, zip(keys, placed, vectors, strict=True), model)
            if idempotency_key:
                idempotency.note(connection, idempotency_key, [memory.id for memory in memories])
            return list(by_keys(connection, keys).values()), keys

        stored, keys = self._write(work)
        self._look_after(keys, embedded=model is not None)
        return stored

    def _add_vectors(
        self, connection: Connection, entries: Iterable[tuple[int, ScopeIds, Vector | None]], model: Model | None
    ) -> None:
        embedded = [(key, numbers, rows) for key, numbers, rows in entries if rows is not None]
        if embedded and model is not None:
            vector_index.add_vectors(connection, embedded, model=models.register(connection, model))

    def _look_after(self, keys: Sequence[int], *, embedded: bool) -> None:
        """What new memories leave to be done now and then."""
        if not keys:
            return
        if embedded and keys[-1] > vector_index.EXACT:
            self._tending.soon()
        # By keys, because many a process stores one memory and ends.
        if keys[0] // counts.FOLDED_EVERY != (keys[-1] + 1) // counts.FOLDED_EVERY:
            self._fold()

    def get(self, ids: Sequence[str]) -> list[Memory]:
        return self._read(lambda connection: by_ids(connection, ids))

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        keep_vectors: bool = False,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        memory = record.memory
        vector_index.check_vectors([record.vectors], model)
        terms = index_terms(memory.indexed_text)

        def work(connection: Connection) -> Memory:
            key, before = memory_table.locked(connection, memory.id)
            if idempotency_key and idempotency.made_before(connection, idempotency_key) is not None:
                return by_keys(connection, [key])[key]
            [numbers] = names.place(connection, [memory])
            memory_table.replace(connection, key, memory, numbers, terms)
            counts.note(connection, come=[(numbers, terms)], gone=[before])
            if keep_vectors:
                vector_index.move_vectors(connection, key, numbers)
            else:
                vector_index.remove_vectors(connection, key)
                self._add_vectors(connection, [(key, numbers, record.vectors)], model)
            if idempotency_key:
                idempotency.note(connection, idempotency_key, [memory.id])
            return by_keys(connection, [key])[key]

        return self._write(work)

    def remove(self, ids: Sequence[str], *, idempotency_key: IdempotencyKey | None = None) -> int:
        def work(connection: Connection) -> int:
            earlier = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
            if earlier is not None:
                return len(earlier)
            there = memory_table.keys_by_id(connection, list(dict.fromkeys(ids)))
            if idempotency_key and there:
                idempotency.note(connection, idempotency_key, list(there))
            return memory_table.remove(connection, there.values())

        return self._write(work)

    def remove_scope(self, scope: Scope) -> int:
        def work(connection: Connection) -> int:
            reach = read_search_stats(connection, scope).reach
            return 0 if reach is None else memory_table.remove(connection, memory_table.list_keys(connection, reach))

        return self._write(work)

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        micros = to_micros(at) or 0
        if ids:
            self._write(lambda connection: memory_table.touch(connection, ids, micros), durable=False)

    def stats(self) -> Stats:
        return self._read(catalogue.stats)

    # Searching

    def search_both(self, asked: Asked) -> Both:
        """Both searches of a recall in one request, after one that finds out what they stand on."""

        def work(connection: Connection) -> Both:
            ground = self._ground(connection, asked)
            known, self._model = self._model, ground.footing.serving.model if ground.footing.serving else None
            if known is not None and self._model is not None and known != self._model:
                # Somebody has just changed over to another model: the query's vector is still the old one's.
                ground = ground._replace(asked=asked._replace(vector=None))
            if ground.lacks_index or self._chooser.lacks_index(ground):
                self._tending.soon(quietly=False)
            return self._chooser.search_both(connection, ground)

        return self._connections.read(work)

    def look(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        """These memories, scored by what the recall that asks for them stood on."""

        def work(connection: Connection) -> Seen:
            known = self._grounds.get((asked.query, asked.scope))
            ground = self._ground(connection, asked) if known is None else known._replace(asked=asked)
            return hybrid_query.look(connection, ground, cast("Sequence[int]", keys))

        return self._connections.read(work)

    def _ground(self, connection: Connection, asked: Asked) -> PreparedSearch:
        footing = read_search_stats(connection, asked.scope, asked.query)
        ground = PreparedSearch(asked, footing, footing.scorer() if asked.query is not None else None)
        if len(self._grounds) >= _GROUNDS:
            self._grounds.clear()
        self._grounds[asked.query, asked.scope] = ground
        return ground

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        return list(self.search_both(Asked(query, None, scope, limit, limit, exclude, common)).words)

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        asked = Asked(None, vector, scope, limit, limit, exclude)
        return list(self._read(lambda one: hybrid_query.search_both(one, self._ground(one, asked))).vectors)

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        return self._read(lambda one: cast("Mapping[Key, Memory]", by_keys(one, cast("Sequence[int]", keys))))

    def keys(self, ids: Sequence[str]) -> Mapping[str, Key]:
        return self._read(lambda connection: dict(memory_table.keys_by_id(connection, ids)))

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        return self._scores(Asked(query, None, scope, 1, 1), keys).by_words

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        return self._scores(Asked(None, vector, Scope(), 1, 1), keys).by_vector

    def _scores(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        if not keys:
            return Seen()
        return self._read(lambda one: hybrid_query.look(one, self._ground(one, asked), cast("Sequence[int]", keys)))

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        found = self._read(lambda one: memory_table.neighbours(one, cast("Sequence[int]", keys)))
        return cast("Mapping[Key, tuple[Key | None, Key | None]]", found)

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        stored = self._read(lambda one: vector_index.stored_vectors(one, cast("Sequence[int]", keys)))
        return {key: rows[0] for key, rows in stored.items()}

    # Cataloguing

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        return self._read(lambda connection: catalogue.sessions(connection, profile, project))

    def projects(self, profile: str) -> list[Project]:
        return self._read(lambda connection: catalogue.projects(connection, profile))

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        return self._write(lambda one: catalogue.move_session(one, profile, session, project))

    def profiles(self) -> list[Profile]:
        return self._read(catalogue.profiles)

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        return self._read(lambda connection: catalogue.days(connection, profile, project))

    # Noting

    def get_value(self, name: str) -> str | None:
        return self._here(lambda connection: key_value.get_value(connection, name))

    def list_values(self, prefix: str) -> dict[str, str]:
        return self._here(lambda connection: key_value.list_values(connection, prefix))

    def keep(self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None) -> bool:
        return self._write(lambda connection: key_value.keep(connection, changes, expected or {}))

    # Modelling

    def model(self) -> Model | None:
        """The model whose vectors are searched. Every search asks which it is, so here the last answer will do."""
        if self._model is None:
            self._model = self._here(models.active_model)
        return self._model

    def unembedded(self, model: Model, *, limit: int) -> Mapping[Key, Memory]:
        def work(connection: Connection) -> Mapping[Key, Memory]:
            keys = models.unembedded_keys(connection, model, limit=limit)
            return cast("Mapping[Key, Memory]", by_keys(connection, keys))

        return self._here(work)

    def count_unembedded(self, model: Model) -> int:
        return self._here(lambda connection: models.count_unembedded(connection, model))

    def attach(self, vectors: Mapping[Key, Vector], *, model: Model) -> None:
        vector_index.check_vectors(vectors.values(), model)

        def work(connection: Connection) -> None:
            number = models.number_of(connection, model)
            # Gone meanwhile, or embedded by another process meanwhile: nothing to attach.
            new = models.without_vector(connection, cast("Iterable[int]", vectors), number)
            self._add_vectors(connection, [(key, ScopeIds(*at), vectors[key]) for key, at in new.items()], model)

        if vectors:
            self._write(work)

    def switch_model(self, model: Model) -> bool:
        if self._here(lambda connection: models.unembedded_keys(connection, model, limit=1)):
            return False
        self.tend()  # the new model's index is there before it serves
        switched = self._write(lambda connection: models.switch(connection, model))
        if switched:
            self._model = model
            with self._connections.upkeep() as connection:
                maintenance.sweep_retired(connection)
        return switched

    # Judging

    def judge(self, judgements: Sequence[Judgement]) -> None:
        self._write(lambda connection: judgement_table.add(connection, judgements))

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        return self._read(lambda connection: judgement_table.listed(connection, profile, project))

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        return self._write(lambda connection: judgement_table.remove(connection, judgements))

    # Walking

    def walk(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        def work(connection: Connection) -> list[Record]:
            keys = memory_table.walk_keys(connection, cursor=cursor, limit=limit + 1)
            found = by_keys(connection, keys)
            vectors = vector_index.stored_vectors(connection, keys)
            return [Record(found[key], vectors.get(key)) for key in keys if key in found]

        records = self._read(work)
        return ScanPage(records[:limit], records[limit - 1].memory.id if len(records) > limit else None)

    def check(self) -> list[str]:
        return self._here(integrity.problems)

    def _read(self, work: Callable[[Connection], T]) -> T:
        return self._connections.read(work)

    def _here(self, work: Callable[[Connection], T]) -> T:
        """What must not be behind: settings, tokens, and what a write depends on."""
        return self._connections.read(work, here=True)

    # Defined last: behind it, `list` is no longer the type.
    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        def work(connection: Connection) -> Page:
            reach = read_search_stats(connection, scope).reach
            if reach is None:
                return Page(())
            keys = memory_table.list_keys(connection, reach, cursor=cursor, limit=limit + 1)
            memories = tuple(by_keys(connection, keys).values())
            return Page(memories[:limit], memories[limit - 1].id if len(memories) > limit else None)

        return self._read(work)
