"""Count memories by kind over time: by day, month or year, depending on the span."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Literal, get_args

from retentive.errors import Invalid
from retentive.models import KINDS, Kind, Serializable
from retentive.stores.values import Day

TimelineBy = Literal["day", "month", "year"]
BUCKETS: tuple[TimelineBy, ...] = get_args(TimelineBy)


@dataclass(frozen=True, slots=True)
class Bucket(Serializable):
    """The number of memories of a day, month or year, which starts at `start`."""

    start: date
    memories: int
    by_kind: Mapping[Kind, int]


@dataclass(frozen=True, slots=True)
class Timeline(Serializable):
    """The number of memories by kind over time, oldest first, without empty buckets."""

    by: TimelineBy
    first: date | None
    last: date | None
    buckets: tuple[Bucket, ...]


MOST_DAYS = timedelta(days=92)
MOST_MONTHS = timedelta(days=5 * 366)
"""Longer spans use larger buckets."""


def timeline(days: Sequence[Day], *, by: TimelineBy | None = None) -> Timeline:
    """Aggregate days, oldest first, into buckets of the given size, or of the size that fits their span."""
    if by is not None and by not in BUCKETS:
        raise Invalid(f"by: one of {', '.join(BUCKETS)}, not '{by}'")
    if not days:
        return Timeline(by or "day", None, None, ())
    first, last = days[0].day, days[-1].day
    chosen = by or fitting(last - first)
    counts: dict[date, Counter[str]] = {}
    for day in days:
        counts.setdefault(_start(day.day, chosen), Counter()).update(day.by_kind)
    buckets = (
        Bucket(start, sum(kinds.values()), {kind: kinds[kind] for kind in KINDS}) for start, kinds in counts.items()
    )
    return Timeline(chosen, first, last, tuple(buckets))


def fitting(span: timedelta) -> TimelineBy:
    """The bucket size that fits a span."""
    return "day" if span <= MOST_DAYS else "month" if span <= MOST_MONTHS else "year"


def _start(day: date, by: TimelineBy) -> date:
    if by == "year":
        return day.replace(month=1, day=1)
    return day.replace(day=1) if by == "month" else day
