"""Removal of deleted terms from the separators of the FTS5 index.

FTS5 stores, for each leaf page of a segment, the beginning of its first term (table `words_idx`). Its `secure-delete`
removes a deleted term from the leaf page, but not from there. A separator may be any text that is after the last term
of the page before and not after the first term of its own page, so it is replaced by one from the term that is first
now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import apsw

_MAIN = b"0"
"""FTS5 writes this before every term of the main index."""

_SEGMENT_SHIFT = 37
"""Leaf page p of segment s is row (s << 37) + p of `words_data`."""

# The separator at or before each term, in each segment; of these, the separators that begin the term.
_FIND = """
    WITH RECURSIVE segments (id) AS (
      SELECT min(segid) FROM words_idx
      UNION ALL
      SELECT (SELECT min(segid) FROM words_idx WHERE segid > segments.id) FROM segments WHERE id IS NOT NULL
    ), found (segment, term, separator) AS (
      SELECT s.id, t.value, (
        SELECT i.term FROM words_idx AS i WHERE i.segid = s.id AND i.term <= t.value ORDER BY i.term DESC LIMIT 1
      )
      FROM carray(?) AS t CROSS JOIN segments AS s WHERE s.id IS NOT NULL
    )
    SELECT DISTINCT i.segid, i.term, i.pgno >> 1
    FROM found AS f JOIN words_idx AS i ON i.segid = f.segment AND i.term = f.separator
    WHERE length(f.separator) > 1 AND substr(f.term, 1, length(f.separator)) = f.separator
"""


def clear(connection: apsw.Connection, removed: Iterable[str]) -> None:
    """Replace separators made of these removed terms, unless they begin a term that is still there."""
    wanted = tuple({_MAIN + term.encode() for term in removed})
    if not wanted:
        return
    # FTS5 collects changes in memory. A savepoint makes it write them.
    connection.execute("SAVEPOINT written; RELEASE written")
    found: list[Any] = connection.execute(_FIND, (apsw.carray(wanted),)).fetchall()
    for segment, separator, page in found:
        leaf = connection.execute(
            "SELECT block FROM words_data WHERE id = ?", ((segment << _SEGMENT_SHIFT) + page,)
        ).get
        first = None if leaf is None else _first_term(leaf)
        if first is None or first.startswith(separator):
            continue
        shared = next(at for at, byte in enumerate(separator) if byte != first[at])
        connection.execute(
            "UPDATE words_idx SET term = ? WHERE segid = ? AND term = ?", (first[: shared + 1], segment, separator)
        )


def _first_term(leaf: bytes) -> bytes | None:
    """The first term of a leaf page; None if it has none."""
    end = int.from_bytes(leaf[2:4], "big")
    if end >= len(leaf):
        return None
    at, _ = _varint(leaf, end)
    size, start = _varint(leaf, at)
    return leaf[start : start + size]


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer of up to eight bytes at a place, and the place after it."""
    value = 0
    while True:
        value = (value << 7) | (data[at] & 0x7F)
        at += 1
        if data[at - 1] < 0x80:
            return value, at
