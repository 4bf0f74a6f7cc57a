"""The search by words: FTS5 over our own terms, with the scope inside the index."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import apsw

from retentive.stores import Found
from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds
from retentive.stores.sqlite.rows import in_one
from retentive.stores.sqlite.scopes import ResolvedScope, count_memories
from retentive.stores.sqlite.state import State
from retentive.text.analysis import BM25, query_terms, rare_terms, searching_terms

COUNTED = 20_000
"""Up to so many entries, a term is counted in a scope (a fifth of a millisecond each at the most)."""

FEW = 100
"""Up to so many memories that hold a searched term are looked at one by one; more are left to FTS5."""

Entry = tuple[int, list[str], ScopeIds]
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


class Terms(NamedTuple):
    """The terms of a query, rarest first: those that search and all that score, and how common each is in reach.

    `holders` are all memories in reach that hold a searched term, where these are few.
    """

    searched: list[str]
    scored: list[str]
    found_in: Mapping[str, int]
    memories: int
    holders: Sequence[int] | None = None


def terms_of(connection: apsw.Connection, state: State, query: str, reach: ResolvedScope, *, common: float) -> Terms:
    """The terms of a query, as this store knows them.

    What is rare in the whole store may be common in reach (the names of two people in their own conversation), and then
    tells nothing there. So scores go by counts in reach; which terms search goes by counts in the store.
    """
    asked = query_terms(query)
    found_in = _found_in(connection, asked) if asked else {}
    scored = rare_terms(asked, found_in, memories=state.memories, common=1.0)
    if not scored:
        return Terms([], [], {}, 0)
    searched = searching_terms(scored, found_in, memories=state.memories, common=common)
    scope = reach.match(alone=state.profiles == 1)
    memories = count_memories(connection, reach) if scope else state.memories
    share = memories / max(state.memories, 1)
    expected = share * sum(found_in[term] for term in searched)
    holders = _holders(connection, searched, scope) if expected <= FEW else None

    def count(term: str) -> int:
        if found_in[term] > COUNTED:
            # Counting it would take longer than the search; it is as common inside as outside, or nearly.
            return round(found_in[term] * share)
        if holders is not None and term in searched:
            return sum(term in document for document in holders.values())
        return _count_matches(connection, term, scope)

    inside = {term: count(term) for term in scored} if scope else found_in
    return Terms(searched, scored, inside, memories, None if holders is None else list(holders))


def _found_in(connection: apsw.Connection, terms: tuple[str, ...]) -> dict[str, int]:
    """How many memories of the store hold each of these terms, where any does."""
    found: dict[str, int] = in_one(
        connection,
        "SELECT json_group_object(t.term, t.memories) "
        "FROM carray(?) AS asked CROSS JOIN term_counts AS t ON t.term = asked.value",
        (apsw.carray(terms),),
    )
    return found


def _holders(connection: apsw.Connection, terms: Sequence[str], scope: str) -> dict[int, list[str]] | None:
    """The memories in scope that hold any of these terms, with all the terms of each; None if they are not few."""
    rows = in_one(
        connection,
        "SELECT json_group_array(json_array(key, terms)) FROM ("
        "SELECT m.key, m.terms FROM words CROSS JOIN memories AS m ON m.key = words.rowid WHERE words MATCH ? LIMIT ?)",
        (_any_of(terms, scope), FEW + 1),
    )
    found = {key: document.split() for key, document in rows}
    return found if len(found) <= FEW else None


def _count_matches(connection: apsw.Connection, term: str, scope: str) -> int:
    count: int = connection.execute("SELECT count(*) FROM words WHERE words MATCH ?", (_any_of([term], scope),)).get
    return count


def _any_of(terms: Sequence[str], scope: str) -> str:
    # Terms hold no quotes (see retentive.text.analysis), so quoting them makes any text a safe query.
    return "terms : (" + " OR ".join(f'"{term}"' for term in terms) + ")" + scope


def search_words(
    connection: apsw.Connection,
    state: State,
    terms: Terms,
    reach: ResolvedScope,
    *,
    limit: int,
    exclude: frozenset[int],
) -> list[Found]:
    """The best memories in reach by BM25, best first.

    Common words make FTS5 score a large part of the store and find nothing that rarer ones do not. So the rarer ones
    search, by FTS5's own BM25 unless they find few memories, and all of them score what was found, by ours.
    """
    if not terms.searched:
        return []
    scope = reach.match(alone=state.profiles == 1)
    most = limit + len(exclude) + limit // 2
    keys = terms.holders
    if keys is None or len(keys) > most:
        keys = _match(connection, terms.searched, scope, limit=most)
    scores = score_words(connection, state, terms, [key for key in keys if key not in exclude])
    return [Found(key, score) for key, score in sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:limit]]


def _match(connection: apsw.Connection, terms: Sequence[str], scope: str, *, limit: int) -> list[int]:
    keys: list[int] = in_one(
        connection,
        "SELECT json_group_array(key) FROM ("
        "SELECT rowid AS key FROM words WHERE words MATCH ? ORDER BY bm25(words, 1.0, 0.0), rowid LIMIT ?)",
        (_any_of(terms, scope), limit),
    )
    return keys


def score_words(connection: apsw.Connection, state: State, terms: Terms, keys: Sequence[int]) -> Mapping[int, float]:
    """The BM25 of any memories; 0 where no term of the query occurs."""
    if not terms.scored or not keys:
        return dict.fromkeys(keys, 0.0)
    rows = in_one(
        connection,
        "SELECT json_group_array(json_array(m.key, m.terms)) "
        "FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value",
        (apsw.carray(array("q", keys)),),
    )
    score = BM25(terms.scored, terms.found_in, memories=terms.memories, mean_length=state.terms / state.memories)
    return {key: score(document.split(), extra_length=SCOPE_TOKENS) for key, document in rows}
