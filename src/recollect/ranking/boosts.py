"""Steps that adjust fused scores by what is known of a memory: its source, its age, its quality."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fnmatch import fnmatchcase

from recollect.models import Hit, Memory
from recollect.ranking.tuning import Tuning

_DAY = 86400.0


def by_source(hits: Sequence[Hit], weights: dict[str, float]) -> list[Hit]:
    """Scores times the weight of the first pattern that a memory's source matches."""
    if not weights:
        return list(hits)
    return [_weigh(hit, weights) for hit in hits]


def _weigh(hit: Hit, weights: dict[str, float]) -> Hit:
    source = hit.memory.source or ""
    for pattern, weight in weights.items():
        if fnmatchcase(source, pattern):
            return hit.after("source", _times(hit.score, weight), weight, "× {:g} for {}", weight, pattern)
    return hit


def by_age(hits: Sequence[Hit], tuning: Tuning, *, now: datetime) -> list[Hit]:
    """Scores halved for every half-life of age. Identity memories and evergreen ones do not fade."""
    if not tuning.decay:
        return list(hits)
    return [_fade(hit, tuning, now) for hit in hits]


def _fade(hit: Hit, tuning: Tuning, now: datetime) -> Hit:
    memory = hit.memory
    if memory.evergreen or memory.kind == "identity":
        return hit
    half_life = tuning.half_life_days * (1.0 + tuning.importance_slows_decay * memory.importance)
    age = days_between(memory.when, now)
    factor = 0.5 ** (age / half_life)
    return hit.after("decay", _times(hit.score, factor), age, "× {:.3f} at {:.1f} days", factor, age)


def by_quality(hits: Sequence[Hit], tuning: Tuning, *, now: datetime) -> list[Hit]:
    """Scores adjusted by importance and recent use.

    The additive form divides relevance by the best in the set first, or the terms would outweigh all of RRF's range.
    The multiplicative form keeps the scale: an irrelevant memory stays irrelevant however important it is.
    """
    best = max((hit.score for hit in hits), default=0.0)
    if tuning.quality == "off" or best <= 0:
        return list(hits)
    adjust = _add_quality if tuning.quality == "add" else _multiply_quality
    return [adjust(hit, best, tuning, now) for hit in hits]


def _add_quality(hit: Hit, best: float, tuning: Tuning, now: datetime) -> Hit:
    relevance = tuning.relevance_share * hit.score / best
    extra = _quality_sum(hit.memory, tuning, now)
    return hit.after("quality", relevance + extra, extra, "{:.3f} + {:.3f}", relevance, extra)


def _multiply_quality(hit: Hit, _best: float, tuning: Tuning, now: datetime) -> Hit:
    shares = tuning.recency_share + tuning.importance_share
    quality = _quality_sum(hit.memory, tuning, now) / shares if shares > 0 else 1.0
    factor = tuning.relevance_share + (1.0 - tuning.relevance_share) * quality
    return hit.after("quality", _times(hit.score, factor), quality, "× {:.3f} for quality {:.2f}", factor, quality)


def _quality_sum(memory: Memory, tuning: Tuning, now: datetime) -> float:
    idle = days_between(memory.accessed or memory.created, now)
    recency: float = 0.5 ** (idle / tuning.access_half_life_days)
    return tuning.recency_share * recency + tuning.importance_share * memory.importance


def _times(score: float, factor: float) -> float:
    """The score times a factor. A negative score (z-score scaling has them) is divided: less is never more."""
    return score * factor if score >= 0 else score / max(factor, 1e-6)


def days_between(earlier: datetime, later: datetime) -> float:
    """Days from one time to another, 0 if it lies ahead."""
    return max((later - earlier).total_seconds() / _DAY, 0.0)
