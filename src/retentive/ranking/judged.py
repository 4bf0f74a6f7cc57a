"""What the judge's logits mean: the order of the hits, and the probability that a memory answers or helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log1p
from typing import Literal, NamedTuple

from retentive.models import Hit, Reason
from retentive.ranking.fusion import count_words
from retentive.ranking.relevance import sigmoid

MOST = 8.0
"""Logits beyond this are taken as this: they are certain enough."""


class JudgeCalibration(NamedTuple):
    """How a logit becomes a probability: a logistic function of it and of the kind of text.

    `note` is added for a memory without a speaker, `words` for the logarithm of a memory's words, and `asked` for that
    of the query's. `slope` and `offset` come from the user's own judgements.
    """

    intercept: float
    logit: float
    note: float
    words: float
    asked: float
    slope: float = 1.0
    offset: float = 0.0


# Fitted by: python -m training.judge.calibrate
CALIBRATION = JudgeCalibration(intercept=-2.919, logit=0.477, note=0.829, words=0.283, asked=0.234)


class Judged:
    """The judge's verdicts on the hits of one query. `logits` has those that it has read, by the id of the memory."""

    def __init__(
        self, logits: Mapping[str, float], query: str, hits: Sequence[Hit], calibration: JudgeCalibration = CALIBRATION
    ) -> None:
        self._logits = logits
        self._asked = log1p(count_words(query))
        self._calibration = calibration
        self.answer = max((self._probability(hit) for hit in hits if hit.id in logits), default=0.0)

    def of(self, hit: Hit) -> Hit:
        """Return a hit with its relevance, and the reason; without, if the judge has not read it."""
        if hit.id not in self._logits:
            return hit
        relevance = self._probability(hit)
        note = "the judge reads it as an answer: {:.0%}"
        reason = Reason("relevance", 0.0, hit.score, None, relevance, note, (relevance,))
        return Hit(hit.memory, hit.score, (*hit.why, reason), hit.rank, relevance)

    def _probability(self, hit: Hit) -> float:
        calibration, memory = self._calibration, hit.memory
        logit = calibration.intercept + calibration.logit * self._logits[hit.id] + calibration.asked * self._asked
        logit += calibration.words * log1p(count_words(memory.text)) + calibration.note * (not memory.speaker)
        return sigmoid(calibration.slope * logit + calibration.offset)


def was_read(hit: Hit) -> bool | None:
    """Whether the judge has read a hit; None if no judge was asked."""
    return next((reason.value is not None for reason in hit.why if reason.step == "judge"), None)


def why_not_given(hit: Hit) -> Literal["irrelevant", "unjudged"] | None:
    """Whether a dropped hit was not relevant enough, or the judge has not read it; None if neither."""
    if not hit.why or hit.why[-1].step != "min_relevance":
        return None
    return "unjudged" if was_read(hit) is False else "irrelevant"


def order_by_judge(hits: Sequence[Hit], logits: Mapping[str, float], *, weight: float) -> list[Hit]:
    """Add a share of its logit to the score of each hit that the judge has read; these stay before the others.

    The share is of the best score, so that it means the same for every fusion.
    """
    read = [hit for hit in hits if hit.id in logits]
    scale = weight * max((abs(hit.score) for hit in read), default=0.0)
    moved = [_moved(hit, max(-MOST, min(MOST, logits[hit.id])), scale) for hit in read]
    moved.sort(key=lambda hit: -hit.score)
    ceiling = min((hit.score for hit in moved), default=inf)
    return moved + [_below(hit, ceiling) for hit in hits if hit.id not in logits]


def _moved(hit: Hit, logit: float, scale: float) -> Hit:
    score = hit.score + scale * (logit + MOST)  # never negative: a score may be floored at 0
    return hit.after("judge", score, logit, "{:.3f} + {:.3f} × ({:.1f} + {:g})", hit.score, scale, logit, MOST)


def _below(hit: Hit, ceiling: float) -> Hit:
    """A hit that was not read: its score must not exceed those above it."""
    return hit.after("judge", min(hit.score, ceiling), None, "not read by the judge")
