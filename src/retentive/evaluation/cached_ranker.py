"""Rank the same queries under many tunings, with each read of the store made once.

A recall spends most of its time on reads. Here the same pipeline runs on a store that caches them, so that the result
is that of a recall and takes a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.run import LIMIT
from retentive.models import Kind, Memory, Model, Query
from retentive.pipeline.recall import INLINE, signals
from retentive.pipeline.search import OpenEmbedder, search
from retentive.ranking import Tuning, order, pick
from retentive.stores.base import Search, Searchable
from retentive.stores.damage import Damage
from retentive.stores.values import Retrieved, Scores, Vector

V = TypeVar("V")

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
        return rank_memories(recalled, store, engine.embeddings.embedder)

    return rank


def rank_memories(query: Query, store: CachedStore, embedder: OpenEmbedder) -> tuple[Memory, ...]:
    """Return the memories that a recall returns, best first, without the judge. `Unavailable` if a retriever failed."""
    outcome = search(query, store, embedder, INLINE)
    for result in (outcome.semantic, outcome.keyword):
        if not result.ran and result.weight > 0:
            raise Unavailable(f"tuning needs both retrievers, and one did not run: {result.failure or result.note}")
    ranking = order(outcome.lists, query.tuning, now=query.now, context=outcome.context, **signals(query))
    return tuple(hit.memory for hit in pick(ranking, query.tuning, limit=query.limit, vectors=outcome.vectors).hits)


class CachedStore:
    """Caches the reads of searches. Writes to the store after the first read have no effect on the results."""

    def __init__(self, store: Searchable) -> None:
        self._store = store
        self._reads: dict[Hashable, _Reads] = {}

    def open_search(self, query: Query) -> CachedSearch:
        reads = self._reads.setdefault(
            (query.text, query.scope, query.exclude, query.filter, query.current_at), _Reads()
        )
        return CachedSearch(lambda: self._store.open_search(query), query, reads)


@dataclass(slots=True)
class _Reads:
    """The results of all reads for one query text and scope, under any tuning."""

    model: list[Model | None] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    retrieved: dict[Hashable, Retrieved] = field(default_factory=dict)
    by_id: dict[Hashable, dict[str, Any]] = field(default_factory=dict)


class CachedSearch:
    """See `retentive.stores.base.Search`. The search of the store is opened at the first read that is not cached."""

    def __init__(self, open_search: Callable[[], Search], query: Query, reads: _Reads) -> None:
        self._open_search = open_search
        self._query = query
        self._reads = reads
        self._search: Search | None = None
        self._vector: Vector | None = None
        self._ran_nearest = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._search is not None:
            self._search.close()

    @property
    def damaged(self) -> Sequence[Damage]:
        return () if self._search is None else self._search.damaged

    @property
    def model(self) -> Model | None:
        if not self._reads.model:
            self._reads.model.append(self._opened().model)
        return self._reads.model[0]

    @property
    def size(self) -> int:
        if not self._reads.size:
            self._reads.size.append(self._opened().size)
        return self._reads.size[0]

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        key = ("keyword", limit, kind, self._query.tuning.max_document_frequency)
        return self._retrieved(key, lambda: self._opened().keyword(limit, kind=kind))

    def nearest(
        self, vector: Vector, limit: int, *, depth: int = 0, kind: Kind | None = None, approximate: bool = False
    ) -> Retrieved:
        self._vector = vector
        key = ("semantic", vector.tobytes(), limit, depth, kind, approximate)
        return self._retrieved(key, lambda: self._nearest(vector, limit, depth, kind, approximate=approximate))

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        return self._of_ids("neighbours", ids, lambda missing: self._opened().neighbours(missing))

    def retired(self, limit: int) -> Sequence[Memory]:  # noqa: ARG002 - an evaluation reads the hits alone
        return ()

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        return self._of_ids("vectors", ids, lambda missing: self._opened().vectors(missing))

    def terms_with_prefix(self, prefix: str, *, limit: int) -> Sequence[str]:
        return self._opened().terms_with_prefix(prefix, limit=limit)

    def scores(self, ids: Sequence[str]) -> Scores:
        vector = None if self._vector is None else self._vector.tobytes()
        read = self._of_ids(("scores", vector), ids, self._read_scores)
        return Scores(
            {id: keyword for id, (keyword, _) in read.items() if keyword is not None},
            {id: semantic for id, (_, semantic) in read.items() if semantic is not None},
        )

    def _read_scores(self, ids: Sequence[str]) -> dict[str, tuple[float | None, float | None]]:
        if self._vector is not None and not self._ran_nearest:
            self._nearest(self._vector, 1, 0, None)  # semantic scores are for the vector of its last call
        scores = self._opened().scores(ids)
        return {id: (scores.keyword.get(id), scores.semantic.get(id)) for id in ids}

    def _nearest(
        self, vector: Vector, limit: int, depth: int, kind: Kind | None, *, approximate: bool = False
    ) -> Retrieved:
        self._ran_nearest = True
        return self._opened().nearest(vector, limit, depth=depth, kind=kind, approximate=approximate)

    def _opened(self) -> Search:
        if self._search is None:
            self._search = self._open_search()
        return self._search

    def _retrieved(self, key: Hashable, retrieve: Callable[[], Retrieved]) -> Retrieved:
        if key not in self._reads.retrieved:
            self._reads.retrieved[key] = retrieve()
        return self._reads.retrieved[key]

    def _of_ids(
        self, key: Hashable, ids: Sequence[str], read: Callable[[Sequence[str]], Mapping[str, V]]
    ) -> dict[str, V]:
        """Return the values of these ids. An id without a value is looked up once, too."""
        known: dict[str, V | None] = self._reads.by_id.setdefault(key, {})
        missing = [id for id in ids if id not in known]
        if missing:
            known.update(dict.fromkeys(missing))
            known.update(read(missing))
        return {id: value for id in ids if (value := known[id]) is not None}
