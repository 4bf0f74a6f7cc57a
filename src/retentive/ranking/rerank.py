"""Reranking: combine the relevance that a cross-encoder gave the best hits with their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isfinite

from retentive.models import Hit


def rerank(hits: Sequence[Hit], relevance: Mapping[str, float], *, weight: float) -> list[Hit]:
    """Return the hits with a relevance in their new order, then the others in their old order.

    Relevance is a logit by memory id. Its odds relative to the most relevant hit are used: as plain probabilities, many
    hits would be close to 1, or all close to 0, and could not be told apart. The result is on the scale of the scores
    given, which depends on the fusion.
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
    """A hit that was not reranked: its score must not exceed those above it."""
    return hit.after("rerank", min(hit.score, ceiling), None, "not reranked")
