"""Tuning: which parameters find more, chosen on some queries and measured on others.

Queries are parted into folds, by project where there are several. For each fold a tuning is chosen on all the other
folds and its queries are asked with it, through the engine, beside the present tuning. So no figure here comes from
a query that had a say in the tuning it was asked with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import numpy as np

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.evaluation.cached_ranker import cached_ranker
from retentive.evaluation.evaluation_set import EvaluationQuery, JudgedSet
from retentive.evaluation.metrics import METRICS, Metric, Values, library, measure
from retentive.evaluation.result import Progress, no_progress
from retentive.evaluation.run import ask
from retentive.evaluation.search import Places, Scores, search
from retentive.evaluation.search_space import differences
from retentive.evaluation.statistics import Interval, intervals, p_value
from retentive.models import Serializable
from retentive.ranking import Tuning

FOLDS = 5
FEWEST = 10
"""With fewer queries than this no gain could be told from chance."""

METRIC: Metric = "nDCG@10"
BUDGET, SAMPLE, SEED = 150, 300, 1

Verdict = Literal["better", "stands"]


@dataclass(frozen=True, slots=True)
class HeldOut(Serializable):
    """One metric on the held-out folds, before and after tuning, and the gain, each with its 95 % interval."""

    before: float
    before_interval: Interval
    after: float
    after_interval: Interval
    gain: float
    gain_interval: Interval
    p_value: float


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found: the present tuning, the one found on all queries, and what tuning gains on held-out ones."""

    set: str
    metric: str
    queries: int
    searched: int
    folds: int
    by: Literal["project", "query"]
    tunings: int
    present: Tuning
    found: Tuning
    held_out: Mapping[str, HeldOut]
    scores: Scores

    @property
    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Each parameter that the tuning found turns, from what to what."""
        return differences(self.present, self.found)

    @property
    def verdict(self) -> Verdict:
        """Better only where the held-out gain is above 0 through its whole interval, and there is a parameter to turn."""
        real = self.held_out[self.metric].gain_interval.low > 0
        return "better" if real and self.parameters else "stands"

    def to_dict(self) -> dict[str, Any]:
        """This result as plain values."""
        return {
            "set": self.set,
            "metric": self.metric,
            "n": self.queries,
            "searched": self.searched,
            "folds": self.folds,
            "folds_by": self.by,
            "tunings": self.tunings,
            "verdict": self.verdict,
            "parameters": {
                parameter: {"before": old, "after": new} for parameter, (old, new) in self.parameters.items()
            },
            "held_out": {name: figures.to_dict() for name, figures in self.held_out.items()},
            "tuning": self.found.model_dump(),
        }


def tune(
    engine: Engine,
    judged: JudgedSet,
    *,
    present: Tuning,
    metric: str = METRIC,
    budget: int = BUDGET,
    sample: int = SAMPLE,
    seed: int = SEED,
    progress: Progress = no_progress,
) -> Tuned:
    """The tuning that finds most of what a set asks for, by an engine that holds its memories, and whether to trust it.

    `budget` is how many tunings each search may look at, `sample` on how many queries; the verdict is on all.
    """
    library()
    _check(judged, metric, budget, sample)
    # The cross-encoder costs half a second a query and comes after everything that is tuned here.
    start = present.with_parameters(rerank=0)
    parts, by = folds(judged.queries, seed=seed)
    sampled = _sampled(len(judged.queries), sample, seed)
    rank = cached_ranker(engine, now=engine.now())
    scores = Scores([judged.queries[place] for place in sampled], rank, metric, judged.identify)
    everything = np.arange(len(sampled))
    with progress("searching", total=budget * (len(parts) + 1)) as step:
        options: dict[str, Any] = {"start": start, "budget": budget, "seed": seed, "step": step}
        others = [everything[~np.isin(sampled, part)] for part in parts]
        chosen = [search(scores, places, **options) for places in others]
        found = search(scores, everything, **options)
    with progress("asking held-out queries", total=len(judged.queries)) as asked:
        values = _ask_held_out(engine, judged, start, list(zip(parts, chosen, strict=True)), asked)
    return Tuned(
        set=judged.name,
        metric=metric,
        queries=len(judged.queries),
        searched=len(sampled),
        folds=len(parts),
        by=by,
        tunings=scores.tunings,
        present=present,
        found=found.with_parameters(rerank=present.rerank),
        held_out=_compared(*values),
        scores=scores,
    )


def _check(judged: JudgedSet, metric: str, budget: int, sample: int) -> None:
    if metric not in METRICS:
        raise Invalid(f"there is no metric '{metric}'; the metrics are {', '.join(METRICS)}")
    if budget < 1 or sample < FEWEST:
        raise Invalid(f"the budget is a number from 1 and the sample one from {FEWEST}, not {budget} and {sample}")
    if len(judged.queries) < FEWEST:
        raise Invalid(
            f"tuning needs at least {FEWEST} queries with an answer, and {judged.name} has {len(judged.queries)}; "
            "judge more with: retentive judge"
        )


def folds(queries: Sequence[EvaluationQuery], *, seed: int = SEED) -> tuple[list[Places], Literal["project", "query"]]:
    """The places of the queries of each fold: whole projects, of about equal size, or else single queries."""
    places: dict[str | None, list[int]] = {}
    for at, query in enumerate(queries):
        places.setdefault(query.project, []).append(at)
    random = Random(seed)  # noqa: S311 - nothing secret
    groups = list(places.values()) if len(places) > 1 else [[at] for at in range(len(queries))]
    random.shuffle(groups)
    parts: list[list[int]] = [[] for _ in range(min(FOLDS, len(groups)))]
    for group in sorted(groups, key=len, reverse=True):
        min(parts, key=len).extend(group)
    return [np.array(sorted(part), np.intp) for part in parts], "project" if len(places) > 1 else "query"


def _sampled(count: int, sample: int, seed: int) -> Places:
    """The places of the queries to search on, in an order of chance."""
    return np.random.default_rng(seed).permutation(count)[:sample].astype(np.intp)


def _ask_held_out(
    engine: Engine,
    judged: JudgedSet,
    present: Tuning,
    chosen: Sequence[tuple[Places, Tuning]],
    progress: Callable[[int], None],
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Each metric's values for every query, with the present tuning and with the one chosen without its fold."""
    before: dict[str, tuple[str, ...]] = {}
    after: dict[str, tuple[str, ...]] = {}
    for places, tuning in chosen:
        for query in (judged.queries[place] for place in places):
            before[query.id] = ask(engine, query, present, identify=judged.identify)
            same = tuning == present
            after[query.id] = before[query.id] if same else ask(engine, query, tuning, identify=judged.identify)
            progress(1)
    return measure(judged.queries, before), measure(judged.queries, after)


def _compared(before: Mapping[str, Values], after: Mapping[str, Values]) -> dict[str, HeldOut]:
    gains = {name: after[name] - before[name] for name in before}
    ranges = [intervals(values) for values in (before, after, gains)]
    return {
        name: HeldOut(
            before=float(before[name].mean()),
            before_interval=ranges[0][name],
            after=float(after[name].mean()),
            after_interval=ranges[1][name],
            gain=float(gains[name].mean()),
            gain_interval=ranges[2][name],
            p_value=p_value(after[name], before[name]),
        )
        for name in before
    }
