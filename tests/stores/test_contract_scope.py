"""What every store promises about scopes and exclusions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from retentive.models import Memory, Scope
from retentive.stores.base import Store
from tests.stores.build import (
    MODEL,
    axis,
    embedded,
    id_of,
    keyword_ids,
    listed,
    make_query,
    nearest_ids,
    record,
    rows,
    scoped_memories,
    search,
    vector,
)


def scopes() -> Iterator[Scope]:
    sessions = [None, (), ("a",), ("c",), ("d",), ("a", "b"), ("a", "c"), ("a", "d"), ("d", "e"), ("a", "unknown")]
    sessions += [("unknown",), ("",), ("half \ud83d",), ("a", "a"), ("a%",), ("A",)]
    kinds = [None, (), ("semantic",), ("episodic", "identity")]
    for profile, project, named, some, only in product(
        ("ada", "bob", "", "half \ud83d"),
        (None, "p", "q", "unknown", "", "half \ud83d"),
        sessions,
        kinds,
        (False, True),
    ):
        yield Scope(profile, project, named, some, only)
    for profile, project, named, some, only in product(
        ("ada", "bob"), (None, "p"), (None, ("a",), ("a", "c"), ("d", "e")), kinds, (False, True)
    ):
        yield Scope(profile, project, named, some, only, outside_projects=True)


def in_scope(one: Memory, scope: Scope, memories: list[Memory]) -> bool:
    """Whether a memory is in a scope, written out rule by rule."""
    if one.profile != scope.profile or (scope.kinds is not None and one.kind not in scope.kinds):
        return False
    if scope.project is not None and one.project != scope.project:
        return False
    if scope.outside_projects and one.project is not None:
        return False
    if scope.sessions is None:
        return True
    if one.session in scope.sessions:
        return True
    named = [other for other in memories if other.profile == scope.profile and other.session in scope.sessions]
    return not scope.only_sessions and one.project is not None and one.project in {other.project for other in named}


def is_found(one: Memory, scope: Scope, memories: list[Memory]) -> bool:
    """Whether a search of a scope finds a memory: in a project also an identity memory without a project."""
    if in_scope(one, scope, memories):
        return True
    wanted = (scope.kinds is None or "identity" in scope.kinds) and not scope.outside_projects
    if (one.profile, one.kind, one.project) != (scope.profile, "identity", None) or not wanted:
        return False
    if scope.sessions is None:
        return any((other.profile, other.project) == (scope.profile, scope.project) for other in memories)
    named = [other for other in memories if other.profile == scope.profile and other.session in scope.sessions]
    projects = {other.project for other in named} - {None}
    return not scope.only_sessions and bool(projects if scope.project is None else projects & {scope.project})


def test_both_retrievers_and_the_list_return_exactly_the_memories_of_every_scope(store: Store):
    memories = store.add(scoped_memories(), model=MODEL)

    for scope in scopes():
        found = {one.id for one in memories if is_found(one, scope, memories)}

        assert set(keyword_ids(store, "note", scope)) == found, scope
        assert set(nearest_ids(store, vector(0), scope)) == found, scope
        assert set(listed(store, scope)) == {one.id for one in memories if in_scope(one, scope, memories)}, scope


def test_sessions_outside_projects_leave_out_those_of_the_same_name_in_a_project(store: Store):
    store.add([embedded(1, session="phone")], model=MODEL)
    store.add([embedded(2, session="phone", project="work"), embedded(3, session="phone", project="work")], model=MODEL)
    store.add([embedded(4), embedded(5, session="phone")], model=MODEL)
    inside, every = {id_of(1), id_of(5)}, [id_of(number) for number in range(1, 6)]

    for only in (True, False):
        scope = Scope(sessions=("phone",), only_sessions=only, outside_projects=True)
        assert set(keyword_ids(store, "note", scope)) == inside
        assert set(nearest_ids(store, vector(2), scope)) == inside
        assert set(listed(store, scope)) == inside
    assert {one.id for one in store.get(every, within=scope)} == inside
    assert store.remove([id_of(2)], within=scope) == []
    assert store.remove_scope(scope) == 2
    assert set(listed(store)) == {id_of(2), id_of(3), id_of(4)}


def test_forgetting_a_project_keeps_the_identity_memories_that_its_searches_find(store: Store):
    store.add([embedded(1, kind="identity"), embedded(2, project="p"), embedded(3, project="q")], model=MODEL)

    assert set(keyword_ids(store, "note", Scope(project="p"))) == {id_of(1), id_of(2)}
    assert store.remove_scope(Scope(project="p")) == 1

    assert listed(store) == [id_of(3), id_of(1)]


def test_a_search_can_be_limited_to_one_kind_of_its_scope(store: Store):
    kinds = ("episodic", "identity", "semantic")
    store.add([embedded(number, "green tea", kind=kinds[number % 3], project="p") for number in range(30)], model=MODEL)

    for scope in (Scope(), Scope(project="p"), Scope(kinds=("identity", "episodic"))):
        query = make_query("tea", scope, exclude=[id_of(4)])
        found = search(store, query, keyword=5, semantic=5, vector=vector(1), depth=9, kind="identity")
        for candidates in found.candidates.values():
            assert len(candidates) == 5
            assert {candidate.memory.kind for candidate in candidates} == {"identity"}
            assert id_of(4) not in {candidate.memory.id for candidate in candidates}


@pytest.mark.parametrize(
    "scope",
    [
        Scope(sessions=("mine",), only_sessions=True),
        Scope(sessions=("mine",)),
        Scope(project="mine"),
        Scope(kinds=("identity",)),
        Scope(profile="mine"),
    ],
    ids=["session", "session of a project", "project", "kind", "profile"],
)
def test_pitfall_8_600_nearer_memories_outside_the_scope_do_not_hide_the_one_inside(store: Store, scope: Scope):
    mine = {
        "profile": scope.profile,
        "session": "mine" if scope.sessions else None,
        "project": "mine" if scope.project or (scope.sessions and not scope.only_sessions) else None,
        "kind": "identity" if scope.kinds else "episodic",
    }
    nearer = [record(number, "green tea", vectors=rows(axis(0)), session="theirs") for number in range(600)]
    far = record(1000, f"tea {'and much else ' * 20}", vectors=rows(axis(1, lean=0, by=0.1)), **mine)
    store.add([*nearer, far], model=MODEL)

    assert keyword_ids(store, "green tea", scope, limit=1) == [id_of(1000)]
    assert nearest_ids(store, axis(0), scope, limit=1) == [id_of(1000)]


@pytest.mark.parametrize("field", ["profile", "project", "sessions"])
@pytest.mark.parametrize("name", ["unknown", "", " ", "%", "*", "default' OR 1=1 --", "p1", "None"])
def test_pitfall_9_a_name_that_does_not_exist_never_widens_the_scope(store: Store, field: str, name: str):
    store.add([embedded(1), embedded(2, session="a", project="p")], model=MODEL)
    scope = Scope(**{field: (name,) if field == "sessions" else name})  # type: ignore[arg-type]

    found = [keyword_ids(store, "note", scope), nearest_ids(store, vector(1), scope), listed(store, scope)]

    assert found == [[], [], []]
    assert (store.remove_scope(scope), len(listed(store))) == (0, 2)


def test_the_terms_of_a_query_never_match_the_scope_terms_of_an_index(store: Store):
    store.add([record(1, session="kitchen", project="house", profile="default")], model=None)

    assert keyword_ids(store, "p1 r1 s1 k1 scope terms kitchen house default episodic") == []


# Excluding


def test_excluded_memories_are_missing_and_the_result_is_still_full(store: Store):
    store.add([embedded(number, "tea " * (number % 5 + 1)) for number in range(40)], model=MODEL)
    words, near = keyword_ids(store, "tea"), nearest_ids(store, vector(3))
    known = [*words[:12], *near[:12], "nobody", "half a pair \ud83d"]

    expected = [id for id in words if id not in known][:10]
    assert keyword_ids(store, "tea", limit=10, exclude=known) == expected
    assert len(expected) == 10
    expected = [id for id in near if id not in known][:10]
    assert nearest_ids(store, vector(3), limit=10, exclude=known) == expected
    assert len(expected) == 10


def test_excluding_everything_leaves_nothing(store: Store):
    store.add([embedded(number) for number in range(5)], model=MODEL)

    everyone = [id_of(number) for number in range(5)]

    assert keyword_ids(store, "note", exclude=everyone) == nearest_ids(store, vector(1), exclude=everyone) == []
