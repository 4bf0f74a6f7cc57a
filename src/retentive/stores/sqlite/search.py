"""`SqliteSearch`: all reads of one recall, on one connection and in one read transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import TracebackType
from typing import NamedTuple, Self

import apsw

from retentive.models import Candidate, Damage, Kind, Memory, Model, Query
from retentive.stores.base import Retrieved, Scores, Vector
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS
from retentive.stores.sqlite.connections import Connections
from retentive.stores.sqlite.memory_table import (
    IndexedRow,
    count_memories,
    fetch_json,
    indexed_rows,
    keys_of,
    neighbour_keys,
    resolve,
)
from retentive.stores.sqlite.vector_index import VectorIndex
from retentive.text.analysis import LAST, query_terms
from retentive.text.bm25 import BM25, rare_terms, searching_terms

MAX_COUNTED = 20_000
"""Up to this document frequency, a term is counted in the scope (at most a fifth of a millisecond each)."""

MAX_MATCHES = 100
"""Up to this many matching memories are scored one by one; more are first ordered by FTS5."""


class StoreState(NamedTuple):
    """The store in one snapshot. Every write raises the sequence number."""

    sequence: int
    memories: int
    terms: int
    profiles: int
    model_id: int | None
    model: Model | None


def read_state(connection: apsw.Connection) -> StoreState:
    """The state of the store in this snapshot."""
    sequence, memories, terms, profiles, model_id, *model = connection.execute(
        """
        SELECT s.sequence, s.memories, s.terms, (SELECT count(*) FROM profiles), m.id, m.name, m.revision, m.dimension,
               m.fingerprint
        FROM state AS s LEFT JOIN models AS m ON m.id = s.active_model
        """
    ).get
    return StoreState(sequence, memories, terms, profiles, model_id, None if model_id is None else Model(*model))


class QueryTerms(NamedTuple):
    """The terms of a query, rarest first, with their document frequencies in the scope.

    `retrieving` terms retrieve candidates, all `scoring` terms score them. `matches` are the keys of all memories in
    the scope that have a retrieving term, where these are few.
    """

    retrieving: Sequence[str]
    scoring: Sequence[str]
    frequencies: Mapping[str, int]
    memories: int
    matches: Sequence[int] | None = None


class SqliteSearch:
    """See `retentive.stores.base.Search`. Every row that was read is kept until the search is closed."""

    def __init__(
        self,
        connections: Connections,
        query: Query,
        vector_index: Callable[[apsw.Connection, StoreState], VectorIndex | None],
    ) -> None:
        self._connections = connections
        self._query = query
        self._open_index = vector_index
        self.damaged: list[Damage] = []
        self._rows: dict[int, IndexedRow] = {}
        self._keys: dict[str, int] = {}
        self._vector: Vector | None = None
        self._semantic: dict[int, float] = {}
        self._keyword: dict[int, float] = {}
        self._connection: apsw.Connection | None = connections.acquire()
        try:
            with connections.errors():
                self._connection.execute("BEGIN")
                self._state = read_state(self._connection)
                self._scope = resolve(self._connection, query.scope)
                self._excluded = frozenset(keys_of(self._connection, query.exclude).values())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._connections.release(connection)

    @property
    def model(self) -> Model | None:
        return self._state.model

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        if self._scope is None or limit <= 0 or not self._terms.retrieving:
            return Retrieved()
        with self._connections.errors():
            # FTS5's own BM25 chooses candidates where many memories match; ours scores them.
            most = limit + len(self._excluded) + limit // 2
            keys = self._terms.matches
            if keys is None or len(keys) > most or kind is not None:
                of_kind = "" if kind is None else f" AND scope : (k{KIND_NUMBERS[kind]})"
                keys = _match(self._reader, self._terms.retrieving, self._fts_filter + of_kind, limit=most)
            rows = self._load(key for key in keys if key not in self._excluded)
        scored = sorted(((self._keyword_score(row), row) for row in rows), key=lambda one: (-one[0], one[1].key))
        best = [Candidate(row.memory, score) for score, row in scored[:limit]]
        return Retrieved(best, [candidate.score for candidate in best])

    def nearest(self, vector: Vector, limit: int, *, depth: int = 0, kind: Kind | None = None) -> Retrieved:
        self._vector, self._semantic = vector, self._semantic if vector is self._vector else {}
        if self._scope is None or limit <= 0 or self._index is None:
            return Retrieved()
        scope = self._scope if kind is None else replace(self._scope, kinds=(KIND_NUMBERS[kind],))
        with self._connections.errors():
            best = self._index.search(self._reader, vector, scope, limit=max(limit, depth), exclude=self._excluded)
            self._semantic.update(best)
            rows = self._load(key for key, _ in best[:limit])
        candidates = [Candidate(row.memory, self._semantic[row.key]) for row in rows]
        return Retrieved(candidates, [score for _, score in best])

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        with self._connections.errors():
            keys = {key: id for id, key in self._resolve(ids).items()}
            pairs = neighbour_keys(self._reader, keys)
            self._load(key for before, after in pairs.values() for key in (before, after) if key is not None)
        found = {key: row.memory for key, row in self._rows.items()}
        # Keys start at 1, so 0 is never found.
        return {keys[key]: (found.get(before or 0), found.get(after or 0)) for key, (before, after) in pairs.items()}

    def scores(self, ids: Sequence[str]) -> Scores:
        with self._connections.errors():
            rows = self._load(self._resolve(ids).values())
            if self._vector is not None and self._index is not None:
                missing = {row.key: row.slots for row in rows if row.key not in self._semantic}
                self._semantic.update(self._index.score(self._reader, self._vector, missing))
        return Scores(
            {row.memory.id: self._keyword_score(row) for row in rows},
            {row.memory.id: self._semantic[row.key] for row in rows if row.key in self._semantic},
        )

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        if self._index is None:
            return {}
        with self._connections.errors():
            rows = self._load(self._resolve(ids).values())
            first = self._index.first_vectors(self._reader, {row.key: row.slots for row in rows})
        return {self._rows[key].memory.id: vector for key, vector in first.items()}

    def terms_with_prefix(self, prefix: str, *, limit: int) -> list[str]:
        statement = "SELECT term FROM term_counts WHERE term >= ? AND term < ? ORDER BY memories DESC, term LIMIT ?"
        with self._connections.errors():
            return [term for (term,) in self._reader.execute(statement, (prefix, prefix + LAST, limit))]

    @property
    def _reader(self) -> apsw.Connection:
        if self._connection is None:
            raise ValueError("the search is closed")
        return self._connection

    @cached_property
    def _index(self) -> VectorIndex | None:
        with self._connections.errors():
            return self._open_index(self._reader, self._state)

    @cached_property
    def _fts_filter(self) -> str:
        return self._scope.fts_filter(single_profile=self._state.profiles == 1) if self._scope else ""

    @cached_property
    def _terms(self) -> QueryTerms:
        """The terms of the query, with their document frequencies.

        A term that is rare in the store may be common in the scope (the names of two people in their own conversation),
        and then tells nothing there. So scores depend on frequencies in the scope, and retrieval on those in the store.
        """
        connection, state = self._reader, self._state
        terms = query_terms(self._query.text)
        if self._scope is None or not terms:
            return QueryTerms((), (), {}, 0)
        with self._connections.errors():
            in_store = _store_frequencies(connection, terms)
            scoring = rare_terms(terms, in_store, memories=state.memories, common=1.0)
            if not scoring:
                return QueryTerms((), (), {}, 0)
            common = self._query.tuning.common_words
            retrieving = searching_terms(scoring, in_store, memories=state.memories, common=common)
            memories = count_memories(connection, self._scope) if self._fts_filter else state.memories
            share = memories / max(state.memories, 1)
            matches = None
            if share * sum(in_store[term] for term in retrieving) <= MAX_MATCHES:
                matches = _matching_documents(connection, retrieving, self._fts_filter)
            frequencies = in_store
            if self._fts_filter:
                frequencies = {}
                for term in scoring:
                    if in_store[term] > MAX_COUNTED:  # counting would take longer than the search
                        frequencies[term] = round(in_store[term] * share)
                    elif matches is not None and term in retrieving:
                        frequencies[term] = sum(term in document for document in matches.values())
                    else:
                        frequencies[term] = _count_matches(connection, term, self._fts_filter)
        return QueryTerms(retrieving, scoring, frequencies, memories, None if matches is None else list(matches))

    @cached_property
    def _bm25(self) -> BM25:
        terms, state = self._terms, self._state
        mean_length = state.terms / max(state.memories, 1)
        return BM25(terms.scoring, terms.frequencies, memories=terms.memories, mean_length=mean_length)

    def _keyword_score(self, row: IndexedRow) -> float:
        score = self._keyword.get(row.key)
        if score is None:
            score = self._keyword[row.key] = self._bm25(row.terms.split(), extra_length=SCOPE_TOKENS)
        return score

    def _load(self, keys: Iterable[int]) -> list[IndexedRow]:
        """The rows of these keys that exist, in order; those not read before are read now."""
        wanted = list(dict.fromkeys(keys))
        new = [key for key in wanted if key not in self._rows]
        for key, row in indexed_rows(self._reader, new, self.damaged).items():
            self._rows[key] = row
            self._keys[row.memory.id] = key
        return [self._rows[key] for key in wanted if key in self._rows]

    def _resolve(self, ids: Sequence[str]) -> dict[str, int]:
        """The keys of these ids that exist, in order."""
        unknown = [id for id in ids if id not in self._keys]
        if unknown:
            self._keys.update(keys_of(self._reader, unknown))
        return {id: self._keys[id] for id in ids if id in self._keys}


def _store_frequencies(connection: apsw.Connection, terms: tuple[str, ...]) -> dict[str, int]:
    """The document frequency of each term in the whole store, where it is not 0."""
    found: dict[str, int] = fetch_json(
        connection,
        "SELECT json_group_object(t.term, t.memories) "
        "FROM carray(?) AS asked CROSS JOIN term_counts AS t ON t.term = asked.value",
        (apsw.carray(terms),),
    )
    return found


def _matching_documents(
    connection: apsw.Connection, terms: Sequence[str], fts_filter: str
) -> dict[int, list[str]] | None:
    """The memories that have any of these terms, with all terms of each; None if there are too many, or damaged."""
    try:
        rows = fetch_json(
            connection,
            "SELECT json_group_array(json_array(key, terms)) FROM (SELECT m.key, m.terms "
            "FROM words CROSS JOIN memories AS m ON m.key = words.rowid WHERE words MATCH ? LIMIT ?)",
            (_fts_query(terms, fts_filter), MAX_MATCHES + 1),
        )
    except (UnicodeDecodeError, apsw.CorruptError):
        return None  # one of them is damaged: they are read one by one
    found = {key: document.split() for key, document in rows}
    return found if len(found) <= MAX_MATCHES else None


def _count_matches(connection: apsw.Connection, term: str, fts_filter: str) -> int:
    """The document frequency of a term in the scope."""
    statement = "SELECT count(*) FROM words WHERE words MATCH ?"
    count: int = connection.execute(statement, (_fts_query([term], fts_filter),)).get
    return count


def _match(connection: apsw.Connection, terms: Sequence[str], fts_filter: str, *, limit: int) -> list[int]:
    """The best memories by FTS5's BM25."""
    keys: list[int] = fetch_json(
        connection,
        "SELECT json_group_array(key) FROM ("
        "SELECT rowid AS key FROM words WHERE words MATCH ? ORDER BY bm25(words, 1.0, 0.0), rowid LIMIT ?)",
        (_fts_query(terms, fts_filter), limit),
    )
    return keys


def _fts_query(terms: Sequence[str], fts_filter: str) -> str:
    # Terms contain no quotes (see retentive.text.analysis), so quoting them makes any text a safe query.
    return "terms : (" + " OR ".join(f'"{term}"' for term in terms) + ")" + fts_filter
