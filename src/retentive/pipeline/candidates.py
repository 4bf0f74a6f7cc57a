"""Fetch the candidates of one retriever: enough different texts, and enough of each kind that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from retentive.models import Candidate, Kind, Query
from retentive.ranking.boosts import is_removed
from retentive.ranking.duplicates import Texts
from retentive.stores.base import Retrieved, Search, Vector

MAX_FETCHED = 30_000
"""How far down a retriever is searched for other texts than those it returned first."""


def keyword_candidates(reads: Search, query: Query) -> Retrieved:
    """The candidates of the keyword retriever."""
    return _fetch(query, lambda limit, kind: reads.keyword(limit, kind=kind))


def semantic_candidates(reads: Search, query: Query, vector: Vector) -> Retrieved:
    """The candidates of the semantic retriever."""
    return _fetch(query, lambda limit, kind: reads.nearest(vector, limit, depth=max(limit, query.depth), kind=kind))


def _fetch(query: Query, retrieve: Callable[[int, Kind | None], Retrieved]) -> Retrieved:
    """The pool of a retriever, and what it needs beside it.

    Copies of one text, or memories of sources that are left out, can fill the whole pool; then the retriever is
    searched further down for others. A kind of which the pool has few memories is searched for alone.
    """
    first = retrieve(query.pool, None)
    if query.limit <= 0 or len(first.candidates) < query.pool:
        return first  # it has returned everything
    found = _by_id(first.candidates)
    found |= _other_texts(query, first, lambda limit: retrieve(limit, None))
    kinds = dict.fromkeys(query.scope.kinds or ())
    if len(kinds) > 1:
        count = Counter(candidate.memory.kind for candidate in found.values())
        for kind in kinds:
            if count[kind] < query.pool:
                found |= _by_id(retrieve(query.pool, kind).candidates)
    return first if len(found) == len(first.candidates) else Retrieved(list(found.values()), first.depth_scores)


def _other_texts(query: Query, first: Retrieved, retrieve: Callable[[int], Retrieved]) -> dict[str, Candidate]:
    """Candidates after the pool with texts that it does not have, if it has few different ones."""
    texts, tuning = Texts(), query.tuning

    def is_new(candidate: Candidate) -> bool:
        memory = candidate.memory
        return not is_removed(memory, tuning.source_weights) and (not tuning.dedup or texts.first(memory) is memory)

    missing = max(query.pool // 2, query.limit) - sum(map(is_new, first.candidates))
    seen = {candidate.memory.id for candidate in first.candidates}
    others: dict[str, Candidate] = {}
    limit, last = query.pool, first
    while len(others) < missing and len(last.candidates) >= limit and limit < MAX_FETCHED:
        limit *= 4
        last = retrieve(limit)
        for candidate in last.candidates:
            if candidate.memory.id not in seen and len(others) < missing and is_new(candidate):
                others[candidate.memory.id] = candidate
            seen.add(candidate.memory.id)
    return others


def _by_id(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    return {candidate.memory.id: candidate for candidate in candidates}
