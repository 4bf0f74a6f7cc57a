"""The search for a tuning: which parameters are varied, and coordinate descent with random restarts.

`min_score` is not varied: it only removes hits from the end of a list, which no metric rewards. Neither are
parameters that express a preference and not relevance: decay, diversity, deduplication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from retentive.evaluation.cached_ranker import Rank
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.metrics import Values, measure
from retentive.models import Memory
from retentive.ranking import PRESETS, Tuning

Indices = npt.NDArray[np.intp]

MIN_GAIN = 0.001
"""A change that gains less on the mean is not made: it would fit noise, and a saved tuning should be short."""

FIRST_QUERIES = 60
"""A tuning that is clearly worse on this many queries is not evaluated on the others."""

GRID: Mapping[str, Sequence[Any]] = {
    "fusion": ("full", "relative", "rrf", "weighted"),
    "semantic_weight": (0.0, 1.0),
    "keyword_weight": (0.0, 0.3, 0.6, 1.0, 1.3, 1.8, 2.5, 4.0),
    "rrf_k": (5.0, 20.0, 60.0, 120.0),
    "semantic_scaling": ("spread", "min-max", "z-score", "max", "distribution"),
    "keyword_scaling": ("max", "min-max", "z-score", "saturate", "spread"),
    "min_score_range": (0.0, 0.06, 0.13, 0.2, 0.3),
    "min_lead": (0.0, 0.2, 0.4, 0.6),
    "short_keyword_share": (0.1, 0.2, 0.35, 0.6, 1.0),
    "min_match": (0.0, 1.5, 2.2, 3.0),
    "neighbour_weight": (0.0, 0.2, 0.4, 0.7, 1.0, 1.5),
    "session_weight": (0.0, 0.25, 0.5, 0.7, 1.0, 1.4),
    "min_cosine": (0.0, 0.2, 0.4, 0.6),
    "time_weight": (0.0, 0.25, 0.5, 1.0),
    "speaker_weight": (0.0, 0.1, 0.2, 0.3),
    "quality": ("off", "multiply"),
    "min_candidates": (20, 30, 45, 60),
}
"""The values of each parameter. Only the ratio of the weights matters, so the semantic weight is 0 or 1."""

_HAS_EFFECT: Mapping[str, Callable[[Tuning], bool]] = {
    "rrf_k": lambda tuning: tuning.fusion == "rrf",
    "semantic_scaling": lambda tuning: tuning.fusion in ("full", "relative") and tuning.semantic_weight > 0,
    "keyword_scaling": lambda tuning: tuning.fusion in ("full", "relative") and tuning.keyword_weight > 0,
    "min_score_range": lambda tuning: "spread" in (tuning.semantic_scaling, tuning.keyword_scaling),
    "min_lead": lambda tuning: tuning.fusion in ("full", "relative"),
    "short_keyword_share": lambda tuning: tuning.fusion in ("full", "relative") and tuning.keyword_weight > 0,
    "min_match": lambda tuning: tuning.fusion in ("full", "relative") and tuning.keyword_weight > 0,
    "min_cosine": lambda tuning: tuning.semantic_weight > 0,
}


def has_effect(parameter: str, tuning: Tuning) -> bool:
    """Whether a change of this parameter could change the ranking, with the others unchanged."""
    return parameter not in _HAS_EFFECT or _HAS_EFFECT[parameter](tuning)


def has_retriever(tuning: Tuning) -> bool:
    """Whether at least one retriever has a weight."""
    return tuning.semantic_weight > 0 or tuning.keyword_weight > 0


def with_changes(tuning: Tuning, **parameters: Any) -> Tuning | None:
    """The tuning with some parameters changed; None if no retriever would be left, or nothing changes."""
    changed = tuning.with_parameters(**parameters)
    return changed if has_retriever(changed) and changed != tuning else None


def grid_values(parameter: str, tuning: Tuning) -> list[Any]:
    """The values of a parameter on the grid, and its current value, in order."""
    grid, now = GRID[parameter], getattr(tuning, parameter)
    if isinstance(now, str):
        return list(dict.fromkeys((*grid, now)))
    return sorted({*grid, now})


def steps(parameter: str, tuning: Tuning) -> Iterator[Tuning]:
    """Yield the tunings one step away in this parameter: any other name, or the next number on either side."""
    grid, now = grid_values(parameter, tuning), getattr(tuning, parameter)
    at = grid.index(now)
    near = (
        [value for value in grid if value != now] if isinstance(now, str) else [*grid[at + 1 : at + 2], *grid[:at][-1:]]
    )
    for value in near:
        step = with_changes(tuning, **{parameter: value})
        if step is not None:
            yield step


def differences(before: Tuning, after: Tuning) -> dict[str, tuple[Any, Any]]:
    """Each parameter that differs, with its value before and after."""
    old, new = before.model_dump(), after.model_dump()
    return {parameter: (old[parameter], new[parameter]) for parameter in old if old[parameter] != new[parameter]}


class TuningScores:
    """The value of a metric for each query under any tuning, each computed once."""

    def __init__(
        self, queries: Sequence[EvaluationQuery], rank: Rank, metric: str, identify: Callable[[Memory], str | None]
    ) -> None:
        self._queries = queries
        self._rank = rank
        self._metric = metric
        self._identify = identify
        self._known: dict[str, Values] = {}

    @property
    def tunings(self) -> int:
        """How many tunings have been evaluated."""
        return len(self._known)

    def mean(self, tuning: Tuning) -> float:
        """The mean over all queries."""
        return float(self.at(tuning, np.arange(len(self._queries))).mean())

    def at(self, tuning: Tuning, indices: Indices) -> Values:
        """The values of the queries at these indices."""
        known = self._known.setdefault(tuning.model_dump_json(), np.full(len(self._queries), np.nan))
        missing = [int(index) for index in indices if np.isnan(known[index])]
        if missing:
            queries = [self._queries[index] for index in missing]
            found = {query.id: self._documents(query, tuning) for query in queries}
            known[missing] = measure(queries, found)[self._metric]
        values: Values = known[indices]
        return values

    def _documents(self, query: EvaluationQuery, tuning: Tuning) -> list[str]:
        memories = self._rank(query, tuning)
        return [document for memory in memories if (document := self._identify(memory)) is not None]


class _Comparer:
    """Compares tunings on some queries, until the budget is spent."""

    def __init__(self, scores: TuningScores, indices: Indices, *, budget: int, step: Callable[[int], None]) -> None:
        self._scores = scores
        self._indices = indices
        self._step = step
        self.budget = budget

    def better(self, best: Tuning, other: Tuning, *, min_gain: float = MIN_GAIN) -> Tuning:
        """Return the other tuning if its mean is higher by at least the minimum, else the best so far."""
        if self.budget <= 0 or other == best:
            return best
        self.budget -= 1
        self._step(1)
        first = self._gains(best, other, self._indices[:FIRST_QUERIES])
        # Two standard errors below the minimum on the first queries, or equal on all of them: skip the others.
        if first.mean() + 2 * first.std() / np.sqrt(len(first)) < min_gain:
            return best
        return other if self._gains(best, other, self._indices).mean() >= min_gain else best

    def _gains(self, best: Tuning, other: Tuning, indices: Indices) -> Values:
        gains: Values = self._scores.at(other, indices) - self._scores.at(best, indices)
        return gains


def search_tuning(
    scores: TuningScores,
    indices: Indices,
    *,
    start: Tuning,
    budget: int,
    seed: int,
    step: Callable[[int], None] = lambda done: None,
) -> Tuning:
    """Return the best tuning found on the queries at these indices, with as few changes from the start as possible.

    Coordinate descent starts from the best of the start and all presets, then from random changes of the best so far.
    """
    if not len(indices):
        return start
    random = Random(seed)  # noqa: S311 - nothing secret
    comparer = _Comparer(scores, indices, budget=budget, step=step)
    best = start
    for preset in PRESETS.values():
        best = comparer.better(best, start.with_parameters(**{name: getattr(preset, name) for name in GRID}))
    best = _descend(comparer, best, random)
    while comparer.budget > 0:
        best = comparer.better(best, _descend(comparer, _perturbed(best, random), random))
    return _trimmed(scores, indices, best, start)


def _descend(comparer: _Comparer, best: Tuning, random: Random) -> Tuning:
    """Change one parameter at a time until no change gains anything."""
    while comparer.budget > 0:
        before = best
        for parameter in random.sample(sorted(GRID), len(GRID)):
            moved = True
            while moved and comparer.budget > 0 and has_effect(parameter, best):
                now = best
                for tuning in steps(parameter, now):
                    best = comparer.better(best, tuning)
                moved = best != now and not isinstance(getattr(now, parameter), str)
        if best == before:
            break
    return best


def _perturbed(tuning: Tuning, random: Random, *, parameters: int = 4) -> Tuning:
    """The tuning with some parameters set to random values of the grid."""
    chosen = random.sample(sorted(GRID), parameters)
    return with_changes(tuning, **{parameter: random.choice(GRID[parameter]) for parameter in chosen}) or tuning


def _trimmed(scores: TuningScores, indices: Indices, best: Tuning, start: Tuning) -> Tuning:
    """Reset every parameter whose change gains nothing."""
    comparer = _Comparer(scores, indices, budget=len(GRID) + 2, step=lambda done: None)
    for parameter, (before, _) in differences(start, best).items():
        reset = with_changes(best, **{parameter: before})
        if reset is not None:
            best = comparer.better(best, reset, min_gain=-MIN_GAIN / 2)
    return best
