"""What every store promises about relevance judgements."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone
from typing import Any

import pytest

from retentive.errors import NotFound
from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.values import Judgement
from tests.stores.build import NOW, id_of, record


@pytest.fixture
def store(store: Store) -> Store:
    """A store with three memories, and one of another profile."""
    store.add([record(number, project="home") for number in (1, 2, 3)], model=None)
    store.add([record(9, profile="other")], model=None)
    return store


def judged(query: str, number: int, relevance: int = 1, **fields: Any) -> Judgement:
    return Judgement(query, id_of(number), relevance, fields.pop("created", NOW), **fields)


def test_judgements_are_returned_with_every_field_in_the_order_given(store: Store):
    given = [
        judged("where?", 2, 3, project="home", asked_at=NOW - timedelta(days=1)),
        judged("where?", 1, 0, project="home"),
        judged('"; DROP TABLE judgements; --\0', 1, 2),
    ]

    store.judge(given[:1])
    store.judge(given[1:])

    assert store.judgements("default") == given


def test_times_are_returned_in_utc(store: Store):
    east = NOW.astimezone(timezone(timedelta(hours=5)))

    store.judge([judged("where?", 1, asked_at=east, created=east)])

    found = store.judgements("default")[0]
    assert (found.asked_at, found.created) == (NOW, NOW)
    assert found.created.utcoffset() == timedelta(0)


def test_a_later_judgement_replaces_an_earlier_one_of_the_same_query_and_memory(store: Store):
    store.judge([judged("where?", 1, 1), judged("where?", 2, 1)])

    store.judge([judged("where?", 1, 0, created=NOW + timedelta(days=1))])

    assert [(one.memory, one.relevance) for one in store.judgements("default")] == [(id_of(1), 0), (id_of(2), 1)]
    assert store.judgements("default")[0].created == NOW + timedelta(days=1)


def test_the_same_text_in_a_project_is_another_query(store: Store):
    store.judge([judged("where?", 1, 1), judged("where?", 1, 0, project="home")])

    assert [one.project for one in store.judgements("default")] == [None, "home"]
    assert [one.relevance for one in store.judgements("default", project="home")] == [0]
    assert store.judgements("default", project="nowhere") == []


def test_a_profile_has_only_its_own_judgements(store: Store):
    store.judge([judged("where?", 1), judged("where?", 9, profile="other")])

    assert [one.memory for one in store.judgements("default")] == [id_of(1)]
    assert [one.memory for one in store.judgements("other")] == [id_of(9)]
    assert store.judgements("nobody") == []


@pytest.mark.parametrize(
    "stranger", [judged("where?", 4), judged("where?", 9), replace(judged("where?", 1), memory="a\0b")]
)
def test_a_memory_that_the_profile_does_not_have_is_not_found_and_nothing_is_judged(store: Store, stranger: Judgement):
    with pytest.raises(NotFound, match="there is no memory"):
        store.judge([judged("where?", 1), stranger])

    assert store.judgements("default") == []


def test_removing_a_memory_removes_its_judgements(store: Store):
    store.judge([judged("where?", number) for number in (1, 2, 3)])

    store.remove([id_of(1)])
    assert [one.memory for one in store.judgements("default")] == [id_of(2), id_of(3)]

    store.remove_scope(Scope(project="home"))
    assert store.judgements("default") == []


def test_an_updated_memory_keeps_its_judgements(store: Store):
    store.judge([judged("where?", 1, 2)])

    store.update(record(1, "something else", project="home"), model=None)

    assert [(one.memory, one.relevance) for one in store.judgements("default")] == [(id_of(1), 2)]


def test_judgements_can_be_removed_one_by_one(store: Store):
    store.judge([judged("where?", 1), judged("where?", 1, project="home"), judged("where?", 2), judged("when?", 1)])

    gone = store.unjudge([judged("where?", 1, 0), judged("where?", 3), judged("where?", 2, project="nowhere")])

    assert gone == 1
    left = [(one.query, one.memory, one.project) for one in store.judgements("default")]
    assert left == [("where?", id_of(1), "home"), ("where?", id_of(2), None), ("when?", id_of(1), None)]
