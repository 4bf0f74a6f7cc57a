"""What is ranked and the result: ranked lists, neighbours and `Ranking`; lists of ids and scores for other callers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import exp
from types import MappingProxyType
from typing import NamedTuple

from retentive.models import Candidate, Hit, Memory, Period

_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_NO_TEXTS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class RankedList:
    """The candidates of one retriever, best first.

    Without a `weight`, a list called `semantic` or `keyword` has that of the tuning, and any other 1.
    `depth_scores` are the retriever's best scores, perhaps deeper than its candidates; score scaling uses them.
    `elsewhere` has this retriever's true scores of memories that only other retrievers returned. `specific` is set
    if a match means much even in a short memory: the query has an identifier, say, or the vectors are of a general
    model. `terms` is the number of informative terms of the query, 0 if it is not known.
    `note` is told with each share.
    """

    name: str
    candidates: tuple[Candidate, ...]
    weight: float | None = None
    depth_scores: tuple[float, ...] = ()
    elsewhere: Mapping[str, float] = field(default_factory=dict)
    specific: bool = False
    terms: int = 0
    note: str = ""


TIME = "time"
"""The name of the time retriever. Its scores are the closeness of memories to the period of the query, from 0 to 1."""

FAR = 0.01
"""A memory with a smaller closeness is not near the period."""


def closeness(when: datetime, period: Period) -> float:
    """1 for a time within the period, falling as a Gaussian outside: 0.61 at its blur, 0.14 at twice that."""
    outside = max(period.start - when, when - period.end).total_seconds()
    if outside <= 0:
        return 1.0
    blur = period.blur.total_seconds()
    return exp(-0.5 * (outside / blur) ** 2) if blur > 0 else 0.0


NEAR = 0.6
"""A memory with this closeness counts as one of the period: one at its blur does."""


WIDENED = timedelta(days=3)
"""A memory further outside never counts as one of the period: January is not of last year."""


def is_near(memory: Memory, period: Period) -> bool:
    """Whether a memory is of a period, or so close to it as the blur allows."""
    is_close = period.start - WIDENED <= memory.when <= period.end + WIDENED
    return is_close and closeness(memory.when, period) >= NEAR


class Context(NamedTuple):
    """The neighbours of the candidates in their sessions.

    `memories` are neighbours that no retriever returned; they may enter the result. `neighbours` has, for each memory
    with a session, the ids of the memories before and after it.
    """

    memories: tuple[Memory, ...] = ()
    neighbours: Mapping[str, tuple[str | None, str | None]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits, best first, and those dropped: after the limit with a rank, or by a step whose reason is the last."""

    hits: Sequence[Hit]
    dropped: Sequence[Hit] = ()


def ranked_list(
    name: str,
    results: Iterable[str | tuple[str, float]],
    *,
    weight: float | None = None,
    texts: Mapping[str, str] = _NO_TEXTS,
) -> RankedList:
    """Make a ranked list of what a retriever found, best first: ids with scores, or ids alone for fusion by ranks.

    Larger scores are better. Without a weight, a list called `semantic` or `keyword` has that of the tuning, and any
    other 1. `texts` has the texts by id; deduplication compares them. An id without a text is never a
    duplicate.
    """
    candidates = []
    for place, item in enumerate(results, 1):
        id, score = (item, 1.0 / place) if isinstance(item, str) else item
        text = texts.get(id)
        hash = "" if text is not None else f"id {id}"
        candidates.append(Candidate(Memory(id, id if text is None else text, _NO_TIME, content_hash=hash), score))
    return RankedList(name, tuple(candidates), weight)
