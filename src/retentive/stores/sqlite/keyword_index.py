"""The FTS5 index over our own terms, and the document frequencies of each profile beside it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence

import apsw

from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds

Entry = tuple[int, list[str], ScopeIds]
"""A memory's key, its terms and its scope."""


def entries(connection: apsw.Connection, keys: Iterable[int]) -> list[Entry]:
    """The entries of these memories, as they were indexed."""
    wanted = array("q", keys)
    if not wanted:
        return []
    rows = connection.execute(
        "SELECT m.key, m.terms, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind "
        "FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value",
        (apsw.carray(wanted),),
    )
    return [(key, terms.split(), ScopeIds(*scope)) for key, terms, *scope in rows]


def add(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Index these memories."""
    connection.executemany(
        "INSERT INTO words (rowid, terms, scope) VALUES (?, ?, ?)",
        ((key, " ".join(terms), ids.tokens) for key, terms, ids in entries),
    )
    _count(connection, entries, +1)


def remove(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Delete these memories from the index. Terms and scope are those they were indexed with."""
    connection.executemany(
        "INSERT INTO words (words, rowid, terms, scope) VALUES ('delete', ?, ?, ?)",
        ((key, " ".join(terms), ids.tokens) for key, terms, ids in entries),
    )
    _count(connection, entries, -1)


def _count(connection: apsw.Connection, entries: Sequence[Entry], sign: int) -> None:
    """Count memories in their profiles: their number, their total length, and the document frequency of each term."""
    counts: Counter[tuple[int, str]] = Counter()
    lengths: dict[int, list[int]] = {}
    for _, terms, ids in entries:
        counts.update((ids.profile, term) for term in set(terms))
        lengths.setdefault(ids.profile, []).append(len(terms) + SCOPE_TOKENS)
    connection.executemany(
        "INSERT INTO term_counts (profile, term, memories) VALUES (?, ?, ?) "
        "ON CONFLICT (profile, term) DO UPDATE SET memories = memories + excluded.memories",
        ((profile, term, sign * count) for (profile, term), count in sorted(counts.items())),
    )
    if sign < 0:
        connection.executemany(
            "DELETE FROM term_counts WHERE profile = ? AND term = ? AND memories <= 0", sorted(counts)
        )
    connection.executemany(
        "UPDATE profiles SET memories = memories + ?, terms = terms + ? WHERE id = ?",
        ((sign * len(some), sign * sum(some), profile) for profile, some in lengths.items()),
    )
