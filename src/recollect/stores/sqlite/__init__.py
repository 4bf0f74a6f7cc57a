"""The embedded store: one SQLite file for memories, words and vectors, shared by any number of processes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import apsw

from recollect.errors import Conflict, NotFound
from recollect.models import Key, Memory, Model, Page, Project, Scope, Session, Stats
from recollect.stores import Found, Record, Vector
from recollect.stores.sqlite import catalogue, checks, vector_blocks, word_index
from recollect.stores.sqlite.connections import Connections
from recollect.stores.sqlite.migrations import migrate
from recollect.stores.sqlite.rows import by_keys, storable_ids, to_memory, to_micros
from recollect.stores.sqlite.scopes import Numbers, Reach, Registrar, resolve
from recollect.stores.sqlite.vector_index import VectorIndex
from recollect.words import index_terms


class SqliteStore:
    """Everything in one file. See `recollect.stores.Store` for what each method promises."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        self._connections = Connections(self.path)
        try:
            migrate(self._connections)
        except BaseException:
            self._connections.close()
            raise
        self._index: VectorIndex | None = None

    def close(self) -> None:
        self._connections.close()

    # Keeping

    def add(self, records: Sequence[Record], *, model: Model | None) -> list[Memory]:
        if not records:
            return []
        # Terms are the slowest part and need no lock.
        terms = [index_terms(record.memory.indexed_text) for record in records]
        with self._connections.write() as connection:
            _refuse_known(connection, [record.memory.id for record in records])
            registrar = Registrar(connection)
            key: int = connection.execute(
                "UPDATE state SET next_key = next_key + ? RETURNING next_key - ?", (len(records), len(records))
            ).get
            stored, entries = [], []
            for at, record in enumerate(records):
                numbers = registrar.numbers(record.memory)
                position = registrar.position(record.memory, numbers.session)
                stored.append(_row(key + at, record.memory, numbers, position, terms[at]))
                entries.append((key + at, numbers, record.vectors))
            connection.executemany(_INSERT, stored)
            word_index.add_words(
                connection, [(key, terms[at], numbers) for at, (key, numbers, _) in enumerate(entries)]
            )
            self._add_vectors(connection, entries, model)
            found = by_keys(connection, range(key, key + len(records)))
        return [found[key + at] for at in range(len(records))]

    def _add_vectors(
        self, connection: apsw.Connection, entries: Iterable[tuple[int, Numbers, Vector | None]], model: Model | None
    ) -> None:
        embedded = [(key, numbers, vectors) for key, numbers, vectors in entries if vectors is not None]
        if embedded and model is not None:
            number = vector_blocks.register_model(connection, model)
            vector_blocks.add_vectors(connection, embedded, model=number, dimension=model.dimension)

    def get(self, ids: Sequence[str]) -> list[Memory]:
        wanted = storable_ids(ids)
        if not wanted:
            return []
        with self._connections.read() as connection:
            rows = connection.execute(
                "SELECT m.* FROM memory_rows AS m WHERE m.id IN carray(?)", (apsw.carray(wanted),)
            )
            found = {row[1]: to_memory(row) for row in rows}
        return [found[id] for id in ids if id in found]

    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        with self._connections.read() as connection:
            reach = resolve(connection, scope)
            if reach is None:
                return Page(())
            keys = [key for (key,) in connection.execute(_LISTING, _listing_values(reach, cursor, limit + 1))]
            found = by_keys(connection, keys)
        memories = [found[key] for key in keys if key in found]
        return Page(tuple(memories[:limit]), memories[limit - 1].id if len(memories) > limit else None)

    def update(self, record: Record, *, model: Model | None, keep_vectors: bool = False) -> Memory:
        memory = record.memory
        terms = index_terms(memory.indexed_text)
        with self._connections.write() as connection:
            key = _key(connection, memory.id)
            numbers = Registrar(connection).numbers(memory)
            word_index.remove_words(connection, catalogue.indexed(connection, [key]))
            connection.execute("DELETE FROM memories WHERE key = ?", (key,))
            position = memory.position if numbers.session else None
            connection.execute(_INSERT, _row(key, memory, numbers, position, terms))
            word_index.add_words(connection, [(key, terms, numbers)])
            if keep_vectors:
                vector_blocks.move_vectors(connection, {key: numbers})
            else:
                vector_blocks.remove_vectors(connection, [key])
                self._add_vectors(connection, [(key, numbers, record.vectors)], model)
            return by_keys(connection, [key])[key]

    def remove(self, ids: Sequence[str]) -> int:
        with self._connections.write() as connection:
            return _remove(connection, sorted(_keys(connection, ids)))

    def remove_scope(self, scope: Scope) -> int:
        with self._connections.write() as connection:
            reach = resolve(connection, scope)
            if reach is None:
                return 0
            keys = [key for (key,) in connection.execute(_LISTING, _listing_values(reach, None, -1))]
            return _remove(connection, keys)

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        with self._connections.write() as connection:
            connection.executemany(
                "UPDATE memories SET access_count = access_count + 1, accessed = max(coalesce(accessed, 0), ?) "
                "WHERE id = ?",
                [(to_micros(at), id) for id in storable_ids(ids)],
            )

    def stats(self) -> Stats:
        with self._connections.read() as connection:
            return catalogue.stats(connection, self._active(connection), size=_size(self.path))

    # Searching

    def search_words(
        self, question: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        with self._connections.read() as connection:
            reach = resolve(connection, scope)
            if reach is None:
                return []
            keys = _keys(connection, exclude)
            return word_index.search_words(connection, question, reach, limit=limit, exclude=keys, common=common)

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        with self._connections.read() as connection:
            reach = resolve(connection, scope)
            index = self._vector_index(connection)
            if reach is None or index is None:
                return []
            return index.search(connection, vector, reach, limit=limit, exclude=_keys(connection, exclude))

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        with self._connections.read() as connection:
            return cast("Mapping[Key, Memory]", by_keys(connection, cast("Sequence[int]", keys)))

    def score_words(self, question: str, keys: Sequence[Key], *, common: float = 1.0) -> Mapping[Key, float]:
        with self._connections.read() as connection:
            wanted = cast("Sequence[int]", keys)
            scores = word_index.score_words(connection, question, wanted, common=common)
            return cast("Mapping[Key, float]", scores)

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        with self._connections.read() as connection:
            index = self._vector_index(connection)
            wanted = cast("Sequence[int]", keys)
            return cast("Mapping[Key, float]", index.score(connection, vector, wanted) if index else {})

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        with self._connections.read() as connection:
            index = self._vector_index(connection)
            wanted = cast("Sequence[int]", keys)
            return cast("Mapping[Key, Vector]", index.first_vectors(connection, wanted) if index else {})

    def _vector_index(self, connection: apsw.Connection) -> VectorIndex | None:
        """The index of the model now in use, made anew when that has changed."""
        active = connection.execute(
            "SELECT m.id, m.dimension FROM state JOIN models AS m ON m.id = state.active_model"
        ).get
        if active is None:
            return None
        index = self._index
        if index is None or index.model != active[0]:
            index = self._index = VectorIndex(*active)
        return index

    # Cataloguing

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._connections.read() as connection:
            return catalogue.sessions(connection, profile, project)

    def projects(self, profile: str) -> list[Project]:
        with self._connections.read() as connection:
            return catalogue.projects(connection, profile)

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        with self._connections.write() as connection:
            return catalogue.move_session(connection, profile, session, project)

    def kept(self, name: str) -> str | None:
        with self._connections.read() as connection:
            value: str | None = connection.execute("SELECT value FROM kept WHERE name = ?", (name,)).get
            return value

    def keep(self, name: str, value: str | None) -> None:
        with self._connections.write() as connection:
            if value is None:
                connection.execute("DELETE FROM kept WHERE name = ?", (name,))
            else:
                connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, value))

    # Modelling

    def model(self) -> Model | None:
        with self._connections.read() as connection:
            return self._active(connection)

    def _active(self, connection: apsw.Connection) -> Model | None:
        row = connection.execute(
            "SELECT m.name, m.revision, m.dimension, m.fingerprint FROM state JOIN models AS m ON m.id = active_model"
        ).get
        return None if row is None else Model(*row)

    def unembedded(self, model: Model, *, limit: int) -> Mapping[Key, Memory]:
        with self._connections.read() as connection:
            number = vector_blocks.model_number(connection, model) or 0
            keys = [key for (key,) in connection.execute(_UNEMBEDDED, (number, number + 1, limit))]
            return cast("Mapping[Key, Memory]", by_keys(connection, keys))

    def count_unembedded(self, model: Model) -> int:
        with self._connections.read() as connection:
            number = vector_blocks.model_number(connection, model) or 0
            waiting: int = connection.execute(f"SELECT count(*) FROM ({_UNEMBEDDED})", (number, number + 1, -1)).get
            return waiting

    def attach(self, vectors: Mapping[Key, Vector], *, model: Model) -> None:
        with self._connections.write() as connection:
            entries = catalogue.indexed(connection, cast("Iterable[int]", vectors))
            if not entries:
                return
            number = vector_blocks.register_model(connection, model)
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
        with self._connections.write() as connection:
            known = vector_blocks.model_number(connection, model) or 0
            if connection.execute(_UNEMBEDDED, (known, known + 1, 1)).get is not None:
                return False
            number = vector_blocks.register_model(connection, model)
            first = number << vector_blocks.MODEL_SHIFT
            last = first + (1 << vector_blocks.MODEL_SHIFT) - 1
            connection.execute("DELETE FROM vectors WHERE slot NOT BETWEEN ? AND ?", (first, last))
            connection.execute("DELETE FROM blocks WHERE model <> ?", (number,))
            connection.execute("UPDATE state SET active_model = ?, sequence = sequence + 1", (number,))
            connection.execute("DELETE FROM models WHERE id <> ?", (number,))
            return True

    def check(self) -> list[str]:
        with self._connections.read() as connection:
            return checks.problems(connection)


_INSERT = f"INSERT INTO memories VALUES ({', '.join('?' * 19)})"

_LISTING = """
    SELECT key FROM memories
    WHERE profile = :profile
      AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects))
        OR session IN (SELECT value FROM json_each(:sessions)))
      AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
      AND (:cursor IS NULL OR id < :cursor)
    ORDER BY id DESC LIMIT :limit
"""

_UNEMBEDDED = """
    SELECT key FROM memories AS m
    WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.memory = m.key AND v.slot >= ? << 40 AND v.slot < ? << 40)
    ORDER BY key LIMIT ?
"""


def _listing_values(reach: Reach, cursor: str | None, limit: int) -> dict[str, Any]:
    import json

    return {
        "profile": reach.profile,
        "projects": None if reach.homes is None else json.dumps(reach.homes.projects),
        "sessions": None if reach.homes is None else json.dumps(reach.homes.sessions),
        "kinds": None if reach.kinds is None else json.dumps(reach.kinds),
        "cursor": cursor,
        "limit": limit,
    }


def _row(key: int, memory: Memory, numbers: Numbers, position: int | None, terms: Sequence[str]) -> tuple[Any, ...]:
    import json

    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        key, memory.id, numbers.profile, numbers.project or None, numbers.session or None, position, numbers.kind,
        memory.speaker, memory.importance, metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, memory.evergreen,
        memory.content_hash, memory.text, " ".join(terms),
    )  # fmt: skip


def _refuse_known(connection: apsw.Connection, ids: Sequence[str]) -> None:
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    known = connection.execute("SELECT id FROM memories WHERE id IN carray(?) LIMIT 1", (apsw.carray(tuple(ids)),)).get
    if known is not None:
        raise Conflict(f"there is a memory with the id {known} already; update it instead, nothing was stored")


def _key(connection: apsw.Connection, id: str) -> int:
    for key in _keys(connection, [id]):
        return key
    raise NotFound(f"there is no memory {id}")


def _keys(connection: apsw.Connection, ids: Sequence[str]) -> frozenset[int]:
    wanted = storable_ids(ids)
    if not wanted:
        return frozenset()
    found = connection.execute("SELECT key FROM memories WHERE id IN carray(?)", (apsw.carray(wanted),))
    return frozenset(key for (key,) in found)


def _remove(connection: apsw.Connection, keys: Sequence[int]) -> int:
    for at in range(0, len(keys), 1000):
        some = keys[at : at + 1000]
        word_index.remove_words(connection, catalogue.indexed(connection, some))
        vector_blocks.remove_vectors(connection, some)
        connection.executemany("DELETE FROM memories WHERE key = ?", [(key,) for key in some])
    return len(keys)


def _size(path: str) -> int:
    return sum(file.stat().st_size for end in ("", "-wal") if (file := Path(path + end)).exists())
