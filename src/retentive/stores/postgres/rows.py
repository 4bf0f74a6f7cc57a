"""Rows as memories, and memories as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from retentive.models import Memory
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import to_memory, to_micros

# Names by their numbers one at a time: a join could be planned as a look at every session there is.
COLUMNS = """
    m.key, m.id, m.text, m.created, (SELECT name FROM profiles WHERE id = m.profile),
    (SELECT name FROM projects WHERE id = m.project), (SELECT name FROM sessions WHERE id = m.session),
    m.position, m.kind, m.speaker, m.importance, m.metadata, m.source, m.occurred, m.accessed, m.access_count,
    m.evergreen, m.content_hash
"""

_BY_KEYS = f"SELECT {COLUMNS} FROM memories AS m WHERE m.key = ANY (%s)".encode()  # noqa: S608 - names of columns
_BY_IDS = f"SELECT {COLUMNS} FROM memories AS m WHERE m.id = ANY (%s)".encode()  # noqa: S608 - names of columns

COPY = b"""
    COPY memories (
      key, id, profile, project, session, position, kind, speaker, importance, metadata, source, created, occurred,
      accessed, access_count, evergreen, content_hash, text, terms, length
    ) FROM STDIN (FORMAT BINARY)
"""
COPIED_TYPES = (
    "int8", "text", "int4", "int4", "int4", "int8", "int4", "text", "float8", "text", "text", "int8", "int8",
    "int8", "int8", "bool", "text", "text", "text", "int4",
)  # fmt: skip


def by_keys(connection: Connection, keys: Iterable[int]) -> Mapping[int, Memory]:
    """The memories behind these keys that exist, in the order asked for."""
    wanted = list(keys)
    if not wanted:
        return {}
    found = {row[0]: to_memory(row) for row in connection.execute(_BY_KEYS, (wanted,), binary=True)}
    return {key: found[key] for key in wanted if key in found}


def by_ids(connection: Connection, ids: Sequence[str]) -> list[Memory]:
    """The memories of these ids that exist, in the order asked for."""
    if not ids:
        return []
    wanted = list(dict.fromkeys(ids))
    found = {row[1]: to_memory(row) for row in connection.execute(_BY_IDS, (wanted,), binary=True)}
    return [found[id] for id in ids if id in found]


def values(memory: Memory) -> tuple[Any, ...]:
    """What of a memory's row is its own: from the speaker on to the text."""
    metadata = json.dumps(dict(memory.metadata), ensure_ascii=False) if memory.metadata else None
    return (
        memory.speaker, float(memory.importance), metadata, memory.source, to_micros(memory.created),
        to_micros(memory.occurred), to_micros(memory.accessed), memory.access_count, bool(memory.evergreen),
        memory.content_hash, memory.text,
    )  # fmt: skip
