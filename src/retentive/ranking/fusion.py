"""Several ranked lists become one.

Each retriever is ranked on its own, and gives each memory a share; a memory's score is the sum of its shares. The methods
differ only in how a share is worked out. The order in which the retrievers are given never matters: they are taken by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nlargest
from math import isfinite

from retentive.models import Candidate, Hit, Memory, RankedList, Reason
from retentive.ranking.normalise import fit, saturate
from retentive.ranking.tuning import Tuning

Share = tuple[float, str, tuple[float, ...]]
"""What a retriever adds to a memory's score, and the arithmetic: a template and its figures."""

STANDOUT_PLACE = 10
"""A retriever stands out by how far its best is ahead of this place."""

NOTHING: Share = (0.0, "", ())


def fuse(retrievers: Sequence[RankedList], tuning: Tuning, *, besides: Sequence[Memory] = ()) -> list[Hit]:
    """Every memory that a retriever with weight found, once, best first; and those besides, by their true scores alone.

    Equal scores keep the order in which the memories are first met, retrievers taken by name and each from its best.
    """
    retrievers = sorted(
        (retriever for retriever in retrievers if retriever.weight > 0), key=lambda retriever: retriever.name
    )
    memories: dict[str, Memory] = {}
    for retriever in retrievers:
        for candidate in retriever.candidates:
            memories.setdefault(candidate.memory.id, candidate.memory)
    for memory in besides:
        memories.setdefault(memory.id, memory)
    reasons: dict[str, list[Reason]] = {id: [] for id in memories}
    totals = dict.fromkeys(memories, 0.0)
    for retriever in retrievers:
        _add_shares(retriever, _METHODS[tuning.fusion](retriever, retrievers, tuning), totals, reasons)
    hits = [Hit(memory, totals[id], tuple(reasons[id])) for id, memory in memories.items()]
    hits.sort(key=lambda hit: -hit.score)
    return hits


Method = Callable[[int | None, float | None], Share]
"""A memory's share by its place in the retriever (from 0, None where the retriever did not return it) and its score there."""


def _add_shares(
    retriever: RankedList, share_of: Method, totals: dict[str, float], reasons: dict[str, list[Reason]]
) -> None:
    placed = _places(retriever.candidates)
    for id, before in list(totals.items()):
        place, score = placed.get(id, (None, retriever.elsewhere.get(id)))
        share, template, figures = share_of(place, score)
        if place is None and share == 0.0:
            continue
        total = totals[id] = before + share
        rank = None if place is None else place + 1
        reasons[id].append(Reason(retriever.name, share, total, rank, score, template, figures))


def _places(candidates: Sequence[Candidate]) -> dict[str, tuple[int, float]]:
    """Each memory's place in one list; a memory listed twice keeps its better place."""
    placed: dict[str, tuple[int, float]] = {}
    for candidate in candidates:
        placed.setdefault(candidate.memory.id, (len(placed), candidate.score))
    return placed


def _rrf(retriever: RankedList, _retrievers: Sequence[RankedList], tuning: Tuning) -> Method:
    weight, k, base = retriever.weight, tuning.rrf_k, tuning.rank_base

    def share(place: int | None, _: float | None) -> Share:
        if place is None:
            return NOTHING
        rank = place + base
        return weight / (k + rank), "{:g} / ({:g} + {})", (weight, k, rank)

    return share


_SIGNED = ("z-score", "max", "l2", "none")
"""Scalings that can give less than 0, where absence must not count for more than presence."""


def _scaled(retriever: RankedList, retrievers: Sequence[RankedList], tuning: Tuning) -> Method:
    """Shares by scores scaled within the retriever. The weights are brought to a sum of 1, so the best possible score is 1.

    A memory the retriever did not return has its true score if that is known, and else counts as the retriever's worst.
    """
    weight = retriever.weight / sum(other.weight for other in retrievers)
    scores = retriever.depth_scores or tuple(candidate.score for candidate in retriever.candidates)
    scaling = tuning.semantic_scaling if retriever.name == "semantic" else tuning.keyword_scaling
    scale = fit(scaling, scores, spread_depth=tuning.spread_depth, spread_least=tuning.spread_least)
    if retriever.name == "keyword" and len(retrievers) > 1:  # alone, it has no other retriever to stand back for
        weight *= standing_out(scores, tuning.standout_least)
    absent = weight * min(map(scale, scores), default=0.0) if scaling in _SIGNED else 0.0
    missing: Share = (absent, "not found", ()) if absent < 0 else NOTHING
    full = tuning.fusion == "full"

    def share(place: int | None, score: float | None) -> Share:
        if score is None or (place is None and not full):
            return missing
        scaled = scale(score)
        return weight * scaled, "{:.2f} × {:.3f}, from {:.3f}", (weight, scaled, score)

    return share


def standing_out(scores: Sequence[float], least: float) -> float:
    """How far a retriever can be trusted by its own scores: 1 where its best is well ahead of its tenth, 0 where all are one.

    Ten memories that match alike tell little of which is meant. A retriever that found fewer stands out: its words are rare.
    """
    known = [score for score in scores if isfinite(score)]
    if least <= 0 or len(known) < STANDOUT_PLACE:
        return 1.0
    best, *_, tenth = nlargest(STANDOUT_PLACE, known)
    return min(1.0, (1.0 - tenth / best) / least) if best > 0 else 1.0


def _weighted(retriever: RankedList, retrievers: Sequence[RankedList], _tuning: Tuning) -> Method:
    """Shares by raw scores: cosine as it is, BM25 saturated to 0..1."""
    weight = retriever.weight / sum(other.weight for other in retrievers)
    scale = _cosine if retriever.name == "semantic" else saturate

    def share(place: int | None, score: float | None) -> Share:
        if place is None or score is None:
            return NOTHING
        scaled = scale(score)
        return weight * scaled, "{:.2f} × {:.3f}, from {:.3f}", (weight, scaled, score)

    return share


def _cosine(score: float) -> float:
    return min(max(score, 0.0), 1.0) if isfinite(score) else 0.0


_METHODS: dict[str, Callable[[RankedList, Sequence[RankedList], Tuning], Method]] = {
    "rrf": _rrf,
    "relative": _scaled,
    "full": _scaled,
    "weighted": _weighted,
}
