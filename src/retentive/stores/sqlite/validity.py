"""Which memories are current: keys with one open memory each, and the retired memories of a search."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import apsw
import numpy as np
import numpy.typing as npt

from retentive.models import Memory
from retentive.stores.sql_codec import ScopeIds, to_micros
from retentive.stores.sqlite import memory_table
from retentive.stores.sqlite.memory_table import fetch_json
from retentive.stores.validity import concerns_keys, settle_keys, settle_session, settle_update

_NEVER = np.iinfo(np.int64)

_DATED = """
    SELECT json_group_array(json_array(
      key, coalesce(valid_from, :first), min(coalesce(valid_to, :last), coalesce(expires, :last))
    ))
    FROM memories INDEXED BY memories_dated
    WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires IS NOT NULL
"""
_OF_KEY = "SELECT key FROM memories WHERE fact_key = ? AND profile = ? AND coalesce(project, 0) = ? ORDER BY key"
_KEYED = """
    SELECT key, fact_key, profile, coalesce(project, 0) FROM memories
    WHERE key IN carray(?) AND fact_key IS NOT NULL ORDER BY key
"""
_SLOT = "SELECT fact_key, profile, coalesce(project, 0) FROM memories WHERE id = ?"
_RETIRE = "UPDATE memories SET valid_to = ?, superseded_by = ?, reason = ?, actor = ? WHERE id = ?"


def settle(connection: apsw.Connection, memories: Sequence[Memory], scopes: Sequence[ScopeIds]) -> Sequence[Memory]:
    """Memories of these scopes as they are to be stored. Stored ones that they replace by their keys are retired."""
    own = {memory.id for memory in memories}
    slots = [(memory.key, ids.profile, ids.project) for memory, ids in zip(memories, scopes, strict=True)]
    stored = {
        slot: [one for one in _memories_of_key(connection, slot) if one.id not in own] for slot in slots if slot[0]
    }
    final, changed = settle_keys(list(zip(slots, memories, strict=True)), stored)
    retire(connection, changed)
    return final


def settle_updated(
    connection: apsw.Connection, current: Memory, memory: Memory, scope: ScopeIds, fields: Collection[str] | None
) -> Memory:
    """An updated memory as it is to be stored. Others of its key, and of the one that it had, change with it."""
    before: tuple[str | None, int, int] = connection.execute(_SLOT, (memory.id,)).get
    if before[2] != scope.project:  # its session is being moved
        name = connection.execute("SELECT name FROM projects WHERE id = ?", (scope.project,)).get
        memory = memory._replace(project=name)
    if not concerns_keys(current, memory):
        return memory
    slot = (memory.key, scope.profile, scope.project)
    others, former = (
        [one for one in _memories_of_key(connection, of) if one.id != memory.id] if of[0] is not None else []
        for of in (slot, before)
    )
    settled, changed = settle_update(current, memory, fields, others, former if before != slot else ())
    if changed:  # until its own row is written, its key is free
        connection.execute("UPDATE memories SET valid_to = ? WHERE id = ?", (to_micros(memory.start), memory.id))
    retire(connection, changed)
    return settled


def settle_moved(connection: apsw.Connection, keys: Sequence[int], project: int | None) -> list[Memory]:
    """The memories with keys that change when some of them move to a project.

    They are closed until they are written: a key has at most one open memory in a project.
    """
    rows: list[Any] = connection.execute(_KEYED, (apsw.carray(array("q", keys)),)).fetchall()
    name = connection.execute("SELECT name FROM projects WHERE id = ?", (project,)).get
    changed: list[Memory] = []
    for slot in dict.fromkeys((key, profile, home) for _, key, profile, home in rows):
        moved = memory_table.by_keys(connection, [row[0] for row in rows if row[1:] == slot])
        ids = {memory.id for memory in moved.values()}
        former = [memory for memory in _memories_of_key(connection, slot) if memory.id not in ids]
        here = _memories_of_key(connection, (slot[0], slot[1], project or 0))
        changed += settle_session(list(moved.values()), name, here=here, former=former)
    closed = ((to_micros(memory.start), memory.id) for memory in changed)
    connection.executemany("UPDATE memories SET valid_to = ? WHERE id = ?", closed)
    return changed


def _memories_of_key(connection: apsw.Connection, slot: tuple[str | None, int, int]) -> list[Memory]:
    keys = [key for (key,) in connection.execute(_OF_KEY, slot)]
    return list(memory_table.by_keys(connection, keys).values())


def retire(connection: apsw.Connection, memories: Sequence[Memory]) -> None:
    """Store when memories end and what replaces them. Those that are open come last: another one may have to end."""
    ordered = sorted(memories, key=lambda one: one.valid_to is None)
    rows = [(to_micros(one.valid_to), one.superseded_by, one.reason, one.actor, one.id) for one in ordered]
    connection.executemany(_RETIRE, rows)


def superseded_keys(connection: apsw.Connection, ids: Sequence[str]) -> list[int]:
    """The keys of the memories that these have replaced, and of those with the same key."""
    wanted = memory_table.storable_ids(ids)
    if not wanted:
        return []
    statement = """
        SELECT key FROM memories WHERE superseded_by IN carray(:ids)
        UNION SELECT other.key FROM memories AS one JOIN memories AS other
          ON other.fact_key = one.fact_key AND other.profile = one.profile AND other.project IS one.project
        WHERE one.id IN carray(:ids) AND one.fact_key IS NOT NULL
        ORDER BY 1
    """
    return [key for (key,) in connection.execute(statement, {"ids": apsw.carray(wanted)})]


def replaced_by(connection: apsw.Connection, id: str) -> str | None:
    """The id of what has replaced a memory."""
    found: str | None = connection.execute("SELECT superseded_by FROM memories WHERE id = ?", (id,)).get
    return found


def replacements(connection: apsw.Connection) -> dict[str, str]:
    """The id of what has replaced each memory that was replaced."""
    return dict(connection.execute("SELECT id, superseded_by FROM memories WHERE superseded_by IS NOT NULL"))


def expired_keys(connection: apsw.Connection, before: int, *, limit: int, profile: str | None) -> list[int]:
    """The keys of memories that expired before a time."""
    statement = """
        SELECT key FROM memories WHERE expires <= :before
          AND (:profile IS NULL OR profile = (SELECT id FROM profiles WHERE name = :profile))
        ORDER BY expires, key LIMIT :limit
    """
    parameters = {"before": before, "limit": limit, "profile": profile}
    return [key for (key,) in connection.execute(statement, parameters)]


class DatedKeys(NamedTuple):
    """The keys of all memories with an end or a given start, as of one change of them, with both times."""

    dated: int
    keys: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]

    def retired_at(self, micros: int) -> RetiredKeys | None:
        """Those that are not current at a time; None if there are none."""
        keys = self.keys[(self.end <= micros) | (self.start > micros)]
        if not len(keys):
            return None
        table = np.zeros(int(keys.max()) + 1, np.bool_)
        table[keys] = True
        return RetiredKeys(table, len(keys))


def read_dated(connection: apsw.Connection, dated: int) -> DatedKeys:
    """Read them in the snapshot of a connection."""
    rows = fetch_json(connection, _DATED, {"first": int(_NEVER.min), "last": int(_NEVER.max)})
    columns = np.array(rows, np.int64).reshape(-1, 3)
    return DatedKeys(dated, *(np.ascontiguousarray(columns[:, at]) for at in range(3)))


class RetiredKeys(NamedTuple):
    """A set of keys, as one boolean for each key up to the largest."""

    table: npt.NDArray[np.bool_]
    size: int

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and key < len(self.table) and bool(self.table[key])

    def among(self, keys: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these keys are in the set."""
        found: npt.NDArray[np.bool_] = self.table[np.minimum(keys, len(self.table) - 1)]
        found &= keys < len(self.table)
        return found
