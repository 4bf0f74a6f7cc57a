"""Recalls with a filter by time and metadata."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from retentive import Engine, Filter, Invalid
from tests.compass import Compass


@pytest.fixture
def engine(open_engine: Callable[..., Engine]) -> Engine:
    engine = open_engine(Compass())
    days = ["2026-05-07T23:59:59Z", "2026-05-08", "2026-05-08T18:00:00+02:00", "2026-05-09T00:00:00Z"]
    engine.remember_many(
        {"text": f"at{at} the key {at}", "session": "s", "occurred": day, "metadata": {"topic": "ab"[at % 2], "n": at}}
        for at, day in enumerate(days)
    )
    return engine


def found(engine: Engine, **options: Any) -> list[int]:
    return sorted(hit.memory.metadata["n"] for hit in engine.recall("at0 key", **options).hits)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3]),
        ({"since": "2026-05-08"}, [1, 2, 3]),
        ({"until": "2026-05-08"}, [0, 1, 2]),
        ({"since": date(2026, 5, 8), "until": date(2026, 5, 8)}, [1, 2]),
        ({"until": "2026-05-08T16:00:00Z"}, [0, 1]),
        ({"since": datetime(2026, 5, 8, 16, tzinfo=UTC)}, [2, 3]),
        ({"since": "2026-05-08T18:00:00+02:00"}, [2, 3]),
        ({"until": "9999-12-31"}, [0, 1, 2, 3]),
        ({"metadata": {"topic": "a"}}, [0, 2]),
        ({"metadata": {"topic": "a", "n": 2.0}}, [2]),
        ({"metadata": {"topic": None}}, []),
        ({"since": "2026-05-08", "metadata": {"topic": "b"}, "session": "s"}, [1, 3]),
        ({"since": "2026-05-08", "session": "other"}, []),
    ],
)
def test_a_recall_returns_only_what_matches_its_filter_also_as_neighbours(
    engine: Engine, options: dict[str, Any], expected: list[int]
):
    assert found(engine, **options) == expected
    assert found(engine, tuning={"neighbour_weight": 2.0, "min_candidates": 1}, **options) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"since": "tomorrow"}, "since: 'tomorrow' is not a time"),
        ({"since": "2026-05-09", "until": "2026-05-08"}, "until: must be after since"),
        ({"metadata": {"topic": ["a"]}}, "metadata: the value of 'topic' must be text, a number, true, false or null"),
        ({"metadata": {"n": float("nan")}}, "metadata: cannot be written as JSON"),
        ({"metadata": "topic"}, "metadata: an object with text keys"),
    ],
)
def test_a_filter_that_is_not_valid_is_refused(engine: Engine, options: dict[str, Any], says: str):
    with pytest.raises(Invalid, match=says):
        engine.recall("key", **options)


def test_an_explanation_says_that_a_memory_is_outside_the_filter(engine: Engine):
    [memory] = [hit.memory for hit in engine.recall("key", metadata={"n": 0}).hits]

    late = engine.explain("key", memory.id, since="2026-05-08", until="2026-05-09")
    other = engine.explain("key", memory.id, metadata={"topic": "b"})

    assert (late.outcome, late.part, other.outcome, other.part) == ("outside", "time", "outside", "metadata")
    assert late.sentence == (
        "It is outside the filter: its time is 2026-05-07T23:59:59+00:00, and the recall searched "
        "from 2026-05-08T00:00:00+00:00 before 2026-05-10T00:00:00+00:00."
    )
    assert other.sentence == 'It is outside the filter: its metadata does not have {"topic": "b"}.'
    assert engine.explain("key", memory.id, metadata={"topic": "a"}).outcome == "hit"


def test_a_query_without_conditions_has_an_empty_filter(engine: Engine):
    assert engine.query("key").filter == engine.query("key", metadata={}).filter == Filter()
    assert not Filter()
    assert Filter(metadata=(("topic", "a"),))
