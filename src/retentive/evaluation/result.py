"""An evaluation: the rows of all systems, how sure they are, and what they were measured on."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, Protocol

from retentive.errors import Invalid
from retentive.evaluation.evaluation_set import EvaluationQuery, JudgedSet, Pool
from retentive.evaluation.loading import open_loaded_engine, open_measuring_embedder
from retentive.evaluation.metrics import library
from retentive.evaluation.run import Row, System, run, systems
from retentive.evaluation.statistics import Interval, intervals, p_value
from retentive.inference.embedders import Embedder
from retentive.models import Model
from retentive.settings import EmbedderSettings

BASELINE = "classic-rrf"
NO_GROUP = "–"

By = Literal["category", "project"]


class Progress(Protocol):
    """Shows how far a stage is: gives a function to which what was done is told."""

    def __call__(self, label: str, *, total: int) -> AbstractContextManager[Callable[[int], None]]: ...


def no_progress(label: str, *, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Shows nothing."""
    del label, total
    return nullcontext(lambda done: None)


@dataclass(frozen=True, slots=True)
class Measured:
    """One system's row: means, their 95 % intervals, and how likely chance explains its distance from the baseline.

    `p_value` is None for the baseline itself, or where no baseline was run. `by` has the means of some queries.
    """

    row: Row
    metrics: Mapping[str, float]
    intervals: Mapping[str, Interval]
    p_value: Mapping[str, float] | None
    by: Mapping[str, Mapping[str, float]]

    @property
    def name(self) -> str:
        """The row's name."""
        return self.row.name

    def to_dict(self) -> dict[str, Any]:
        """This row as plain values; shares are from 0 to 1."""
        value: dict[str, Any] = {
            "name": self.name,
            "metrics": dict(self.metrics),
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "p_value": None if self.p_value is None else dict(self.p_value),
        }
        return value | ({"by": {name: dict(means) for name, means in self.by.items()}} if self.by else {})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What was measured, on what, with what."""

    set: str
    queries: tuple[EvaluationQuery, ...]
    pool: Pool
    model: Model | None
    versions: Mapping[str, str]
    rows: tuple[Measured, ...]
    baseline: str | None
    groups: Mapping[str, int]
    notes: tuple[str, ...] = ()

    def row(self, name: str) -> Measured | None:
        """The row of that name, if it was run."""
        return next((row for row in self.rows if row.name == name), None)

    def to_dict(self) -> dict[str, Any]:
        """This evaluation as plain values, without the queries."""
        return {
            "set": self.set,
            "n": len(self.queries),
            "model": self.model.name if self.model else "none",
            "fingerprint": self.model.fingerprint if self.model else None,
            "pool": self.pool.to_dict(),
            "versions": dict(self.versions),
            "baseline": self.baseline,
            "groups": dict(self.groups),
            "notes": list(self.notes),
            "rows": [row.to_dict() for row in self.rows],
        }


def evaluate(
    judged: JudgedSet,
    *,
    embedder: EmbedderSettings | None = None,
    cache: Path | None = None,
    store: str | None = None,
    names: Sequence[str] = (),
    besides: Sequence[System] = (),
    baseline: str | None = None,
    by: By | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """How well each system finds what a judged set asks for: those named (or all), and any besides.

    The set is loaded into a store of its own, kept only if it is named. `cache` is a file of vectors for runs to come.
    A baseline that is asked for is run even if it is not among the names.
    """
    library()
    chosen = [*systems([*names, *([baseline] if baseline and names else [])]), *besides]
    compared = systems([baseline or BASELINE])[0].name
    settings = embedder or EmbedderSettings()
    with open_measuring_embedder(settings, cache=cache, queries=len(judged.queries)) as opened:
        chosen = runnable(chosen, opened)
        with (
            progress("loading and embedding", total=judged.pool.memories) as loaded,
            open_loaded_engine(judged, opened, store=store, progress=loaded) as engine,
            progress("recalling", total=len(judged.queries)) as recalled,
        ):
            rows = run(engine, judged, chosen, progress=recalled)
        model = opened.model if opened else None
    return summarise(judged, rows, model=model, baseline=compared, by=by)


def runnable(chosen: Sequence[System], embedder: Embedder | None) -> list[System]:
    """Without an embedder, only what searches by words alone: anything else would answer as that does."""
    kept = [system for system in chosen if embedder is not None or system.tuning.semantic_weight == 0]
    if not kept:
        raise Invalid("without an embedder there is only the row 'keyword' to evaluate; name an embedder")
    return kept


def summarise(
    judged: JudgedSet, rows: Sequence[Row], *, model: Model | None, baseline: str = BASELINE, by: By | None = None
) -> Evaluation:
    """The evaluation that these rows make, each compared with the baseline if that is among them."""
    against = next((row for row in rows if row.name == baseline), None)
    groups = grouped(judged.queries, by) if by else {}
    measured = tuple(_measured(row, against, groups) for row in rows)
    return Evaluation(
        set=judged.name,
        queries=judged.queries,
        pool=judged.pool,
        model=model,
        versions={
            "retentive": version("retentive"),
            "python": platform.python_version(),
            "ir_measures": version("ir-measures"),
        },
        rows=measured,
        baseline=against.name if against else None,
        groups={name: len(places) for name, places in groups.items()},
        notes=judged.notes,
    )


def _measured(row: Row, against: Row | None, groups: Mapping[str, Sequence[int]]) -> Measured:
    p_values = None
    if against is not None and against is not row:
        p_values = {name: p_value(values, against.values[name]) for name, values in row.values.items()}
    by = {name: row.metrics(places) for name, places in groups.items()}
    return Measured(row, row.metrics(), intervals(row.values), p_values, by)


def grouped(queries: Sequence[EvaluationQuery], by: By) -> dict[str, list[int]]:
    """The places of the queries of each group, by its name."""
    groups: dict[str, list[int]] = {}
    for at, query in enumerate(queries):
        groups.setdefault(getattr(query, by) or NO_GROUP, []).append(at)
    return dict(sorted(groups.items()))
