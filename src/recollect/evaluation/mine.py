"""One's own memories and judgements as a judged set: measured where they are, or written as a set of files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median

from recollect.engine import Engine
from recollect.errors import Invalid
from recollect.evaluation.judged import JudgedSet, Pool, Question
from recollect.evaluation.metrics import library
from recollect.evaluation.result import BASELINE, By, Evaluation, Progress, no_progress, runnable, summarise
from recollect.evaluation.run import System, run, systems
from recollect.formats.beir import Query
from recollect.formats.beir_writing import JudgedQuery, write_set
from recollect.models import Judgement, Memory
from recollect.remember import Draft

NAME = "mine"
PRESENT = "present"
"""The row of the tuning in force, where that is not the default."""

NOTHING_JUDGED = "no question has a memory judged good yet; judge some"

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Asked:
    """One question that was judged: relevance by the memories' ids, those that are not relevant among them."""

    text: str
    project: str | None
    asked_at: datetime | None
    relevance: Mapping[str, int]


def asked(judgements: Sequence[Judgement]) -> list[Asked]:
    """The questions behind some judgements, in the order in which they were first asked."""
    found: dict[tuple[str, str | None], Asked] = {}
    for judgement in judgements:
        key = (judgement.question, judgement.project)
        known = found.get(key, Asked(*key, None, {}))
        found[key] = replace(
            known,
            asked_at=judgement.asked_at or known.asked_at,
            relevance={**known.relevance, judgement.memory: judgement.relevance},
        )
    return list(found.values())


def own_questions(engine: Engine, *, profile: str | None = None, project: str | None = None) -> tuple[Question, ...]:
    """The questions of a profile, the engine's own if none is named, for which some memory was judged good.

    Memories go by their ids.
    """
    return tuple(
        Question(f"q{at}", one.text, relevant, one.project, one.asked_at, profile=profile)
        for at, one in enumerate(asked(engine.judgements(profile=profile, project=project)), 1)
        if (relevant := {id: grade for id, grade in one.relevance.items() if grade > 0})
    )


def own_set(engine: Engine, *, profile: str | None = None) -> JudgedSet:
    """The memories and judgements of a profile, the engine's own if none is named, as a set named `mine`."""
    questions = own_questions(engine, profile=profile)
    if not questions:
        raise Invalid(f"{NOTHING_JUDGED} with: recollect judge")
    memories = list(all_memories(engine, profile=profile))
    return JudgedSet(NAME, questions, _pool(memories, questions), _no_drafts, identify=_id)


def _id(memory: Memory) -> str:
    return memory.id


def _no_drafts() -> Iterator[Draft]:
    """Nothing is to be loaded: the memories are where they belong."""
    return iter(())


def _pool(memories: Sequence[Memory], questions: Sequence[Question]) -> Pool:
    homes = [memory.project for memory in memories]
    sizes = {project: homes.count(project) for project in set(homes)}
    seen = [len(homes) if question.project is None else sizes.get(question.project, 0) for question in questions]
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
    limit_questions: int | None = None,
    by: By | None = None,
    progress: Progress = no_progress,
) -> Evaluation:
    """How well each system finds what was judged good, in the engine's own store, of which nothing changes."""
    library()
    judged = own_set(engine)
    judged = judged if limit_questions is None else judged.first(limit_questions)
    embedder = engine.embedder()
    chosen = runnable([*systems([*names, *([baseline] if baseline and names else [])]), *besides], embedder)
    present = System(PRESENT, engine.tuned())
    if not names and present.tuning != systems(["default"])[0].tuning:
        chosen = [*chosen, *([present] if embedder is not None or present.tuning.semantic_weight == 0 else [])]
    with progress("recalling", total=len(judged.questions)) as recalled:
        rows = run(engine, judged, chosen, progress=recalled)
    compared = systems([baseline or BASELINE])[0].name
    return summarise(judged, rows, model=embedder.model if embedder else None, baseline=compared, by=by)


def export_mine(engine: Engine, folder: Path, *, project: str | None = None) -> int:
    """How many questions were written as a judged set, with the memories of every project that they are asked of."""
    questions = asked(engine.judgements(project=project))
    if not questions:
        raise Invalid("nothing is judged yet; judge some memories with: recollect judge")
    queries = [
        JudgedQuery(Query(f"q{at}", one.text, one.project, one.asked_at), one.relevance)
        for at, one in enumerate(questions, 1)
    ]
    projects = {one.project for one in questions}
    scopes = [None] if None in projects else sorted(name for name in projects if name)
    write_set(folder, (memory for name in scopes for memory in all_memories(engine, project=name)), queries)
    return len(queries)
