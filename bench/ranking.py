"""Ranking alone: two pools of 100 fused and ranked with their reasons, and its share of a whole recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from bench.corpus import Query
from bench.retentive_peer import Filled
from bench.timing import Spread, milliseconds, spread
from retentive.inference.embedders import Embedder
from retentive.models import Candidate, Memory, RankedList
from retentive.ranking import Tuning, rank

POOL = 100
SHARED = 30
"""How many memories both retrievers bring."""

_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class RankingTimes:
    """Ranking two pools of 100, a whole recall that embeds its query, and ranking inside that recall."""

    alone: Spread
    whole: Spread
    inside: Spread

    @property
    def share(self) -> float:
        """Ranking two full pools, as a share of a whole recall."""
        return self.alone.p50 / self.whole.p50


def measure_ranking(filled: Filled, queries: Sequence[Query], embedder: Embedder, *, seed: int) -> RankingTimes:
    """The times of ranking alone and of recalls with real embedding; no query is asked twice."""
    retrievers = [
        _retrievers(filled.memories(1000), np.random.default_rng([seed, 3, turn])) for turn in range(len(queries))
    ]
    now, tuning = datetime.now(UTC), Tuning()
    times = [
        milliseconds(lambda retrievers=pair: rank(retrievers, tuning, limit=10, now=now))
        for pair in retrievers[:_WARM_UP] + retrievers
    ]
    engine = filled.with_embedder(embedder)
    for query in queries[:_WARM_UP]:
        engine.recall(f"{query.text} once before", limit=10)
    # The embedder remembers texts; these differ from those the corpus was made with.
    answers = [engine.recall(f"{query.text} and then", limit=10) for query in queries]
    if any(answer.degraded for answer in answers):
        raise SystemExit(f"the real embedder was not used: {answers[0].degraded_reason}")
    whole = spread([answer.elapsed_ms for answer in answers])
    return RankingTimes(spread(times[_WARM_UP:]), whole, spread([answer.stages["rank"] for answer in answers]))


def _retrievers(memories: Sequence[Memory], random: np.random.Generator) -> tuple[RankedList, RankedList]:
    """Two full pools that share some memories, each with the other's scores too, as full fusion has them."""
    chosen = [memories[at] for at in random.choice(len(memories), 2 * POOL - SHARED, replace=False)]
    cosines = np.sort(random.uniform(0.5, 0.9, len(chosen)))[::-1].tolist()
    bm25 = np.sort(random.uniform(1.0, 25.0, len(chosen)))[::-1].tolist()
    return _retriever("semantic", 1.0, chosen, cosines), _retriever("keyword", 1.5, chosen[::-1], bm25)


def _retriever(name: str, weight: float, memories: Sequence[Memory], scores: Sequence[float]) -> RankedList:
    pairs = list(zip(memories, scores, strict=True))
    best = tuple(Candidate(memory, score) for memory, score in pairs[:POOL])
    return RankedList(name, best, weight, tuple(scores[:POOL]), {memory.id: score for memory, score in pairs[POOL:]})
