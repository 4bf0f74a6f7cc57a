"""The table of memories: writing rows, listing and finding them, taking them out with their words and vectors."""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from typing import Any

import apsw

from retentive.errors import Conflict, NotFound
from retentive.models import Memory
from retentive.stores.sql_codec import ScopeIds, to_micros
from retentive.stores.sqlite import catalogue, judgement_table, vector_blocks, word_index
from retentive.stores.sqlite.rows import in_one, storable_ids
from retentive.stores.sqlite.scopes import ResolvedScope

INSERT = "INSERT INTO memories VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"

_LISTING = """
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


def list_keys(
    connection: apsw.Connection, reach: ResolvedScope, *, cursor: str | None = None, limit: int = -1
) -> list[int]:
    """The keys of the memories in reach, newest first, from behind the cursor on."""
    values = {
        "profile": reach.profile,
        "projects": None if reach.homes is None else json.dumps(reach.homes.projects),
        "sessions": None if reach.homes is None else json.dumps(reach.homes.sessions),
        "kinds": None if reach.kinds is None else json.dumps(reach.kinds),
        "cursor": cursor,
        "limit": limit,
    }
    return [key for (key,) in connection.execute(_LISTING, values)]


def walk_keys(connection: apsw.Connection, *, cursor: str | None, limit: int) -> list[int]:
    """The keys of all memories by id, from behind the cursor on."""
    statement = "SELECT key FROM memories WHERE id > ? ORDER BY id LIMIT ?"
    return [key for (key,) in connection.execute(statement, (cursor or "", limit))]


def row(key: int, memory: Memory, numbers: ScopeIds, position: int | None, terms: Sequence[str]) -> tuple[Any, ...]:
    """The values of a memory for `INSERT`."""
    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        key, memory.id, numbers.profile, numbers.project or None, numbers.session or None, position, numbers.kind,
        memory.speaker, memory.importance, metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, memory.evergreen,
        memory.content_hash, memory.text, " ".join(terms),
    )  # fmt: skip


def refuse_known(connection: apsw.Connection, ids: Sequence[str]) -> None:
    """`Conflict` if one of these ids is taken, or given twice."""
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    statement = "SELECT id FROM memories WHERE id IN carray(?) ORDER BY id LIMIT 1"
    known = connection.execute(statement, (apsw.carray(tuple(ids)),)).get
    if known is not None:
        raise Conflict(f"there is a memory with the id {known} already; update it instead, nothing was stored")


def key_of(connection: apsw.Connection, id: str) -> int:
    """The key of a memory."""
    for key in keys_of(connection, [id]):
        return key
    raise NotFound(f"there is no memory {id}")


def keys_of(connection: apsw.Connection, ids: Sequence[str]) -> frozenset[int]:
    """The keys of these memories that exist."""
    return frozenset(keys_by_id(connection, ids).values())


def keys_by_id(connection: apsw.Connection, ids: Sequence[str]) -> dict[str, int]:
    """The keys of these memories that exist, by their ids."""
    wanted = storable_ids(ids)
    if not wanted:
        return {}
    return dict(connection.execute("SELECT id, key FROM memories WHERE id IN carray(?)", (apsw.carray(wanted),)))


def neighbours(connection: apsw.Connection, keys: Sequence[int]) -> dict[int, tuple[int | None, int | None]]:
    """The memories just before and behind each of these in its session; none for one that has no session."""
    if not keys:
        return {}
    rows = in_one(connection, _NEIGHBOURS, (apsw.carray(array("q", keys)),))
    return {key: (before, behind) for key, before, behind in rows}


def remove(connection: apsw.Connection, keys: Sequence[int]) -> int:
    """How many memories there were; they are gone with their words, vectors and judgements."""
    for at in range(0, len(keys), 1000):
        some = keys[at : at + 1000]
        word_index.remove_words(connection, catalogue.indexed(connection, some))
        vector_blocks.remove_vectors(connection, some)
        judgement_table.remove_of(connection, some)
        connection.executemany("DELETE FROM memories WHERE key = ?", [(key,) for key in some])
    return len(keys)
