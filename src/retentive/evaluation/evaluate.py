"""Evaluate systems on an evaluation set: their metrics, intervals and significance."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from retentive.errors import Invalid
from retentive.evaluation.abstain import Abstention, abstain
from retentive.evaluation.evaluation_set import CorpusStats, EvaluationQuery, EvaluationSet
from retentive.evaluation.metrics import load_library
from retentive.evaluation.run import (
    Progress,
    System,
    SystemRun,
    no_progress,
    open_evaluation_embedder,
    open_loaded_engine,
    run,
    systems,
)
from retentive.evaluation.statistics import ConfidenceInterval, intervals, p_value
from retentive.inference.embedders import Embedder
from retentive.models import Model
from retentive.settings import EmbedderSettings

BASELINE = "classic-rrf"
NO_GROUP = "–"

By = Literal["category", "project"]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """The means of one system, their 95 % intervals, and the p-values of their differences from the baseline.

    `p_value` is None for the baseline itself, or if no baseline was run. `by` has the means of each group of queries.
    """

    run: SystemRun
    metrics: Mapping[str, float]
    intervals: Mapping[str, ConfidenceInterval]
    p_value: Mapping[str, float] | None
    by: Mapping[str, Mapping[str, float]]

    @property
    def name(self) -> str:
        """The name of the row."""
        return self.run.name

    def to_dict(self) -> dict[str, Any]:
        """This row as plain values; percentages are fractions from 0 to 1."""
        value: dict[str, Any] = {
            "name": self.name,
            "metrics": dict(self.metrics),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "p_value": None if self.p_value is None else dict(self.p_value),
        }
        return value | ({"by": {name: dict(means) for name, means in self.by.items()}} if self.by else {})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of all systems, with the set, the model and the versions they were measured with."""

    set: str
    queries: tuple[EvaluationQuery, ...]
    corpus: CorpusStats
    model: Model | None
    versions: Mapping[str, str]
    rows: tuple[SystemResult, ...]
    baseline: str | None
    groups: Mapping[str, int]
    notes: tuple[str, ...] = ()
    abstention: Abstention | None = None

    def row(self, name: str) -> SystemResult | None:
        """The row with that name, if it was run."""
        return next((row for row in self.rows if row.name == name), None)

    def _repr_html_(self) -> str:
        """The rows as a table with a bar for nDCG@10, for notebooks."""
        from retentive.evaluation.report import evaluation_html

        return evaluation_html(self)

    def to_dict(self) -> dict[str, Any]:
        """This evaluation as plain values, without the queries."""
        value = {
            "set": self.set,
            "n": len(self.queries),
            "model": self.model.name if self.model else "none",
            "fingerprint": self.model.fingerprint if self.model else None,
            "corpus": self.corpus.to_dict(),
            "versions": dict(self.versions),
            "baseline": self.baseline,
            "groups": dict(self.groups),
            "notes": list(self.notes),
            "rows": [row.to_dict() for row in self.rows],
        }
        return value | ({"abstain": self.abstention.to_dict()} if self.abstention else {})


def evaluate(
    evaluation_set: EvaluationSet,
    *,
    embedder: EmbedderSettings | None = None,
    cache: Path | None = None,
    store: str | None = None,
    names: Sequence[str] = (),
    extra: Sequence[System] = (),
    baseline: str | None = None,
    by: By | None = None,
    abstaining: bool = False,
    parameters: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """Evaluate systems on a set: those named, or all, and the extra ones.

    The set is loaded into a store of its own, which is temporary unless it is named. `cache` is a file of vectors that
    later runs use again. A baseline that is given is run even if it is not among the names. `abstaining` also measures
    relevance, with the tuning of prompts and the `parameters` given.
    """
    load_library()
    chosen = [*systems([*names, *([baseline] if baseline and names else [])]), *extra]
    compared = systems([baseline or BASELINE])[0].name
    settings = embedder or EmbedderSettings()
    with open_evaluation_embedder(settings, cache=cache, queries=len(evaluation_set.queries)) as opened:
        chosen = runnable_systems(chosen, opened)
        with (
            progress("loading and embedding", total=evaluation_set.corpus.memories) as loaded,
            open_loaded_engine(evaluation_set, opened, store=store, progress=loaded) as engine,
            progress("recalling", total=len(evaluation_set.queries)) as recalled,
        ):
            runs = run(engine, evaluation_set, chosen, progress=recalled)
            abstention = None
            if abstaining:
                abstention = abstain(engine, evaluation_set, parameters=parameters, progress=progress)
        model = opened.model if opened else None
    return replace(summarise(evaluation_set, runs, model=model, baseline=compared, by=by), abstention=abstention)


def runnable_systems(chosen: Sequence[System], embedder: Embedder | None) -> list[System]:
    """Return the systems that can run: without an embedder, only those that use the keyword retriever alone."""
    runnable = [system for system in chosen if embedder is not None or system.tuning.semantic_weight == 0]
    if not runnable:
        raise Invalid("without an embedder only the row 'keyword' can be evaluated; configure an embedder")
    return runnable


def summarise(
    evaluation_set: EvaluationSet,
    runs: Sequence[SystemRun],
    *,
    model: Model | None,
    baseline: str = BASELINE,
    by: By | None = None,
) -> Evaluation:
    """Compute the evaluation of some runs, each compared with the baseline if that is among them."""
    against = next((one for one in runs if one.name == baseline), None)
    groups = group_queries(evaluation_set.queries, by) if by else {}
    return Evaluation(
        set=evaluation_set.name,
        queries=evaluation_set.queries,
        corpus=evaluation_set.corpus,
        model=model,
        versions={
            "retentive": version("retentive"),
            "python": platform.python_version(),
            "ir_measures": version("ir-measures"),
        },
        rows=tuple(_result(one, against, groups) for one in runs),
        baseline=against.name if against else None,
        groups={name: len(indices) for name, indices in groups.items()},
        notes=evaluation_set.notes,
    )


def _result(system: SystemRun, against: SystemRun | None, groups: Mapping[str, Sequence[int]]) -> SystemResult:
    p_values = None
    if against is not None and against is not system:
        p_values = {name: p_value(values, against.values[name]) for name, values in system.values.items()}
    by = {name: system.metrics(indices) for name, indices in groups.items()}
    return SystemResult(system, system.metrics(), intervals(system.values), p_values, by)


def group_queries(queries: Sequence[EvaluationQuery], by: By) -> dict[str, list[int]]:
    """Return the indices of the queries of each group, by the group's name."""
    groups: dict[str, list[int]] = {}
    for index, query in enumerate(queries):
        groups.setdefault(getattr(query, by) or NO_GROUP, []).append(index)
    return dict(sorted(groups.items()))
