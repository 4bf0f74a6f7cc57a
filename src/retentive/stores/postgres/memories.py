"""The tables of memories, of their vectors, and of the models that made the vectors."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from retentive.errors import Invalid
from retentive.models import KINDS, Memory, Model, Scope, hash_text, indexed_text
from retentive.stores.damage import Damage, damaged_error
from retentive.stores.duplicates import Home
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.maintenance import Maintenance, stale_keys
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.search_stats import ResolvedScope, ScopedTerms, record_changes
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.validity import COLUMNS, CURRENT, date_vectors, is_dated
from retentive.stores.rules import ListCursor, is_within, page_length, prefix_range
from retentive.stores.sql_codec import EPOCH, RULE, SCOPE_TOKENS, ScopeIds, fact_values, to_memories, to_micros
from retentive.stores.values import PreviousTurn, Record, Vector
from retentive.stores.writes import Stored

MAX_DIMENSION = 4_000
"""The largest vector that fits into a page of PostgreSQL and into the HNSW index."""

_SQL = Statements("memories")
_BY_KEYS, _BY_IDS = _SQL("by_keys", columns=COLUMNS), _SQL("by_ids", columns=COLUMNS)
_BY_CONTENT = _SQL("by_content", columns=COLUMNS)
_UNEMBEDDED = _SQL("unembedded", columns=COLUMNS)

_MEMORY_TYPES = (
    "int8", "text", "int4", "int4", "int4", "int8", "int4", "text", "float8", "text", "text", "int8", "int8",
    "int8", "int8", "bool", "text", "text", "text", "text", "int8", "int8", "text", "text", "text", "int8", "text",
    "int4",
)  # fmt: skip
_VECTOR_TYPES = ("int4", "int8", "int4", "int4", "int4", "int4", "int4", "halfvec", "bytea", "int8")


# Reading


def by_keys(connection: Connection, keys: Sequence[int]) -> list[Memory]:
    """Return the memories with these keys that exist, in the order of the keys. Damaged ones are left out."""
    return list(with_keys(connection, keys, []).values())


def with_keys(connection: Connection, keys: Sequence[int], damaged: list[Damage]) -> dict[int, Memory]:
    """Return the memories with these keys that exist, by key. Damaged ones are left out and added to `damaged`."""
    found = to_memories(connection.execute(_BY_KEYS, (list(keys),), binary=True), damaged)
    return {key: found[key] for key in keys if key in found}


def by_ids(connection: Connection, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
    """Return the memories with these ids that exist in a scope, in the order of the ids. Damaged ones are left out."""
    if not ids:
        return []
    # The scope first: a memory outside it takes as long as one that does not exist.
    wanted = list(dict.fromkeys(ids) if within is None else keys_within(connection, ids, within))
    memories = to_memories(connection.execute(_BY_IDS, (wanted,), binary=True), []) if wanted else {}
    found = {memory.id: memory for memory in memories.values()}
    return [found[id] for id in ids if id in found and is_within(found[id], within)]


def keys_within(connection: Connection, ids: Sequence[str], within: Scope | None) -> dict[str, int]:
    """Return the keys of the memories with these ids that exist in a scope. Their texts are not read."""
    rows = connection.execute(_SQL("scopes"), (list(ids),), binary=True)
    return {
        id: key
        for key, id, profile, project, session, kind in rows
        if is_within(Memory(id, "", EPOCH, profile, project, session, kind=KINDS[kind - 1]), within)
    }


def ids_with_prefix(connection: Connection, prefix: str, within: Scope | None, limit: int) -> list[str]:
    """Return ids in a scope that start with a prefix, in ascending order. Only the index of ids and scopes are read."""
    bounds = prefix_range(prefix)
    found: list[str] = []
    while bounds and len(found) < limit:
        page = [id for (id,) in connection.execute(_SQL("ids_between"), (*bounds, limit)).fetchall()]
        inside = page if within is None else keys_within(connection, page, within)
        found += [id for id in page if id in inside]
        bounds = (f"{page[-1]} ", bounds[1]) if len(page) == limit else None
    return found[:limit]


def list_page(
    connection: Connection,
    scope: ResolvedScope,
    *,
    cursor: ListCursor,
    limit: int,
    current_at: datetime | None = None,
    started_by: datetime | None = None,
    rules: bool = False,
) -> tuple[list[int], str | None]:
    """Return the keys of one page of the memories of a scope after the cursor, newest first, and the next cursor."""
    parameters = {**scope.parameters, "time": cursor.time, "id": cursor.id, "limit": limit + 1}
    condition = scope.condition
    if current_at is not None:
        condition += f" AND {CURRENT}"
        parameters["current_at"] = to_micros(current_at)
    if started_by is not None:
        condition += " AND coalesce(valid_from, occurred, created) <= %(started_by)s"
        parameters["started_by"] = to_micros(started_by)
    if rules:
        condition += f" AND position('{RULE}' IN metadata) > 0"
    rows = connection.execute(_SQL("list", condition=condition), parameters, binary=True).fetchall()
    count = page_length((row[1] for row in rows), limit)
    following = str(ListCursor(*rows[count - 1][2:])) if count < len(rows) else None
    return [row[0] for row in rows[:count]], following


def scan_page(connection: Connection, *, cursor: str | None, limit: int) -> tuple[list[int], str | None]:
    """Return the keys of one page of all memories after the cursor, by id, and the next cursor."""
    rows = connection.execute(_SQL("scan"), (cursor or "", limit + 1), binary=True).fetchall()
    count = page_length((size for _, size, _ in rows), limit)
    return [key for key, _, _ in rows[:count]], rows[count - 1][2] if count < len(rows) else None


def vectors_of(connection: Connection, keys: Sequence[int]) -> dict[int, Vector]:
    """Return the vectors of memories by key, of the active model, one row for each part."""
    found: dict[int, list[Vector]] = {}
    for key, vector in connection.execute(_SQL("active_vectors"), (list(keys),), binary=True):
        found.setdefault(key, []).append(vector)
    return {key: np.stack(rows) for key, rows in found.items()}


# Writing


def lock_texts(connection: Connection, memories: Sequence[Memory]) -> None:
    """Wait for other writers that look for the same texts in the same profiles."""
    connection.execute(_SQL("lock_contents"), ([f"{one.profile} {one.content_hash}" for one in memories],))


def with_text(connection: Connection, home: Home, memory: Memory) -> list[Memory]:
    """Return the memories of a home with the content hash of a memory."""
    rows = connection.execute(_BY_CONTENT, (memory.content_hash, *home), binary=True)
    return list(to_memories(rows, []).values())


def insert(connection: Connection, memories: Sequence[Memory], entries: Sequence[ScopedTerms]) -> list[int]:
    """Insert memories, count them, and return their keys in ascending order. No memory ever gets the key of another."""
    keys = [key for (key,) in connection.execute(_SQL("new_keys"), (len(memories),), binary=True)]
    with connection.cursor() as cursor, cursor.copy(_SQL("copy_memories")) as copy:
        copy.set_types(_MEMORY_TYPES)
        for key, memory, (ids, terms) in zip(keys, memories, entries, strict=True):
            scope = (ids.profile, ids.project or None, ids.session or None, memory.position, ids.kind)
            index = (" ".join(terms), len(terms) + SCOPE_TOKENS)
            copy.write_row((key, memory.id, *scope, *_own_values(memory), *index))
    record_changes(connection, added=entries)
    return keys


def lock(connection: Connection, id: str, *, within: Scope | None) -> Stored[int, ScopeIds] | None:
    """Lock a memory and return it with its key, scope and terms; None if the scope has no such memory."""
    row = connection.execute(_SQL("lock"), (id,), binary=True).fetchone()
    if row is None or not keys_within(connection, [id], within):
        return None
    key, *scope, terms = row
    damaged: list[Damage] = []
    found = with_keys(connection, [key], damaged)
    if damaged:
        raise damaged_error(damaged[0])
    return Stored(key, found[key], ScopeIds(*scope), terms.split())


def lock_all(connection: Connection, ids: Sequence[str], within: Scope | None) -> dict[str, int]:
    """Lock the memories with these ids that exist in a scope, and return their keys."""
    rows = connection.execute(_SQL("lock_all"), (list(ids),), binary=True).fetchall()
    allowed = None if within is None else keys_within(connection, [row[1] for row in rows], within)
    return {row[1]: row[0] for row in rows if allowed is None or row[1] in allowed}


def replace(connection: Connection, key: int, memory: Memory, before: ScopedTerms, after: ScopedTerms) -> None:
    """Replace the memory with this key, and its counts."""
    ids, terms = after
    scope = (ids.profile, ids.project, ids.session, ids.kind, memory.position if ids.session else None)
    values = (*scope, *_own_values(memory), " ".join(terms), len(terms) + SCOPE_TOKENS, key)
    connection.execute(_SQL("update"), values)
    record_changes(connection, added=[after], removed=[before])


def keys_in_scope(connection: Connection, scope: ResolvedScope) -> list[int]:
    """The keys of all memories of a scope."""
    statement = f"SELECT key FROM memories WHERE {scope.condition} ORDER BY key".encode()  # noqa: S608 - columns
    return [key for (key,) in connection.execute(statement, scope.parameters, binary=True)]


def remove_scope(connection: Connection, scope: ResolvedScope, keys: Sequence[int]) -> int:
    """Delete those of these memories that are in a scope, and return how many there were."""
    condition = f"key = ANY (%(keys)s) AND ({scope.condition})"
    statement = f"SELECT key FROM memories WHERE {condition} ORDER BY key FOR UPDATE".encode()  # noqa: S608 - columns
    rows = connection.execute(statement, {**scope.parameters, "keys": list(keys)}, binary=True)
    return len(delete(connection, [key for (key,) in rows]))


def delete(connection: Connection, keys: Sequence[int]) -> list[str]:
    """Delete memories with their terms, vectors, judgements and counts; return the ids of those that existed."""
    deleted: list[str] = []
    for start in range(0, len(keys), 1000):
        rows = connection.execute(_SQL("delete"), (list(keys[start : start + 1000]),), binary=True).fetchall()
        record_changes(connection, removed=[(ScopeIds(*scope), terms.split()) for _, *scope, terms in rows])
        deleted += [row[0] for row in rows]
    return deleted


def touch(connection: Connection, ids: Sequence[str], micros: int) -> None:
    """Count one use for each occurrence of an id."""
    connection.execute(_SQL("touch"), (micros, sorted(ids)))


def _own_values(memory: Memory) -> tuple[Any, ...]:
    """Return the values of the columns from `speaker` to `text_hash`."""
    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        memory.speaker, float(memory.importance), metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, bool(memory.evergreen),
        memory.content_hash, memory.text, memory.text_hash, *fact_values(memory),
    )  # fmt: skip


# Vectors


def check_vectors(vectors: Iterable[Vector | None], model: Model | None) -> None:
    """Raise `Invalid` if a vector does not have the dimension of the model."""
    if model is not None and model.dimension > MAX_DIMENSION:
        raise Invalid(f"PostgreSQL stores vectors of up to {MAX_DIMENSION:,} numbers; {model} has more")
    for rows in vectors:
        if rows is not None and model is not None and (rows.ndim != 2 or rows.shape[1] != model.dimension):
            raise Invalid(f"every vector of {model} has {model.dimension} numbers, one of these has not")


def add_vectors(connection: Connection, entries: Iterable[tuple[int, ScopeIds, Record]], model: Model | None) -> None:
    """Store the vectors of memories, given the key and the scope of each; those without vectors are left out."""
    records = list(entries)
    turns = _stored_turns(connection, [one for _, _, one in records])
    given = [(key, ids, one if one.memory.id in turns else one.alone()) for key, ids, one in records]
    embedded = [(key, ids, one.memory, one.vectors) for key, ids, one in given if one.vectors is not None]
    if not embedded or model is None:
        return
    number = _register(connection, model)
    with connection.cursor() as cursor, cursor.copy(_SQL("copy_vectors")) as copy:
        copy.set_types(_VECTOR_TYPES)
        for key, ids, memory, rows in embedded:
            scope = (ids.profile, ids.project or None, ids.session or None, ids.kind)
            for part, row in enumerate(np.asarray(rows, np.float32)):
                previous = turns.get(memory.id) if part == len(rows) - 1 else None
                copy.write_row((number, key, part, *scope, row, bytes.fromhex(memory.text_hash), previous))
    date_vectors(connection, [record.memory.id for _, _, record in records if is_dated(record.memory)])


def _stored_turns(connection: Connection, records: Sequence[Record]) -> dict[str, int]:
    """The keys of the previous turns that are stored with the text of a record's vector, by the record's memory id."""
    wanted = sorted({record.previous.id for record in records if record.previous and record.vectors is not None})
    if not wanted:
        return {}
    rows = connection.execute(_SQL("stored_turns"), (wanted,), binary=True)
    stored = {PreviousTurn(id, text_hash): key for id, key, text_hash in rows}
    return {one.memory.id: stored[one.previous] for one in records if one.previous and one.previous in stored}


def _remove_without_turns(connection: Connection, records: Mapping[int, Record], model: int) -> set[int]:
    """Delete the vectors of a model that were not made with the previous turn of their record; return whose."""
    statement = _SQL("turns_of_model")
    rows = connection.execute(statement, ([key for key, one in records.items() if one.previous], model), binary=True)
    other = {key for key, id, text_hash in rows if records[key].previous != (id, text_hash)}
    connection.execute("DELETE FROM vectors WHERE memory = ANY (%s) AND model = %s", (list(other), model))
    return other


def previous_turns(connection: Connection, keys: Sequence[int]) -> dict[int, PreviousTurn]:
    """The turn whose text is in the last vector of each of these memories."""
    rows = connection.execute(_SQL("previous_turns"), (list(keys),), binary=True)
    return {key: PreviousTurn(id, text_hash) for key, id, text_hash in rows}


def move_vectors(connection: Connection, key: int, ids: ScopeIds) -> None:
    """Set the scope of the vectors of a memory."""
    connection.execute(_SQL("move_vectors"), (ids.profile, ids.project, ids.session, ids.kind, key))


def remove_vectors(connection: Connection, keys: Sequence[int]) -> None:
    """Delete the vectors of memories, of every model, and those of the next turns that contain their texts."""
    statement = "DELETE FROM vectors WHERE memory = ANY (%(keys)s) OR previous = ANY (%(keys)s)"
    connection.execute(statement, {"keys": list(keys)})


class VectorTables:
    """The part `retentive.stores.base.VectorModels` of a PostgreSQL store. `_model` is the last known active model."""

    _connections: Connections
    _maintenance: Maintenance
    _model: Model | None = None

    def model(self) -> Model | None:
        # Every search reads which model is active, so that here the last known one is good enough.
        if self._model is None:
            self._model = self._connections.read(active_model, primary=True)
        return self._model

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        rows = self._connections.fetch(_UNEMBEDDED, (model.fingerprint, limit), primary=True)
        return list(to_memories(rows, []).values())

    def count_unembedded(self, model: Model) -> int:
        [(count,)] = self._connections.fetch(_SQL("count_unembedded"), (model.fingerprint,), primary=True)
        return int(count)

    def previous(self, memories: Sequence[Memory]) -> list[Memory | None]:
        return self._turns(_SQL("turns_before"), memories)

    def following(self, memories: Sequence[Memory]) -> list[Memory | None]:
        return self._turns(_SQL("turns_after"), memories)

    def _turns(self, statement: bytes, memories: Sequence[Memory]) -> list[Memory | None]:
        placed = {at: memory for at, memory in enumerate(memories) if memory.session is not None}
        if not placed:
            return [None] * len(memories)
        positions = [str(2**53 if one.position is None else one.position) for one in placed.values()]
        names = [[getattr(one, name) for one in placed.values()] for name in ("profile", "project", "session")]

        def read(connection: Connection) -> dict[int, Memory]:
            rows = connection.execute(statement, (list(placed), *names, positions), binary=True).fetchall()
            found = with_keys(connection, [key for _, key in rows], [])
            return {row: found[key] for row, key in rows if key in found}

        found = self._connections.read(read)
        return [found.get(at) for at in range(len(memories))]

    def attach(self, records: Sequence[Record], *, model: Model) -> int:
        check_vectors([record.vectors for record in records], model)
        given = {record.memory.id: record for record in records}

        def work(connection: Connection) -> int:
            rows = connection.execute(_SQL("lock_texts"), (list(given),), binary=True).fetchall()
            statement = "SELECT DISTINCT memory FROM vectors WHERE memory = ANY (%s) AND model = %s"
            # Another process may have attached vectors of this model meanwhile, or changed the text.
            parameters = ([row[0] for row in rows], _model_id(connection, model))
            attached = {key for (key,) in connection.execute(statement, parameters, binary=True)}
            attached -= _remove_without_turns(connection, {row[0]: given[row[1]] for row in rows}, parameters[1])
            new = [
                (key, ScopeIds(*scope), given[id])
                for key, id, *scope, text, speaker in rows
                if key not in attached and hash_text(indexed_text(text, speaker)) == given[id].memory.text_hash
            ]
            add_vectors(connection, new, model)
            date_vectors(connection, [record.memory.id for _, _, record in new])  # it may have been retired meanwhile
            return len(new)

        return self._connections.write(work) if records else 0

    def remove_stale_vectors(self) -> int:
        def work(connection: Connection) -> int:
            found = stale_keys(connection)
            connection.execute("SELECT 1 FROM memories WHERE key = ANY (%s) ORDER BY key FOR UPDATE", (found,))
            stale = stale_keys(connection) if found else []
            remove_vectors(connection, stale)
            return len(stale)

        return self._connections.write(work)

    def switch_model(self, model: Model, *, without: Collection[str] = ()) -> bool:
        parameters = (model.fingerprint, list(without))
        if self._connections.fetch(_SQL("has_unembedded"), parameters, primary=True):
            return False
        self._maintenance.run()  # creates the HNSW index of the new model before it is searched

        def work(connection: Connection) -> bool:
            connection.execute("SELECT 1 FROM state FOR UPDATE")
            if connection.execute(_SQL("has_unembedded"), parameters).fetchone():
                return False
            number = _register(connection, model)
            connection.execute("UPDATE state SET active_model = %s", (number,))
            connection.execute("UPDATE models SET retired = true WHERE id <> %s AND NOT retired", (number,))
            return True

        switched = self._connections.write(work)
        if switched:
            self._model = model
            self._maintenance.delete_retired_vectors()
        return switched


def active_model(connection: Connection) -> Model | None:
    """Return the model whose vectors are searched."""
    row = connection.execute(_SQL("active_model")).fetchone()
    return None if row is None else Model(*row)


def _model_id(connection: Connection, model: Model) -> int:
    """Return the id of a model in this store; 0 if the store does not use it."""
    statement = "SELECT id FROM models WHERE fingerprint = %s AND NOT retired"
    row = connection.execute(statement, (model.fingerprint,)).fetchone()
    return 0 if row is None else int(row[0])


def _register(connection: Connection, model: Model) -> int:
    """Return the id of a model, created if it is new. The first model of a store becomes the active one."""
    number = _model_id(connection, model)
    if not number:
        connection.execute(_SQL("create_model"), (model.name, model.revision, model.dimension, model.fingerprint))
        number = _model_id(connection, model)
    connection.execute("UPDATE state SET active_model = %s WHERE active_model IS NULL", (number,))
    return number
