"""Memories as rows, and rows as memories."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from retentive.models import Memory
from retentive.stores.sql_codec import to_memory


def storable(text: str) -> bool:
    """Whether this can be in the store at all; SQLite refuses even to be asked for half of a surrogate pair."""
    return text.isascii() or text == text.encode(errors="ignore").decode()


def storable_ids(ids: Iterable[str]) -> tuple[str, ...]:
    """Those that can be in the store at all; no id has a NUL, and carray() refuses to be asked for one."""
    return tuple(id for id in ids if storable(id) and "\0" not in id)


def in_one(connection: apsw.Connection, statement: str, bindings: Sequence[Any]) -> Any:
    """What a statement gathers into one JSON value, for searches of many rows.

    For every row that is fetched the interpreter's lock is let go and taken again. With several recalls at once that is
    most of what they do: two threads that fetched a hundred rows each were slower than one.
    """
    return json.loads(connection.execute(statement, bindings).get)


_ROWS = """
    SELECT json_group_array(json_array(
      m.key, m.id, m.text, m.created, p.name, r.name, s.name, m.position, m.kind, m.speaker, m.importance, m.metadata,
      m.source, m.occurred, m.accessed, m.access_count, m.evergreen, m.content_hash
    ))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON {} = wanted.value
    JOIN profiles AS p ON p.id = m.profile
    LEFT JOIN projects AS r ON r.id = m.project
    LEFT JOIN sessions AS s ON s.id = m.session
"""
_BY_KEYS, _BY_IDS = _ROWS.format("m.key"), _ROWS.format("m.id")


def by_keys(connection: apsw.Connection, keys: Iterable[int]) -> Mapping[int, Memory]:
    """The memories behind these keys that exist."""
    wanted = array("q", keys)
    if not wanted:
        return {}
    return {row[0]: to_memory(row) for row in in_one(connection, _BY_KEYS, (apsw.carray(wanted),))}


def by_ids(connection: apsw.Connection, ids: Sequence[str]) -> list[Memory]:
    """The memories of these ids that exist, in the order asked for."""
    wanted = storable_ids(dict.fromkeys(ids))
    if not wanted:
        return []
    found = {row[1]: to_memory(row) for row in in_one(connection, _BY_IDS, (apsw.carray(wanted),))}
    return [found[id] for id in ids if id in found]
