"""Memories, retrievers and hits in one line each, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from retentive.models import Candidate, Hit, Memory
from retentive.ranking import Tuning
from retentive.ranking.diversity import diversify
from retentive.ranking.fusion import ScoreTable
from retentive.ranking.lists import RankedList, Ranking

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)

FUSIONS = ("rrf", "relative", "weighted", "full")
SCALINGS = ("min-max", "z-score", "sum", "max", "l2", "distribution", "spread", "saturate", "none")


def days_ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def memory(id: str, text: str | None = None, **fields: Any) -> Memory:
    """A memory stored this moment that says something no other one says."""
    return Memory(id, f"text of {id}" if text is None else text, fields.pop("created", NOW), **fields)


def retriever(
    name: str, *found: Memory | str | tuple[Memory | str, float], weight: float = 1.0, **fields: Any
) -> RankedList:
    """A retriever that found these, best first; a memory without a score gets the next one of 1, 1/2, 1/3, …"""
    pairs = [
        item if isinstance(item, tuple) and not isinstance(item, Memory) else (item, 1 / place)
        for place, item in enumerate(found, 1)
    ]
    return RankedList(name, tuple(Candidate(_memory(item), score) for item, score in pairs), weight, **fields)


def _memory(item: Memory | str) -> Memory:
    return memory(item) if isinstance(item, str) else item


def hit(item: Memory | str, score: float) -> Hit:
    return Hit(_memory(item), score)


def applied(step: Callable[..., None], hits: Sequence[Hit], *arguments: Any, **options: Any) -> list[Hit]:
    """The hits after a step of ranking."""
    table = ScoreTable.of(hits)
    step(table, *arguments, **options)
    return table.hits()


def plain(**parameters: Any) -> Tuning:
    """A tuning that fuses and does nothing else, but for the parameters given."""
    off = {"quality": "off", "dedup": False, "min_cosine": -1.0, "short_keyword_share": 1.0, "min_match": 0.0}
    return Tuning(**{"fusion": "rrf", **off, **parameters})


def ids(result: Ranking | Iterable[Hit]) -> list[str]:
    return [hit.id for hit in (result.hits if isinstance(result, Ranking) else result)]


def scores(result: Ranking | Iterable[Hit]) -> dict[str, float]:
    return {hit.id: hit.score for hit in (result.hits if isinstance(result, Ranking) else result)}


def unit(*numbers: float) -> np.ndarray:
    """A vector of length 1 in that direction."""
    vector = np.array(numbers, dtype=np.float32)
    return vector / np.linalg.norm(vector)


def in_mmr_order(hits, diversity, vectors, *, limit):
    """What MMR picks and then the rest, as one list."""
    picked, rest = diversify(hits, diversity, vectors, limit=limit)
    return [*picked, *rest]
