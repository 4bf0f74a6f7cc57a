"""The whole of ranking: what the retrievers found becomes the hits, every step leaving its reason.

Pure arithmetic. The time is passed in, and nothing here can read a clock, a disk or a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from retentive.models import Context, Hit, Period, RankedList, Ranking
from retentive.ranking.boosts import by_age, by_quality, by_source, by_time
from retentive.ranking.context import by_context
from retentive.ranking.diversity import Vectors, diversify
from retentive.ranking.duplicates import drop_duplicates
from retentive.ranking.fusion import fuse
from retentive.ranking.tuning import Tuning

ALONE = Context()


def rank(
    retrievers: Sequence[RankedList],
    tuning: Tuning,
    *,
    limit: int,
    now: datetime,
    context: Context = ALONE,
    period: Period | None = None,
    vectors: Vectors | None = None,
) -> Ranking:
    """The best `limit` memories of all retrievers (0 or less: all of them), best first, and what fell out where."""
    return pick(
        order(retrievers, tuning, now=now, context=context, period=period), tuning, limit=limit, vectors=vectors
    )


def order(
    retrievers: Sequence[RankedList],
    tuning: Tuning,
    *,
    now: datetime,
    context: Context = ALONE,
    period: Period | None = None,
) -> Ranking:
    """All memories of all retrievers that pass the floors, each text once, best first. The best may yet be reranked."""
    hits = fuse(
        [_above_floor(retriever, tuning.semantic_floor) for retriever in retrievers], tuning, besides=context.memories
    )
    hits = by_context(hits, context, tuning)
    hits = by_time(hits, period, tuning)
    hits = by_source(hits, tuning.source_weights)
    hits = by_age(hits, tuning, now=now)
    hits = by_quality(hits, tuning, now=now)
    hits.sort(key=lambda hit: -hit.score)
    hits, low = _drop_low(hits, tuning.score_floor)
    hits, twins = drop_duplicates(hits) if tuning.dedup else (hits, [])
    return Ranking(tuple(hits), (*twins, *low))


def pick(ranking: Ranking, tuning: Tuning, *, limit: int, vectors: Vectors | None = None) -> Ranking:
    """The best `limit` of hits in order (0 or less: all of them), at their places, and what fell out where."""
    hits, low = _drop_low(ranking.hits, tuning.score_floor)  # reranking can have lowered some
    picked, late = diversify(hits, tuning.diversity, vectors or {}, limit=limit)
    picked, lowered = _drop_low(picked, tuning.score_floor)
    if lowered:  # MMR's scores only fall, so whatever it would have picked next is below the floor too
        lowered += [hit.after("floor", hit.score, None, "too like a higher hit to pass the floor") for hit in late]
        late = []
    placed = tuple(hit.at(place) for place, hit in enumerate(picked, 1))
    behind = (hit.at(place) for place, hit in enumerate(late, limit + 1))
    return Ranking(placed, (*behind, *lowered, *low, *ranking.dropped))


def _above_floor(retriever: RankedList, floor: float) -> RankedList:
    """The semantic retriever without memories that are not similar enough; other retrievers have no absolute measure.

    They cannot enter by meaning, but one that words have found keeps its true score.
    """
    if retriever.name != "semantic" or floor <= -1:
        return retriever
    low = {candidate.memory.id: candidate.score for candidate in retriever.candidates if candidate.score < floor}
    if not low:
        return retriever
    similar = tuple(candidate for candidate in retriever.candidates if candidate.memory.id not in low)
    return replace(retriever, candidates=similar, elsewhere={**retriever.elsewhere, **low})


def _drop_low(hits: Sequence[Hit], floor: float) -> tuple[list[Hit], list[Hit]]:
    if floor <= 0:  # off: z-scores are negative for half of any pool, and that is no verdict
        return list(hits), []
    kept = [hit for hit in hits if hit.score >= floor]
    low = [hit.after("floor", hit.score, floor, "scores below {:g}", floor) for hit in hits if hit.score < floor]
    return kept, low
