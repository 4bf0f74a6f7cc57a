"""Whether two stores answer the same queries alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from retentive.models import Hit, Memory, Scope
from retentive.pipeline.recall import Query, recall
from retentive.pipeline.tuning_history import PARAMETERS
from retentive.ranking.tuning import Tuning, parse_tuning
from retentive.stores import Record, Store

LIMIT = 10
TIE = 1e-4
"""Scores that differ by less count as equal: stores add up float32 in different orders."""

LONGEST = 100
"""So many characters of a memory are asked: more words only make the search slower."""

POOL = 300
"""So many candidates come from each search, more than in an ordinary recall: which of them a store looks at first where
many match alike is its own affair, and no sign of a bad copy."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How two stores answered: how many queries, how many alike in order, and the mean share of common hits."""

    queries: int
    in_order: int
    overlap: float
    itself: int

    @property
    def all_in_order(self) -> bool:
        """Whether each answer had the same hits in the same order."""
        return self.in_order == self.queries


def compare_recalls(
    source: Store, target: Store, records: Sequence[Record], *, now: datetime, vectors: bool = True
) -> Agreement:
    """Ask both stores for each of these memories, by its own text and vector, with the source's parameters.

    Every second query is asked in the memory's own session, or else its project; the others in its whole profile.
    """
    tuning = _tuning(source, vectors=vectors)
    in_order, shares, itself = 0, [], 0
    with ThreadPoolExecutor(2, thread_name_prefix="retentive-copy") as threads:
        for number, record in enumerate(records):
            query = Query(
                record.memory.text[:LONGEST],
                _scope(record.memory, narrow=bool(number % 2)),
                tuning,
                LIMIT,
                now,
                vector=None if record.vectors is None else record.vectors[0],
            )
            ours, theirs = (_hits(query, store, threads) for store in (source, target))
            in_order += same_order(ours, theirs)
            shares.append(overlap(ours, theirs))
            itself += record.memory.id in {hit.id for hit in theirs}
    return Agreement(len(records), in_order, sum(shares) / max(len(shares), 1), itself)


def _hits(query: Query, store: Store, threads: Executor) -> tuple[Hit, ...]:
    return recall(query, store, lambda: None, threads).hits


def _tuning(store: Store, *, vectors: bool) -> Tuning:
    # A cross-encoder would only cost time. Of two memories that say the same one is left out, and which one may hang on
    # a tie.
    changed: dict[str, object] = {"rerank": 0, "dedup": False, "pool_floor": POOL}
    if not vectors:
        changed["semantic_weight"] = 0.0
    return parse_tuning({**json.loads(store.get_value(PARAMETERS) or "{}"), **changed})


def _scope(memory: Memory, *, narrow: bool) -> Scope:
    if not narrow:
        return Scope(memory.profile)
    if memory.session is not None:
        return Scope(memory.profile, sessions=(memory.session,), only_sessions=True)
    return Scope(memory.profile, project=memory.project)


def same_order(ours: Sequence[Hit], theirs: Sequence[Hit]) -> bool:
    """Whether these are the same hits with the same scores in the same order; those that tie may change places."""
    if len(ours) != len(theirs):
        return False
    if any(abs(one.score - other.score) > TIE for one, other in zip(ours, theirs, strict=True)):
        return False
    last = min((hit.score for hit in ours), default=0.0) + TIE
    scores = {hit.id: hit.score for hit in theirs}
    # One that ties with the last may have been left out for another.
    return all(abs(scores[hit.id] - hit.score) <= TIE if hit.id in scores else hit.score <= last for hit in ours)


def overlap(ours: Sequence[Hit], theirs: Sequence[Hit]) -> float:
    """The share of hits that both have; 1 if neither has any."""
    one, other = {hit.id for hit in ours}, {hit.id for hit in theirs}
    return len(one & other) / len(one | other) if one | other else 1.0
