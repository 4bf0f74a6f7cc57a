"""`Calibrations`: how near unrelated texts are in a model and a store, which makes cosines comparable.

Each profile has a sample of its vectors. The mean cosine of a query with it is the query's background. A model without
fitted coefficients also gets the scale of its cosines from the sample: no labels are needed. The user's own judgements
refine both (`retentive tune --own --save`).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal, NamedTuple

import numpy as np

from retentive.models import Model, Query, Scope, Serializable
from retentive.ranking import relevance
from retentive.ranking.relevance import FITTED, KEYWORD, PRIOR_SIZE, Calibration
from retentive.stores.base import Store
from retentive.stores.values import Vector

SAMPLE = 128
"""How many vectors a sample has."""

PROBES = 2
"""The sample is what is nearest to this many random directions: every store can find it, and no topic is preferred."""

MIN_SAMPLE = 8
"""With fewer memories, the scale of a model's cosines cannot be measured."""

MAX_PROFILES = 64
"""How many profiles have a sample in memory."""

NEUTRAL = 0.07
"""How far above the background the best cosine is taken to be if neither is known."""

Source = Literal["fitted", "store", "terms"]


@dataclass(frozen=True, slots=True)
class CalibrationReport(Serializable):
    """What relevance is calibrated by: coefficients fitted with the model, the store itself, or terms alone."""

    calibration: Source
    judgements: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Refinement:
    """A correction of the log-odds, fitted to the user's own judgements."""

    slope: float = 1.0
    offset: float = 0.0
    judged: int = 0


REFINEMENT = "relevance/"
"""The key-value entry of a model's refinement is this and its fingerprint."""


class Sample(NamedTuple):
    """Vectors of a profile, the standard deviation of the cosines between them, and the user's refinement."""

    vectors: Vector
    spread: float
    refinement: Refinement = Refinement()


class Calibrations:
    """The samples of the profiles of a store. A sample is read at the first recall, and again when the store grew."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._samples: dict[tuple[str, str], Sample] = {}

    def of(self, query: Query, vector: Vector | None, model: Model | None, cosines: tuple[float, ...]) -> Calibration:
        """Return the calibration of one query, given its vector and the best cosines of its recall."""
        if vector is None or model is None or not cosines:
            return Calibration(KEYWORD)
        sample = self._sample(query, model, len(cosines))
        size = len(sample.vectors)
        mean = float((sample.vectors @ vector).mean()) if size else 0.0
        refined = {"slope": sample.refinement.slope, "offset": sample.refinement.offset}
        if model.fingerprint in relevance.FITTED_MODELS:
            background = (size * mean + PRIOR_SIZE * FITTED.unrelated) / (size + PRIOR_SIZE)
            return Calibration(FITTED, background, **refined)
        if size < MIN_SAMPLE:
            return Calibration(FITTED, cosines[0] - NEUTRAL, 1.0 + 1e-9, **refined)
        return Calibration(FITTED, mean, FITTED.spread / max(sample.spread, 1e-3), **refined)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples that were read."""
        return tuple(self._samples.values())

    def describe(self, model: Model | None) -> CalibrationReport:
        """Return what the relevance of a model's cosines is calibrated by; without a model, by terms alone."""
        if model is None:
            return CalibrationReport("terms", 0, "estimated from the terms of the query alone")
        judged = self.refinement(model).judged
        refined = f", refined by {judged} judgements" if judged else ""
        if model.fingerprint in relevance.FITTED_MODELS:
            return CalibrationReport("fitted", judged, f"coefficients fitted with {model.name}{refined}")
        sentence = f"no coefficients for {model.name}; its cosines are calibrated against this store{refined}"
        return CalibrationReport("store", judged, sentence)

    def refinement(self, model: Model) -> Refinement:
        """Return the refinement by the user's own judgements."""
        text = self._store.get_value(REFINEMENT + model.fingerprint)
        return Refinement() if text is None else Refinement(**json.loads(text))

    def refine(self, model: Model, refinement: Refinement | None) -> None:
        """Save a refinement for every process on this store; None removes it."""
        text = None if refinement is None else json.dumps(asdict(refinement))
        self._store.compare_and_set({REFINEMENT + model.fingerprint: text})
        self._samples.clear()

    def _sample(self, query: Query, model: Model, compared: int) -> Sample:
        key = (query.scope.profile, model.fingerprint)
        known = self._samples.get(key)
        if known is None or (len(known.vectors) < SAMPLE and compared > 1.5 * len(known.vectors) + 2):
            if len(self._samples) >= MAX_PROFILES:
                self._samples.clear()
            known = self._samples[key] = self._read(query, model)
        return known

    def _read(self, query: Query, model: Model) -> Sample:
        everything = Query("", Scope(query.scope.profile), query.tuning, query.now)
        directions = np.random.default_rng(0).standard_normal((PROBES, model.dimension)).astype(np.float32)
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        with self._store.open_search(everything) as reads:
            ids: dict[str, None] = {}
            for direction in directions:
                found = reads.nearest(direction, SAMPLE // PROBES)
                ids.update((candidate.memory.id, None) for candidate in found.candidates)
            rows = [row for row in reads.vectors(list(ids)).values() if len(row) == model.dimension]
        if not rows:
            return Sample(np.empty((0, model.dimension), np.float32), 0.0, self.refinement(model))
        vectors = np.stack(rows).astype(np.float32)
        pairs = (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
        return Sample(vectors, float(pairs.std()) if len(pairs) else 0.0, self.refinement(model))
