"""The FTS5 index over our own terms, and the document frequencies beside it."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

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
    _count(connection, [terms for _, terms, _ in entries], +1)


def remove(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Delete these memories from the index. Terms and scope are those they were indexed with."""
    connection.executemany(
        "INSERT INTO words (words, rowid, terms, scope) VALUES ('delete', ?, ?, ?)",
        ((key, " ".join(terms), ids.tokens) for key, terms, ids in entries),
    )
    _count(connection, [terms for _, terms, _ in entries], -1)


def _count(connection: apsw.Connection, documents: Sequence[list[str]], sign: int) -> None:
    counts = Counter(chain.from_iterable(map(set, documents)))
    connection.executemany(
        "INSERT INTO term_counts (term, memories) VALUES (?, ?) "
        "ON CONFLICT (term) DO UPDATE SET memories = memories + excluded.memories",
        ((term, sign * count) for term, count in sorted(counts.items())),
    )
    if sign < 0 and counts:
        connection.execute(
            "DELETE FROM term_counts WHERE memories <= 0 AND term IN carray(?)", (apsw.carray(tuple(counts)),)
        )
    connection.execute(
        "UPDATE state SET memories = memories + ?, terms = terms + ?",
        (sign * len(documents), sign * sum(len(terms) + SCOPE_TOKENS for terms in documents)),
    )
