"""Score normalisation: scales that make the scores of different retrievers comparable.

A scale is fitted to the scores of one retriever and can be applied to any score of that retriever, also of a memory
that it did not return. The result is always finite, also for NaN and infinity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import isfinite
from statistics import fmean, pstdev

from retentive.errors import Invalid

Scale = Callable[[float], float]

_HUGE = 1e100
"""Scores with a larger one are divided by it first: their sums, squares and differences would be infinite."""

_ABSOLUTE = ("saturate", "none")
"""Scalings that depend on the size of the scores."""


def fit(scaling: str, scores: Sequence[float], *, spread_depth: int = 100, spread_least: float = 0.0) -> Scale:
    """Fit the named scale to a retriever's scores; without scores it maps everything to 0."""
    if scaling not in _FITS:
        raise Invalid(f"there is no scaling '{scaling}'; the scalings are {', '.join(_FITS)}")
    known = sorted((score for score in scores if math.isfinite(score)), reverse=True)
    if not known:
        return lambda _: 0.0
    lowest, highest = known[-1], known[0]
    shrink = 1.0 / max(-lowest, highest) if max(-lowest, highest) > _HUGE and scaling not in _ABSOLUTE else 1.0
    fitted = [score * shrink for score in known]
    inner = _spread(fitted, spread_depth, spread_least) if scaling == "spread" else _FITS[scaling](fitted)
    scale = inner if shrink == 1.0 else lambda score: inner(score * shrink)

    def finite(score: float) -> float:
        if not isfinite(score):
            score = highest if score > 0 else lowest
        scaled = scale(score)
        return scaled if isfinite(scaled) else 0.0

    return finite


def scale_all(scaling: str, scores: Sequence[float], *, spread_depth: int = 100) -> list[float]:
    """Scale all scores by the scale fitted to them."""
    scale = fit(scaling, scores, spread_depth=spread_depth)
    return [scale(score) for score in scores]


def saturate(score: float) -> float:
    """BM25 mapped to 0..1, whichever sign its source gives it: |r| / (1 + |r|)."""
    size = abs(score)
    return size / (1.0 + size) if isfinite(size) else float(size > 0)


def _between(low: float, high: float) -> Scale:
    """Map low and below to 0, high and above to 1. If they are equal, scores from there on map to 1."""
    width = high - low
    if not (width > 0 and math.isfinite(width)):
        return lambda score: 1.0 if score >= high else 0.0
    return lambda score: min(max((score - low) / width, 0.0), 1.0)


def _divide(divisor: float, *, minus: float = 0.0) -> Scale:
    if not (divisor > 0 and math.isfinite(divisor)):
        return lambda score: 1.0 if score >= minus else 0.0
    return lambda score: (score - minus) / divisor


def _moments(known: list[float]) -> tuple[float, float, float]:
    """Mean and standard deviation of the scores divided by their peak, against overflow; 0 if all are equal."""
    peak = max(abs(known[0]), abs(known[-1]))
    if known[0] == known[-1]:
        return 1.0, 0.0, peak
    parts = [score / peak for score in known]
    return fmean(parts), pstdev(parts), peak


def _min_max(known: list[float]) -> Scale:
    return _between(known[-1], known[0])


def _z_score(known: list[float]) -> Scale:
    mean, deviation, peak = _moments(known)
    if deviation <= 0:
        return lambda score: 0.0
    return lambda score: (score / peak - mean) / deviation


def _sum(known: list[float]) -> Scale:
    return _divide(math.fsum(score - known[-1] for score in known), minus=known[-1])


def _max(known: list[float]) -> Scale:
    return _divide(max(abs(known[0]), abs(known[-1])))


def _l2(known: list[float]) -> Scale:
    return _divide(math.hypot(*known))


def _distribution(known: list[float]) -> Scale:
    mean, deviation, peak = _moments(known)
    if deviation <= 0:
        return _between(known[-1], known[0])
    within = _between(mean - 3 * deviation, mean + 3 * deviation)
    return lambda score: within(score / peak)


def _spread(known: list[float], depth: int = 100, least: float = 0.0) -> Scale:
    """Map the score at `depth` to 0 and the best to 1, over a range of at least `least`."""
    low = known[min(depth, len(known)) - 1]
    return _between(low, max(known[0], low + least))


_FITS: dict[str, Callable[[list[float]], Scale]] = {
    "min-max": _min_max,
    "z-score": _z_score,
    "sum": _sum,
    "max": _max,
    "l2": _l2,
    "distribution": _distribution,
    "spread": _spread,
    "saturate": lambda known: saturate,
    "none": lambda known: lambda score: score,
}
