"""Runs all peers on one set: the same memories, vectors and queries, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np

from bench.machine import load_average
from bench.peers.process import Opened, PeerError, PeerProcess, Size
from bench.peers.protocol import PeerMemory, PeerQuery, Setup
from bench.progress import Progress
from retentive.evaluation.evaluation_set import EvaluationQuery, EvaluationSet
from retentive.evaluation.metrics import Values, measure
from retentive.inference.embedders import Embedder
from retentive.models import indexed_text
from retentive.transfer.formats.beir import SOURCE

BATCH = 500
ROUND = 25
"""How many queries a peer gets before the next peer's turn."""

WARM_UP = 10
"""How many queries are not timed."""


@dataclass(frozen=True, slots=True)
class PeerResult:
    """The figures of one peer. `values` has a value for each query and metric, in the order of the queries."""

    name: str
    opened: Opened
    values: Mapping[str, Values]
    milliseconds: Values
    cpu_milliseconds: Values
    ingest_seconds: float
    memories: int
    size: Size


@dataclass(frozen=True, slots=True)
class Comparison:
    """All peers on one set; a peer that failed has the reason instead of figures."""

    set: str
    memories: int
    projects: int
    queries: int
    all_queries: int
    searched: float
    results: tuple[PeerResult, ...]
    failures: Mapping[str, str]
    load: Mapping[str, float]
    seconds: float


@dataclass(slots=True)
class _Running:
    """A peer that runs, and what it has found so far."""

    process: PeerProcess
    opened: Opened
    ingest_seconds: float = 0.0
    found: dict[str, list[str]] = field(default_factory=dict)
    milliseconds: list[float] = field(default_factory=list)
    cpu_milliseconds: list[float] = field(default_factory=list)


Start = Callable[[str, Path], PeerProcess]
"""Starts the process of a peer, with the folder in which its log is."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The memories and the queries of a set with their vectors."""

    evaluation_set: EvaluationSet
    queries: tuple[EvaluationQuery, ...]
    memories: tuple[PeerMemory, ...]
    asked: tuple[PeerQuery, ...]

    @property
    def vectors(self) -> dict[str, Sequence[float]]:
        """The vector of each text."""
        return {one.text: one.vector for one in (*self.memories, *self.asked)}


T = TypeVar("T")


def spread(queries: Sequence[T], count: int | None) -> tuple[T, ...]:
    """Return some of the queries, spread evenly over all of them; the same ones each time."""
    if count is None or count >= len(queries):
        return tuple(queries)
    return tuple(queries[at] for at in np.linspace(0, len(queries) - 1, count).round().astype(int))


def prepare(evaluation_set: EvaluationSet, embedder: Embedder, count: int | None, progress: Progress) -> Prepared:
    """Embed the memories and the queries of a set. A long memory has the vector of its first part."""
    queries = spread(evaluation_set.queries, count)
    # A peer that has one index for each project could not search all of them.
    scoped = all(query.project is not None for query in evaluation_set.queries)
    memories: list[PeerMemory] = []
    drafts = evaluation_set.drafts()
    with progress.task("embed the memories", total=evaluation_set.corpus.memories) as advance:
        while batch := list(islice(drafts, BATCH)):
            texts = [indexed_text(draft.text, draft.speaker) for draft in batch]
            rows = embedder.embed([embedder.split(text)[0] for text in texts]).tolist()
            for draft, text, row in zip(batch, texts, rows, strict=True):
                id = (draft.source or "").removeprefix(SOURCE)
                occurred = None if draft.occurred is None else str(draft.occurred)
                project = draft.project if scoped else None
                memories.append(PeerMemory(id, text, tuple(row), project, draft.session, draft.speaker, occurred))
            advance(len(batch))
    rows = embedder.embed_queries([embedder.split(query.text)[0] for query in queries]).tolist()
    asked = tuple(
        PeerQuery(
            query.id,
            query.text,
            tuple(row),
            query.project if scoped else None,
            query.asked_at.isoformat() if query.asked_at else None,
        )
        for query, row in zip(queries, rows, strict=True)
    )
    return Prepared(evaluation_set, queries, tuple(memories), asked)


def compare(
    prepared: Prepared, names: Sequence[str], start: Start, folder: Path, setup: Setup, progress: Progress
) -> Comparison:
    """Load every peer, one after the other, then ask all of them in turns; a peer that fails is left out."""
    started, load = perf_counter(), {"before": load_average()}
    failures: dict[str, str] = {}
    results: list[PeerResult] = []
    with ExitStack() as stack:
        running: dict[str, _Running] = {}
        for name in names:
            with progress.task(f"{name}: add {len(prepared.memories):,} memories"):
                try:
                    running[name] = _load(name, prepared, start, folder, setup, stack)
                except PeerError as error:
                    failures[name] = str(error)
        with progress.task("ask the queries", total=len(prepared.asked)) as advance:
            _ask_in_turns(running, prepared.asked, failures, advance)
        for name, peer in running.items():
            if name not in failures:
                results.append(_result(name, peer, prepared))
    load["after"] = load_average()
    read = prepared.evaluation_set
    return Comparison(
        set=read.name,
        memories=len(prepared.memories),
        projects=read.corpus.projects,
        queries=len(prepared.queries),
        all_queries=len(read.queries),
        searched=read.corpus.searched,
        results=tuple(results),
        failures=failures,
        load=load,
        seconds=perf_counter() - started,
    )


def _load(name: str, prepared: Prepared, start: Start, folder: Path, setup: Setup, stack: ExitStack) -> _Running:
    own = folder / name
    (own / "data").mkdir(parents=True)
    process = stack.enter_context(start(name, own))
    opened = process.open(Setup(str(own / "data"), setup.dimensions, setup.embeddings_url, setup.cache))
    seconds = sum(process.add(batch) for batch in _batches(prepared.memories))
    return _Running(process, opened, seconds + process.finish())


def _batches(memories: Sequence[PeerMemory]) -> Iterator[Sequence[PeerMemory]]:
    for at in range(0, len(memories), BATCH):
        yield memories[at : at + BATCH]


def _ask_in_turns(
    running: Mapping[str, _Running],
    asked: Sequence[PeerQuery],
    failures: dict[str, str],
    advance: Callable[[int], None],
) -> None:
    """Give each peer a round of queries, then the next round, each time beginning with another peer."""
    rounds = [asked[:WARM_UP], *(asked[at : at + ROUND] for at in range(0, len(asked), ROUND))]
    for turn, part in enumerate(rounds):
        names = list(running)
        first = turn % max(len(names), 1)
        for name in (*names[first:], *names[:first]):
            if name in failures:
                continue
            peer = running[name]
            try:
                found = peer.process.search(part)
            except PeerError as error:
                failures[name] = str(error)
                continue
            if turn > 0:
                peer.found |= {query.id: ids for query, ids in zip(part, found.ids, strict=True)}
                peer.milliseconds += found.milliseconds
                peer.cpu_milliseconds += found.cpu_milliseconds
        advance(len(part) if turn else 0)


def _result(name: str, peer: _Running, prepared: Prepared) -> PeerResult:
    return PeerResult(
        name,
        peer.opened,
        measure(prepared.queries, peer.found),
        np.array(peer.milliseconds),
        np.array(peer.cpu_milliseconds),
        peer.ingest_seconds,
        len(prepared.memories),
        peer.process.size(),
    )
