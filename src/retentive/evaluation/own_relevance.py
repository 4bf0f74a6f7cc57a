"""Refine relevance by the relevance judgements of a store: a correction of its log-odds, and a threshold.

If the judge reads the hits, what its logits mean is corrected, else the relevance that is estimated without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from retentive.engine import Engine
from retentive.evaluation.own_judgements import by_query
from retentive.inference.judge import JUDGE_SHA256
from retentive.models import DEFAULT_MIN_RELEVANCE, Recall, Serializable
from retentive.pipeline.embeddings import Refinement

MIN_JUDGED = 20
"""With fewer judged memories, or of one kind only, nothing is refined."""

DEPTH = 50
"""Judged memories are looked for among this many hits."""

PRIOR = 5.0
"""How strongly the correction is drawn to none: as strongly as about this many judgements."""

MOST_LOST = 0.08
"""The share of the memories judged good that the threshold may lose."""


@dataclass(frozen=True, slots=True)
class OwnRelevance(Serializable):
    """The correction fitted to the judgements of a store, and the threshold that loses few of the good memories.

    `corrects` is the fingerprint of the judge or of the model whose relevance is corrected.
    """

    corrects: str
    judged: int
    slope: float
    offset: float
    min_relevance: float

    def save(self, engine: Engine) -> None:
        """Save both in the store, for every process that uses it."""
        engine.calibrations.refine(self.corrects, Refinement(self.slope, self.offset, self.judged))
        engine.tuning.save({"min_relevance": self.min_relevance})


def fit_own_relevance(engine: Engine, *, profile: str | None = None) -> OwnRelevance | None:
    """Fit the correction to the judgements of a profile; None if too few memories are judged good or bad."""
    model = engine.stats().model
    tuning = engine.tuning.current().with_parameters(min_relevance=0.0, judge_depth=DEPTH)
    tuning = tuning.with_parameters(judge="order") if tuning.judge == "filter" else tuning
    found: dict[str | None, list[tuple[float, bool]]] = {}
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
        # Without the judge, or where it could not read anything, the relevance is that of the model.
        source = JUDGE_SHA256 if _is_judged(answer) else model.fingerprint if model else None
        found.setdefault(source, []).extend(
            (hit.relevance, query.relevance[hit.id] > 0)
            for hit in answer
            if hit.id in query.relevance and hit.relevance is not None
        )
    corrects = max(found, key=lambda source: len(found[source]), default=None)
    if corrects is None:
        return None
    now = engine.calibrations.refinement(corrects)
    p = np.clip([value for value, _ in found[corrects]], 1e-6, 1 - 1e-6)
    logits = (np.log(p / (1 - p)) - now.offset) / now.slope
    labels = np.array([float(good) for _, good in found[corrects]])
    if len(labels) < MIN_JUDGED or len(set(labels)) < 2:
        return None
    slope, offset = fit_correction(logits, labels)
    relevance = 1.0 / (1.0 + np.exp(-(slope * logits + offset)))
    good = relevance[labels == 1.0]
    least = min(float(np.quantile(good, MOST_LOST)), max(DEFAULT_MIN_RELEVANCE, 0.5))
    return OwnRelevance(corrects, len(labels), round(slope, 4), round(offset, 4), round(max(least - 0.005, 0.01), 2))


def _is_judged(answer: Recall) -> bool:
    return any(reason.step == "judge" for hit in answer for reason in hit.why)


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
