"""The memories and relevance judgements of a store as an evaluation set: evaluate, compare tunings, export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.evaluation.abstain import abstain
from retentive.evaluation.evaluate import BASELINE, By, Evaluation, runnable_systems, summarise
from retentive.evaluation.evaluation_set import CorpusStats, EvaluationQuery, EvaluationSet
from retentive.evaluation.metrics import Values, load_library, measure
from retentive.evaluation.run import JUDGED, Progress, System, all_memories, no_progress, recall_query, run, systems
from retentive.evaluation.statistics import p_value
from retentive.models import Memory
from retentive.ranking import Tuning
from retentive.ranking.fusion import count_words
from retentive.stores.values import Judgement
from retentive.transfer.formats.beir import BeirQuery, JudgedQuery, write_set

NAME = "own"
CURRENT = "current"
"""The row of the tuning in effect, if that is not the default."""

NOTHING_JUDGED = "no query has a memory judged good yet; judge some"
COMPARED = ("nDCG@10", "any@5", "MRR")
"""The metrics by which `compare` compares tunings."""


@dataclass(frozen=True, slots=True)
class QueryJudgements:
    """The judgements of one query: the relevance of memories by id, including those that are not relevant."""

    text: str
    project: str | None
    asked_at: datetime | None
    relevance: Mapping[str, int]


def by_query(judgements: Sequence[Judgement]) -> list[QueryJudgements]:
    """Group judgements by query, in the order in which the queries were first judged."""
    found: dict[tuple[str, str | None], QueryJudgements] = {}
    for judgement in judgements:
        key = (judgement.query, judgement.project)
        known = found.get(key, QueryJudgements(*key, None, {}))
        found[key] = replace(
            known,
            asked_at=judgement.asked_at or known.asked_at,
            relevance={**known.relevance, judgement.memory: judgement.relevance},
        )
    return list(found.values())


def own_queries(
    engine: Engine, *, profile: str | None = None, project: str | None = None
) -> tuple[EvaluationQuery, ...]:
    """Return the queries of a profile, by default the engine's own, for which some memory was judged good."""
    return tuple(query for query in _judged_queries(engine, profile=profile, project=project) if query.relevance)


def _judged_queries(engine: Engine, *, profile: str | None, project: str | None = None) -> Iterator[EvaluationQuery]:
    for number, one in enumerate(by_query(engine.judgements.list(profile=profile, project=project)), 1):
        good = {id: grade for id, grade in one.relevance.items() if grade > 0}
        bad = one.relevance.keys() - good.keys()
        yield EvaluationQuery(f"q{number}", one.text, good, one.project, one.asked_at, profile=profile, irrelevant=bad)


def own_evaluation_set(engine: Engine, *, profile: str | None = None) -> EvaluationSet:
    """Return the memories and judgements of a profile, by default the engine's own, as an evaluation set.

    Its memories are in the engine's store already, so it has no drafts.
    """
    judged = [*_judged_queries(engine, profile=profile)]
    queries = tuple(query for query in judged if query.relevance)
    if not queries:
        raise Invalid(f"{NOTHING_JUDGED} with: retentive judge")
    corpus = _corpus_stats(list(all_memories(engine, profile=profile)), queries)
    return EvaluationSet(
        NAME,
        queries,
        corpus,
        drafts=lambda: iter(()),
        identify=lambda memory: memory.id,
        unanswerable=tuple(query for query in judged if not query.relevance),
    )


def _corpus_stats(memories: Sequence[Memory], queries: Sequence[EvaluationQuery]) -> CorpusStats:
    projects = [memory.project for memory in memories]
    sizes = {project: projects.count(project) for project in set(projects)}
    searched = [len(projects) if query.project is None else sizes.get(query.project, 0) for query in queries]
    return CorpusStats(
        memories=len(memories),
        projects=len(set(projects) - {None}),
        sessions=len({memory.session for memory in memories} - {None}),
        median_words=float(median(count_words(memory.text) for memory in memories)),
        searched=float(median(searched)),
    )


def evaluate_own(
    engine: Engine,
    *,
    names: Sequence[str] = (),
    extra: Sequence[System] = (),
    baseline: str | None = None,
    limit_queries: int | None = None,
    by: By | None = None,
    abstaining: bool = False,
    parameters: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """Evaluate systems on the judgements in the engine's own store, without changing it."""
    load_library()
    own = own_evaluation_set(engine)
    own = own if limit_queries is None else own.first(limit_queries)
    embedder = engine.embeddings.embedder()
    chosen = runnable_systems([*systems([*names, *([baseline] if baseline and names else [])]), *extra], embedder)
    current = System(CURRENT, engine.tuning.current())
    if not names and current.tuning != systems([JUDGED])[0].tuning:
        chosen = [*chosen, *([current] if embedder is not None or current.tuning.semantic_weight == 0 else [])]
    with progress("recalling", total=len(own.queries)) as recalled:
        runs = run(engine, own, chosen, progress=recalled)
        abstention = abstain(engine, own, parameters=parameters, progress=progress) if abstaining else None
    compared = systems([baseline or BASELINE])[0].name
    done = summarise(own, runs, model=embedder.model if embedder else None, baseline=compared, by=by)
    return replace(done, abstention=abstention)


def export_own(engine: Engine, folder: Path, *, project: str | None = None) -> int:
    """Write the judgements as an evaluation set, with the memories of all projects queried; return how many queries."""
    judged = by_query(engine.judgements.list(project=project))
    if not judged:
        raise Invalid("nothing is judged yet; judge some memories with: retentive judge")
    queries = [
        JudgedQuery(BeirQuery(f"q{number}", one.text, one.project, one.asked_at), one.relevance)
        for number, one in enumerate(judged, 1)
    ]
    projects = {one.project for one in judged}
    scopes = [None] if None in projects else sorted(name for name in projects if name)
    write_set(folder, (memory for name in scopes for memory in all_memories(engine, project=name)), queries)
    return len(queries)


@dataclass(frozen=True, slots=True)
class TuningMetrics:
    """The metrics of one side of a comparison, with a value for each query."""

    values: Mapping[str, Values]

    def at(self, index: int) -> dict[str, float]:
        """The metrics of one query."""
        return {name: float(self.values[name][index]) for name in COMPARED}

    def means(self) -> dict[str, float]:
        """The mean of each metric."""
        return {name: float(self.values[name].mean()) for name in COMPARED}


@dataclass(frozen=True, slots=True)
class Comparison:
    """The metrics of two tunings on the same queries, and whether a recall was degraded."""

    a: TuningMetrics
    b: TuningMetrics
    degraded: str | None
    degraded_reason: str | None

    def p_values(self) -> dict[str, float]:
        """The p-value of a paired randomisation test of the difference between the two, for each metric."""
        return {name: p_value(self.b.values[name], self.a.values[name]) for name in COMPARED}


def compare(engine: Engine, queries: Sequence[EvaluationQuery], a: Tuning, b: Tuning) -> Comparison:
    """Compare two tunings on some queries, without recording use.

    Unlike an evaluation it accepts degraded recalls, and reports them: it shows what a user of the engine gets now.
    """
    load_library()
    degraded: tuple[str, str | None] | None = None
    metrics = []
    for tuning in (a,) if a == b else (a, b):
        found = {}
        for query in queries:
            answer = recall_query(engine, query, tuning)
            found[query.id] = [hit.id for hit in answer]
            if answer.degraded:
                degraded = (answer.degraded, answer.degraded_reason)
        metrics.append(TuningMetrics(measure(queries, found)))
    return Comparison(metrics[0], metrics[-1], *(degraded or (None, None)))
