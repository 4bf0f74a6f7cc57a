"""The ranking steps in order, from the candidates of the retrievers to hits. Every step appends a reason to each hit.

Pure arithmetic: the time is passed in, and nothing here reads a clock, a disk or a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from retentive.models import Hit, Kind, Memory, Period
from retentive.ranking.boosts import by_age, by_context, by_quality, by_source, by_speaker, by_time
from retentive.ranking.diversity import Vectors, diversify
from retentive.ranking.duplicates import drop_duplicates
from retentive.ranking.fusion import fuse
from retentive.ranking.lists import Context, RankedList, Ranking
from retentive.ranking.relevance import Relevance
from retentive.ranking.tuning import Tuning

NO_CONTEXT = Context()


def rank(
    retrievers: Sequence[RankedList],
    tuning: Tuning,
    *,
    limit: int,
    now: datetime,
    context: Context = NO_CONTEXT,
    period: Period | None = None,
    vectors: Vectors | None = None,
) -> Ranking:
    """Return the best `limit` memories of all retrievers (0 or less: all), best first, and those dropped."""
    return pick(
        order(retrievers, tuning, now=now, context=context, period=period), tuning, limit=limit, vectors=vectors
    )


def order(
    retrievers: Sequence[RankedList],
    tuning: Tuning,
    *,
    now: datetime,
    context: Context = NO_CONTEXT,
    period: Period | None = None,
    about_asker: bool = False,
) -> Ranking:
    """Order all memories that pass the floors, each text once, best first. Reranking may follow."""
    hits = fuse(
        [_above_floor(retriever, tuning.semantic_floor) for retriever in retrievers],
        tuning,
        neighbours=_near_enough(context.memories, retrievers, tuning.semantic_floor),
    )
    hits = by_context(hits, context, tuning)
    hits = by_time(hits, period, tuning)
    hits = by_speaker(hits, about_asker=about_asker, tuning=tuning)
    hits, removed = by_source(hits, tuning.source_weights)
    hits = by_age(hits, tuning, now=now)
    hits = by_quality(hits, tuning, now=now)
    hits.sort(key=lambda hit: -hit.score)
    hits, low = _drop_low(hits, tuning.score_floor)
    hits, twins = drop_duplicates(hits) if tuning.dedup else (hits, [])
    return Ranking(tuple(hits), (*twins, *low, *removed))


def pick(
    ranking: Ranking,
    tuning: Tuning,
    *,
    limit: int,
    vectors: Vectors | None = None,
    kinds: Sequence[Kind] = (),
    relevance: Relevance | None = None,
) -> Ranking:
    """Return the best `limit` hits (0 or less: all) with their ranks, and those dropped with the reason.

    If several kinds are asked for, the best hit of each is among them, last if it does not rank higher. With
    `relevance`, each hit gets its relevance, and those below `min_relevance` are dropped.
    """
    hits, low = _drop_low(ranking.hits, tuning.score_floor)  # reranking may have lowered some
    if relevance is not None and tuning.min_relevance > 0:
        every = tuning.diversity > 0 or len(set(kinds)) > 1  # then hits after the limit may be chosen, too
        hits, irrelevant = _drop_irrelevant(hits, relevance, tuning.min_relevance, limit=0 if every else limit)
        low += irrelevant
    last = len(hits) if limit <= 0 else limit
    picked, late = hits[:last], hits[last:]
    if tuning.diversity > 0:
        picked, late = diversify(hits, tuning.diversity, vectors or {}, limit=limit)
    if len(set(kinds)) > 1:
        picked, late = _one_of_each(kinds, picked, late)
    picked, lowered = _drop_low(picked, tuning.score_floor)
    if lowered:  # MMR's scores never increase, so all later choices are below the floor too
        lowered += [
            hit.after("floor", hit.score, None, "too similar to a higher hit to pass the floor") for hit in late
        ]
        late = []
    if relevance is not None:
        picked = [hit if hit.relevance is not None else relevance.of(hit) for hit in picked]
    placed = tuple(hit.at(place) for place, hit in enumerate(picked, 1))
    behind = (hit.at(place) for place, hit in enumerate(late, limit + 1))
    return Ranking(placed, (*behind, *lowered, *low, *ranking.dropped))


def _one_of_each(kinds: Sequence[Kind], picked: list[Hit], late: list[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Replace the last hits of kinds with several by the best of each kind that has none."""
    count = Counter(hit.memory.kind for hit in picked)
    for kind in dict.fromkeys(kinds):
        best = next((hit for hit in late if hit.memory.kind == kind), None)
        last = next((hit for hit in reversed(picked) if count[hit.memory.kind] > 1), None)
        if count[kind] or best is None or last is None:
            continue
        picked = [hit for hit in picked if hit is not last]
        picked.append(best.after("kind", best.score, None, "the best of the kind {}", kind))
        late = sorted([last, *(hit for hit in late if hit is not best)], key=lambda hit: -hit.score)
        count.subtract({last.memory.kind: 1, kind: -1})
    return sorted(picked, key=lambda hit: -hit.score), late


def _above_floor(retriever: RankedList, floor: float) -> RankedList:
    """Drop semantic candidates below the floor; other retrievers have no absolute scale.

    A memory that the keyword retriever found keeps its true semantic score.
    """
    if retriever.name != "semantic" or floor <= -1:
        return retriever
    low = {candidate.memory.id: candidate.score for candidate in retriever.candidates if candidate.score < floor}
    if not low:
        return retriever
    similar = tuple(candidate for candidate in retriever.candidates if candidate.memory.id not in low)
    return replace(retriever, candidates=similar, elsewhere={**retriever.elsewhere, **low})


def _near_enough(neighbours: Sequence[Memory], retrievers: Sequence[RankedList], floor: float) -> Sequence[Memory]:
    """The neighbours without those whose cosine is below the floor and that no term of the query finds."""
    scores = {retriever.name: retriever.elsewhere for retriever in retrievers}
    cosines, keyword = scores.get("semantic", {}), scores.get("keyword", {})
    if floor <= -1:
        return neighbours
    return [one for one in neighbours if cosines.get(one.id, floor) >= floor or keyword.get(one.id, 0.0) > 0]


def _drop_irrelevant(
    hits: Sequence[Hit], relevance: Relevance, least: float, *, limit: int
) -> tuple[list[Hit], list[Hit]]:
    """Drop hits below a relevance. After `limit` hits that are kept, the others are not estimated: they rank lower."""
    kept: list[Hit] = []
    dropped: list[Hit] = []
    nothing = relevance.answer < least  # and no hit has more
    for at, hit in enumerate(hits):
        if 0 < limit <= len(kept):
            return kept + list(hits[at:]), dropped
        if nothing and 0 < limit <= at:
            note = "the relevance of the whole answer is {:.2f}, and min_relevance is {:g}"
            dropped.append(hit.after("relevance", hit.score, None, note, relevance.answer, least))
            continue
        rated = relevance.of(hit)
        if rated.relevance is not None and rated.relevance >= least:
            kept.append(rated)
        else:
            dropped.append(rated.after("relevance", rated.score, rated.relevance, "min_relevance is {:g}", least))
    return kept, dropped


def _drop_low(hits: Sequence[Hit], floor: float) -> tuple[list[Hit], list[Hit]]:
    if floor <= 0:  # off: half of any pool has negative z-scores, which does not mean irrelevant
        return list(hits), []
    kept = [hit for hit in hits if hit.score >= floor]
    low = [hit.after("floor", hit.score, floor, "scores below {:g}", floor) for hit in hits if hit.score < floor]
    return kept, low
