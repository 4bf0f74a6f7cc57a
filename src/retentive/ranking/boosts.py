"""Adjust fused scores by conversation context, and by a memory's source, time, age, importance and use.

Conversation context: a turn is short and depends on the turns around it. The answer to "which one?" has none of the
query's words. So a memory gains a share of its better neighbour's score, and a share of its session's best. Long
memories depend less on context: the neighbour's share falls with the square of their length, and the longest, which
match a little of everything, gain less from their session. A memory without a session keeps its score.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from statistics import median

from retentive.models import Hit, Memory, Period
from retentive.ranking.lists import Context
from retentive.ranking.tuning import Tuning

USER = "user"
"""The speaker of what the user of an assistant said, in every importer, in chat and in hooks."""

_DAY = 86400.0
_FAR = 0.01
_LINES = re.compile(r"#L\d+(?:-L?\d+)?$")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
UNSPACED_LETTERS = 1.7
"""So many letters are a word, on average, where words are not separated by blanks (Chinese, Japanese, Thai, Lao)."""


def count_words(text: str) -> float:
    """How many words a text has, about."""
    words = text.count(" ") + 1.0
    return words if text.isascii() else words + len(_UNSPACED.findall(text)) / UNSPACED_LETTERS


def by_context(hits: Sequence[Hit], context: Context, tuning: Tuning) -> list[Hit]:
    """Add the shares of neighbours and session to the scores."""
    if not context.neighbours or not (tuning.neighbour_weight or tuning.session_weight):
        return list(hits)
    placed = [hit for hit in hits if hit.memory.id in context.neighbours]
    words = {hit.memory.id: count_words(hit.memory.text) for hit in placed}
    typical = median(words.values()) if words else 1.0
    shortness = min(1.0, (tuning.context_words / max(typical, 1.0)) ** 2)
    scores: dict[str | None, float] = {hit.memory.id: hit.score for hit in hits if hit.score > 0}
    best: dict[tuple[str | None, str | None], float] = {}
    for hit in placed:
        home = (hit.memory.project, hit.memory.session)
        best[home] = max(hit.score, best.get(home, 0.0))
    weight = tuning.neighbour_weight * shortness
    whole = 1.0 + tuning.session_weight
    note = "({:.3f} + {:.2f} × neighbour {:.3f} + {:.2f} × session {:.3f}) / {:.2f}"
    adjusted = []
    for hit in hits:
        pair = context.neighbours.get(hit.memory.id)
        if pair is None:
            adjusted.append(hit)
            continue
        neighbour = max(scores.get(pair[0], 0.0), scores.get(pair[1], 0.0))
        share = tuning.session_weight
        if shortness < 1.0 and len(best) > 1:  # among short memories, or in one session, length tells nothing
            share *= min(1.0, typical / words[hit.memory.id]) ** (1.0 - shortness)
        session = best[hit.memory.project, hit.memory.session]
        score = (hit.score + weight * neighbour + share * session) / whole
        adjusted.append(
            hit.after("context", score, neighbour, note, hit.score, weight, neighbour, share, session, whole)
        )
    return adjusted


def by_source(hits: Sequence[Hit], weights: Mapping[str, float]) -> tuple[list[Hit], list[Hit]]:
    """Multiply scores by the weight of the first pattern that a memory's source matches; a weight of 0 removes it.

    Return the hits, and those removed with the reason.
    """
    if not weights:
        return list(hits), []
    kept: list[Hit] = []
    removed: list[Hit] = []
    for hit in hits:
        pattern = source_pattern(hit.memory, weights)
        if pattern is None:
            kept.append(hit)
        elif weight := weights[pattern]:
            kept.append(hit.after("source", _times(hit.score, weight), weight, "× {:g} for {}", weight, pattern))
        else:
            removed.append(hit.after("source", hit.score, None, "the weight of {} is 0", pattern))
    return kept, removed


def source_pattern(memory: Memory, weights: Mapping[str, float]) -> str | None:
    """The first pattern that matches a memory's source, with or without the lines at its end (`notes.md#L1-L3`)."""
    source = memory.source or ""
    names = {source, _LINES.sub("", source)}
    return next((pattern for pattern in weights if any(fnmatchcase(name, pattern) for name in names)), None)


def is_removed(memory: Memory, weights: Mapping[str, float]) -> bool:
    """Whether the weight of a memory's source is 0."""
    pattern = source_pattern(memory, weights) if weights else None
    return pattern is not None and not weights[pattern]


def by_time(hits: Sequence[Hit], period: Period | None, tuning: Tuning) -> list[Hit]:
    """Raise the scores of memories from the period of the query, by up to the time weight; none is lowered."""
    if period is None or not tuning.time_weight:
        return list(hits)
    return [_raise_by_time(hit, period, tuning.time_weight) for hit in hits]


def _raise_by_time(hit: Hit, period: Period, weight: float) -> Hit:
    near = closeness(hit.memory.when, period)
    if near < _FAR:
        return hit
    factor = 1.0 + weight * near
    return hit.after("time", _times(hit.score, factor), near, "× {:.3f} for “{}”", factor, period.text)


def closeness(when: datetime, period: Period) -> float:
    """1 for a time within the period, falling as a Gaussian outside: 0.61 at its blur, 0.14 at twice that."""
    outside = max(period.start - when, when - period.end).total_seconds()
    if outside <= 0:
        return 1.0
    blur = period.blur.total_seconds()
    return math.exp(-0.5 * (outside / blur) ** 2) if blur > 0 else 0.0


def by_speaker(hits: Sequence[Hit], *, about_asker: bool, tuning: Tuning) -> list[Hit]:
    """If the query is about the one who asks, raise the scores of memories that the user said."""
    factor = 1.0 + tuning.speaker_weight
    if not about_asker or factor == 1.0:
        return list(hits)
    note = "× {:.2f}: the query is about the asker, and the user said it"
    return [
        hit.after("speaker", _times(hit.score, factor), None, note, factor) if hit.memory.speaker == USER else hit
        for hit in hits
    ]


def by_age(hits: Sequence[Hit], tuning: Tuning, *, now: datetime) -> list[Hit]:
    """Halve scores for every half-life of age. Identity and evergreen memories do not decay."""
    if not tuning.decay:
        return list(hits)
    return [_decay(hit, tuning, now) for hit in hits]


def _decay(hit: Hit, tuning: Tuning, now: datetime) -> Hit:
    memory = hit.memory
    if memory.evergreen or memory.kind == "identity":
        return hit
    half_life = tuning.half_life_days * (1.0 + tuning.importance_slows_decay * memory.importance)
    age = days_between(memory.when, now)
    factor = 0.5 ** (age / half_life)
    return hit.after("decay", _times(hit.score, factor), age, "× {:.3f} at {:.1f} days", factor, age)


def by_quality(hits: Sequence[Hit], tuning: Tuning, *, now: datetime) -> list[Hit]:
    """Adjust scores by importance and recent use.

    The additive form divides relevance by the best in the set first, or the terms would outweigh all of RRF's range.
    The multiplicative form keeps the scale: an irrelevant memory stays irrelevant however important it is.
    """
    best = max((hit.score for hit in hits), default=0.0)
    if tuning.quality == "off" or best <= 0:
        return list(hits)
    adjust = _adding(best, tuning) if tuning.quality == "add" else _multiplying(tuning)
    # Inlined, because it runs for every candidate of every recall.
    recency_share, importance_share = tuning.recency_share, tuning.importance_share
    half_life = tuning.access_half_life_days * _DAY
    adjusted = []
    for hit in hits:
        memory = hit.memory
        idle = (now - (memory.accessed or memory.created)).total_seconds()
        recency = 0.5 ** (idle / half_life) if idle > 0 else 1.0
        adjusted.append(adjust(hit, recency_share * recency + importance_share * memory.importance))
    return adjusted


def _adding(best: float, tuning: Tuning) -> Callable[[Hit, float], Hit]:
    share = tuning.relevance_share / max(best, 1e-100)  # a best that is all but 0 must not make the others infinite

    def adjust(hit: Hit, extra: float) -> Hit:
        relevance = share * hit.score
        return hit.after("quality", relevance + extra, extra, "{:.3f} + {:.3f}", relevance, extra)

    return adjust


def _multiplying(tuning: Tuning) -> Callable[[Hit, float], Hit]:
    base = tuning.relevance_share
    shares = tuning.recency_share + tuning.importance_share

    def adjust(hit: Hit, extra: float) -> Hit:
        quality = extra / shares if shares > 0 else 1.0
        factor = base + (1.0 - base) * quality
        score = _times(hit.score, factor)
        return hit.after("quality", score, quality, "× {:.3f} for quality {:.2f}", factor, quality)

    return adjust


def _times(score: float, factor: float) -> float:
    """The score times a factor. A negative score (of z-score scaling) is divided, so that a penalty never raises it."""
    return score * factor if score >= 0 else score / max(factor, 1e-3)


def days_between(earlier: datetime, later: datetime) -> float:
    """Days from one time to a later one; 0 if it is not later."""
    return max((later - earlier).total_seconds() / _DAY, 0.0)
