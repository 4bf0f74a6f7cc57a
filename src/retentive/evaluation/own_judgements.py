"""One's own memories and judgements as a judged set: measured where they are, or written as a set of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.evaluation.evaluation_set import EvaluationQuery, JudgedSet, Pool
from retentive.evaluation.metrics import library
from retentive.evaluation.result import BASELINE, By, Evaluation, Progress, no_progress, runnable, summarise
from retentive.evaluation.run import System, run, systems
from retentive.models import Judgement, Memory
from retentive.pipeline.remember import Draft
from retentive.transfer.formats.beir import BeirQuery, JudgedQuery, write_set

NAME = "mine"
PRESENT = "present"
"""The row of the tuning in force, where that is not the default."""

NOTHING_JUDGED = "no query has a memory judged good yet; judge some"

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """One query that was judged: relevance by the memories' ids, those that are not relevant among them."""

    text: str
    project: str | None
    asked_at: datetime | None
    relevance: Mapping[str, int]


def asked(judgements: Sequence[Judgement]) -> list[Asked]:
    """The queries behind some judgements, in the order in which they were first asked."""
    found: dict[tuple[str, str | None], Asked] = {}
    for judgement in judgements:
        key = (judgement.query, judgement.project)
        known = found.get(key, Asked(*key, None, {}))
        found[key] = replace(
            known,
            asked_at=judgement.asked_at or known.asked_at,
            relevance={**known.relevance, judgement.memory: judgement.relevance},
        )
    return list(found.values())


def own_queries(
    engine: Engine, *, profile: str | None = None, project: str | None = None
) -> tuple[EvaluationQuery, ...]:
    """The queries of a profile, the engine's own if none is named, for which some memory was judged good.

    Memories go by their ids.
    """
    return tuple(
        EvaluationQuery(f"q{at}", one.text, relevant, one.project, one.asked_at, profile=profile)
        for at, one in enumerate(asked(engine.judgements.list(profile=profile, project=project)), 1)
        if (relevant := {id: grade for id, grade in one.relevance.items() if grade > 0})
    )


def own_set(engine: Engine, *, profile: str | None = None) -> JudgedSet:
    """The memories and judgements of a profile, the engine's own if none is named, as a set named `mine`."""
    queries = own_queries(engine, profile=profile)
    if not queries:
        raise Invalid(f"{NOTHING_JUDGED} with: retentive judge")
    memories = list(all_memories(engine, profile=profile))
    return JudgedSet(NAME, queries, _pool(memories, queries), _no_drafts, identify=_id)


def _id(memory: Memory) -> str:
    return memory.id


def _no_drafts() -> Iterator[Draft]:
    """Nothing is to be loaded: the memories are where they belong."""
    return iter(())


def _pool(memories: Sequence[Memory], queries: Sequence[EvaluationQuery]) -> Pool:
    homes = [memory.project for memory in memories]
    sizes = {project: homes.count(project) for project in set(homes)}
    seen = [len(homes) if query.project is None else sizes.get(query.project, 0) for query in queries]
    return Pool(
        memories=len(memories),
        projects=len(set(homes) - {None}),
        sessions=len({memory.session for memory in memories} - {None}),
        median_words=float(median(len(memory.text.split()) for memory in memories)),
        searched=float(median(seen)),
    )


def all_memories(engine: Engine, *, project: str | None = None, profile: str | None = None) -> Iterator[Memory]:
    """Every memory of the profile, or of one of its projects."""
    scope = engine.scope(project=project, profile=profile)
    cursor = None
    while True:
        page = engine.list(scope, cursor=cursor, limit=PAGE)
        yield from page.memories
        cursor = page.next_cursor
        if cursor is None:
            return


def evaluate_mine(
    engine: Engine,
    *,
    names: Sequence[str] = (),
    besides: Sequence[System] = (),
    baseline: str | None = None,
    limit_queries: int | None = None,
    by: By | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """How well each system finds what was judged good, in the engine's own store, of which nothing changes."""
    library()
    judged = own_set(engine)
    judged = judged if limit_queries is None else judged.first(limit_queries)
    embedder = engine.embeddings.embedder()
    chosen = runnable([*systems([*names, *([baseline] if baseline and names else [])]), *besides], embedder)
    present = System(PRESENT, engine.tuning.current())
    if not names and present.tuning != systems(["default"])[0].tuning:
        chosen = [*chosen, *([present] if embedder is not None or present.tuning.semantic_weight == 0 else [])]
    with progress("recalling", total=len(judged.queries)) as recalled:
        rows = run(engine, judged, chosen, progress=recalled)
    compared = systems([baseline or BASELINE])[0].name
    return summarise(judged, rows, model=embedder.model if embedder else None, baseline=compared, by=by)


def export_mine(engine: Engine, folder: Path, *, project: str | None = None) -> int:
    """How many queries were written as a judged set, with the memories of every project that they are asked of."""
    judged = asked(engine.judgements.list(project=project))
    if not judged:
        raise Invalid("nothing is judged yet; judge some memories with: retentive judge")
    queries = [
        JudgedQuery(BeirQuery(f"q{at}", one.text, one.project, one.asked_at), one.relevance)
        for at, one in enumerate(judged, 1)
    ]
    projects = {one.project for one in judged}
    scopes = [None] if None in projects else sorted(name for name in projects if name)
    write_set(folder, (memory for name in scopes for memory in all_memories(engine, project=name)), queries)
    return len(queries)
