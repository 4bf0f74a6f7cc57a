"""Repair a SQLite store: rebuild every index from the texts, and set aside what cannot be read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import apsw
import numpy as np

from retentive.errors import Damaged
from retentive.models import KINDS, Memory, Scope, counted
from retentive.stores.damage import UNREADABLE, Repair, SetAside
from retentive.stores.rules import is_within
from retentive.stores.sql_codec import EPOCH, ScopeIds, from_micros, to_micros
from retentive.stores.sqlite import vector_blocks
from retentive.stores.sqlite.integrity import page_problems
from retentive.stores.sqlite.listing import scan_page
from retentive.stores.sqlite.memory_table import IN_SCOPE, ResolvedScope, by_keys, id_of, storable_ids, unchecked
from retentive.stores.sqlite.row_changes import add_keywords, mark_unindexed
from retentive.text.normal_form import content_hash
from retentive.text.terms import index_terms

_SCOPE_COLUMNS = "profile, project, session, kind"
_MISSING = """
SELECT count(*) FROM (SELECT key FROM memories INDEXED BY memories_by_scope) AS indexed
WHERE NOT EXISTS (SELECT 1 FROM memories NOT INDEXED WHERE memories.key = indexed.key)
"""
"""How many memories an index names that their table does not have."""


def repair(connection: apsw.Connection, *, at: datetime) -> Repair:
    """Rebuild the keyword index, the counts and the blocks in this transaction.

    `Damaged` if memories are missing in their table, which a rebuilt index would hide, or if pages stay damaged.
    """
    try:
        missing = connection.execute(_MISSING).get
        if missing:
            raise _damaged_pages(f"{counted(missing, 'memory is', 'memories are')} missing in the table")
        connection.execute("REINDEX")
        connection.execute("INSERT INTO words (words) VALUES ('delete-all')")
        mark_unindexed(connection)
        connection.execute("DELETE FROM term_counts")
        connection.execute("UPDATE profiles SET memories = 0, terms = 0")
        changed, unreadable, memories = _repair_memories(connection, at)
        removed = _rebuild_blocks(connection)
        connection.execute(
            "UPDATE state SET next_key = max(next_key, (SELECT coalesce(max(key), 0) + 1 FROM memories))"
        )
    except (apsw.CorruptError, apsw.ConstraintError) as error:
        raise _damaged_pages(str(error)) from error
    remaining = page_problems(connection)
    if remaining:
        raise _damaged_pages(" ".join(remaining[0].split())[:100])
    return Repair(memories, tuple(changed), tuple(unreadable), removed)


def _damaged_pages(reason: str) -> Damaged:
    return Damaged(
        f"pages of the file are damaged ({reason}), and nothing was changed; "
        "save what can be read into a new file with: retentive recover FILE"
    )


def _repair_memories(connection: apsw.Connection, at: datetime) -> tuple[list[str], list[str], int]:
    """Index every memory; return the ids of those with a changed text, of those set aside, and how many are left."""
    changed: list[str] = []
    unreadable: list[str] = []
    memories = 0
    last: int | None = 0
    while last is not None:
        keys, last = scan_page(connection, after=last, limit=500)
        intact = by_keys(connection, keys)
        entries = []
        for key in keys:
            memory = intact.get(key) or unchecked(connection, key)
            if memory is None:
                unreadable.append(_set_aside(connection, key, at))
                continue
            if key not in intact:
                changed.append(memory.id)
                connection.execute("DELETE FROM vectors WHERE memory = ?", (key,))
            terms = index_terms(memory.indexed_text)
            _update(connection, key, memory, terms, changed=key not in intact)
            scope = connection.execute(f"SELECT {_SCOPE_COLUMNS} FROM memories WHERE key = ?", (key,)).get  # noqa: S608 - constant
            entries.append((key, terms, ScopeIds(*(id or 0 for id in scope))))
        add_keywords(connection, entries)
        memories += len(entries)
    return changed, unreadable, memories


def _update(connection: apsw.Connection, key: int, memory: Memory, terms: Sequence[str], *, changed: bool) -> None:
    """Store the terms and the hashes of a text, where they are different: a large row takes long to write."""
    joined = " ".join(terms)
    connection.execute(
        "UPDATE memories SET terms = ?, text_hash = ? "
        "WHERE key = ? AND (CAST(terms AS BLOB) IS NOT CAST(? AS BLOB) OR text_hash IS NOT ?)",
        (joined, memory.text_hash, key, joined, memory.text_hash),
    )
    if changed:
        connection.execute("UPDATE memories SET content_hash = ? WHERE key = ?", (content_hash(memory.text), key))


def _set_aside(connection: apsw.Connection, key: int, at: datetime) -> str:
    """Move a memory that cannot be read to the table of such memories, and return its id."""
    id = id_of(connection, key)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(memories)")]
    contents: dict[str, Any] = {}
    for name in columns:
        statement = f'SELECT iif(typeof("{name}") = \'text\', CAST("{name}" AS BLOB), "{name}") FROM memories'  # noqa: S608 - our columns
        value = connection.execute(f"{statement} WHERE key = ?", (key,)).get
        contents[name] = _as_json(value)
    scope = [value if isinstance(value := contents[name], int) else None for name in _SCOPE_COLUMNS.split(", ")]
    connection.execute(
        "INSERT OR REPLACE INTO set_aside VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (key, id, *scope, UNREADABLE, to_micros(at), json.dumps(contents)),
    )
    for table, column in (("memories", "key"), ("vectors", "memory"), ("judgements", "memory")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (key,))  # noqa: S608 - names of our own
    return id


def _as_json(value: Any) -> Any:
    """A value of a damaged row: text if it is valid, otherwise its bytes in hexadecimal."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def _rebuild_blocks(connection: apsw.Connection) -> int:
    """Write the blocks of every model again from its vectors; return how many vectors belonged to nothing."""
    connection.execute("DELETE FROM vectors WHERE NOT EXISTS (SELECT 1 FROM memories WHERE key = vectors.memory)")
    removed = connection.changes() + vector_blocks.remove_wrong_lengths(connection)
    models: list[Any] = connection.execute("SELECT id, dimension FROM models").fetchall()
    for model, dimension in models:
        first, end = model << vector_blocks.MODEL_SHIFT, (model + 1) << vector_blocks.MODEL_SHIFT
        connection.execute(
            "UPDATE models SET next_slot = max(next_slot, "
            "(SELECT coalesce(max(slot) - ?, -1) + 1 FROM vectors WHERE slot >= ? AND slot < ?)) WHERE id = ?",
            (first, first, end, model),
        )
        # The blocks stay, even if they are empty: a process that holds them in memory must notice the change.
        size = vector_blocks.BLOCK * vector_blocks.record_type(dimension).itemsize
        sequence = vector_blocks.raise_sequence(connection)
        statement = "UPDATE blocks SET slots = zeroblob(?), sequence = ? WHERE model = ?"
        connection.execute(statement, (size, sequence, model))
        while first < end:
            first = _write_block(connection, model, dimension, first, end)
    return removed


def _write_block(connection: apsw.Connection, model: int, dimension: int, first: int, end: int) -> int:
    """Write the records of some vectors from a slot on; return the slot after them."""
    rows: list[Any] = connection.execute(
        "SELECT v.slot, v.embedding, m.key, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind "
        "FROM vectors AS v JOIN memories AS m ON m.key = v.memory WHERE v.slot >= ? AND v.slot < ? "
        "ORDER BY v.slot LIMIT ?",
        (first, end, vector_blocks.BLOCK),
    ).fetchall()
    if not rows:
        return end
    records = np.zeros(len(rows), vector_blocks.record_type(dimension))
    for at, name in enumerate(("memory", "profile", "project", "session", "kind"), 2):
        records[name] = [row[at] for row in rows]
    halves = np.frombuffer(b"".join(row[1] for row in rows), "<f2").reshape(len(rows), dimension)
    records["code"] = vector_blocks.signs(halves)
    slots = np.array([row[0] for row in rows], np.int64)
    vector_blocks.write_records(connection, model, slots, records)
    return int(slots[-1]) + 1


# What was set aside


def list_set_aside(connection: apsw.Connection) -> list[SetAside]:
    """The memories that were set aside, with the legible part of their texts."""
    found = []
    for id, reason, at, contents in connection.execute("SELECT id, reason, at, contents FROM set_aside ORDER BY key"):
        text = json.loads(contents).get("text", "")
        legible = bytes.fromhex(text["hex"]).decode(errors="replace") if isinstance(text, dict) else str(text)
        found.append(SetAside(id, reason, from_micros(at), legible))
    return found


def forget_set_aside(connection: apsw.Connection, ids: Sequence[str], within: Scope | None) -> list[str]:
    """Delete memories of these ids that were set aside, and return the ids of those that existed."""
    rows: list[Any] = connection.execute(
        "SELECT a.key, a.id, p.name, r.name, s.name, a.kind FROM set_aside AS a "
        "LEFT JOIN profiles AS p ON p.id = a.profile LEFT JOIN projects AS r ON r.id = a.project "
        "LEFT JOIN sessions AS s ON s.id = a.session WHERE a.id IN carray(?)",
        (apsw.carray(storable_ids(ids) or ("",)),),
    ).fetchall()
    gone = []
    for key, id, profile, project, session, kind in rows:
        known = KINDS[kind - 1] if isinstance(kind, int) and 0 < kind <= len(KINDS) else KINDS[0]
        if is_within(Memory(id, "", EPOCH, profile or "", project, session, kind=known), within):
            connection.execute("DELETE FROM set_aside WHERE key = ?", (key,))
            gone.append(id)
    return gone


def forget_set_aside_scope(connection: apsw.Connection, scope: ResolvedScope) -> None:
    """Delete the memories of a scope that were set aside."""
    connection.execute(f"DELETE FROM set_aside WHERE {IN_SCOPE}", scope.parameters)  # noqa: S608 - a text of our own
