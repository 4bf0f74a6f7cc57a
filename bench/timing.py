"""Times of queries: engines in turn, so that noise affects all of them alike, and the median of the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, process_time
from typing import Any

import numpy as np

from bench.corpus import BenchQuery
from bench.measured import Peer
from bench.retentive_peer import RetentivePeer
from bench.vectors import RECALL_DEPTH, Truth


@dataclass(frozen=True, slots=True)
class Spread:
    """The median and the 95th percentile of some times, in milliseconds, and the median of CPU time where measured."""

    p50: float
    p95: float
    cpu: float | None = None


def spread(milliseconds: Sequence[float]) -> Spread:
    """Return the percentiles of some times."""
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return Spread(float(p50), float(p95))


def milliseconds(work: Callable[[], Any]) -> float:
    """Return the milliseconds that a function takes."""
    started = perf_counter()
    work()
    return (perf_counter() - started) * 1000


def measure_in_turn(
    peers: Sequence[Peer], queries: Sequence[BenchQuery], *, scoped: bool, passes: int, advance: Callable[[int], None]
) -> dict[str, Spread]:
    """Return the times of each peer: after one pass to warm up, the median of each percentile over the passes.

    CPU time is that of all threads of this process. Other processes change it less than the time itself.
    """
    found: dict[str, list[Spread]] = {peer.name: [] for peer in peers}
    for turn in range(passes + 1):
        for peer in peers:
            times, cpu = [], []
            for query in queries:
                used = process_time()
                times.append(milliseconds(lambda peer=peer, query=query: peer.search(query, scoped=scoped)))
                cpu.append((process_time() - used) * 1000)
            if turn > 0:
                found[peer.name].append(replace(spread(times), cpu=float(np.median(cpu))))
            advance(1)
    return {name: _middle(turns) for name, turns in found.items()}


def _middle(turns: Sequence[Spread]) -> Spread:
    """Return the median of each figure over the passes."""
    p50, p95, cpu = np.median([(one.p50, one.p95, one.cpu or 0.0) for one in turns], axis=0).tolist()
    return Spread(p50, p95, cpu)


def stages(peer: RetentivePeer, queries: Sequence[BenchQuery], *, scoped: bool) -> Mapping[str, Spread]:
    """Return the times of each stage of a recall, as the recall reports them, and of the whole."""
    answers = [peer.search(query, scoped=scoped) for query in queries]
    found = {name: spread([answer.stages[name] for answer in answers]) for name in answers[0].stages}
    return {**found, "whole recall": spread([answer.elapsed_ms for answer in answers])}


@dataclass(frozen=True, slots=True)
class VectorRecall:
    """The share of the true nearest neighbours that a vector search finds."""

    mean: float
    least: float


def vector_recall(peer: Peer, queries: Sequence[BenchQuery], truth: Truth, *, scoped: bool) -> VectorRecall:
    """Measure the recall at 30 of the vector search."""
    shares = [
        truth.recall(query, peer.nearest(query, scoped=scoped, limit=RECALL_DEPTH), scoped=scoped) for query in queries
    ]
    return VectorRecall(float(np.mean(shares)), min(shares))
