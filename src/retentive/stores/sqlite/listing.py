"""The keys of one page of memories, by time in a scope or all of them by key, bounded by the size of their texts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import apsw

from retentive.stores.rules import ListCursor, page_length
from retentive.stores.sql_codec import RULE, to_micros
from retentive.stores.sqlite.memory_table import CURRENT, IN_SCOPE, ResolvedScope

# An id that is not valid UTF-8 would fail as text. Neither size reads the text itself, which a damaged row may lack.
_SIZE = "coalesce(octet_length(text), 0) + coalesce(octet_length(metadata), 0)"
_LIST = f"""
    SELECT key, {_SIZE}, coalesce(occurred, created), CAST(id AS BLOB) FROM memories {{index}}
    WHERE {IN_SCOPE} AND coalesce(occurred, created) <= :time AND (coalesce(occurred, created) < :time OR id < :id)
      {{current}} {{started}} {{rule}}
    ORDER BY coalesce(occurred, created) DESC, id DESC LIMIT :limit
"""  # noqa: S608 - texts of our own
_SCAN = f"SELECT key, {_SIZE} FROM memories WHERE key > ? ORDER BY key LIMIT ?"  # noqa: S608 - a text of our own


NO_ID = "00000000-0000-0000-0000-000000000000"
"""Before every other id."""


def list_page(
    connection: apsw.Connection,
    scope: ResolvedScope,
    *,
    cursor: ListCursor,
    limit: int,
    current_at: datetime | None = None,
    started_by: datetime | None = None,
    rules: bool = False,
) -> tuple[list[int], str | None]:
    """The keys of one page of the memories in a scope after the cursor, newest first, and the next cursor."""
    parameters = {
        **scope.parameters,
        "time": cursor.time,
        "id": cursor.id,
        "limit": limit + 1,
        "current_at": to_micros(current_at),
        "started_by": to_micros(started_by),
    }
    current = "" if current_at is None else CURRENT.format(key="memories.key")
    started = "" if started_by is None else "AND coalesce(valid_from, occurred, created) <= :started_by"
    index, rule = ("INDEXED BY memories_ruled", f"AND instr(metadata, '{RULE}')") if rules else ("", "")
    statement = _LIST.format(current=current, started=started, index=index, rule=rule)
    rows: list[Any] = connection.execute(statement, parameters).fetchall()
    count = page_length((row[1] for row in rows), limit)
    following = None
    if count < len(rows):
        _, _, time, id = rows[count - 1]
        last = id.decode(errors="replace") if id else NO_ID  # a damaged row may have none
        following = str(ListCursor(time, last))
    return [row[0] for row in rows[:count]], following


def scan_page(connection: apsw.Connection, *, after: int, limit: int) -> tuple[list[int], int | None]:
    """The keys of one page of all memories after a key, and the last of them if there are more."""
    rows: list[Any] = connection.execute(_SCAN, (after, limit + 1)).fetchall()
    count = page_length((size for _, size in rows), limit)
    return [key for key, _ in rows[:count]], rows[count - 1][0] if count < len(rows) else None
