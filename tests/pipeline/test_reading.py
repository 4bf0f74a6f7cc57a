"""Lists of memories with a filter: by period and metadata, in pages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.pipeline import reading
from retentive.stores import open_store

FIRST = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def engine() -> Iterator[Engine]:
    """Ten memories, one a day, every third with the channel mail; two of them at the same time."""
    with Engine(open_store("memory://")) as engine:
        engine.remember_many(
            [
                {
                    "text": f"day {at}",
                    "occurred": FIRST + timedelta(days=at),
                    "metadata": {"mail": at % 3 == 0, "n": at},
                }
                for at in (*range(9), 8)
            ]
        )
        yield engine


def pages(engine: Engine, **options: object) -> list[list[str]]:
    found, cursor = [], None
    while True:
        page = engine.list(cursor=cursor, **options)
        found.append([memory.text for memory in page.memories])
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_a_period_includes_its_last_day_and_is_listed_in_pages(engine):
    assert pages(engine, since="2026-05-03", until="2026-05-06", limit=3) == [["day 5", "day 4", "day 3"], ["day 2"]]
    assert pages(engine, since="2026-05-09", limit=1) == [["day 8"], ["day 8"], []]
    assert pages(engine, until="2026-05-01T12:00:00Z") == [[]]
    assert pages(engine, until="2026-05-02T12:00:00Z") == [["day 0"]]


def test_metadata_is_compared_by_value_and_pages_are_filled(engine, monkeypatch):
    monkeypatch.setattr(reading, "PAGE", 4)

    assert pages(engine, metadata={"mail": True}, limit=2) == [["day 6", "day 3"], ["day 0"]]
    assert pages(engine, metadata={"mail": True}, since="2026-05-02", limit=9) == [["day 6", "day 3"]]
    assert pages(engine, metadata={"n": 3.0}) == [["day 3"]]
    assert pages(engine, metadata={"mail": 1}) == [[]]


def test_a_page_ends_after_a_number_of_memories_that_do_not_match(engine, monkeypatch):
    monkeypatch.setattr(reading, "PAGE", 2)
    monkeypatch.setattr(reading, "MOST_READ", 4)

    assert pages(engine, metadata={"n": 0}) == [[], [], ["day 0"]]


def test_an_empty_period_and_a_foreign_cursor_are_errors(engine):
    with pytest.raises(Invalid, match="until: must be after since"):
        engine.list(since="2026-05-03", until="2026-05-01")
    with pytest.raises(Invalid, match="cursor"):
        engine.list(until="2026-05-03", cursor="nonsense")


def test_rules_are_listed_in_pages_without_those_that_only_look_so(engine: Engine) -> None:
    engine.remember_many([{"text": f"rule {at}", "metadata": {"rule": True}} for at in range(3)])
    engine.remember("no rule", metadata={"inner": {"rule": True}})
    assert [text for page in pages(engine, metadata={"rule": True}, limit=2) for text in page] == [
        "rule 2", "rule 1", "rule 0",
    ]  # fmt: skip
