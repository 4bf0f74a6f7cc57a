"""The search for a tuning: coordinate descent from the present one and from every preset, then from random places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import numpy.typing as npt

from retentive.evaluation.cached_ranker import Rank
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.metrics import Values, measure
from retentive.evaluation.search_space import GRID, differences, matters, shaken, steps, turned, with_grid_of
from retentive.models import Memory
from retentive.ranking import PRESETS, Tuning

Places = npt.NDArray[np.intp]

LEAST = 0.001
"""A change that gains less on the mean is not made: it would fit noise, and what is kept should be short."""

FIRST = 60
"""So many queries are looked at first; what is clearly behind on them is not looked at further."""


class Scores:
    """A metric's value for every query under any tuning, each worked out once, whoever asks."""

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
        """How many tunings have been looked at."""
        return len(self._known)

    def mean(self, tuning: Tuning) -> float:
        """The mean over all queries."""
        return float(self.at(tuning, np.arange(len(self._queries))).mean())

    def at(self, tuning: Tuning, places: Places) -> Values:
        """The values of the queries at these places."""
        known = self._known.setdefault(tuning.model_dump_json(), np.full(len(self._queries), np.nan))
        missing = [int(place) for place in places if np.isnan(known[place])]
        if missing:
            asked = [self._queries[place] for place in missing]
            found = {query.id: self._found(query, tuning) for query in asked}
            known[missing] = measure(asked, found)[self._metric]
        values: Values = known[places]
        return values

    def _found(self, query: EvaluationQuery, tuning: Tuning) -> list[str]:
        memories = self._rank(query, tuning)
        return [document for memory in memories if (document := self._identify(memory)) is not None]


class Race:
    """Tunings against each other on some queries, until the budget is spent."""

    def __init__(self, scores: Scores, places: Places, *, budget: int, step: Callable[[int], None]) -> None:
        self._scores = scores
        self._places = places
        self._step = step
        self.left = budget

    def better(self, best: Tuning, other: Tuning, *, least: float = LEAST) -> Tuning:
        """The other one if its mean is higher by at least so much, else the best so far."""
        if self.left <= 0 or other == best:
            return best
        self.left -= 1
        self._step(1)
        first = self._gains(best, other, self._places[:FIRST])
        # Two standard errors behind on the first ones, or no difference on any of them: not worth the rest.
        if first.mean() + 2 * first.std() / np.sqrt(len(first)) < least:
            return best
        return other if self._gains(best, other, self._places).mean() >= least else best

    def _gains(self, best: Tuning, other: Tuning, places: Places) -> Values:
        gains: Values = self._scores.at(other, places) - self._scores.at(best, places)
        return gains


def search(
    scores: Scores,
    places: Places,
    *,
    start: Tuning,
    budget: int,
    seed: int,
    step: Callable[[int], None] = lambda done: None,
) -> Tuning:
    """The best tuning found on the queries at these places, no further from the start than it has to be."""
    if not len(places):
        return start
    random = Random(seed)  # noqa: S311 - nothing secret
    race = Race(scores, places, budget=budget, step=step)
    best = start
    for preset in PRESETS.values():
        best = race.better(best, with_grid_of(start, preset))
    best = _descend(race, best, random)
    while race.left > 0:
        best = race.better(best, _descend(race, shaken(best, random), random))
    return _trimmed(scores, places, best, start)


def _descend(race: Race, best: Tuning, random: Random) -> Tuning:
    """The best that can be reached by turning one parameter at a time."""
    while race.left > 0:
        before = best
        for parameter in random.sample(sorted(GRID), len(GRID)):
            moved = True
            while moved and race.left > 0 and matters(parameter, best):
                now = best
                for tuning in steps(parameter, now):
                    best = race.better(best, tuning)
                moved = best != now and not isinstance(getattr(now, parameter), str)
        if best == before:
            break
    return best


def _trimmed(scores: Scores, places: Places, best: Tuning, start: Tuning) -> Tuning:
    """The tuning with every parameter as it was at the start whose turning gains nothing."""
    race = Race(scores, places, budget=len(GRID) + 2, step=lambda done: None)
    for parameter, (before, _) in differences(start, best).items():
        back = turned(best, **{parameter: before})
        if back is not None:
            best = race.better(best, back, least=-LEAST / 2)
    return best
