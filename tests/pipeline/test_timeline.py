"""Memories by kind over time, in steps that a reader can take in."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from retentive.errors import Invalid
from retentive.pipeline.timeline import Bucket, Timeline, timeline
from retentive.stores.values import Day

FIRST = date(2025, 1, 30)


def days(*later: int) -> list[Day]:
    return [Day(FIRST + timedelta(days=number), {"episodic": 1}) for number in later]


@pytest.mark.parametrize(
    ("last", "by"), [(0, "day"), (92, "day"), (93, "month"), (5 * 366, "month"), (5 * 366 + 1, "year")]
)
def test_the_steps_fit_the_span_unless_they_are_named(last, by):
    assert timeline(days(0, last)).by == by
    assert timeline(days(0, last), by="month").by == "month"


def test_days_add_up_to_months_and_nothing_is_told_of_months_without_any():
    told = timeline([*days(0, 1, 2), Day(date(2025, 4, 2), {"identity": 3})], by="month")

    assert told == Timeline(
        "month",
        FIRST,
        date(2025, 4, 2),
        (
            Bucket(date(2025, 1, 1), 2, {"episodic": 2, "semantic": 0, "identity": 0}),
            Bucket(date(2025, 2, 1), 1, {"episodic": 1, "semantic": 0, "identity": 0}),
            Bucket(date(2025, 4, 1), 3, {"episodic": 0, "semantic": 0, "identity": 3}),
        ),
    )


def test_years_begin_in_january():
    assert [bucket.start for bucket in timeline(days(0, 400), by="year").buckets] == [
        date(2025, 1, 1),
        date(2026, 1, 1),
    ]


def test_of_nothing_there_is_an_empty_timeline():
    assert timeline([]) == Timeline("day", None, None, ())


def test_steps_that_there_are_not_are_refused():
    with pytest.raises(Invalid, match="day, month, year"):
        timeline(days(0), by="week")  # type: ignore[arg-type]
