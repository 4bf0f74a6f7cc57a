"""Runs a judged set through the engine, once for each system, and measures what comes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from retentive.engine import Engine
from retentive.errors import Invalid, Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery, JudgedSet, by_source
from retentive.evaluation.metrics import Values, library, measure
from retentive.models import Memory, Recall
from retentive.ranking import PRESETS, Tuning

LIMIT = 10
"""How many memories are recalled for each query."""

WARM = 20
"""How many queries are asked before the clock starts: caches fill, pages are read, code is loaded."""

RETRIEVERS = {"keyword": "keyword-only", "semantic": "semantic-only"}
"""The retrievers on their own: the row's name, and the preset that runs that retriever alone."""


@dataclass(frozen=True, slots=True)
class System:
    """A way to rank: the name of its row, and the tuning behind it."""

    name: str
    tuning: Tuning


@dataclass(frozen=True, slots=True)
class Row:
    """What one system did: for each query the documents it found, each metric's value, and the milliseconds."""

    name: str
    tuning: Tuning
    found: Mapping[str, tuple[str, ...]]
    values: Mapping[str, Values]
    milliseconds: Values

    def metrics(self, at: Sequence[int] | None = None) -> dict[str, float]:
        """The mean of each metric, over all queries or those at some places, and how long recalls took."""
        chosen = slice(None) if at is None else list(at)
        means = {name: float(values[chosen].mean()) for name, values in self.values.items()}
        p50, p95 = np.percentile(self.milliseconds[chosen], (50, 95))
        return {**means, "p50_ms": float(p50), "p95_ms": float(p95)}


def systems(names: Sequence[str] = ()) -> list[System]:
    """The systems of these names, or all: each retriever alone, then every preset, the default last."""
    known = {name: System(name, PRESETS[preset]) for name, preset in RETRIEVERS.items()}
    others = [name for name in PRESETS if name not in (*RETRIEVERS.values(), "default")]
    known |= {name: System(name, PRESETS[name]) for name in (*others, "default")}
    aliases = {preset: name for name, preset in RETRIEVERS.items()}
    spelled = list(dict.fromkeys(aliases.get(name, name) for name in names))
    unknown = [name for name in spelled if name not in known]
    if unknown:
        raise Invalid(f"there is no preset '{unknown[0]}' to evaluate; there are {', '.join(known)}")
    return [known[name] for name in spelled or known]


def run(
    engine: Engine,
    judged: JudgedSet,
    chosen: Sequence[System],
    *,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Row]:
    """A row for each system, from recalls through the engine that holds the set's memories.

    Each query is put to every system in turn, beginning with another one each time, so that a busy moment of the
    machine falls on all of them. Queries are embedded beforehand: the milliseconds are of all the rest of a recall.
    """
    library()
    _embed_queries(engine, judged.queries)
    for query in judged.queries[:WARM]:
        for system in chosen:
            ask(engine, query, system.tuning, identify=judged.identify)
    found: dict[str, dict[str, tuple[str, ...]]] = {system.name: {} for system in chosen}
    elapsed: dict[str, list[float]] = {system.name: [] for system in chosen}
    for at, query in enumerate(judged.queries):
        first = at % len(chosen)
        for system in (*chosen[first:], *chosen[:first]):
            started = perf_counter()
            documents = ask(engine, query, system.tuning, identify=judged.identify)
            elapsed[system.name].append((perf_counter() - started) * 1000)
            found[system.name][query.id] = documents
        progress(1)
    return [_row(system, judged.queries, found[system.name], elapsed[system.name]) for system in chosen]


def ask(
    engine: Engine, query: EvaluationQuery, tuning: Tuning, *, identify: Callable[[Memory], str | None] = by_source
) -> tuple[str, ...]:
    """The documents recalled for a query, best first, exactly as a user of the engine would get them.

    `Unavailable` where a user would get an answer from words alone: the figures would be those of another system.
    """
    answer = recalled(engine, query, tuning)
    if answer.degraded:
        raise Unavailable(f"a recall was answered {answer.degraded}: {answer.degraded_reason}")
    return tuple(document for hit in answer.hits if (document := identify(hit.memory)) is not None)


def recalled(engine: Engine, query: EvaluationQuery, tuning: Tuning) -> Recall:
    """The recall of a query as a user of the engine would get it, whatever is missing; it leaves no trace."""
    return engine.recall(
        query.text,
        project=query.project,
        profile=query.profile,
        limit=LIMIT,
        now=query.asked_at,
        tuning=tuning,
        record_use=False,
    )


def _embed_queries(engine: Engine, queries: Sequence[EvaluationQuery]) -> None:
    embedder = engine.embeddings.embedder()
    if embedder is not None:
        embedder.embed([embedder.split(query.text)[0] for query in queries])


def _row(
    system: System, queries: Sequence[EvaluationQuery], found: Mapping[str, tuple[str, ...]], elapsed: Sequence[float]
) -> Row:
    return Row(system.name, system.tuning, found, measure(queries, found), np.array(elapsed))
