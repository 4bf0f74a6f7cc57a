"""Search for better tuning parameters, with cross-validation.

Queries are split into folds, by project if there are several. For each fold a tuning is chosen on the other folds; the
queries of the fold are then recalled through the engine with it and with the current tuning. So no figure comes from a
query that the tuning was chosen on.
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
from retentive.evaluation.evaluation_set import EvaluationQuery, EvaluationSet
from retentive.evaluation.metrics import METRICS, Metric, Values, load_library, measure
from retentive.evaluation.run import Progress, no_progress, recall_documents
from retentive.evaluation.search_space import Indices, TuningScores, differences, search_tuning
from retentive.evaluation.statistics import ConfidenceInterval, intervals, p_value
from retentive.models import Serializable
from retentive.ranking import Tuning

FOLDS = 5
MIN_QUERIES = 10
"""With fewer queries, no gain could be distinguished from chance."""

DEFAULT_METRIC: Metric = "nDCG@10"
BUDGET, SAMPLE, SEED = 150, 300, 1

Verdict = Literal["better", "no_gain"]


@dataclass(frozen=True, slots=True)
class HeldOut(Serializable):
    """One metric on the held-out folds, before and after tuning, and the gain, each with its 95 % interval."""

    before: float
    before_interval: ConfidenceInterval
    after: float
    after_interval: ConfidenceInterval
    gain: float
    gain_interval: ConfidenceInterval
    p_value: float


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The current tuning, the best one found on all queries, and the gain of tuning on held-out queries."""

    set: str
    metric: str
    queries: int
    searched: int
    folds: int
    by: Literal["project", "query"]
    tunings: int
    current: Tuning
    best: Tuning
    held_out: Mapping[str, HeldOut]
    scores: TuningScores

    @property
    def parameters(self) -> dict[str, tuple[Any, Any]]:
        """Each parameter that the best tuning changes, with its value before and after."""
        return differences(self.current, self.best)

    @property
    def verdict(self) -> Verdict:
        """Whether the whole interval of the held-out gain is above 0 and a parameter changes."""
        significant = self.held_out[self.metric].gain_interval.low > 0
        return "better" if significant and self.parameters else "no_gain"

    def _repr_html_(self) -> str:
        """The held-out metrics before and after as a table, and the changes of parameters, for notebooks."""
        from retentive.evaluation.report import tuning_html

        return tuning_html(self)

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
            "tuning": self.best.model_dump(),
        }


def tune(
    engine: Engine,
    evaluation_set: EvaluationSet,
    *,
    current: Tuning,
    metric: str = DEFAULT_METRIC,
    budget: int = BUDGET,
    sample: int = SAMPLE,
    seed: int = SEED,
    progress: Progress = no_progress,
) -> TuningResult:
    """Search for the tuning that finds the most relevant memories of a set, through an engine that has its memories.

    `budget` limits the tunings that each search evaluates, `sample` the queries it uses; the verdict is on all queries.
    """
    load_library()
    _check(evaluation_set, metric, budget, sample)
    queries = evaluation_set.queries
    # The cross-encoder takes half a second per query, and runs after everything that is tuned here.
    start = current.with_parameters(judge="off")
    parts, by = folds(queries, seed=seed)
    # The queries to search on, in random order.
    sampled = np.random.default_rng(seed).permutation(len(queries))[:sample].astype(np.intp)
    rank = cached_ranker(engine, now=engine.now())
    scores = TuningScores([queries[index] for index in sampled], rank, metric, evaluation_set.identify)
    everything = np.arange(len(sampled))
    with progress("searching", total=budget * (len(parts) + 1)) as step:
        options: dict[str, Any] = {"start": start, "budget": budget, "seed": seed, "step": step}
        others = [everything[~np.isin(sampled, part)] for part in parts]
        chosen = [search_tuning(scores, indices, **options) for indices in others]
        best = search_tuning(scores, everything, **options)
    with progress("recalling held-out queries", total=len(queries)) as recalled:
        values = _recall_held_out(engine, evaluation_set, start, list(zip(parts, chosen, strict=True)), recalled)
    return TuningResult(
        set=evaluation_set.name,
        metric=metric,
        queries=len(queries),
        searched=len(sampled),
        folds=len(parts),
        by=by,
        tunings=scores.tunings,
        current=current,
        best=best.with_parameters(judge=current.judge),
        held_out=_compare(*values),
        scores=scores,
    )


def _check(evaluation_set: EvaluationSet, metric: str, budget: int, sample: int) -> None:
    if metric not in METRICS:
        raise Invalid(f"there is no metric '{metric}'; the metrics are {', '.join(METRICS)}")
    if budget < 1 or sample < MIN_QUERIES:
        raise Invalid(f"budget: a number from 1, sample: one from {MIN_QUERIES}, not {budget} and {sample}")
    count = len(evaluation_set.queries)
    if count < MIN_QUERIES:
        raise Invalid(
            f"tuning needs at least {MIN_QUERIES} queries with a relevant memory; {evaluation_set.name} has {count}. "
            "Judge more with: retentive judge"
        )


def folds(queries: Sequence[EvaluationQuery], *, seed: int = SEED) -> tuple[list[Indices], Literal["project", "query"]]:
    """Return the indices of the queries of each fold: whole projects if there are several, else single queries."""
    projects: dict[str | None, list[int]] = {}
    for index, query in enumerate(queries):
        projects.setdefault(query.project, []).append(index)
    random = Random(seed)  # noqa: S311 - nothing secret
    groups = list(projects.values()) if len(projects) > 1 else [[index] for index in range(len(queries))]
    random.shuffle(groups)
    parts: list[list[int]] = [[] for _ in range(min(FOLDS, len(groups)))]
    for group in sorted(groups, key=len, reverse=True):
        min(parts, key=len).extend(group)
    return [np.array(sorted(part), np.intp) for part in parts], "project" if len(projects) > 1 else "query"


def _recall_held_out(
    engine: Engine,
    evaluation_set: EvaluationSet,
    current: Tuning,
    chosen: Sequence[tuple[Indices, Tuning]],
    progress: Callable[[int], None],
) -> tuple[dict[str, Values], dict[str, Values]]:
    """Return the values of each metric with the current tuning, and with the tuning chosen without the query's fold."""
    queries, identify = evaluation_set.queries, evaluation_set.identify
    before: dict[str, tuple[str, ...]] = {}
    after: dict[str, tuple[str, ...]] = {}
    for indices, tuning in chosen:
        for query in (queries[index] for index in indices):
            before[query.id] = recall_documents(engine, query, current, identify=identify)
            same = tuning == current
            after[query.id] = before[query.id] if same else recall_documents(engine, query, tuning, identify=identify)
            progress(1)
    return measure(queries, before), measure(queries, after)


def _compare(before: Mapping[str, Values], after: Mapping[str, Values]) -> dict[str, HeldOut]:
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
