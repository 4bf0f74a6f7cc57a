"""`InMemorySearch`: every memory of a snapshot is compared with the query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from retentive.models import Candidate, Kind, Memory, Model, Query
from retentive.stores.damage import Damage
from retentive.stores.in_memory.entries import Entry, Session, session_of
from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.stores.values import Retrieved, Scores, Vector
from retentive.text.analysis import query_terms
from retentive.text.bm25 import BM25, count_scored, ordering_terms, rare_terms, searching_terms


@dataclass(eq=False)
class InMemorySearch:
    """The reads of one recall. `retentive.stores.base.Search` documents the methods.

    `entries` is a copy of the store's dict, and entries are never changed: together they are a snapshot.
    """

    query: Query
    entries: Mapping[str, Entry]
    in_scope: Sequence[Entry]
    model: Model | None
    damaged: Sequence[Damage] = ()
    _vector: Vector | None = None
    _ran: dict[str, set[str]] = field(default_factory=dict)  # the retrievers that ran, with their terms

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        scoring = self._scoring_terms
        common, memories = self.query.tuning.max_document_frequency, len(self.in_scope)
        retrieving = searching_terms(scoring, self._frequencies, memories=memories, common=common)
        self._ran["keyword"] = set(retrieving)
        matching = [entry for entry in self._candidates(kind) if not self._ran["keyword"].isdisjoint(entry.terms)]
        if len(matching) > count_scored(limit):
            ordering = ordering_terms(scoring, retrieving)
            rough = [self._bm25.approximation(one.terms, ordering, extra_length=SCOPE_TOKENS) for one in matching]
            best = sorted(range(len(matching)), key=lambda at: -rough[at])[: count_scored(limit)]
            matching = [matching[at] for at in sorted(best)]
        return _best([Candidate(entry.memory, self._keyword_score(entry)) for entry in matching], limit)

    def nearest(
        self,
        vector: Vector,
        limit: int,
        *,
        depth: int = 0,
        kind: Kind | None = None,
        approximate: bool = False,  # noqa: ARG002 - every search is exact
    ) -> Retrieved:
        self._vector = vector
        self._ran["semantic"] = set()
        scores = self._semantic_scores(self._candidates(kind))
        return _best([Candidate(self.entries[id].memory, score) for id, score in scores.items()], limit, depth)

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        sessions: dict[Session, list[Memory]] = {}
        at = self.query.current_at
        for memory in (entry.memory for entry in self.entries.values()):
            session = session_of(memory)
            if session is not None and (at is None or memory.id in ids or memory.is_current(at)):
                sessions.setdefault(session, []).append(memory)
        found: dict[str, tuple[Memory | None, Memory | None]] = {}
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

    def retired(self, limit: int) -> list[Memory]:
        at, found = self.query.current_at, dict[str, Memory]()
        if at is None:
            return []
        for name, terms in self._ran.items():
            both = self._candidates(None, retired=True)
            if name == "keyword":
                ranked = [Candidate(one.memory, self._keyword_score(one)) for one in both if terms & set(one.terms)]
            else:
                scores = self._semantic_scores(both)
                ranked = [Candidate(self.entries[id].memory, score) for id, score in scores.items()]
            ranked.sort(key=lambda one: -one.score)
            current = [one.score for one in ranked if one.memory.is_current(at)]
            least = current[limit - 1] if len(current) >= limit else float("-inf")
            left_out = [one for one in ranked if not one.memory.is_current(at) and one.score >= least]
            found |= {one.memory.id: one.memory for one in left_out[:limit]}
        return list(found.values())

    def scores(self, ids: Sequence[str]) -> Scores:
        entries = self._existing(ids)
        keyword = {entry.memory.id: self._keyword_score(entry) for entry in entries}
        return Scores(keyword, self._semantic_scores(entries))

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        return {id: parts[0] for id, parts in self._parts(self._existing(ids)).items()}

    @property
    def size(self) -> int:
        return len(self._own)

    def terms_with_prefix(self, prefix: str, *, limit: int) -> list[str]:
        counts = Counter(term for one in self._own for term in set(one.terms))
        found = sorted((-count, term) for term, count in counts.items() if term.startswith(prefix))
        return [term for _, term in found[:limit]]

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _candidates(self, kind: Kind | None, *, retired: bool = False) -> list[Entry]:
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

    def _existing(self, ids: Sequence[str]) -> list[Entry]:
        return [self.entries[id] for id in ids if id in self.entries]

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
    def _bm25(self) -> BM25:
        """BM25 with document frequencies of the scope; lengths are relative to all memories of the profile."""
        lengths = [len(one.terms) + SCOPE_TOKENS for one in self._own]
        mean_length = sum(lengths) / max(len(lengths), 1)
        return BM25(self._scoring_terms, self._frequencies, memories=len(self.in_scope), mean_length=mean_length)

    def _keyword_score(self, entry: Entry) -> float:
        return self._bm25(entry.terms, extra_length=SCOPE_TOKENS)

    def _semantic_scores(self, entries: Iterable[Entry]) -> dict[str, float]:
        """Return the cosine of each memory's nearest part."""
        if self._vector is None:
            return {}
        return {id: float((parts @ self._vector).max()) for id, parts in self._parts(entries).items()}

    def _parts(self, entries: Iterable[Entry]) -> dict[str, Vector]:
        found = {entry.memory.id: entry.parts(self.model) for entry in entries}
        return {id: parts for id, parts in found.items() if parts is not None}


def _best(candidates: list[Candidate], limit: int, depth: int = 0) -> Retrieved:
    """Return the best candidates; those of equal score stay in the order of writing."""
    candidates = sorted(candidates, key=lambda candidate: -candidate.score)
    return Retrieved(candidates[:limit], [candidate.score for candidate in candidates[: max(limit, depth)]])
