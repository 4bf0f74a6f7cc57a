"""Relevance: the estimated probability that a memory helps to answer a query, from 0 to 1.

A score orders the hits of one result; a relevance can be compared across queries, stores and sizes. It is a logistic
function of what a recall has at hand (docs/relevance.md):

    evidence(cosine, coverage) = intercept + cosine × c + background × b + coverage × v + missing × m
                                 + ln(1 + compared) × s
    relevance of the answer    = σ(evidence(best cosine, best coverage))
    relevance of a hit         = σ(evidence of the answer − own × lag − max(lag − FAR, 0))

where `lag` is how much less evidence the hit has than the answer.

`background` is the mean cosine of the query with memories of the profile that were not chosen for it: how near
unrelated texts are. `coverage` is the share of the query's informative terms that a memory contains. `missing` is the
share of the names in the query that none of the first hits contains. `compared` is the number of memories compared, up
to a hundred: the best of many unrelated texts is nearer than the best of few.

`python -m bench.relevance` fits the coefficients again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from retentive.models import Hit, Period, Reason
from retentive.ranking.lists import is_near
from retentive.text.normal_form import folded_text
from retentive.text.terms import InformativeTerm, informative_terms


class Coefficients(NamedTuple):
    """The coefficients of one embedding model, and what its cosines are like.

    `own` is the share of a hit's own evidence. `unrelated` and `spread` are the typical mean of the cosines of a query
    with unrelated memories, and the typical standard deviation of the cosines between memories.
    """

    intercept: float
    cosine: float
    background: float
    coverage: float
    missing: float
    size: float
    own: float
    unrelated: float
    spread: float


# Fitted by: python -m bench.relevance
FITTED = Coefficients(
    intercept=-4.79,
    cosine=45.73,
    background=-41.85,
    coverage=7.43,
    missing=-1.55,
    size=-1.18,
    own=0.15,
    unrelated=0.522,
    spread=0.050,
)
"""The coefficients of the default model."""

KEYWORD = Coefficients(
    intercept=-2.50,
    cosine=0.0,
    background=0.0,
    coverage=10.51,
    missing=-2.74,
    size=0.0,
    own=0.2,
    unrelated=0.0,
    spread=1.0,
)
"""The coefficients without cosines, where the keyword retriever runs alone."""

FITTED_MODELS = frozenset({"02e41bd6e3d3f2c21158d04d596a4d54ad33ae76a49efac01eb2936d9bfa4551"})
"""The fingerprints of the models that `FITTED` was fitted with."""

FAR = 5.5
"""Up to this difference in log-odds, a hit shares most of the answer's relevance: what answers a query often leans on
its neighbours. Beyond, it loses as much relevance as evidence."""

PRIOR_SIZE = 8
"""A background that is measured on few memories is mixed with the typical one, which counts as this many."""

MOST_COMPARED = 100
"""A larger number of memories is taken as this one."""

BEST_HITS = 10
"""The best coverage is that among this many of the first hits, whatever the limit of the recall."""


LISTED = 0.9
"""The relevance of a memory of the period, if the query asks for nothing else."""


class Calibration(NamedTuple):
    """How the cosines of one query become relevance.

    `background` is the mean cosine of the query with unrelated memories, and `scale` converts differences of cosines
    to those of the fitted model. `slope` and `offset` come from the user's own judgements.
    """

    coefficients: Coefficients = KEYWORD
    background: float = 0.0
    scale: float = 1.0
    slope: float = 1.0
    offset: float = 0.0


class Features(NamedTuple):
    """What the relevance of an answer is estimated from, with cosines on the scale of the fitted model."""

    cosine: float
    background: float
    coverage: float
    missing: float
    compared: int


def evidence(features: Features, coefficients: Coefficients) -> float:
    """Return the log-odds that a memory with these features helps."""
    cosine, background, coverage, missing, compared = features
    intercept, c, b, v, m, s, *_ = coefficients
    size = log(1.0 + min(compared, MOST_COMPARED))
    return intercept + c * cosine + b * background + v * coverage + m * missing + s * size


def sigmoid(logit: float) -> float:
    """The logistic function."""
    return 1.0 / (1.0 + exp(-logit)) if logit > -700 else 0.0


class Relevance:
    """Estimates the relevance of the hits of one query.

    `terms` are the informative terms of the query, and `hits` all hits, best first. `cosines` are the best cosines of
    the semantic retriever, largest first; none if it did not run. The memories of the `period` that the query names
    have the terms of its words.
    """

    def __init__(
        self,
        terms: Sequence[InformativeTerm],
        hits: Sequence[Hit],
        cosines: Sequence[float],
        calibration: Calibration,
        period: Period | None = None,
    ) -> None:
        self._terms = terms
        self._period = period
        self._told = frozenset(informative_terms(period.text)) if period else frozenset()
        self._words = sum(term.words for term in terms)
        self._cosines = cosines
        self._calibration = calibration
        self._matched: dict[str, float] = {}
        self._missing = {term for term in terms if term.is_name}
        names = len(self._missing)
        best = max((self._count_terms(hit) for hit in hits[:BEST_HITS]), default=0)
        self._missing_share = len(self._missing) / names if names else 0.0
        self.features = self._features(cosines[0] if cosines else 0.0, best)
        self._best = best
        self._evidence = evidence(self.features, calibration.coefficients)
        self.answer = self._to_relevance(self._evidence) if hits else 0.0
        if period and period.alone and any(is_near(hit.memory, period) for hit in hits[:BEST_HITS]):
            self.answer = max(self.answer, LISTED)

    def of(self, hit: Hit) -> Hit:
        """Return a hit with its relevance, and the reason."""
        period = self._period
        if period and period.alone and is_near(hit.memory, period):
            note = "{:.2f}: it is of the period “{}”, and the query asks for nothing else"
            return _rated(hit, LISTED, note, LISTED, period.text)
        calibration, cosines = self._calibration, self._cosines
        matched, cosine = self._count_terms(hit), self._cosine(hit)
        coefficients = calibration.coefficients
        behind = calibration.scale * (cosines[0] - cosine) if cosines else 0.0
        lag = coefficients.cosine * behind + coefficients.coverage * (self._best - matched) / (self._words + 1)
        logit = self._evidence - coefficients.own * max(lag, 0.0) - max(lag - FAR, 0.0)
        relevance = self._to_relevance(logit)
        count = self._words
        figures: tuple[float, ...]
        if cosines:
            note = "{:.2f}: cosine {:.2f}, the best {:.2f}, unrelated texts {:.2f}; {:g} of {:g} terms of the query"
            figures = (relevance, cosine, cosines[0], calibration.background, matched, count)
        else:
            note, figures = "{:.2f}: {:g} of {:g} terms of the query", (relevance, matched, count)
        return _rated(hit, relevance, note, *figures)

    def features_of(self, hit: Hit) -> Features:
        """Return the features of one hit."""
        return self._features(self._cosine(hit), self._count_terms(hit))

    def _cosine(self, hit: Hit) -> float:
        """The hit's cosine by its reasons; the lowest known one if only the keyword retriever found it."""
        if not self._cosines:
            return 0.0
        own = (reason.value for reason in hit.why if reason.step == "semantic" and reason.value is not None)
        return min(next(own, self._cosines[-1]), self._cosines[0])

    def _features(self, cosine: float, matched: float) -> Features:
        coefficients, background, scale, *_ = self._calibration
        if scale != 1.0:  # another model: only the distance from unrelated texts can be compared
            cosine, background = coefficients.unrelated + scale * (cosine - background), coefficients.unrelated
        # One term of one is weaker evidence than four of four.
        coverage = matched / (self._words + 1)
        return Features(cosine, background, coverage, self._missing_share, len(self._cosines))

    def _count_terms(self, hit: Hit) -> float:
        """How many terms a hit contains, at most as many as the query has words."""
        count = self._matched.get(hit.memory.id)
        if count is None:
            folded = folded_text(hit.memory.indexed_text)
            told = self._told if self._period and is_near(hit.memory, self._period) else ()
            matched = [term for term in self._terms if term in told or term.occurs(folded)]
            self._missing.difference_update(matched)
            count = self._matched[hit.memory.id] = min(float(len(matched)), self._words)
        return count

    def _to_relevance(self, logit: float) -> float:
        return sigmoid(self._calibration.slope * logit + self._calibration.offset)


def _rated(hit: Hit, relevance: float, note: str, *figures: float | str) -> Hit:
    # After the reasons of the score, which it does not change.
    reason = Reason("relevance", 0.0, hit.score, None, relevance, note, figures)
    return Hit(hit.memory, hit.score, (*hit.why, reason), hit.rank, relevance)
