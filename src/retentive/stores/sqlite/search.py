"""`SqliteSearch`: all reads of one recall, in one read transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from types import MappingProxyType
from typing import NamedTuple

import apsw
import numpy as np
import numpy.typing as npt

from retentive.models import Candidate, Kind, Memory, Model, Query
from retentive.stores.damage import Damage
from retentive.stores.external_index import ExternalIndex, NearestRequest, StoredModel
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, to_memories, to_micros
from retentive.stores.sqlite.filtering import filtered_keys
from retentive.stores.sqlite.memory_table import (
    IDENTITY,
    INDEXED_ROWS,
    TERMS,
    IndexState,
    Keys,
    Postings,
    ResolvedScope,
    common_keys,
    count_memories,
    fetch_json,
    keys_of,
    neighbour_keys,
    read_rows,
    resolve,
)
from retentive.stores.sqlite.outbox import waiting_keys
from retentive.stores.sqlite.validity import DatedKeys, RetiredKeys
from retentive.stores.sqlite.vector_index import VectorIndex
from retentive.stores.values import Neighbours, SearchRequest, SearchResult, StageTimer, Vector
from retentive.text.bm25 import BM25, K1, B, count_scored, ordering_terms, rare_terms, searching_terms, spaced
from retentive.text.terms import LAST, query_terms

MAX_COUNTED = 20_000
"""A term is counted in a scope if it cannot have more memories there than this (about a millisecond for as many)."""

MAX_READ = 100
"""Scopes of up to this many memories are read without the index."""

LENGTHS_AT_ONCE = 256
"""If more memories match, the lengths of as many are read first: of those with the largest weights."""

FEW_POSTINGS, MANY_POSTINGS = 2_000, 200_000
"""To count a term in a scope, all postings of both are read if they are few, or if they are asked for often; then they
are kept for other terms and scopes. Otherwise those of the term in the scope are read."""


class StoreState(NamedTuple):
    """The store in one snapshot. Every write raises the sequence number.

    `dated` is that of the last write that changed the validity of memories.
    """

    sequence: int
    profiles: int
    dated: int
    model_id: int | None
    model: Model | None
    words: IndexState


def read_state(connection: apsw.Connection) -> StoreState:
    """The state of the store in this snapshot."""
    sequence, profiles, dated, unindexed, next_key, model_id, *model = connection.execute(
        """
        SELECT s.sequence, (SELECT count(*) FROM profiles), s.dated, s.unindexed, s.next_key,
               m.id, m.name, m.revision, m.dimension, m.fingerprint
        FROM state AS s LEFT JOIN models AS m ON m.id = s.active_model
        """
    ).get
    stored = None if model_id is None else Model(*model)
    return StoreState(sequence, profiles, dated, model_id, stored, IndexState(unindexed, next_key))


class QueryTerms(NamedTuple):
    """The terms of a query, rarest first, with their document frequencies in the scope.

    `retrieving` terms retrieve candidates, all `scoring` terms score them. `memories` is how many the scope has, and
    `mean_length` the mean length of the memories of its profile. `keys` are those of the memories in the scope that
    have a term, where they were counted there.
    """

    retrieving: Sequence[str] = ()
    scoring: Sequence[str] = ()
    frequencies: Mapping[str, int] = MappingProxyType({})
    memories: int = 0
    mean_length: float = 0.0
    keys: Mapping[str, Keys] = MappingProxyType({})


class SqliteSearch:
    """The reads of one search, on one connection and in its read transaction. Every row that was read is kept."""

    def __init__(
        self,
        connection: apsw.Connection,
        query: Query,
        vector_index: Callable[[StoreState], VectorIndex | None],
        dated_keys: Callable[[apsw.Connection, StoreState], DatedKeys],
        postings: Postings,
        external: ExternalIndex,
    ) -> None:
        self._connection = connection
        self._external = external
        self._note = ""
        self._postings = postings
        self._query = query
        self._open_index = vector_index
        self._read_dated = dated_keys
        self._retired_matches: list[int] = []  # by the keyword retriever, about the best first
        self._damaged: list[Damage] = []
        self._memories: dict[int, Memory] = {}
        self._terms_of: dict[int, str] = {}  # of these memories, and of others that match
        self._keys: dict[str, int] = {}
        self._vector: Vector | None = None
        self._semantic: dict[int, float] = {}
        self._keyword: dict[int, float] = {}
        self._documents: list[int] | None = None  # every memory of a small scope
        self._state = read_state(connection)
        self._read_postings = partial(postings.read, connection, self._state.words)
        self._scope = resolve(connection, query.scope)
        self._excluded = frozenset(keys_of(connection, query.exclude).values())

    def run(self, request: SearchRequest) -> SearchResult:
        """Read what is asked for: by words while the query is embedded, then by vector, then what belongs to both."""
        timer = StageTimer()
        candidates: dict[str, Sequence[Candidate]] = {}
        tails: dict[str, Sequence[float]] = {}
        if request.vector is not None and not request.vector.ready():
            self._index  # noqa: B018 - in a new process it is read from the store, while the model is loaded
        if request.keyword:
            timer.skip()
            candidates["keyword"] = self._keyword_candidates(request.keyword, request.kind)
            tails["keyword"] = [one.score for one in candidates["keyword"]]
            timer.lap("keyword")
        self._vector = None if request.vector is None else request.vector.wait(self._state.model)
        timer.skip()
        if request.semantic and self._vector is not None:
            candidates["semantic"], tails["semantic"] = self._nearest(self._vector, request)
            timer.lap("semantic")
        ids = [one.memory.id for found in candidates.values() for one in found[: request.centres]]
        neighbours = self._neighbours([*ids, *request.around]) if ids or request.around else {}
        timer.lap("neighbours")
        self._load(self._resolve(request.ids).values())
        scores = self._scores() if request.scores else {}
        vectors = self._vectors(list(self._memories)) if request.vectors else {}
        retired = self._left_out(request.retired, candidates)
        timer.lap("score")
        return SearchResult(
            candidates,
            tails,
            scores,
            neighbours,
            vectors,
            retired,
            self._damaged,
            self._state.model,
            self._profile_totals[0],
            timer.laps,
            self._note,
        )

    def _keyword_candidates(self, limit: int, kind: Kind | None) -> list[Candidate]:
        if self._scope is None or not self._terms.retrieving:
            return []
        scores = self._keyword_scores(self._matching(limit, kind))
        keys = self._load(sorted(scores, key=lambda key: (-scores[key], key))[:limit])
        return [Candidate(self._memories[key], scores[key]) for key in keys]

    def _nearest(self, vector: Vector, request: SearchRequest) -> tuple[list[Candidate], list[float]]:
        """The nearest memories, and the best scores down to a depth."""
        limit, kind = request.semantic, request.kind
        if self._scope is None:
            return [], []
        scope = self._scope if kind is None else replace(self._scope, kinds=(KIND_NUMBERS[kind],))
        best = self._search_vectors(vector, scope, max(limit, request.depth), approximate=request.approximate)
        self._semantic.update(best)
        keys = self._load([key for key, _ in best[:limit]])
        return [Candidate(self._memories[key], self._semantic[key]) for key in keys], [score for _, score in best]

    def _search_vectors(
        self, vector: Vector, scope: ResolvedScope, limit: int, *, retired: bool = False, approximate: bool = False
    ) -> list[tuple[int, float]]:
        """The keys and scores of the nearest memories that are current, or of those that are not."""
        outdated = self._retired
        if self._index is None:
            return []
        return self._index.search(
            self._connection,
            vector,
            scope,
            limit=limit,
            exclude=self._excluded,
            only=self._proposed(vector, scope, limit, retired=retired) if self._filtered is None else self._filtered,
            keep=None if outdated is None else outdated.among if retired else lambda keys: ~outdated.among(keys),
            approximate=approximate,
        )

    def _proposed(self, vector: Vector, scope: ResolvedScope, limit: int, *, retired: bool) -> Keys | None:
        """The keys among which the nearest are, by the external index; None if it has no answer."""
        model, containers = self._state.model, scope.containers
        if model is None or self._state.model_id is None:
            return None
        request = NearestRequest(
            StoredModel(self._state.model_id, model),
            vector,
            limit + len(self._excluded),
            scope.profile,
            projects=None if containers is None else containers.projects,
            sessions=None if containers is None else containers.sessions,
            kinds=scope.kinds,
            identity=IDENTITY if scope.shares_identity else None,
            outside_projects=scope.outside_projects,
            current_at=self._current_at,
            retired=retired,
        )
        proposal = self._external.propose(request, partial(waiting_keys, self._connection))
        self._note = proposal.note or self._note
        return None if proposal.keys is None else np.array(proposal.keys, np.int64)

    def _neighbours(self, ids: Sequence[str]) -> dict[str, Neighbours]:
        keys = {key: id for id, key in self._resolve(ids).items()}
        pairs = neighbour_keys(self._connection, keys, current_at=self._current_at)
        self._load([key for pair in pairs.values() for key in pair if key is not None])
        found = self._memories.get
        # Keys start at 1, so 0 is never found.
        return {keys[key]: (found(before or 0), found(after or 0)) for key, (before, after) in pairs.items()}

    def _scores(self) -> dict[str, Mapping[str, float]]:
        """The scores of all memories that were read, by each retriever."""
        missing = [key for key in self._memories if key not in self._semantic]
        if missing and self._vector is not None and self._index is not None:
            self._semantic.update(self._index.score(self._connection, self._vector, missing))
        keyword, semantic = self._keyword_scores(list(self._memories)), self._semantic
        return {
            "keyword": {memory.id: keyword[key] for key, memory in self._memories.items()},
            "semantic": {memory.id: semantic[key] for key, memory in self._memories.items() if key in semantic},
        }

    def _left_out(self, limit: int, candidates: Mapping[str, Sequence[Candidate]]) -> list[Memory]:
        """The memories that are not current, with a score that would have been among the first of a retriever."""
        retired, found = self._retired if limit else None, dict[int, None]()
        if retired is None:
            return []
        for retriever, best in candidates.items():
            scores: Mapping[int, float] = {}
            if retriever == "keyword":
                scores = self._keyword_scores(self._read_terms(self._retired_matches))
            elif self._scope and self._vector is not None:
                scores = dict(self._search_vectors(self._vector, self._scope, limit, retired=True))
            least = best[limit - 1].score if len(best) >= limit else float("-inf")
            above = sorted((key for key in scores if scores[key] >= least), key=lambda key: (-scores[key], key))
            found |= dict.fromkeys(above[:limit])
        return [self._memories[key] for key in self._load(found)]

    def _vectors(self, keys: Sequence[int]) -> dict[str, Vector]:
        if self._index is None:
            return {}
        first = self._index.first_vectors(self._connection, keys)
        return {self._memories[key].id: vector for key, vector in first.items()}

    @cached_property
    def _index(self) -> VectorIndex | None:
        index = self._open_index(self._state)
        return None if index is None else index.in_snapshot(self._connection, self._state.sequence)

    @cached_property
    def _profile_totals(self) -> tuple[int, int]:
        """The number of memories of the profile, and the sum of their lengths in terms."""
        if self._scope is None:
            return 0, 0
        totals: tuple[int, int] = self._connection.execute(_PROFILE_TOTALS, (self._scope.profile,)).get
        return totals

    @cached_property
    def _fts_filter(self) -> str:
        return self._scope.fts_filter(single_profile=self._state.profiles == 1) if self._scope else ""

    @property
    def _scope_query(self) -> str:
        return self._fts_filter.removeprefix(" AND ")

    @cached_property
    def _retired(self) -> RetiredKeys | None:
        """The keys that are not current at the time of the query; None if there are none, or if that is not asked."""
        at = to_micros(self._query.current_at)
        if at is None or not self._state.dated:
            return None
        return self._read_dated(self._connection, self._state).retired_at(at)

    @property
    def _current_at(self) -> int | None:
        """The time at which memories must be current, where that makes a difference."""
        return None if self._retired is None else to_micros(self._query.current_at)

    @cached_property
    def _filtered(self) -> Keys | None:
        """The keys that match the filter; None without one."""
        if self._scope is None or not self._query.filter:
            return None
        is_most = 2 * self._profile_totals[0] > self._state.words.next_key
        return filtered_keys(self._connection, self._scope, self._query.filter, is_most=is_most)

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
        connection = self._connection
        keys: Mapping[str, Keys] = {}
        memories, length = self._profile_totals
        mean_length = length / max(memories, 1)
        frequencies = _profile_frequencies(connection, scope.profile, terms)
        if not scope.is_profile:
            in_scope = self._postings.count(self._scope_query, self._state.words)
            if in_scope is None:
                in_scope = count_memories(connection, scope)
            share = in_scope / max(memories, 1)
            frequencies, keys = self._in_scope(frequencies, in_scope, share=share)
            memories = in_scope
        scoring = rare_terms(terms, frequencies, memories=memories, common=1.0)
        common = self._query.tuning.max_document_frequency
        retrieving = searching_terms(scoring, frequencies, memories=memories, common=common)
        return QueryTerms(retrieving, scoring, frequencies, memories, mean_length, keys)

    def _in_scope(
        self, in_profile: Mapping[str, int], memories: int, *, share: float
    ) -> tuple[dict[str, int], Mapping[str, Keys]]:
        """The document frequencies in the scope, given those in the profile and the scope's share of its memories.

        With the keys of the memories that have a term, where these are counted in the index.
        """
        if memories <= MAX_READ:
            (all_keys,) = self._read_postings([self._scope_query])
            documents = self._read_terms(all_keys.tolist())
            if len(documents) == len(all_keys):  # otherwise some are damaged
                self._documents = documents
                texts = [spaced(self._terms_of[key]) for key in documents]
                return {term: sum(f" {term} " in text for text in texts) for term in in_profile}, {}
        countable = [term for term, count in in_profile.items() if min(count, memories) <= MAX_COUNTED]
        estimated = {term: max(round(count * share), 1) for term, count in in_profile.items()}
        keys = self._keys_in_scope({term: in_profile[term] for term in countable}, memories)
        return estimated | {term: len(keys[term]) for term in countable}, keys

    def _keys_in_scope(self, in_profile: Mapping[str, int], memories: int) -> dict[str, Keys]:
        """The keys of the memories in the scope that have a term, given the terms with their frequencies.

        Where it is worth it, the postings of the scope and those of a term are read whole, and kept for other queries.
        """
        whole = {}
        if (
            self._state.profiles == 1
            and memories <= MAX_COUNTED
            and self._is_worth_reading(self._scope_query, memories)
        ):
            queries = {term: _fts_query([term], "") for term in in_profile}
            whole = {term: queries[term] for term in queries if self._is_worth_reading(queries[term], in_profile[term])}
        scoped = [term for term in in_profile if term not in whole]
        read = self._read_postings([_fts_query([term], self._fts_filter) for term in scoped])
        keys = dict(zip(scoped, read, strict=True))
        if whole:
            in_scope, *read = self._read_postings([self._scope_query, *whole.values()])
            keys |= {term: common_keys(in_scope, postings) for term, postings in zip(whole, read, strict=True)}
        return keys

    def _is_worth_reading(self, query: str, size: int) -> bool:
        """Whether to read all postings of a query, given their number."""
        if size <= FEW_POSTINGS:
            return True
        return size <= MANY_POSTINGS and self._postings.is_worth_reading(query, size, self._state.words)

    @cached_property
    def _bm25(self) -> BM25:
        terms = self._terms
        return BM25(terms.scoring, terms.frequencies, memories=terms.memories, mean_length=terms.mean_length)

    def _matching(self, limit: int, kind: Kind | None) -> list[int]:
        """The keys of the memories that a retrieving term finds, and whose terms can be read, which is done here.

        If there are many, about the best.
        """
        only = self._filtered
        if only is not None and not len(only):
            return []
        if self._documents is not None and kind is None:
            wanted = [f" {term} " for term in self._terms.retrieving]
            keys = None if only is None else frozenset(only.tolist())
            matching = [
                key
                for key in self._documents
                if (keys is None or key in keys) and any(term in spaced(self._terms_of[key]) for term in wanted)
            ]
            return self._without_retired([key for key in matching if key not in self._excluded], kind)
        found = self._matching_keys(*self._weighted_keys(kind), count_scored(limit), kind)
        if len(found) <= limit:
            return self._load(found)  # all of them will be candidates
        readable = self._read_terms(found)
        self._load(set(found).difference(readable))  # they are damaged
        return readable

    def _without_retired(self, keys: list[int], kind: Kind | None) -> list[int]:
        retired = self._retired
        if retired is None:
            return keys
        if kind is None:
            self._retired_matches = [key for key in keys if key in retired]
        return [key for key in keys if key not in retired]

    def _matching_keys(self, keys: Keys, weights: npt.NDArray[np.float64], most: int, kind: Kind | None) -> list[int]:
        """Those of the keys whose memories are current and match the filter; if there are more, about the best."""
        retired = self._retired
        if self._filtered is not None:
            matching = np.isin(keys, self._filtered)
            keys, weights = keys[matching], weights[matching]
        if self._excluded:
            others = np.isin(keys, list(self._excluded), invert=True)
            keys, weights = keys[others], weights[others]
        if len(keys) <= most:
            return self._without_retired(keys.tolist(), kind)
        if retired is not None:
            current = ~retired.among(keys)
            if kind is None:
                few = 4 * max(self._query.limit, 1)
                self._retired_matches = self._best_matching(keys[~current], weights[~current], few)
            keys, weights = keys[current], weights[current]
        return self._best_matching(keys, weights, most)

    def _weighted_keys(self, kind: Kind | None) -> tuple[Keys, npt.NDArray[np.float64]]:
        """The keys of the memories that a retrieving term finds, with the sum of the weights of their terms."""
        found = self._terms
        fts_filter = self._fts_filter + ("" if kind is None else f" AND scope : (k{KIND_NUMBERS[kind]})")
        ordering = ordering_terms(found.scoring, found.retrieving)
        others = [term for term in ordering if term not in found.retrieving]
        any_term = _fts_query(found.retrieving, fts_filter)
        queries = {term: _fts_query([term], fts_filter) for term in found.retrieving}
        queries |= {term: f"{_fts_query([term], '')} AND {any_term}" for term in others}
        known = found.keys if kind is None else {}
        unread = [term for term in queries if term not in known]
        read = dict(
            zip(
                unread,
                self._read_postings([queries[term] for term in unread]),
                strict=True,
            )
        )
        parts = [known[term] if term in known else read[term] for term in queries]
        keys, places = np.unique(np.concatenate(parts), return_inverse=True)
        weights = np.repeat(
            [self._bm25.score_alone(term) if term in ordering else 0.0 for term in queries],
            [len(part) for part in parts],
        )
        retrieved = np.zeros(len(keys), np.bool_)
        retrieved[places[: sum(len(part) for part in parts[: len(found.retrieving)])]] = True
        return keys[retrieved], np.asarray(np.bincount(places, weights, len(keys)), np.float64)[retrieved]

    def _best_matching(self, keys: Keys, weights: npt.NDArray[np.float64], most: int) -> list[int]:
        """The best of these keys by an approximation of BM25 that ignores how often a term occurs in a memory.

        FTS5's own BM25 would order them by the statistics of the whole store. A memory whose weight is too small for
        the best, whatever its length, is left out before lengths are read.
        """
        per_memory, per_term = 1 + K1 * (1 - B), K1 * B / max(self._terms.mean_length, 1e-9)
        scores = np.full(len(keys), -1.0)

        def score(places: npt.NDArray[np.intp]) -> None:
            lengths = SCOPE_TOKENS + self._postings.lengths(self._connection, self._state.words, keys[places])
            scores[places] = weights[places] / (per_memory + per_term * lengths)

        unread = np.ones(len(keys), np.bool_)
        heaviest = max(LENGTHS_AT_ONCE, 2 * most)
        if len(keys) > heaviest:
            first = np.sort(np.argpartition(-weights, heaviest)[:heaviest])
            score(first)
            least = float(np.partition(scores[first], -most)[-most])
            unread = weights >= least * (per_memory + per_term * SCOPE_TOKENS)
            unread[first] = False
        score(np.flatnonzero(unread))
        found = np.flatnonzero(scores >= 0)
        best: list[int] = keys[found[np.lexsort((keys[found], -scores[found]))[:most]]].tolist()
        return best

    def _keyword_scores(self, keys: Sequence[int]) -> dict[int, float]:
        """The BM25 scores of memories whose terms have been read."""
        known = self._keyword
        new = [key for key in keys if key not in known]
        scores = self._bm25.score_texts([self._terms_of[key] for key in new], extra_length=SCOPE_TOKENS)
        known.update(zip(new, scores, strict=True))
        return {key: known[key] for key in keys}

    def _read_terms(self, keys: Sequence[int]) -> list[int]:
        """Read the terms of these memories; return the keys of those that can be read, in order."""
        self._terms_of.update((key, terms) for key, terms in read_rows(self._connection, _TERMS, keys, []))
        return [key for key in keys if key in self._terms_of]

    def _load(self, keys: Iterable[int]) -> list[int]:
        """Those of these keys whose memories exist, in order and each once; memories not read before are read now."""
        wanted, memories = list(dict.fromkeys(keys)), self._memories
        new = [key for key in wanted if key not in memories]
        if not new:
            return wanted
        rows = read_rows(self._connection, INDEXED_ROWS, new, self._damaged)
        found = to_memories(rows, self._damaged)
        memories.update(found)
        self._terms_of.update((row[0], row[TERMS]) for row in rows)
        self._keys.update((memory.id, key) for key, memory in found.items())
        return [key for key in wanted if key in memories]

    def _resolve(self, ids: Sequence[str]) -> dict[str, int]:
        """The keys of these ids that exist, in order."""
        unknown = [id for id in ids if id not in self._keys]
        if unknown:
            self._keys.update(keys_of(self._connection, unknown))
        return {id: self._keys[id] for id in ids if id in self._keys}


def terms_with_prefix(connection: apsw.Connection, profile: str, prefix: str, limit: int) -> list[str]:
    """Index terms of a profile that start with a prefix, the most frequent first."""
    statement = """
        SELECT t.term FROM profiles AS p JOIN term_counts AS t ON t.profile = p.id
        WHERE p.name = ? AND t.term >= ? AND t.term < ? ORDER BY t.memories DESC, t.term LIMIT ?
    """
    return [term for (term,) in connection.execute(statement, (profile, prefix, prefix + LAST, limit))]


_PROFILE_TOTALS = "SELECT memories, terms FROM profiles WHERE id = ?"

_TERMS = """
    SELECT json_group_array(json_array(m.key, m.terms))
    FROM carray(?) AS wanted CROSS JOIN memories AS m ON m.key = wanted.value
"""


def _profile_frequencies(connection: apsw.Connection, profile: int, terms: tuple[str, ...]) -> dict[str, int]:
    """The document frequency of each term in a profile, where it is not 0."""
    found: dict[str, int] = fetch_json(
        connection,
        "SELECT json_group_object(t.term, t.memories) "
        "FROM carray(?) AS asked CROSS JOIN term_counts AS t ON t.profile = ? AND t.term = asked.value",
        (apsw.carray(terms), profile),
    )
    return found


def _fts_query(terms: Sequence[str], fts_filter: str) -> str:
    # Terms contain no quotes (see retentive.text.terms), so quoting them makes any text a safe query.
    return "terms : (" + " OR ".join(f'"{term}"' for term in terms) + ")" + fts_filter
