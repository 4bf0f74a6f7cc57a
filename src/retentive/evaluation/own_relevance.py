"""Refine relevance by the relevance judgements of a store: a correction of its log-odds, and a threshold."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from retentive.engine import Engine
from retentive.evaluation.own_judgements import by_query
from retentive.models import DEFAULT_MIN_RELEVANCE, Serializable
from retentive.pipeline.embeddings import Refinement

MIN_JUDGED = 20
"""With fewer judged memories, or of one kind only, nothing is refined."""

DEPTH = 50
"""Judged memories are looked for among this many hits."""

PRIOR = 5.0
"""How strongly the correction is drawn to none: as strongly as about this many judgements."""

MOST_LOST = 0.02
"""The share of the memories judged good that the threshold may lose."""


@dataclass(frozen=True, slots=True)
class OwnRelevance(Serializable):
    """The correction fitted to the judgements of a store, and the threshold that loses few of the good memories."""

    judged: int
    slope: float
    offset: float
    min_relevance: float

    def save(self, engine: Engine) -> None:
        """Save both in the store, for every process that uses it."""
        model = engine.stats().model
        if model is not None:
            engine.calibrations.refine(model, Refinement(self.slope, self.offset, self.judged))
            engine.tuning.save({"min_relevance": self.min_relevance})


def fit_own_relevance(engine: Engine, *, profile: str | None = None) -> OwnRelevance | None:
    """Fit the correction to the judgements of a profile; None if too few memories are judged good or bad."""
    model = engine.stats().model
    if model is None:
        return None
    now = engine.calibrations.refinement(model)
    logits: list[float] = []
    labels: list[float] = []
    tuning = engine.tuning.current().with_parameters(min_relevance=0.0)
    for query in by_query(engine.judgements.list(profile=profile)):
        answer = engine.recall(
            query.text,
            project=query.project,
            profile=profile,
            now=query.asked_at,
            limit=DEPTH,
            tuning=tuning,
            record_use=False,
        )
        for hit in answer:
            if hit.id in query.relevance and hit.relevance is not None:
                p = min(max(hit.relevance, 1e-6), 1 - 1e-6)
                logits.append((log(p / (1 - p)) - now.offset) / now.slope)
                labels.append(float(query.relevance[hit.id] > 0))
    if len(labels) < MIN_JUDGED or len(set(labels)) < 2:
        return None
    slope, offset = fit_correction(np.array(logits), np.array(labels))
    relevance = 1.0 / (1.0 + np.exp(-(slope * np.array(logits) + offset)))
    good = relevance[np.array(labels) == 1.0]
    least = min(float(np.quantile(good, MOST_LOST)), max(DEFAULT_MIN_RELEVANCE, 0.5))
    return OwnRelevance(len(labels), round(slope, 4), round(offset, 4), round(max(least - 0.005, 0.01), 2))


def fit_correction(logits: npt.NDArray[np.float64], labels: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Fit slope and offset by Newton's method, drawn towards 1 and 0; the slope stays positive."""
    x = np.column_stack([logits, np.ones(len(logits))])
    start = np.array([1.0, 0.0])
    beta = start.copy()
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-np.clip(x @ beta, -30, 30)))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + PRIOR * np.eye(2)
        beta += np.linalg.solve(hessian, x.T @ (labels - p) - PRIOR * (beta - start))
    return float(max(beta[0], 0.1)), float(beta[1])
