"""The search by words: FTS5 over our own terms, with the scope inside the index."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import apsw

from recollect.stores import Found
from recollect.stores.sqlite.scopes import SCOPE_TOKENS, Numbers, Reach
from recollect.words import bm25, query_terms, rare_terms

Entry = tuple[int, list[str], Numbers]
"""A memory's key, its terms and its scope."""


def add_words(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Index these memories."""
    connection.executemany(
        "INSERT INTO words (rowid, terms, scope) VALUES (?, ?, ?)",
        ((key, " ".join(terms), numbers.tokens) for key, terms, numbers in entries),
    )
    _count(connection, (terms for _, terms, _ in entries), +1)


def remove_words(connection: apsw.Connection, entries: Sequence[Entry]) -> None:
    """Take these memories out of the index. Terms and scope are those they were indexed with."""
    connection.executemany(
        "INSERT INTO words (words, rowid, terms, scope) VALUES ('delete', ?, ?, ?)",
        ((key, " ".join(terms), numbers.tokens) for key, terms, numbers in entries),
    )
    _count(connection, (terms for _, terms, _ in entries), -1)


def _count(connection: apsw.Connection, documents: Iterable[list[str]], sign: int) -> None:
    documents = list(documents)
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


def search_words(
    connection: apsw.Connection, question: str, reach: Reach, *, limit: int, exclude: frozenset[int], common: float
) -> list[Found]:
    """The best memories in reach by BM25, best first."""
    _, terms = _terms(connection, question, common)
    if not terms:
        return []
    alone = connection.execute("SELECT count(*) = 1 FROM profiles").get
    # Terms hold no quotes (see recollect.words), so quoting them makes any text a safe query.
    match = "terms : (" + " OR ".join(f'"{term}"' for term in terms) + ")" + reach.match(alone=bool(alone))
    rows = connection.execute(
        "SELECT rowid, -bm25(words, 1.0, 0.0) FROM words WHERE words MATCH ? "
        "ORDER BY bm25(words, 1.0, 0.0), rowid LIMIT ?",
        (match, limit + len(exclude)),
    )
    return [Found(key, score) for key, score in rows if key not in exclude][:limit]


def score_words(
    connection: apsw.Connection, question: str, keys: Sequence[int], *, common: float
) -> Mapping[int, float]:
    """The same score for memories that the search did not return, by the same formula."""
    found_in, terms = _terms(connection, question, common)
    if not terms or not keys:
        return dict.fromkeys(keys, 0.0)
    memories, total = connection.execute("SELECT memories, terms FROM state").get
    rows = connection.execute(
        "SELECT m.key, m.terms FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value",
        (apsw.carray(array("q", keys)),),
    )
    return {
        key: bm25(
            terms,
            document.split(),
            found_in=found_in,
            memories=memories,
            mean_length=total / memories,
            extra_length=SCOPE_TOKENS,
        )
        for key, document in rows
    }


def _terms(connection: apsw.Connection, question: str, common: float) -> tuple[dict[str, int], list[str]]:
    """In how many memories each of the question's terms occurs, and the terms worth searching for."""
    asked = tuple(query_terms(question))
    if not asked:
        return {}, []
    found_in = dict(
        connection.execute(
            "SELECT t.term, t.memories FROM carray(?) AS asked CROSS JOIN term_counts AS t ON t.term = asked.value",
            (apsw.carray(asked),),
        )
    )
    memories = connection.execute("SELECT memories FROM state").get
    return found_in, rare_terms(asked, found_in, memories=memories, common=common)
