"""Rank the same queries under many tunings, with each read of the store made once.

A recall spends most of its time on reads. Here the same pipeline runs on a store that caches them, so that the result
is that of a recall and takes a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.run import LIMIT
from retentive.models import Memory, Model, Query
from retentive.pipeline.periods import TimedResult, retrieve_period
from retentive.pipeline.recall import INLINE
from retentive.pipeline.search import OpenEmbedder, search
from retentive.ranking import Tuning, order, pick
from retentive.ranking.rank import is_about_asker
from retentive.stores.base import Searchable
from retentive.stores.values import SearchRequest, SearchResult, Vector

Rank = Callable[[EvaluationQuery, Tuning], tuple[Memory, ...]]
"""Returns the memories that a recall returns for a query under a tuning, best first."""


def cached_ranker(engine: Engine, *, now: datetime) -> Rank:
    """Return a function that ranks queries as a recall does, without the judge.

    It raises `Unavailable` if a retriever did not run.
    """
    store = CachedStore(engine.store)

    def rank(query: EvaluationQuery, tuning: Tuning) -> tuple[Memory, ...]:
        scope = engine.scope(project=query.project, profile=query.profile)
        recalled = Query(query.text, scope, tuning, query.asked_at or now, LIMIT)
        timed = retrieve_period(recalled, engine.store, month_first=engine.settings.month_first)
        return rank_memories(recalled, store, engine.embeddings.embedder, timed)

    return rank


def rank_memories(
    query: Query, store: CachedStore, embedder: OpenEmbedder, timed: TimedResult | None
) -> tuple[Memory, ...]:
    """Return the memories that a recall returns, best first, without the judge. `Unavailable` if a retriever failed."""
    outcome = search(query, store, embedder, INLINE, timed=timed)
    for result in (outcome.semantic, outcome.keyword):
        if not result.ran and result.weight > 0:
            raise Unavailable(f"tuning needs both retrievers, and one did not run: {result.failure or result.note}")
    about_asker, tuning, limit = is_about_asker(query.text), query.tuning, query.limit
    ranking = order(outcome.lists, tuning, now=query.now, context=outcome.context, about_asker=about_asker)
    ranking = pick(ranking, tuning, limit=limit, vectors=outcome.vectors, period=outcome.period)
    return tuple(hit.memory for hit in ranking.hits)


class CachedStore:
    """Caches the searches of a store. Writes after the first search of a query have no effect on its results."""

    def __init__(self, store: Searchable) -> None:
        self._store = store
        self._model: Model | None = None
        self._results: dict[Hashable, SearchResult] = {}

    def search(self, request: SearchRequest) -> SearchResult:
        """Return what the store returned for the same reads. All scores and vectors are read, whatever is asked for."""
        query, vector = request.query, None if request.vector is None else request.vector.wait(self._model)
        key = (
            (query.text, query.scope, query.exclude, query.filter, query.current_at),
            query.tuning.max_document_frequency,
            (request.keyword, request.semantic, request.depth, request.kind, request.centres),
            (tuple(request.around), tuple(request.ids), request.approximate),
            None if vector is None else vector.tobytes(),
        )
        if key not in self._results:
            result = self._store.search(replace(request, scores=True, vectors=True, retired=0))
            self._model = result.model
            self._results[key] = result
        return self._results[key]

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        return self._store.vectors(ids)

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> Sequence[str]:
        return self._store.terms_with_prefix(profile, prefix, limit=limit)
