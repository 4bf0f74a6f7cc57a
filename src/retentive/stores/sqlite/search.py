"""`SqliteSearch`: all reads of one recall, on one connection and in one read transaction."""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

import apsw

from retentive.models import Candidate, Kind, Memory, Model, Query
from retentive.stores.damage import Damage
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, to_micros
from retentive.stores.sqlite.connections import Connections
from retentive.stores.sqlite.filtering import filtered_keys
from retentive.stores.sqlite.memory_table import (
    CURRENT,
    IndexedRow,
    count_memories,
    fetch_json,
    indexed_rows,
    keys_of,
    neighbour_keys,
    read_rows,
    resolve,
)
from retentive.stores.sqlite.validity import DatedKeys, RetiredKeys
from retentive.stores.sqlite.vector_index import VectorIndex
from retentive.stores.values import Retrieved, Scores, Vector
from retentive.text.analysis import LAST, query_terms
from retentive.text.bm25 import BM25, K1, B, rare_terms, searching_terms, spaced

MAX_COUNTED = 20_000
"""A term is counted in a scope if it cannot have more memories there than this (about a millisecond for as many)."""

MAX_MATCHES = 100
"""Scopes of up to this many memories are read without the index, and up to as many matching memories are all scored. Of
more, twice as many as are wanted are scored: the best by an approximation of BM25."""

ORDERING_TERMS = 2
"""If fewer terms retrieve candidates, the next rarest ones take part in that approximation too."""

_BYTES = bytes(range(256))
"""`instr` of a byte in it is the byte's value plus 1: how a statement reads the first bytes of a blob as numbers."""


class StoreState(NamedTuple):
    """The store in one snapshot. Every write raises the sequence number.

    `dated` is that of the last write that changed the validity of memories.
    """

    sequence: int
    profiles: int
    dated: int
    model_id: int | None
    model: Model | None


def read_state(connection: apsw.Connection) -> StoreState:
    """The state of the store in this snapshot."""
    sequence, profiles, dated, model_id, *model = connection.execute(
        """
        SELECT s.sequence, (SELECT count(*) FROM profiles), s.dated,
               m.id, m.name, m.revision, m.dimension, m.fingerprint
        FROM state AS s LEFT JOIN models AS m ON m.id = s.active_model
        """
    ).get
    return StoreState(sequence, profiles, dated, model_id, None if model_id is None else Model(*model))


class QueryTerms(NamedTuple):
    """The terms of a query, rarest first, with their document frequencies in the scope.

    `retrieving` terms retrieve candidates, all `scoring` terms score them. `memories` is how many the scope has, and
    `mean_length` the mean length of the memories of its profile.
    """

    retrieving: Sequence[str] = ()
    scoring: Sequence[str] = ()
    frequencies: Mapping[str, int] = MappingProxyType({})
    memories: int = 0
    mean_length: float = 0.0


class SqliteSearch:
    """See `retentive.stores.base.Search`. Every row that was read is kept until the search is closed."""

    def __init__(
        self,
        connections: Connections,
        query: Query,
        vector_index: Callable[[apsw.Connection, StoreState], VectorIndex | None],
        dated_keys: Callable[[apsw.Connection, StoreState], DatedKeys],
    ) -> None:
        self._connections = connections
        self._query = query
        self._open_index = vector_index
        self._read_dated = dated_keys
        self._retired_matches: list[int] = []  # by the keyword retriever, about the best first
        self._best: dict[str, Sequence[Candidate]] = {}  # the candidates of each retriever
        self.damaged: list[Damage] = []
        self._rows: dict[int, IndexedRow] = {}
        self._keys: dict[str, int] = {}
        self._vector: Vector | None = None
        self._semantic: dict[int, float] = {}
        self._keyword: dict[int, float] = {}
        self._documents: dict[int, str] | None = None  # the terms of every memory of a small scope
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
            matching = self._matching(2 * limit + len(self._excluded), kind)
            scores = {key: self._keyword_score(key, matching[key]) for key in matching if key not in self._excluded}
            rows = self._load(sorted(scores, key=lambda key: (-scores[key], key))[:limit])
        candidates = [Candidate(row.memory, scores[row.key]) for row in rows]
        if kind is None:
            self._best["keyword"] = candidates
        return Retrieved(candidates, [candidate.score for candidate in candidates])

    def nearest(self, vector: Vector, limit: int, *, depth: int = 0, kind: Kind | None = None) -> Retrieved:
        self._vector, self._semantic = vector, self._semantic if vector is self._vector else {}
        if self._scope is None or limit <= 0 or self._index is None:
            return Retrieved()
        scope = self._scope if kind is None else replace(self._scope, kinds=(KIND_NUMBERS[kind],))
        retired = self._retired
        keep = None if retired is None else lambda keys: ~retired.among(keys)
        with self._connections.errors():
            best = self._index.search(
                self._reader,
                vector,
                scope,
                limit=max(limit, depth),
                exclude=self._excluded,
                only=self._filtered,
                keep=keep,
            )
            self._semantic.update(best)
            rows = self._load(key for key, _ in best[:limit])
        candidates = [Candidate(row.memory, self._semantic[row.key]) for row in rows]
        if kind is None:
            self._best["semantic"] = candidates
        return Retrieved(candidates, [score for _, score in best])

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        with self._connections.errors():
            keys = {key: id for id, key in self._resolve(ids).items()}
            pairs = neighbour_keys(self._reader, keys, current_at=self._current_at)
            self._load(key for before, after in pairs.values() for key in (before, after) if key is not None)
        found = {key: row.memory for key, row in self._rows.items()}
        # Keys start at 1, so 0 is never found.
        return {keys[key]: (found.get(before or 0), found.get(after or 0)) for key, (before, after) in pairs.items()}

    def retired(self, limit: int) -> list[Memory]:
        if self._retired is None or limit <= 0:
            return []
        found: dict[int, None] = {}
        with self._connections.errors():
            if "keyword" in self._best:
                terms = _terms_of(self._reader, [key for key in self._retired_matches if key not in self._excluded])
                scores = {key: self._keyword_score(key, terms[key]) for key in terms}
                found |= dict.fromkeys(self._above("keyword", limit, scores))
            if "semantic" in self._best and self._index is not None and self._scope and self._vector is not None:
                best = self._index.search(
                    self._reader,
                    self._vector,
                    self._scope,
                    limit=limit,
                    exclude=self._excluded,
                    only=self._filtered,
                    keep=self._retired.among,
                )
                found |= dict.fromkeys(self._above("semantic", limit, dict(best)))
            return [row.memory for row in self._load(found)]

    def _above(self, retriever: str, limit: int, scores: Mapping[int, float]) -> list[int]:
        """The keys, best first, with a score that would have been among the first of a retriever."""
        best = self._best[retriever]
        least = best[limit - 1].score if len(best) >= limit else float("-inf")
        return sorted((key for key in scores if scores[key] >= least), key=lambda key: (-scores[key], key))[:limit]

    def scores(self, ids: Sequence[str]) -> Scores:
        with self._connections.errors():
            rows = self._load(self._resolve(ids).values())
            if self._vector is not None and self._index is not None:
                missing = {row.key: row.slots for row in rows if row.key not in self._semantic}
                self._semantic.update(self._index.score(self._reader, self._vector, missing))
        return Scores(
            {row.memory.id: self._keyword_score(row.key, row.terms) for row in rows},
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
        statement = """
            SELECT t.term FROM profiles AS p JOIN term_counts AS t ON t.profile = p.id
            WHERE p.name = ? AND t.term >= ? AND t.term < ? ORDER BY t.memories DESC, t.term LIMIT ?
        """
        with self._connections.errors():
            return [
                term
                for (term,) in self._reader.execute(
                    statement, (self._query.scope.profile, prefix, prefix + LAST, limit)
                )
            ]

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
    def _retired(self) -> RetiredKeys | None:
        """The keys that are not current at the time of the query; None if there are none, or if that is not asked."""
        at = to_micros(self._query.current_at)
        if at is None or not self._state.dated:
            return None
        return self._read_dated(self._reader, self._state).retired_at(at)

    @property
    def _current_at(self) -> int | None:
        """The time at which memories must be current, where that makes a difference."""
        return None if self._retired is None else to_micros(self._query.current_at)

    @cached_property
    def _filtered(self) -> array[int] | None:
        """The keys that match the filter; None without one."""
        if self._scope is None or not self._query.filter:
            return None
        return array("q", filtered_keys(self._reader, self._scope, self._query.filter))

    @cached_property
    def _terms(self) -> QueryTerms:
        """The terms of the query, with their document frequencies in the scope.

        A term that is rare in the profile may be common in the scope (the names of two people in their own
        conversation), and then tells nothing there. Where counting would take longer than the search, a term is taken
        to be as common in the scope as in the profile.
        """
        terms, scope = query_terms(self._query.text), self._scope
        if scope is None or not terms:
            return QueryTerms()
        connection = self._reader
        with self._connections.errors():
            memories, length = connection.execute(_PROFILE_TOTALS, (scope.profile,)).get
            mean_length = length / max(memories, 1)
            frequencies = _profile_frequencies(connection, scope.profile, terms)
            if scope.containers is not None or scope.kinds is not None:
                in_scope = count_memories(connection, scope)
                frequencies = self._scope_frequencies(frequencies, in_scope, share=in_scope / max(memories, 1))
                memories = in_scope
        scoring = rare_terms(terms, frequencies, memories=memories, common=1.0)
        common = self._query.tuning.common_words
        retrieving = searching_terms(scoring, frequencies, memories=memories, common=common)
        return QueryTerms(retrieving, scoring, frequencies, memories, mean_length)

    def _scope_frequencies(self, in_profile: Mapping[str, int], memories: int, *, share: float) -> dict[str, int]:
        """The document frequencies in the scope, given those in the profile and the scope's share of its memories."""
        if memories <= MAX_MATCHES:
            keys = _matching_keys(self._reader, _MATCHING.format(filter=""), {"any": self._fts_filter[len(" AND ") :]})
            documents = _terms_of(self._reader, keys)
            if len(documents) == len(keys):  # otherwise some are damaged
                self._documents = documents
                texts = [spaced(terms) for terms in documents.values()]
                return {term: sum(f" {term} " in text for text in texts) for term in in_profile}
        countable = [term for term, count in in_profile.items() if min(count, memories) <= MAX_COUNTED]
        estimated = {term: max(round(count * share), 1) for term, count in in_profile.items()}
        return estimated | _count_matches(self._reader, countable, self._fts_filter)

    @cached_property
    def _bm25(self) -> BM25:
        terms = self._terms
        return BM25(terms.scoring, terms.frequencies, memories=terms.memories, mean_length=terms.mean_length)

    def _matching(self, most: int, kind: Kind | None) -> dict[int, str]:
        """The terms, by key, of the memories that a retrieving term finds; if there are more, of about the best."""
        only = self._filtered
        if only is not None and not only:
            return {}
        if self._documents is not None and kind is None:
            wanted = [f" {term} " for term in self._terms.retrieving]
            keys = None if only is None else frozenset(only)
            matching = {
                key: terms
                for key, terms in self._documents.items()
                if (keys is None or key in keys) and any(term in spaced(terms) for term in wanted)
            }
            return {key: matching[key] for key in self._without_retired(list(matching), kind)}
        fts_filter = self._fts_filter + ("" if kind is None else f" AND scope : (k{KIND_NUMBERS[kind]})")
        if self._retired is None:
            found = self._matching_keys(most, fts_filter, only)
        else:
            found = self._current_matches(most, fts_filter, only, kind, self._retired)
        terms = _terms_of(self._reader, found)
        self._load(key for key in found if key not in terms)  # they are damaged
        return terms

    def _current_matches(
        self, most: int, fts_filter: str, only: array[int] | None, kind: Kind | None, retired: RetiredKeys
    ) -> list[int]:
        """The keys of the current memories that a retrieving term finds; if there are more, of about the best.

        About twice as many are read, and those that are retired are left out, because that takes less time than a
        condition in the statement. If too few are left, the statement has the condition.
        """
        most_read = most + min(most, retired.size)
        found = self._matching_keys(most_read, fts_filter, only)
        current = self._without_retired(found, kind)
        if not self._has_more_than(most_read):  # these are all
            return current
        self._retired_matches = self._retired_matches[: 4 * max(self._query.limit, 1)]  # best first, as all of these
        if len(current) < most <= len(found):
            return self._matching_keys(most, fts_filter, only, current=True)
        return current[:most]

    def _has_more_than(self, most: int) -> bool:
        """Whether the retrieving terms find perhaps more memories than are all scored."""
        found = self._terms
        return sum(found.frequencies[term] for term in found.retrieving) > max(most, MAX_MATCHES)

    def _without_retired(self, keys: list[int], kind: Kind | None) -> list[int]:
        retired = self._retired
        if retired is None:
            return keys
        if kind is None:
            self._retired_matches = [key for key in keys if key in retired]
        return [key for key in keys if key not in retired]

    def _matching_keys(
        self, most: int, fts_filter: str, only: array[int] | None, *, current: bool = False
    ) -> list[int]:
        """The keys of the memories that a retrieving term finds; if there are more, of about the best.

        FTS5's own BM25 would order them by the statistics of the whole store.
        """
        found = self._terms
        any_term = _fts_query(found.retrieving, fts_filter)
        filtered = {} if only is None else {"filtered": apsw.carray(only)}
        condition = "AND +words.rowid IN carray(:filtered)" if filtered else ""
        if not self._has_more_than(most) and not current:
            return _matching_keys(self._reader, _MATCHING.format(filter=condition), {"any": any_term, **filtered})
        others = [term for term in found.scoring if term not in found.retrieving]
        others = others[: max(ORDERING_TERMS - len(found.retrieving), 0)]
        queries = [_fts_query([term], fts_filter) for term in found.retrieving]
        queries += [f"{_fts_query([term], '')} AND {any_term}" for term in others]
        weights = [self._bm25([term]) for term in (*found.retrieving, *others)]
        parameters = {
            "weights": json.dumps(list(zip(queries, weights, strict=True))),
            "bytes": _BYTES,
            "per_memory": K1 * (1 - B),
            "per_term": K1 * B / max(found.mean_length, 1e-9),
            "most": most,
            "current_at": self._current_at,
            **filtered,
        }
        statement = _BEST_MATCHING.format(filter=condition, current=CURRENT.format(key="found.key") if current else "")
        return _matching_keys(self._reader, statement, parameters)

    def _keyword_score(self, key: int, terms: str) -> float:
        score = self._keyword.get(key)
        if score is None:
            score = self._keyword[key] = self._bm25.score_text(terms, extra_length=SCOPE_TOKENS)
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


_PROFILE_TOTALS = "SELECT memories, terms FROM profiles WHERE id = ?"

_TERMS = """
    SELECT json_group_array(json_array(m.key, m.terms))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value
"""

_MATCHING = "SELECT json_group_array(rowid) FROM words WHERE words MATCH :any {filter}"

# An approximation of BM25 that ignores how often a term occurs in a memory. `sz` starts with the memory's length in
# terms as a varint: one byte up to 127, otherwise two, of which the first is at least 128.
_BEST_MATCHING = f"""
    SELECT json_group_array(key) FROM (
      SELECT key FROM (
        SELECT words.rowid AS key, sum(one.value ->> 1) AS weight
        FROM json_each(:weights) AS one CROSS JOIN words WHERE words MATCH (one.value ->> 0) {{filter}}
        GROUP BY words.rowid
      ) AS found
      CROSS JOIN words_docsize ON id = key WHERE true {{current}}
      ORDER BY weight / (1 + :per_memory + :per_term * ({SCOPE_TOKENS} + CASE
        WHEN sz < x'80' THEN instr(:bytes, substr(sz, 1, 1)) - 1
        ELSE (instr(:bytes, substr(sz, 1, 1)) - 129) * 128 + (instr(:bytes, substr(sz, 2, 1)) - 1) % 128
      END)) DESC, key LIMIT :most
    )
"""  # noqa: S608 - a number of our own


def _matching_keys(connection: apsw.Connection, statement: str, parameters: Mapping[str, Any]) -> list[int]:
    keys: list[int] = fetch_json(connection, statement, parameters)
    return keys


def _terms_of(connection: apsw.Connection, keys: Sequence[int]) -> dict[int, str]:
    """The terms, joined by spaces, of the memories of these keys that can be read."""
    return {key: terms for key, terms, *_ in read_rows(connection, _TERMS, keys, [])}


def _profile_frequencies(connection: apsw.Connection, profile: int, terms: tuple[str, ...]) -> dict[str, int]:
    """The document frequency of each term in a profile, where it is not 0."""
    found: dict[str, int] = fetch_json(
        connection,
        "SELECT json_group_object(t.term, t.memories) "
        "FROM carray(?) AS asked CROSS JOIN term_counts AS t ON t.profile = ? AND t.term = asked.value",
        (apsw.carray(terms), profile),
    )
    return found


def _count_matches(connection: apsw.Connection, terms: Sequence[str], fts_filter: str) -> dict[str, int]:
    """The document frequency of each term in the scope."""
    if not terms:
        return {}
    queries = tuple(_fts_query([term], fts_filter) for term in terms)
    counts: list[int] = fetch_json(
        connection,
        "SELECT json_group_array((SELECT count(*) FROM words WHERE words MATCH asked.value)) FROM carray(?) AS asked",
        (apsw.carray(queries),),
    )
    return dict(zip(terms, counts, strict=True))


def _fts_query(terms: Sequence[str], fts_filter: str) -> str:
    # Terms contain no quotes (see retentive.text.analysis), so quoting them makes any text a safe query.
    return "terms : (" + " OR ".join(f'"{term}"' for term in terms) + ")" + fts_filter
