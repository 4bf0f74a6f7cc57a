"""The time of ranking alone: two lists of 100 candidates with their reasons, and its share of a whole recall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from bench.corpus import BenchQuery
from bench.retentive_peer import FilledStore
from bench.timing import Spread, milliseconds, spread
from retentive.inference.embedders import Embedder
from retentive.models import Candidate, Memory
from retentive.ranking import Tuning, rank
from retentive.ranking.lists import RankedList

POOL = 100
SHARED = 30
"""How many memories are in both lists."""

_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class RankingTimes:
    """The times of ranking two lists of 100, of a recall that embeds its query, and of ranking inside that recall."""

    alone: Spread
    whole: Spread
    inside: Spread

    @property
    def share(self) -> float:
        """The time of ranking two full lists, as a share of a whole recall."""
        return self.alone.p50 / self.whole.p50


def measure_ranking(
    filled: FilledStore, queries: Sequence[BenchQuery], embedder: Embedder, *, seed: int
) -> RankingTimes:
    """Measure ranking alone and recalls with real embedding; no query is run twice."""
    pairs = [
        _ranked_lists(filled.memories(1000), np.random.default_rng([seed, 3, turn])) for turn in range(len(queries))
    ]
    now, tuning = datetime.now(UTC), Tuning()
    times = [milliseconds(lambda pair=pair: rank(pair, tuning, limit=10, now=now)) for pair in pairs[:_WARM_UP] + pairs]
    engine = filled.with_embedder(embedder)
    for query in queries[:_WARM_UP]:
        engine.recall(f"{query.text} once before", limit=10)
    # The embedder caches texts; these differ from the queries of the corpus.
    answers = [engine.recall(f"{query.text} and then", limit=10) for query in queries]
    if any(answer.degraded for answer in answers):
        raise SystemExit(f"the real embedder was not used: {answers[0].degraded_reason}")
    whole = spread([answer.elapsed_ms for answer in answers])
    return RankingTimes(
        spread(times[min(_WARM_UP, len(pairs)) :]), whole, spread([answer.stages["rank"] for answer in answers])
    )


def _ranked_lists(memories: Sequence[Memory], random: np.random.Generator) -> tuple[RankedList, RankedList]:
    """Return two full lists that share some memories, each with its scores of the other list, as in full fusion."""
    chosen = [memories[at] for at in random.choice(len(memories), 2 * POOL - SHARED, replace=False)]
    cosines = np.sort(random.uniform(0.5, 0.9, len(chosen)))[::-1].tolist()
    bm25 = np.sort(random.uniform(1.0, 25.0, len(chosen)))[::-1].tolist()
    return _ranked_list("semantic", 1.0, chosen, cosines), _ranked_list("keyword", 1.5, chosen[::-1], bm25)


def _ranked_list(name: str, weight: float, memories: Sequence[Memory], scores: Sequence[float]) -> RankedList:
    pairs = list(zip(memories, scores, strict=True))
    best = tuple(Candidate(memory, score) for memory, score in pairs[:POOL])
    return RankedList(name, best, weight, tuple(scores[:POOL]), {memory.id: score for memory, score in pairs[POOL:]})
