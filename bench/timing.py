"""How long queries take: engines by turns, so that noise meets all of them, and the median of the passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from bench.corpus import Query
from bench.peers import Peer
from bench.retentive_peer import RetentivePeer
from bench.vectors import RECALL_DEPTH, Truth


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the slow end of some times, in milliseconds."""

    p50: float
    p95: float


def spread(milliseconds: Sequence[float]) -> Spread:
    """The spread of these times."""
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return Spread(float(p50), float(p95))


def milliseconds(work: Callable[[], Any]) -> float:
    """How long this takes."""
    started = perf_counter()
    work()
    return (perf_counter() - started) * 1000


def by_turns(
    peers: Sequence[Peer], queries: Sequence[Query], *, scoped: bool, passes: int, advance: Callable[[int], None]
) -> dict[str, Spread]:
    """Each peer's times over all queries: after one pass to warm up, the median of each figure over the passes."""
    found: dict[str, list[Spread]] = {peer.name: [] for peer in peers}
    for turn in range(passes + 1):
        for peer in peers:
            times = [milliseconds(lambda peer=peer, query=query: peer.ask(query, scoped=scoped)) for query in queries]
            if turn > 0:
                found[peer.name].append(spread(times))
            advance(1)
    return {
        name: Spread(float(np.median([one.p50 for one in turns])), float(np.median([one.p95 for one in turns])))
        for name, turns in found.items()
    }


def stages(peer: RetentivePeer, queries: Sequence[Query], *, scoped: bool) -> Mapping[str, Spread]:
    """The times of each stage of a recall, as the recall itself reports them; the whole comes last."""
    answers = [peer.ask(query, scoped=scoped) for query in queries]
    found = {name: spread([answer.stages[name] for answer in answers]) for name in answers[0].stages}
    return {**found, "whole recall": spread([answer.elapsed_ms for answer in answers])}


@dataclass(frozen=True, slots=True)
class Recalled:
    """The share of the true nearest that a search by vector finds."""

    mean: float
    least: float


def recalled(peer: Peer, queries: Sequence[Query], truth: Truth, *, scoped: bool) -> Recalled:
    """Recall at 30 of the search by vector alone."""
    shares = [
        truth.recall(query, peer.nearest(query, scoped=scoped, limit=RECALL_DEPTH), scoped=scoped) for query in queries
    ]
    return Recalled(float(np.mean(shares)), min(shares))
