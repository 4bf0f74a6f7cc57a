"""Load an evaluation set into an engine, recall its queries with each system, and measure the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Protocol

import numpy as np

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery, EvaluationSet, document_id
from retentive.evaluation.metrics import Values, load_library, measure
from retentive.inference.embedders import CachedEmbedder, Embedder, open_embedder
from retentive.inference.embedders.disk_cache import DiskCachedEmbedder
from retentive.inference.judge import LocalJudge
from retentive.models import DEFAULT_PROFILE, Memory, Recall, counted
from retentive.ranking import PRESETS, Tuning
from retentive.settings import EmbedderSettings, Settings
from retentive.stores import open_store
from retentive.stores.rules import pages

LIMIT = 10
"""How many memories are recalled for each query."""

WARM_UP = 20
"""How many queries are run before recalls are timed, to fill caches and load code."""

BATCH = 128
PAGE = 1000

RETRIEVERS = {"keyword": "keyword-only", "semantic": "semantic-only"}
"""The name of each retriever's row, and the preset that runs this retriever alone."""


JUDGED = "judged"
"""The name of the row of the default with the judge."""


class Progress(Protocol):
    """Opens a progress display for a stage; the function it yields is called with the number of steps done."""

    def __call__(self, label: str, *, total: int) -> AbstractContextManager[Callable[[int], None]]: ...


def no_progress(label: str, *, total: int) -> AbstractContextManager[Callable[[int], None]]:
    """Show no progress."""
    del label, total
    return nullcontext(lambda done: None)


@dataclass(frozen=True, slots=True)
class System:
    """A tuning to evaluate, under the name of its row."""

    name: str
    tuning: Tuning


@dataclass(frozen=True, slots=True)
class SystemRun:
    """The results of one system: for each query the documents found, the value of each metric, and the milliseconds."""

    name: str
    tuning: Tuning
    found: Mapping[str, tuple[str, ...]]
    values: Mapping[str, Values]
    milliseconds: Values

    def metrics(self, indices: Sequence[int] | None = None) -> dict[str, float]:
        """The mean of each metric and the percentiles of the time, over all queries or those at some indices."""
        chosen = slice(None) if indices is None else list(indices)
        means = {name: float(values[chosen].mean()) for name, values in self.values.items()}
        p50, p95 = np.percentile(self.milliseconds[chosen], (50, 95))
        return {**means, "p50_ms": float(p50), "p95_ms": float(p95)}


def systems(names: Sequence[str] = ()) -> list[System]:
    """Return the systems with these names, or all.

    These are each retriever alone and every preset, without the judge, and last the default as it is used, with it.
    """
    presets = {name: tuning.with_parameters(judge="off") for name, tuning in PRESETS.items()}
    known = {name: System(name, presets[preset]) for name, preset in RETRIEVERS.items()}
    others = [name for name in presets if name not in (*RETRIEVERS.values(), "default")]
    known |= {name: System(name, presets[name]) for name in (*others, "default")}
    known[JUDGED] = System(JUDGED, PRESETS["default"])
    aliases = {preset: name for name, preset in RETRIEVERS.items()}
    wanted = list(dict.fromkeys(aliases.get(name, name) for name in names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise Invalid(f"there is no preset '{unknown[0]}' to evaluate; use one of {', '.join(known)}")
    return [known[name] for name in wanted or known]


@contextmanager
def open_evaluation_embedder(
    settings: EmbedderSettings, *, cache: Path | None, queries: int = 0
) -> Iterator[Embedder | None]:
    """Open an embedder with a cache on disk, if a path is given.

    A cache in memory holds the vectors of all queries, so that no timed recall reads the file.
    """
    embedder = open_embedder(settings)
    if embedder is None:
        yield None
        return
    if cache is not None:
        embedder = DiskCachedEmbedder(embedder, cache)
    cached = CachedEmbedder(embedder, size=max(4096, 2 * queries))
    try:
        yield cached
    finally:
        cached.close()


@contextmanager
def open_loaded_engine(
    evaluation_set: EvaluationSet,
    embedder: Embedder | None,
    *,
    store: str | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[Engine]:
    """Open an engine on a store with exactly the memories of a set: a temporary store, or the one named.

    The clock of the engine does not advance, so that all memories have the same age.
    """
    with ExitStack() as stack:
        if store is None:
            folder = stack.enter_context(TemporaryDirectory(prefix="retentive-eval-", ignore_cleanup_errors=True))
            store = str(Path(folder) / "set.db")
        now = datetime.now(UTC)
        settings = Settings(store=store, profile=DEFAULT_PROFILE)
        engine = stack.enter_context(
            Engine(open_store(store), embedder, judge=LocalJudge(), settings=settings, clock=lambda: now)
        )
        load(engine, evaluation_set, progress=progress)
        yield engine


def load(engine: Engine, evaluation_set: EvaluationSet, *, progress: Callable[[int], None] = lambda done: None) -> None:
    """Store the memories of a set, in its order, except those that are stored already.

    `Conflict`, and nothing is stored, if the store has other memories: their terms would affect every score.
    """
    stored = {(memory.source, memory.text) for memory in all_memories(engine)}
    if engine.stats().memories:
        _check_no_others(engine, stored, evaluation_set)
    drafts = evaluation_set.drafts()
    while batch := list(islice(drafts, BATCH)):
        engine.remember_many([draft for draft in batch if (draft.source, draft.text) not in stored])
        progress(len(batch))
    if engine.embeddings.embedder() is None:
        return
    problem = engine.embeddings.problem()
    if problem or engine.embeddings.count_missing():
        raise Unavailable(f"the set could not be embedded: {problem or 'the embedder failed'}")


def _check_no_others(engine: Engine, stored: set[tuple[str | None, str]], evaluation_set: EvaluationSet) -> None:
    known = stored & {(draft.source, draft.text) for draft in evaluation_set.drafts()}
    others = engine.stats().memories - len(known)
    if others:
        store = engine.settings.public_store
        raise Conflict(
            f"{store} has {counted(others, 'memory that is', 'memories that are')} "
            "not of this set; use a store of its own"
        )


def all_memories(engine: Engine, *, project: str | None = None, profile: str | None = None) -> Iterator[Memory]:
    """Yield every memory of a profile, or of one of its projects."""
    scope = engine.scope(project=project, profile=profile)
    for page in pages(lambda cursor: engine.list(scope, cursor=cursor, limit=PAGE)):
        yield from page.memories


def run(
    engine: Engine,
    evaluation_set: EvaluationSet,
    chosen: Sequence[System],
    *,
    progress: Callable[[int], None] = lambda done: None,
) -> list[SystemRun]:
    """Recall every query with every system, through the engine that has the set's memories.

    Each query is run with all systems in turn, each time starting with another one, so that a busy moment of the
    machine affects all of them alike. Queries are embedded before: the times do not include the embedding.
    """
    load_library()
    queries, identify = evaluation_set.queries, evaluation_set.identify
    embedder = engine.embeddings.embedder()
    if embedder is not None:
        embedder.embed_queries([embedder.split(query.text)[0] for query in queries])
    for query in queries[:WARM_UP]:
        for system in chosen:
            recall_documents(engine, query, system.tuning, identify=identify)
    found: dict[str, dict[str, tuple[str, ...]]] = {system.name: {} for system in chosen}
    elapsed: dict[str, list[float]] = {system.name: [] for system in chosen}
    for index, query in enumerate(queries):
        first = index % len(chosen)
        for system in (*chosen[first:], *chosen[:first]):
            started = perf_counter()
            documents = recall_documents(engine, query, system.tuning, identify=identify)
            elapsed[system.name].append((perf_counter() - started) * 1000)
            found[system.name][query.id] = documents
        progress(1)
    rows = []
    for name, tuning in ((system.name, system.tuning) for system in chosen):
        values = measure(queries, found[name])
        rows.append(SystemRun(name, tuning, found[name], values, np.array(elapsed[name])))
    return rows


def recall_documents(
    engine: Engine, query: EvaluationQuery, tuning: Tuning, *, identify: Callable[[Memory], str | None] = document_id
) -> tuple[str, ...]:
    """Return the documents recalled for a query, best first.

    `Unavailable` if the recall is degraded: the figures would be those of another system.
    """
    answer = recall_query(engine, query, tuning)
    if answer.degraded:
        raise Unavailable(f"a recall was degraded, {answer.degraded}: {answer.degraded_reason}")
    return tuple(document for hit in answer if (document := identify(hit.memory)) is not None)


def recall_query(engine: Engine, query: EvaluationQuery, tuning: Tuning) -> Recall:
    """Recall a query as a user of the engine would, without recording use."""
    return engine.recall(
        query.text,
        project=query.project,
        profile=query.profile,
        limit=LIMIT,
        now=query.asked_at,
        tuning=tuning,
        record_use=False,
    )
