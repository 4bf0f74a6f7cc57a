"""Memories as rows, and rows as memories."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import apsw

from recollect.models import KINDS, Kind, Memory

KIND_NUMBERS: dict[Kind, int] = {kind: number for number, kind in enumerate(KINDS, 1)}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FLOAT_IS_EXACT = 4_000_000_000_000_000
"""Up to here, the year 2096, a float of seconds rounds to the right microsecond, in half the time."""


def to_micros(time: datetime | None) -> int | None:
    """A time as a whole number, exactly."""
    return None if time is None else (time - _EPOCH) // _MICROSECOND


def from_micros(micros: int | None) -> datetime | None:
    """A whole number as a time."""
    if micros is None:
        return None
    if 0 <= micros < _FLOAT_IS_EXACT:
        return datetime.fromtimestamp(micros / 1e6, UTC)
    return _EPOCH + timedelta(microseconds=micros)


def to_memory(row: Sequence[Any]) -> Memory:
    """The memory of a row, its names in place of numbers."""
    return Memory(
        row[1], row[2], from_micros(row[3]) or _EPOCH, row[4], row[5], row[6], row[7], KINDS[row[8] - 1],
        row[9], row[10], json.loads(row[11]) if row[11] else {}, row[12], from_micros(row[13]), from_micros(row[14]),
        row[15], bool(row[16]), row[17],
    )  # fmt: skip


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
