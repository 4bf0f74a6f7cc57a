"""`InMemorySearch`: every memory of a snapshot is compared with the query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from retentive.models import Candidate, Kind, Memory, Model, Query
from retentive.stores.in_memory.entries import Entry, Session, session_of
from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.stores.values import Neighbours, SearchRequest, SearchResult, StageTimer, Vector
from retentive.text.bm25 import BM25, count_scored, ordering_terms, rare_terms, searching_terms
from retentive.text.terms import query_terms


@dataclass(eq=False)
class InMemorySearch:
    """The reads of one search.

    `entries` is a copy of the store's dict, and entries are never changed: together they are a snapshot.
    """

    query: Query
    entries: Mapping[str, Entry]
    in_scope: Sequence[Entry]
    model: Model | None
    vector: Vector | None = None

    def run(self, request: SearchRequest) -> SearchResult:
        """Read what is asked for."""
        timer = StageTimer()
        ranked: dict[str, list[Candidate]] = {}
        if request.keyword:
            ranked["keyword"] = self._by_words(request)
            timer.lap("keyword")
        self.vector = None if request.vector is None else request.vector.wait(self.model)
        timer.skip()
        if request.semantic and self.vector is not None:
            ranked["semantic"] = self._by_vector(self._matching(request.kind))
            timer.lap("semantic")
        limits = {"keyword": request.keyword, "semantic": request.semantic}
        candidates = {name: ranked[name][: limits[name]] for name in ranked}
        depths = {"keyword": request.keyword, "semantic": max(request.semantic, request.depth)}
        tails = {name: [one.score for one in ranked[name][: depths[name]]] for name in ranked}
        found = {one.memory.id: None for best in candidates.values() for one in best}
        centres = [one.memory.id for best in candidates.values() for one in best[: request.centres]]
        neighbours = self._neighbours([*centres, *request.around]) if centres or request.around else {}
        around = {one.id: None for pair in neighbours.values() for one in pair if one is not None}
        timer.lap("neighbours")
        read = [self.entries[id] for id in found | around | dict.fromkeys(request.ids) if id in self.entries]
        scores: dict[str, Mapping[str, float]] = {}
        if request.scores:
            keyword = {one.memory.id: self._keyword_score(one) for one in read}
            scores = {"keyword": keyword, "semantic": self._semantic_scores(read)}
        vectors = {id: parts[0] for id, parts in self._parts(read).items()} if request.vectors else {}
        retired = self._left_out(request.retired, candidates)
        timer.lap("score")
        return SearchResult(
            candidates, tails, scores, neighbours, vectors, retired, (), self.model, len(self._own), timer.laps
        )

    def _by_words(self, request: SearchRequest) -> list[Candidate]:
        terms, limit = self._retrieving, request.keyword
        matching = [entry for entry in self._matching(request.kind) if not terms.isdisjoint(entry.terms)]
        if len(matching) > count_scored(limit):
            ordering = ordering_terms(self._scoring_terms, self._searching_terms)
            rough = [self._bm25.approximation(one.terms, ordering, extra_length=SCOPE_TOKENS) for one in matching]
            best = sorted(range(len(matching)), key=lambda at: -rough[at])[: count_scored(limit)]
            matching = [matching[at] for at in sorted(best)]
        return _ranked({entry.memory.id: self._keyword_score(entry) for entry in matching}, self.entries)

    def _by_vector(self, entries: Iterable[Entry]) -> list[Candidate]:
        return _ranked(self._semantic_scores(entries), self.entries)

    def _neighbours(self, ids: Sequence[str]) -> dict[str, Neighbours]:
        sessions: dict[Session, list[Memory]] = {}
        at = self.query.current_at
        for memory in (entry.memory for entry in self.entries.values()):
            session = session_of(memory)
            if session is not None and (at is None or memory.id in ids or memory.is_current(at)):
                sessions.setdefault(session, []).append(memory)
        found: dict[str, Neighbours] = {}
        for memories in sessions.values():
            memories.sort(key=lambda memory: memory.position or 0)
            positions = [memory.position or 0 for memory in memories]
            for memory, position in zip(memories, positions, strict=True):  # several may have the same
                before, after = bisect_left(positions, position), bisect_right(positions, position)
                found[memory.id] = (
                    memories[before - 1] if before else None,
                    memories[after] if after < len(memories) else None,
                )
        return {id: found[id] for id in ids if id in found}

    def _left_out(self, limit: int, candidates: Mapping[str, Sequence[Candidate]]) -> list[Memory]:
        """The memories that are not current, with a score that would have been among the first of a retriever."""
        at, found = self.query.current_at, dict[str, Memory]()
        if at is None or not limit:
            return []
        for name in candidates:
            both = self._matching(None, retired=True)
            if name == "keyword":
                matching = [one for one in both if not self._retrieving.isdisjoint(one.terms)]
                ranked = _ranked({one.memory.id: self._keyword_score(one) for one in matching}, self.entries)
            else:
                ranked = self._by_vector(both)
            current = [one.score for one in ranked if one.memory.is_current(at)]
            least = current[limit - 1] if len(current) >= limit else float("-inf")
            left_out = [one for one in ranked if not one.memory.is_current(at) and one.score >= least]
            found |= {one.memory.id: one.memory for one in left_out[:limit]}
        return list(found.values())

    def _matching(self, kind: Kind | None, *, retired: bool = False) -> list[Entry]:
        """Return what is in the scope, matches the filter, is current and not excluded, or of one kind of it."""
        excluded, wanted = set(self.query.exclude), self.query.filter
        at = None if retired else self.query.current_at
        return [
            entry
            for entry in self.in_scope
            if entry.memory.id not in excluded
            and (at is None or entry.memory.is_current(at))
            and wanted.unmet_by(entry.memory) is None
            and kind in (None, entry.memory.kind)
        ]

    @cached_property
    def _own(self) -> list[Entry]:
        """The memories of the profile."""
        return [entry for entry in self.entries.values() if entry.memory.profile == self.query.scope.profile]

    @cached_property
    def _frequencies(self) -> Counter[str]:
        """Document frequencies in the scope."""
        return Counter(term for entry in self.in_scope for term in set(entry.terms))

    @cached_property
    def _scoring_terms(self) -> list[str]:
        """The terms of the query that the scope has, rarest first."""
        terms = query_terms(self.query.text)
        return rare_terms(terms, self._frequencies, memories=len(self.in_scope), common=1.0)

    @cached_property
    def _searching_terms(self) -> list[str]:
        common, memories = self.query.tuning.max_document_frequency, len(self.in_scope)
        return searching_terms(self._scoring_terms, self._frequencies, memories=memories, common=common)

    @cached_property
    def _retrieving(self) -> frozenset[str]:
        """The terms that retrieve candidates."""
        return frozenset(self._searching_terms)

    @cached_property
    def _bm25(self) -> BM25:
        """BM25 with document frequencies of the scope; lengths are relative to all memories of the profile."""
        lengths = [len(one.terms) + SCOPE_TOKENS for one in self._own]
        mean_length = sum(lengths) / max(len(lengths), 1)
        return BM25(self._scoring_terms, self._frequencies, memories=len(self.in_scope), mean_length=mean_length)

    def _keyword_score(self, entry: Entry) -> float:
        return self._bm25(entry.terms, extra_length=SCOPE_TOKENS)

    def _semantic_scores(self, entries: Iterable[Entry]) -> dict[str, float]:
        """Return the cosine of each memory's nearest part."""
        if self.vector is None:
            return {}
        return {id: float((parts @ self.vector).max()) for id, parts in self._parts(entries).items()}

    def _parts(self, entries: Iterable[Entry]) -> dict[str, Vector]:
        found = {entry.memory.id: entry.parts(self.model) for entry in entries}
        return {id: parts for id, parts in found.items() if parts is not None}


def _ranked(scores: Mapping[str, float], entries: Mapping[str, Entry]) -> list[Candidate]:
    """The candidates, best first; those of equal score stay in the order of writing."""
    candidates = [Candidate(entries[id].memory, score) for id, score in scores.items()]
    return sorted(candidates, key=lambda candidate: -candidate.score)
