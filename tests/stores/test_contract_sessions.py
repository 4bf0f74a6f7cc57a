"""What every store promises about sessions of the same name: each is identified by its profile, project and name."""

from __future__ import annotations

import pytest

from retentive.errors import Conflict, NotFound
from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.values import Session
from tests.stores.build import (
    MODEL,
    NOW,
    embedded,
    everything,
    id_of,
    keyword_ids,
    listed,
    nearest_ids,
    neighbours,
    record,
    vector,
)


def found(store: Store, scope: Scope) -> list[set[str]]:
    """Return what a list and both retrievers find in a scope."""
    keyword, semantic = keyword_ids(store, "note", scope), nearest_ids(store, vector(0), scope)
    return [set(listed(store, scope)), set(keyword), set(semantic)]


def ids(*numbers: int) -> set[str]:
    return {id_of(number) for number in numbers}


def homes(store: Store, *profiles: str) -> list[tuple[str, str | None, int]]:
    """Return the name, project and size of every session."""
    names = profiles or ("default",)
    return [(one.name, one.project, one.memories) for profile in names for one in store.sessions(profile)]


# Placing memories


def test_two_projects_and_none_can_have_a_session_of_the_same_name_each_with_its_own_positions(store: Store):
    batch = [record(1, session="a"), record(2, session="a", project="p"), record(3, session="a", project="q")]
    first = store.add(batch, model=None)
    second = store.add([record(4, session="a", project="q"), record(5, session="a", project="p")], model=None)

    assert [(one.project, one.position) for one in (*first, *second)] == [
        (None, 0), ("p", 0), ("q", 0), ("q", 1), ("p", 1),
    ]  # fmt: skip
    assert store.sessions("default") == [
        Session("a", "default", None, 1, NOW, NOW),
        Session("a", "default", "p", 2, NOW, NOW),
        Session("a", "default", "q", 2, NOW, NOW),
    ]
    assert store.sessions("default", project="q") == [Session("a", "default", "q", 2, NOW, NOW)]
    assert [(one.name, one.sessions) for one in store.projects("default")] == [("p", 1), ("q", 1)]
    assert (store.profiles()[0].sessions, store.stats().sessions) == (3, 3)


def test_a_memory_without_a_project_goes_into_the_session_without_one_if_there_is_one(store: Store):
    store.add([record(1, session="a", project="p"), record(2, session="b")], model=None)
    store.add([record(3, session="b", project="p"), record(4, session="b", project="q")], model=None)

    stored = store.add([record(5, session="a"), record(6, session="b")], model=None)

    assert [one.project for one in stored] == ["p", None]


def test_a_memory_without_a_project_is_a_conflict_if_several_projects_have_the_session_and_nothing_is_stored(
    store: Store,
):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="a", project="q")], model=MODEL)
    before = everything(store, "default", "elsewhere")

    with pytest.raises(Conflict, match="there are several sessions 'a', each in another project; name the project"):
        store.add([record(3, session="new", profile="elsewhere", project="new"), record(4, session="a")], model=None)

    assert everything(store, "default", "elsewhere") == before


def test_an_exact_memory_without_a_project_goes_into_a_session_without_one(store: Store):
    store.add([record(1, session="a", project="p"), record(2, session="a", project="q")], model=None)

    [stored] = store.add([record(3, session="a")], model=None, exact=True)

    assert (stored.project, stored.position) == (None, 0)
    assert homes(store) == [("a", None, 1), ("a", "p", 1), ("a", "q", 1)]


# Reading


def test_a_scope_with_a_session_and_no_project_has_all_sessions_of_this_name(store: Store):
    store.add(
        [
            embedded(1, session="a", project="p"),
            embedded(2, session="a", project="q"),
            embedded(3, session="b", project="p"),
            embedded(4, session="b", project="r"),
        ],
        model=MODEL,
    )
    store.add([embedded(5, session="a"), embedded(6)], model=MODEL, exact=True)

    assert found(store, Scope(sessions=("a",), only_sessions=True)) == [ids(1, 2, 5)] * 3
    assert found(store, Scope(sessions=("a",))) == [ids(1, 2, 3, 5)] * 3
    assert found(store, Scope(project="q", sessions=("a",), only_sessions=True)) == [ids(2)] * 3
    assert found(store, Scope(project="q", sessions=("a",))) == [ids(2)] * 3
    assert found(store, Scope(project="p", sessions=("a",))) == [ids(1, 3)] * 3
    assert found(store, Scope(project="r", sessions=("a",))) == [set()] * 3


def test_neighbours_and_the_previous_turn_are_of_the_same_session(store: Store):
    turns = [embedded(n, session="a", project="pq"[n % 2]) for n in range(1, 7)]
    store.add(turns, model=MODEL)
    store.add([embedded(7, session="a")], model=MODEL, exact=True)

    pairs = neighbours(store, [id_of(3), id_of(4), id_of(7)])

    assert {id: tuple(one.id if one else None for one in pair) for id, pair in pairs.items()} == {
        id_of(3): (id_of(1), id_of(5)),
        id_of(4): (id_of(2), id_of(6)),
        id_of(7): (None, None),
    }
    before = store.previous([turns[5].memory._replace(position=2), record(8, session="a").memory])
    assert [one and one.id for one in before] in ([id_of(4), id_of(7)], [None, None])  # where turns are not kept


# Several profiles and projects


def test_no_scope_of_a_profile_or_project_contains_a_session_of_the_same_name_elsewhere(store: Store):
    places = [(profile, project) for profile in ("ada", "bob") for project in ("p", "q")]
    for number, (profile, project) in enumerate(places):
        store.add([embedded(number, session="s", project=project, profile=profile)], model=MODEL)

    for number, (profile, project) in enumerate(places):
        for only in (True, False):
            assert found(store, Scope(profile, project, sessions=("s",), only_sessions=only)) == [ids(number)] * 3
        within = Scope(profile, project, sessions=("s",))
        assert [one.id for one in store.get([id_of(n) for n in range(4)], within=within)] == [id_of(number)]
    assert found(store, Scope("ada", sessions=("s",))) == [ids(0, 1)] * 3

    assert store.remove_scope(Scope("ada", "p", sessions=("s",), only_sessions=True)) == 1
    assert store.remove_scope(Scope("bob", "q", sessions=("s",))) == 1
    assert homes(store, "ada", "bob") == [("s", "p", 0), ("s", "q", 1), ("s", "p", 1), ("s", "q", 0)]


# Moving


def place_three(store: Store) -> None:
    store.add([embedded(1, session="a", project="p"), embedded(2, session="a", project="q")], model=MODEL)
    store.add([embedded(3, session="b", project="p")], model=MODEL)


def test_a_session_is_moved_from_the_project_that_is_named_and_its_namesakes_stay(store: Store):
    place_three(store)

    moved = store.move_session("default", "a", from_project="p", project="r")

    assert moved == Session("a", "default", "r", 1, NOW, NOW)
    assert homes(store) == [("a", "q", 1), ("a", "r", 1), ("b", "p", 1)]
    for project, number in (("p", 3), ("q", 2), ("r", 1)):
        assert found(store, Scope(project=project)) == [ids(number)] * 3
    [new] = store.add([record(4, session="a", project="p")], model=None)
    assert (new.project, new.position) == ("p", 0)


def test_moving_a_session_that_several_projects_have_without_naming_one_is_a_conflict(store: Store):
    place_three(store)
    before = everything(store)

    with pytest.raises(Conflict, match="name the project"):
        store.move_session("default", "a", project="r")
    with pytest.raises(NotFound, match="no session 'b' in project 'q'"):
        store.move_session("default", "b", from_project="q", project="p")

    assert everything(store) == before


def test_a_session_is_not_moved_to_where_another_one_has_its_name(store: Store):
    place_three(store)
    store.add([embedded(4, session="a")], model=MODEL, exact=True)
    before = everything(store)

    for target, where in (("q", "in project 'q'"), (None, "without a project")):
        with pytest.raises(Conflict, match=f"another session 'a' {where}; nothing was moved"):
            store.move_session("default", "a", from_project="p", project=target)

    assert everything(store) == before


def test_a_session_can_be_moved_to_where_one_of_its_name_has_no_memories(store: Store):
    place_three(store)
    store.remove([id_of(2)])

    moved = store.move_session("default", "a", from_project="p", project="q")

    assert moved == Session("a", "default", "q", 1, NOW, NOW)
    assert homes(store) == [("a", "q", 1), ("b", "p", 1)]
    assert store.add([record(4, session="a", project="q")], model=None)[0].position == 1


def test_only_a_session_without_memories_is_dropped(store: Store):
    place_three(store)
    store.remove([id_of(1), id_of(3)])

    dropped = [
        store.drop_session("default", name, project=project)
        for name, project in (("a", "p"), ("a", "q"), ("b", "p"), ("b", None), ("x", None))
    ]

    assert dropped == [True, False, True, False, False]
    assert homes(store) == [("a", "q", 1)]
    assert [one.project for one in store.add([record(4, session="a"), record(5, session="b")], model=None)] == [
        "q",
        None,
    ]
