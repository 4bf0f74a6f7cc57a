"""The table of memories: read rows as memories, insert, list and delete them."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import apsw

from retentive.errors import Conflict
from retentive.models import Memory
from retentive.stores.base import is_within
from retentive.stores.sql_codec import ScopeIds, to_memory, to_micros
from retentive.stores.sqlite.scopes import ResolvedScope, is_storable

INSERT = "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_COLUMNS = """
    m.key, m.id, m.text, m.created, p.name, r.name, s.name, m.position, m.kind, m.speaker, m.importance, m.metadata,
    m.source, m.occurred, m.accessed, m.access_count, m.evergreen, m.content_hash
"""
_JOINS = """
    JOIN profiles AS p ON p.id = m.profile
    LEFT JOIN projects AS r ON r.id = m.project
    LEFT JOIN sessions AS s ON s.id = m.session
"""
_ROWS = """
    SELECT json_group_array(json_array({columns}))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON {column} = wanted.value {joins}
"""
_BY_IDS = _ROWS.format(columns=_COLUMNS, column="m.id", joins=_JOINS)
_BY_KEYS = _ROWS.format(columns=_COLUMNS, column="m.key", joins=_JOINS)

# With what a search needs besides: the terms, and the slots of the vectors.
_SLOTS = "json((SELECT json_group_array(v.slot) FROM vectors AS v WHERE v.memory = m.key))"
_INDEXED = _ROWS.format(columns=f"{_COLUMNS}, m.terms, {_SLOTS}", column="m.key", joins=_JOINS)

_LIST = """
    SELECT key FROM memories
    WHERE profile = :profile
      AND (:projects IS NULL OR project IN (SELECT value FROM json_each(:projects))
        OR session IN (SELECT value FROM json_each(:sessions)))
      AND (:kinds IS NULL OR kind IN (SELECT value FROM json_each(:kinds)))
      AND (:cursor IS NULL OR id < :cursor)
    ORDER BY id DESC LIMIT :limit
"""

_NEIGHBOURS = """
    SELECT json_group_array(json_array(
      m.key,
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position < m.position
       ORDER BY n.position DESC LIMIT 1),
      (SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position > m.position
       ORDER BY n.position LIMIT 1)
    ))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value
    WHERE m.session IS NOT NULL
"""


class IndexedRow(NamedTuple):
    """A memory with its terms, joined by spaces, and the slots of its vectors, of every model."""

    key: int
    memory: Memory
    terms: str
    slots: Sequence[int]


def fetch_json(connection: apsw.Connection, statement: str, bindings: Sequence[Any]) -> Any:
    """Run a statement that aggregates its rows into one JSON value.

    Fetching a row releases and reacquires the interpreter's lock. With several recalls at once that takes most of
    their time: two threads that fetched a hundred rows each were slower than one.
    """
    return json.loads(connection.execute(statement, bindings).get)


def storable_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """The ids that the store can hold; carray() rejects NUL characters, which no id has."""
    return tuple(id for id in ids if is_storable(id) and "\0" not in id)


def by_keys(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, Memory]:
    """The memories of these keys that exist."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    return {row[0]: to_memory(row) for row in fetch_json(connection, _BY_KEYS, (apsw.carray(wanted),))}


def by_ids(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, tuple[int, Memory]]:
    """The keys and memories of these ids that exist, in the order of the ids."""
    wanted = storable_ids(dict.fromkeys(ids))
    if not wanted:
        return {}
    found = {row[1]: (row[0], to_memory(row)) for row in fetch_json(connection, _BY_IDS, (apsw.carray(wanted),))}
    return {id: found[id] for id in wanted if id in found}


def keys_within(connection: apsw.Connection, ids: Sequence[str], within: Any) -> dict[str, int]:
    """The keys of these ids that exist in a scope, in the order of the ids."""
    return {id: key for id, (key, memory) in by_ids(connection, ids).items() if is_within(memory, within)}


def indexed_rows(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, IndexedRow]:
    """The memories of these keys that exist, with terms and slots."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    rows = fetch_json(connection, _INDEXED, (apsw.carray(wanted),))
    return {row[0]: IndexedRow(row[0], to_memory(row), row[18], row[19]) for row in rows}


def keys_of(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The keys of these ids that exist."""
    wanted = storable_ids(ids)
    if not wanted:
        return {}
    return dict(connection.execute("SELECT id, key FROM memories WHERE id IN carray(?)", (apsw.carray(wanted),)))


def list_keys(
    connection: apsw.Connection, scope: ResolvedScope, *, cursor: str | None = None, limit: int = -1
) -> list[int]:
    """The keys of the memories in a scope after the cursor, newest first."""
    return [key for (key,) in connection.execute(_LIST, {**scope.parameters, "cursor": cursor, "limit": limit})]


def scan_keys(connection: apsw.Connection, *, cursor: str | None, limit: int) -> list[int]:
    """The keys of all memories after the cursor, by id."""
    statement = "SELECT key FROM memories WHERE id > ? ORDER BY id LIMIT ?"
    return [key for (key,) in connection.execute(statement, (cursor or "", limit))]


def neighbour_keys(connection: apsw.Connection, keys: Iterable[int]) -> dict[int, tuple[int | None, int | None]]:
    """The keys before and after each of these in its session; a memory without a session is not in the result."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    rows = fetch_json(connection, _NEIGHBOURS, (apsw.carray(wanted),))
    return {key: (before, after) for key, before, after in rows}


def to_row(key: int, memory: Memory, ids: ScopeIds, position: int | None, terms: Sequence[str]) -> tuple[Any, ...]:
    """The values of a memory for `INSERT`."""
    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        key, memory.id, ids.profile, ids.project or None, ids.session or None, position, ids.kind,
        memory.speaker, memory.importance, metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, memory.evergreen,
        memory.content_hash, memory.text, " ".join(terms),
    )  # fmt: skip


def check_new(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """Raise `Conflict` if one of these ids exists, or is given twice."""
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    statement = "SELECT id FROM memories WHERE id IN carray(?) ORDER BY id LIMIT 1"
    known = connection.execute(statement, (apsw.carray(tuple(ids)),)).get
    if known is not None:
        raise Conflict(f"there is a memory with the id {known} already; update it instead, nothing was stored")
