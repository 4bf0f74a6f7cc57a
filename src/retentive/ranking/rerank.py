"""Reranking: what a cross-encoder thinks of the best hits is mixed into their scores. The model itself is not here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isfinite

from retentive.models import Hit


def rerank(hits: Sequence[Hit], relevance: Mapping[str, float], *, weight: float) -> list[Hit]:
    """The hits whose relevance is known in their new order, then the others below them in their old one.

    Relevance is a logit by memory id, and counts by its odds against those of the most relevant hit: with the plain
    probability many hits are all but certain, or none is, and nothing is left to tell them apart. It is mixed with the
    score, divided by the best one; the result is on the scale of the scores that came in, which differs by fusion.
    """
    read = [hit for hit in hits if hit.id in relevance]
    scale = max((abs(hit.score) for hit in read), default=0.0) or 1.0
    best = max((relevance[hit.id] for hit in read if isfinite(relevance[hit.id])), default=0.0)
    mixed = [_mix(hit, relevance[hit.id], best, weight, scale) for hit in read]
    mixed.sort(key=lambda hit: -hit.score)
    ceiling = min((hit.score for hit in mixed), default=0.0)
    return mixed + [_below(hit, ceiling) if mixed else hit for hit in hits if hit.id not in relevance]


def _mix(hit: Hit, logit: float, best: float, weight: float, scale: float) -> Hit:
    odds = exp(min(logit - best, 0.0)) if isfinite(logit) else 0.0
    score = (1.0 - weight) * hit.score + weight * odds * scale
    figures = (1.0 - weight, hit.score, weight, odds, scale)
    return hit.after("rerank", score, logit, "{:.2f} × {:.3f} + {:.2f} × {:.3f} × {:.3f}", *figures)


def _below(hit: Hit, ceiling: float) -> Hit:
    """The hit where it was. A score shown must not rise down the list."""
    return hit.after("rerank", min(hit.score, ceiling), None, "not among those that were reranked")
