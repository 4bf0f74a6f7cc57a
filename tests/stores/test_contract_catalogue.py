"""What every store promises about sessions, projects, profiles and days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from retentive.errors import NotFound
from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.values import Day, Profile, Project, Session
from tests.stores.build import (
    MODEL,
    NOW,
    embedded,
    everything,
    id_of,
    keyword_ids,
    listed,
    nearest_ids,
    record,
    vector,
)

# Positions, sessions and projects


def test_positions_in_a_session_count_from_0_over_batches_and_single_adds(store: Store):
    batch = store.add([record(1, session="a"), record(2, session="b"), record(3, session="a")], model=None)
    single = store.add([record(4, session="a")], model=None)

    assert [one.position for one in (*batch, *single)] == [0, 0, 1, 2]


def test_a_given_position_is_kept_and_the_next_one_follows_the_highest(store: Store):
    store.add([record(1, session="a", position=10), record(2, session="a", position=3)], model=None)

    stored = store.add(
        [record(3, session="a"), record(4, session="a", position=40), record(5, session="a")], model=None
    )

    assert [one.position for one in stored] == [11, 40, 41]


def test_sessions_of_the_same_name_in_two_profiles_are_two_sessions(store: Store):
    first = store.add([record(1, session="a", project="p", profile="ada")], model=None)
    second = store.add([record(2, session="a", profile="bob")], model=None)

    assert (first[0].position, second[0].position) == (0, 0)
    assert (first[0].project, second[0].project) == ("p", None)


def test_a_memory_without_a_session_has_no_position(store: Store):
    assert store.add([record(1, project="p", position=5)], model=None)[0].position is None


def test_a_memory_of_a_session_is_in_the_sessions_project(store: Store):
    store.add([record(1, session="a", project="p")], model=None)

    assert store.add([record(2, session="a")], model=None)[0].project == "p"


def test_sessions_and_projects_are_listed_by_name_with_their_counts(store: Store):
    early, late = NOW - timedelta(days=3), NOW + timedelta(days=3)
    store.add(
        [
            record(1, session="b", project="p", occurred=late),
            record(2, session="b", occurred=early),
            record(3, session="a"),
            record(4, project="p"),
            record(5, project="o"),
            record(6, session="z", project="p", profile="elsewhere"),
        ],
        model=None,
    )

    assert store.sessions("default") == [
        Session("a", "default", None, 1, NOW, NOW),
        Session("b", "default", "p", 2, early, late),
    ]
    assert store.sessions("default", project="p") == [Session("b", "default", "p", 2, early, late)]
    assert store.projects("default") == [Project("o", "default", 0, 1), Project("p", "default", 1, 3)]
    assert store.sessions("default", project="unknown") == store.sessions("unknown") == store.projects("unknown") == []


def test_days_count_memories_by_kind_and_by_when_they_happened_in_utc(store: Store):
    midnight = datetime(2025, 6, 1, tzinfo=UTC)
    store.add(
        [
            record(1, occurred=midnight, kind="semantic"),
            record(2, occurred=midnight + timedelta(hours=24) - timedelta(microseconds=1)),
            record(3, created=midnight, kind="semantic", session="a", project="p"),
            record(4, occurred=midnight.astimezone(timezone(timedelta(hours=2))) - timedelta(microseconds=1)),
            record(5, occurred=datetime(1969, 12, 31, 23, 59, tzinfo=UTC), project="p"),
            record(6, occurred=datetime(1, 1, 1, tzinfo=UTC), kind="identity"),
            record(7, occurred=datetime(9999, 12, 31, 23, tzinfo=UTC)),
            record(8, occurred=midnight, project="p", profile="elsewhere"),
        ],
        model=None,
    )

    assert store.days("default") == [
        Day(date(1, 1, 1), {"identity": 1}),
        Day(date(1969, 12, 31), {"episodic": 1}),
        Day(date(2025, 5, 31), {"episodic": 1}),
        Day(date(2025, 6, 1), {"episodic": 1, "semantic": 2}),
        Day(date(9999, 12, 31), {"episodic": 1}),
    ]
    assert store.days("default", project="p") == [
        Day(date(1969, 12, 31), {"episodic": 1}),
        Day(date(2025, 6, 1), {"semantic": 1}),
    ]
    assert store.days("elsewhere") == [Day(date(2025, 6, 1), {"episodic": 1})]
    assert store.days("default", project="unknown") == store.days("unknown") == store.days("\ud800") == []


def test_moving_a_session_moves_its_memories_for_both_retrievers_and_new_ones(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="a"), embedded(3, project="p")], model=MODEL)

    moved = store.move_session("default", "a", project="q")

    assert (moved.project, moved.memories) == ("q", 2)
    for project, numbers in (("p", {3}), ("q", {1, 2})):
        expected = {id_of(number) for number in numbers}
        scope = Scope(project=project)
        assert set(keyword_ids(store, "note", scope)) == set(nearest_ids(store, vector(0), scope)) == expected
        assert set(listed(store, scope)) == expected
    assert [one.project for one in store.get([id_of(1), id_of(2), id_of(3)])] == ["q", "q", "p"]
    assert store.add([record(4, session="a")], model=None)[0].project == "q"


def test_moving_a_session_to_the_project_where_it_is_changes_nothing(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="b")], model=MODEL)
    before = everything(store)

    moved = [store.move_session("default", "a", project="p"), store.move_session("default", "b", project=None)]

    assert [(session.name, session.project) for session in moved] == [("a", "p"), ("b", None)]
    assert everything(store) == before


def test_a_session_moved_out_of_its_project_is_searched_alone(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="b", project="p")], model=MODEL)

    moved = store.move_session("default", "a", project=None)

    assert moved == Session("a", "default", None, 1, NOW, NOW)
    scope = Scope(sessions=("a",))
    assert (
        keyword_ids(store, "note", scope) == nearest_ids(store, vector(0), scope) == listed(store, scope) == [id_of(1)]
    )


def test_moving_an_unknown_session_is_not_found_and_creates_nothing(store: Store):
    store.add([record(1, session="a", profile="elsewhere")], model=None)

    with pytest.raises(NotFound, match="no session 'a' in profile 'default'"):
        store.move_session("default", "a", project="new")

    assert store.projects("default") == store.projects("elsewhere") == []


def test_profiles_with_memories_are_listed_with_their_counts(store: Store):
    store.add([record(1, project="p", session="s"), record(2), record(3, profile="ana", session="x")], model=None)
    store.add([record(4, profile="gone")], model=None)
    store.remove_scope(Scope("gone"))

    assert store.profiles() == [Profile("ana", 0, 1, 1), Profile("default", 1, 1, 2)]
