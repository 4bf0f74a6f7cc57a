"""Which memories are current: keys with one open memory each, and the retired memories of a search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import apsw
import numpy as np
import numpy.typing as npt

from retentive.models import Memory
from retentive.stores.sql_codec import to_micros
from retentive.stores.sqlite import memory_table
from retentive.stores.sqlite.memory_table import fetch_json

_NEVER = np.iinfo(np.int64)

_DATED = """
    SELECT json_group_array(json_array(
      key, coalesce(valid_from, :first), min(coalesce(valid_to, :last), coalesce(expires, :last))
    ))
    FROM memories INDEXED BY memories_dated
    WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires IS NOT NULL
"""
_RETIRE = "UPDATE memories SET valid_to = ?, superseded_by = ?, reason = ?, actor = ? WHERE id = ?"


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


def expired_ids(connection: apsw.Connection, before: int, *, limit: int, profile: str | None) -> list[str]:
    """The ids of memories that expired before a time."""
    statement = """
        SELECT id FROM memories WHERE expires <= :before
          AND (:profile IS NULL OR profile = (SELECT id FROM profiles WHERE name = :profile))
        ORDER BY expires, key LIMIT :limit
    """
    parameters = {"before": before, "limit": limit, "profile": profile}
    return [id for (id,) in connection.execute(statement, parameters)]


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
