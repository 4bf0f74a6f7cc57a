"""Fuse the ranked lists of several retrievers into one.

Each list contributes a share to the score of each memory, and the score is the sum of the shares. The fusion methods
differ only in how a share is computed. The order in which the lists are given does not matter: they are sorted by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nlargest
from math import isfinite

from retentive.models import Candidate, Hit, Memory, RankedList, Reason
from retentive.ranking.normalise import fit, saturate
from retentive.ranking.tuning import Tuning

Share = tuple[float, str, tuple[float, ...]]
"""What a retriever adds to a memory's score, and the arithmetic as a template and its figures."""

STANDOUT_PLACE = 10
"""A retriever's best score is compared with its score at this rank."""

NO_SHARE: Share = (0.0, "", ())


def fuse(retrievers: Sequence[RankedList], tuning: Tuning, *, neighbours: Sequence[Memory] = ()) -> list[Hit]:
    """Return every memory that a retriever with a weight found, once, best first, and their neighbours by true score.

    Equal scores keep the order of the lists, sorted by name, and within a list its order.
    """
    retrievers = sorted(
        (retriever for retriever in retrievers if retriever.weight > 0), key=lambda retriever: retriever.name
    )
    memories: dict[str, Memory] = {}
    for retriever in retrievers:
        for candidate in retriever.candidates:
            memories.setdefault(candidate.memory.id, candidate.memory)
    for memory in neighbours:
        memories.setdefault(memory.id, memory)
    reasons: dict[str, list[Reason]] = {id: [] for id in memories}
    totals = dict.fromkeys(memories, 0.0)
    for retriever in retrievers:
        _add_shares(retriever, _METHODS[tuning.fusion](retriever, retrievers, tuning), totals, reasons)
    hits = [Hit(memory, totals[id], tuple(reasons[id])) for id, memory in memories.items()]
    hits.sort(key=lambda hit: -hit.score)
    return hits


Method = Callable[[int | None, float | None], Share]
"""Computes a memory's share from its position in the list (from 0; None if absent) and its score by the retriever."""


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
    """Each memory's position in one list; a memory listed twice keeps its better position."""
    placed: dict[str, tuple[int, float]] = {}
    for candidate in candidates:
        placed.setdefault(candidate.memory.id, (len(placed), candidate.score))
    return placed


def _rrf(retriever: RankedList, _retrievers: Sequence[RankedList], tuning: Tuning) -> Method:
    weight, k, base = retriever.weight, tuning.rrf_k, tuning.rank_base

    def share(place: int | None, _: float | None) -> Share:
        if place is None:
            return NO_SHARE
        rank = place + base
        return weight / (k + rank), "{:g} / ({:g} + {})", (weight, k, rank)

    return share


_SIGNED = ("z-score", "max", "l2", "none")
"""Scalings that can give negative values; there, an absent memory must not score more than a present one."""


def _scaled(retriever: RankedList, retrievers: Sequence[RankedList], tuning: Tuning) -> Method:
    """Shares by scores scaled within the list. Weights are normalised to a sum of 1, so the best score is 1.

    A memory that the retriever did not return has its true score if that is known, and else counts as the worst.
    """
    weight = retriever.weight / sum(other.weight for other in retrievers)
    scores = retriever.depth_scores or tuple(candidate.score for candidate in retriever.candidates)
    scaling = tuning.semantic_scaling if retriever.name == "semantic" else tuning.keyword_scaling
    scale = fit(scaling, scores, spread_depth=tuning.spread_depth, spread_least=tuning.spread_least)
    if retriever.name == "keyword" and len(retrievers) > 1:  # alone, it keeps its full weight
        weight *= distinctness(scores, tuning.standout_least)
    absent = weight * min(map(scale, scores), default=0.0) if scaling in _SIGNED else 0.0
    missing: Share = (absent, "not found", ()) if absent < 0 else NO_SHARE
    full = tuning.fusion == "full"

    def share(place: int | None, score: float | None) -> Share:
        if score is None or (place is None and not full):
            return missing
        scaled = scale(score)
        return weight * scaled, "{:.2f} × {:.3f}, from {:.3f}", (weight, scaled, score)

    return share


def distinctness(scores: Sequence[float], least: float) -> float:
    """How distinct the best scores are: 1 if the best is well above the tenth, 0 if they are equal.

    Ten memories that match equally well do not tell which is meant. With fewer matches the terms are rare: 1.
    """
    known = [score for score in scores if isfinite(score)]
    if least <= 0 or len(known) < STANDOUT_PLACE:
        return 1.0
    best, *_, tenth = nlargest(STANDOUT_PLACE, known)
    return min(1.0, (1.0 - tenth / best) / least) if best > 0 else 1.0


def _weighted(retriever: RankedList, retrievers: Sequence[RankedList], _tuning: Tuning) -> Method:
    """Shares by raw scores: the cosine itself, and BM25 mapped to 0..1."""
    weight = retriever.weight / sum(other.weight for other in retrievers)
    scale = _cosine if retriever.name == "semantic" else saturate

    def share(place: int | None, score: float | None) -> Share:
        if place is None or score is None:
            return NO_SHARE
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
