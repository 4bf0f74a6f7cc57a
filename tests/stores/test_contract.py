"""What every store promises, one suite over all of them. The sentences are those of the Protocols' docstrings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import KINDS, Day, Memory, Model, Project, Scope, Session
from retentive.stores import Found, Record, Store, open_store
from retentive.stores.in_memory import InMemoryStore
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    NOW,
    OTHER,
    axis,
    by_vector,
    by_words,
    embedded,
    everything,
    id_of,
    ids,
    listed,
    memory,
    record,
    rows,
    unit,
    vector,
)
from tests.stores.openers import OPENERS, twin_of


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = OPENERS[request.param](tmp_path)
    yield opened
    assert opened.check() == []
    opened.close()


@pytest.fixture(params=[name for name in OPENERS if name != "memory"])
def real_and_twin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Those that the store in memory is the measure of, each with its own."""
    opened = OPENERS[request.param](tmp_path)
    yield opened, twin_of(request.param)
    opened.close()


# Opening


def test_an_address_of_an_unknown_kind_is_refused_with_the_known_ones():
    with pytest.raises(Invalid, match=r"no store 'mongo://'.*sqlite, memory"):
        open_store("mongo://here")


def test_a_file_is_opened_by_its_path_and_by_its_address(tmp_path: Path):
    path = tmp_path / "new folder" / "memories.db"
    first = open_store(str(path))
    first.add([record(1)], model=None)
    first.close()

    second = open_store(f"sqlite:///{path}")

    assert listed(second) == [id_of(1)]
    second.close()


def test_stores_in_memory_share_nothing():
    first, second = open_store("memory://"), open_store("memory://")

    first.add([record(1)], model=None)

    assert (listed(first), listed(second)) == ([id_of(1)], [])


# Adding and getting


def test_a_memory_comes_back_with_every_field_as_it_was_given(store: Store):
    given = Memory(
        id=id_of(1),
        text='Straße, 東京 🚀 and a NUL \0, "quoted"',
        created=NOW.astimezone(timezone(timedelta(hours=2))),
        profile="ada",
        project="engine",
        session="monday",
        position=7,
        kind="semantic",
        speaker="Ada",
        importance=0.25,
        metadata={"tags": ["a", "ü"], "deep": {"n": 1.5, "none": None}},
        source="notes.md",
        occurred=NOW - timedelta(days=900, microseconds=1),
        accessed=NOW,
        access_count=3,
        evergreen=True,
        content_hash="abc",
    )

    stored = store.add([Record(given)], model=None)

    assert stored == [given]
    assert store.get([id_of(1)]) == [given]
    assert list(store.fetch([found.key for found in store.search_words("quoted", Scope("ada"), limit=1)]).values()) == [
        given
    ]
    assert store.get([id_of(1)])[0].created.isoformat() == NOW.isoformat()


def test_what_is_stored_does_not_change_with_the_callers_own_values(store: Store):
    metadata = {"tags": ["a"]}
    store.add([record(1, metadata=metadata)], model=None)

    metadata["tags"].append("b")

    assert store.get([id_of(1)])[0].metadata == {"tags": ["a"]}


def test_memories_come_back_in_the_order_asked_for_without_those_that_do_not_exist(store: Store):
    store.add([record(number) for number in (1, 2, 3)], model=None)

    asked = [id_of(3), "nobody", "", "with\0nul", "half a pair \ud83d", id_of(1)]

    assert [one.id for one in store.get(asked)] == [id_of(3), id_of(1)]
    assert store.get([]) == []
    assert store.get(["with\0nul"]) == []


def test_adding_nothing_is_no_error_and_adds_nothing(store: Store):
    assert store.add([], model=MODEL) == []
    assert store.model() is None


@pytest.mark.parametrize("known", [[1], [1, 2, 3]])
def test_an_id_that_exists_is_a_conflict_that_names_it_and_nothing_is_stored(store: Store, known: list[int]):
    store.add([embedded(number) for number in known], model=MODEL)
    before = everything(store)

    with pytest.raises(Conflict, match=rf"the id {id_of(known[0])} already"):
        store.add([embedded(9, session="new"), *(embedded(number, session="new") for number in known)], model=MODEL)

    assert everything(store) == before


def test_the_same_id_twice_in_a_batch_is_a_conflict_and_nothing_is_stored(store: Store):
    with pytest.raises(Conflict):
        store.add([embedded(1, project="new"), embedded(1, "another text")], model=MODEL)

    assert (listed(store), store.projects("default"), store.model()) == ([], [], None)


# Positions, sessions and projects


def test_positions_in_a_session_run_on_from_0_over_batches_and_single_adds(store: Store):
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


@pytest.mark.parametrize("home", ["p", None])
def test_a_session_belongs_to_at_most_one_project_and_a_failing_add_changes_nothing(store: Store, home: str | None):
    store.add([embedded(1, session="a", project=home)], model=MODEL)
    before = everything(store, "default", "elsewhere")

    with pytest.raises(Conflict, match="session 'a' does not belong to project 'q'"):
        store.add(
            [
                embedded(2, profile="elsewhere", project="new", session="new"),
                embedded(3, session="a"),
                embedded(4, session="a", project="q"),
            ],
            model=OTHER,
        )

    assert everything(store, "default", "elsewhere") == before
    assert store.add([record(5, session="a")], model=None)[0].position == 1


def test_one_batch_cannot_put_a_new_session_into_two_projects(store: Store):
    with pytest.raises(Conflict):
        store.add([record(1, session="a"), record(2, session="a", project="p")], model=None)

    assert store.sessions("default") == []


def test_sessions_and_projects_are_listed_by_name_with_what_they_hold(store: Store):
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


def test_a_moved_session_takes_its_memories_along_for_both_searches_and_new_ones(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="a"), embedded(3, project="p")], model=MODEL)

    moved = store.move_session("default", "a", project="q")

    assert (moved.project, moved.memories) == ("q", 2)
    for project, inside in (("p", {3}), ("q", {1, 2})):
        expected = {id_of(number) for number in inside}
        scope = Scope(project=project)
        assert set(by_words(store, "note", scope)) == set(by_vector(store, vector(0), scope)) == expected
        assert set(listed(store, scope)) == expected
    assert [one.project for one in store.get([id_of(1), id_of(2), id_of(3)])] == ["q", "q", "p"]
    assert store.add([record(4, session="a")], model=None)[0].project == "q"


def test_a_session_moved_out_of_its_project_stands_for_itself_alone(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="b", project="p")], model=MODEL)

    moved = store.move_session("default", "a", project=None)

    assert moved == Session("a", "default", None, 1, NOW, NOW)
    scope = Scope(sessions=("a",))
    assert by_words(store, "note", scope) == by_vector(store, vector(0), scope) == listed(store, scope) == [id_of(1)]


def test_moving_an_unknown_session_is_not_found_and_makes_nothing(store: Store):
    store.add([record(1, session="a", profile="elsewhere")], model=None)

    with pytest.raises(NotFound, match="no session 'a' in profile 'default'"):
        store.move_session("default", "a", project="new")

    assert store.projects("default") == store.projects("elsewhere") == []


# Listing


def test_pages_follow_one_another_newest_first_without_gap_or_repeat(store: Store):
    store.add([record(number, session="ab"[number % 2]) for number in range(7)], model=None)
    seen, cursor = [], None

    while True:
        page = store.list(Scope(sessions=("a",)), cursor=cursor, limit=2)
        seen.append([one.id for one in page.memories])
        cursor = page.next_cursor
        if cursor is None:
            break

    assert seen == [[id_of(6), id_of(4)], [id_of(2), id_of(0)]]


def test_a_page_goes_on_behind_its_cursor_when_memories_come_and_go_meanwhile(store: Store):
    store.add([record(number) for number in range(6)], model=None)
    cursor = store.list(HERE, limit=2).next_cursor
    assert cursor == id_of(4)

    store.remove([cursor])
    store.add([record(9)], model=None)

    assert [one.id for one in store.list(HERE, cursor=cursor, limit=2).memories] == [id_of(3), id_of(2)]


# Updating, removing, touching


def test_an_update_changes_words_and_vectors_under_the_old_id(store: Store):
    store.add([record(1, "apples", vectors=rows(axis(0), axis(1)), session="a"), embedded(2)], model=MODEL)
    new = store.get([id_of(1)])[0]._replace(text="pears", kind="semantic", speaker="Eve", metadata={"n": 1})

    updated = store.update(Record(new, rows(axis(2))), model=MODEL)

    assert updated == new == store.get([id_of(1)])[0]
    assert (by_words(store, "apples"), by_words(store, "pears"), by_words(store, "eve")) == ([], [id_of(1)], [id_of(1)])
    [best, *_] = store.search_vectors(axis(2), HERE, limit=5)
    assert best.score == pytest.approx(1.0, abs=1e-3)
    assert store.score_vectors(axis(0), [best.key]) == {best.key: pytest.approx(0.0, abs=1e-3)}
    assert (store.stats().vectors, store.stats().unembedded) == (2, 0)


def test_an_update_that_keeps_vectors_moves_them_with_the_memory(store: Store):
    store.add([record(1, vectors=rows(axis(0), axis(1)))], model=MODEL)
    new = store.get([id_of(1)])[0]._replace(kind="identity", project="p", importance=1.0)

    store.update(Record(new), model=None, keep_vectors=True)

    scope = Scope(project="p", kinds=("identity",))
    [found] = store.search_vectors(axis(1), scope, limit=5)
    assert found.score == pytest.approx(1.0)
    assert by_words(store, "note", scope) == listed(store, scope) == [id_of(1)]
    assert by_vector(store, axis(1), Scope(kinds=("episodic",))) == []


def test_an_update_without_vectors_waits_to_be_embedded(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)

    store.update(Record(memory(1, "new note")), model=None)

    assert by_vector(store, vector(1)) == [id_of(2)]
    assert by_words(store, "note") != []
    assert [one.id for one in store.unembedded(MODEL, limit=5).values()] == [id_of(1)]


def test_updating_what_is_not_there_is_not_found(store: Store):
    for id in (id_of(1), "with\0nul"):
        with pytest.raises(NotFound, match="there is no memory"):
            store.update(Record(memory(1, project="new")._replace(id=id)), model=None)

    assert (store.projects("default"), store.stats().profiles) == ([], 0)


def test_an_update_into_a_project_that_is_not_its_sessions_is_a_conflict_that_changes_nothing(store: Store):
    store.add([embedded(1, session="a", project="p")], model=MODEL)
    before = everything(store)

    with pytest.raises(Conflict):
        store.update(Record(memory(1, "note changed", session="a", project="q")), model=MODEL)

    assert everything(store) == before


def test_removed_memories_are_counted_once_and_gone_from_everywhere(store: Store):
    store.add([embedded(number, session="a") for number in range(4)], model=MODEL)

    removed = store.remove([id_of(1), "nobody", "with\0nul", id_of(2), id_of(1)])

    assert removed == 2
    assert listed(store) == [id_of(3), id_of(0)]
    assert set(by_words(store, "note")) == set(by_vector(store, vector(1))) == {id_of(0), id_of(3)}
    assert (store.remove([id_of(1)]), store.remove([])) == (0, 0)
    assert (store.stats().memories, store.stats().vectors, store.sessions("default")[0].memories) == (2, 2, 2)


def test_a_removed_memory_can_be_stored_again_and_old_keys_do_not_lead_to_it(store: Store):
    store.add([embedded(1, "first words")], model=MODEL)
    [old] = store.search_vectors(vector(1), HERE, limit=1)
    store.remove([id_of(1)])

    store.add([embedded(1, "second words")], model=MODEL)

    assert store.fetch([old.key]) == store.score_vectors(vector(1), [old.key]) == store.vectors([old.key]) == {}
    assert by_words(store, "second") == by_vector(store, vector(1)) == [id_of(1)]


def test_removing_a_scope_removes_exactly_it(store: Store):
    store.add(
        [
            embedded(1, session="a", project="p"),
            embedded(2, project="p"),
            embedded(3, session="b"),
            embedded(4, session="a", profile="elsewhere"),
            embedded(5, kind="identity", session="a"),
        ],
        model=MODEL,
    )

    counts = [
        store.remove_scope(Scope(sessions=("unknown",))),
        store.remove_scope(Scope(project="")),
        store.remove_scope(Scope(profile="unknown")),
        store.remove_scope(Scope(sessions=("a",), kinds=("identity",))),
        store.remove_scope(Scope(sessions=("a",), only_sessions=True)),
        store.remove_scope(Scope(project="p")),
    ]

    assert counts == [0, 0, 0, 1, 1, 1]
    assert (listed(store), listed(store, Scope("elsewhere"))) == ([id_of(3)], [id_of(4)])
    assert by_words(store, "note") == by_vector(store, vector(0)) == [id_of(3)]


def test_a_touch_counts_and_keeps_the_latest_time(store: Store):
    store.add([record(1), record(2)], model=None)

    store.touch([id_of(1), "nobody", "half a pair \ud83d"], at=NOW)
    store.touch([id_of(1)], at=NOW - timedelta(days=1))
    store.touch([], at=NOW)

    touched, untouched = store.get([id_of(1), id_of(2)])
    assert (touched.access_count, touched.accessed) == (2, NOW)
    assert (untouched.access_count, untouched.accessed) == (0, None)


def test_stats_count_what_the_store_holds(store: Store):
    store.add([embedded(1, kind="semantic"), record(2, vectors=rows(vector(1), vector(2)))], model=MODEL)
    store.add([record(3, session="a", project="p", profile="elsewhere")], model=None)

    stats = store.stats()

    assert (stats.memories, stats.vectors, stats.unembedded, stats.model) == (3, 3, 1, MODEL)
    assert stats.by_kind == {"episodic": 2, "semantic": 1, "identity": 0}
    assert (stats.profiles, stats.projects, stats.sessions) == (2, 1, 1)


def test_an_empty_store_answers_everything_with_nothing(store: Store):
    assert store.search_words("anything", HERE, limit=5) == store.search_vectors(vector(0), HERE, limit=5) == []
    assert store.score_words("anything", HERE, []) == store.score_vectors(vector(0), []) == store.vectors([]) == {}
    assert (store.fetch([]), listed(store), store.model(), store.get_value("x")) == ({}, [], None, None)
    assert (store.stats().memories, store.stats().unembedded) == (0, 0)
    assert store.unembedded(MODEL, limit=5) == {}
    assert store.count_unembedded(MODEL) == 0


# Scopes

SESSIONS = {"a": "p", "b": "p", "c": "q", "d": None, "e": None}


def scoped_memories() -> list[Record]:
    """Each combination of profile, kind and home once; profile bob has names that ada has not, and the other way."""
    homes: list[tuple[str | None, str | None]] = [(None, None), ("p", None), ("q", None)]
    homes += [(project, session) for session, project in SESSIONS.items()]
    chosen = list(product(("ada", "bob"), KINDS, homes))
    chosen = [one for one in chosen if one[:1] != ("bob",) or one[2][1] not in ("c", "e")]
    return [
        embedded(number, profile=profile, kind=kind, project=project, session=session)
        for number, (profile, kind, (project, session)) in enumerate(chosen)
    ]


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


def inside(one: Memory, scope: Scope, memories: list[Memory]) -> bool:
    """The rule, said once more and slowly."""
    if one.profile != scope.profile or (scope.kinds is not None and one.kind not in scope.kinds):
        return False
    if scope.project is not None and one.project != scope.project:
        return False
    if scope.sessions is None:
        return True
    if one.session in scope.sessions:
        return True
    named = [other for other in memories if other.profile == scope.profile and other.session in scope.sessions]
    return not scope.only_sessions and one.project is not None and one.project in {other.project for other in named}


def test_both_searches_and_the_list_see_exactly_the_memories_of_every_scope(store: Store):
    memories = store.add(scoped_memories(), model=MODEL)

    for scope in scopes():
        expected = {one.id for one in memories if inside(one, scope, memories)}

        assert set(by_words(store, "note", scope)) == expected, scope
        assert set(by_vector(store, vector(0), scope)) == expected, scope
        assert set(listed(store, scope)) == expected, scope


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
def test_pitfall_8_600_nearer_memories_elsewhere_do_not_hide_the_one_inside(store: Store, scope: Scope):
    mine = {
        "profile": scope.profile,
        "session": "mine" if scope.sessions else None,
        "project": "mine" if scope.project or (scope.sessions and not scope.only_sessions) else None,
        "kind": "identity" if scope.kinds else "episodic",
    }
    nearer = [record(number, "green tea", vectors=rows(axis(0)), session="theirs") for number in range(600)]
    far = record(1000, f"tea {'and much else ' * 20}", vectors=rows(axis(1, lean=0, by=0.1)), **mine)
    store.add([*nearer, far], model=MODEL)

    assert by_words(store, "green tea", scope, limit=1) == [id_of(1000)]
    assert by_vector(store, axis(0), scope, limit=1) == [id_of(1000)]


@pytest.mark.parametrize("field", ["profile", "project", "sessions"])
@pytest.mark.parametrize("name", ["unknown", "", " ", "%", "*", "default' OR 1=1 --", "p1", "None"])
def test_pitfall_9_a_name_that_does_not_exist_never_widens_the_scope(store: Store, field: str, name: str):
    store.add([embedded(1), embedded(2, session="a", project="p")], model=MODEL)
    scope = Scope(**{field: (name,) if field == "sessions" else name})  # type: ignore[arg-type]

    found = [by_words(store, "note", scope), by_vector(store, vector(1), scope), listed(store, scope)]

    assert found == [[], [], []]
    assert (store.remove_scope(scope), len(listed(store))) == (0, 2)


def test_the_words_of_a_query_never_match_the_bookkeeping_of_a_scope(store: Store):
    store.add([record(1, session="kitchen", project="house", profile="default")], model=None)

    assert by_words(store, "p1 r1 s1 k1 scope terms kitchen house default episodic") == []


# Excluding


def test_excluded_memories_are_missing_and_the_result_is_still_full(store: Store):
    store.add([embedded(number, "tea " * (number % 5 + 1)) for number in range(40)], model=MODEL)
    words, near = by_words(store, "tea"), by_vector(store, vector(3))
    recent = [*words[:12], *near[:12], "nobody", "half a pair \ud83d"]

    expected = [id for id in words if id not in recent][:10]
    assert by_words(store, "tea", limit=10, exclude=recent) == expected
    assert len(expected) == 10
    expected = [id for id in near if id not in recent][:10]
    assert by_vector(store, vector(3), limit=10, exclude=recent) == expected
    assert len(expected) == 10


def test_excluding_everything_leaves_nothing(store: Store):
    store.add([embedded(number) for number in range(5)], model=MODEL)

    everyone = [id_of(number) for number in range(5)]

    assert by_words(store, "note", exclude=everyone) == by_vector(store, vector(1), exclude=everyone) == []


# Words

LIBRARY = {
    "deploy": "we deploy the billing service on fridays",
    "quotes": 'she said "never again" and left',
    "hyphen": "the auth-service/login endpoint is slow",
    "apostrophe": "Caroline's dog doesn't bark",
    "emoji": "launch day 🚀 at noon",
    "tokyo": "私は東京に住んでいます",
    "seoul": "서울에서 만났다",
    "cafe": "a naïve café in Zürich",
    "running": "she was running to catch trains",
    "c++": "legacy code in C++ and C#",
    "nul": "before\0after",
}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"deploy"', ["deploy"]),
        ('"never again', ["quotes"]),
        ("deploy NOT billing", ["deploy"]),
        ("deploy AND OR NOT", ["deploy"]),
        ("deploy*", ["deploy"]),
        ("^deploy", ["deploy"]),
        ("NEAR(deploy billing, 1)", ["deploy"]),
        ("NEAR(", []),
        ("terms : deploy", ["deploy"]),
        ("{terms scope} : (deploy) - + ^", ["deploy"]),
        ("'; DROP TABLE memories; -- deploy", ["deploy"]),
        ("deploy\0billing", ["deploy"]),
        ("\0", []),
        ("after", ["nul"]),
        ("auth-service", ["hyphen", "deploy"]),
        ("auth-service/login", ["hyphen", "deploy"]),
        ("Caroline", ["apostrophe"]),
        ("Caroline's", ["apostrophe"]),
        ("Caroline’s dogs", ["apostrophe"]),
        ("🚀", ["emoji"]),
        ("🚀🚀?", ["emoji"]),
        ("🙈", []),
        ("東京", ["tokyo"]),
        ("京", ["tokyo"]),
        ("京東", []),
        ("東京に住む", ["tokyo"]),
        ("서울", ["seoul"]),
        ("NAIVE CAFÉ zurich", ["cafe"]),
        ("cafe\u0301", ["cafe"]),
        ("ＺＵＲＩＣＨ", ["cafe"]),
        ("runs", ["running"]),
        ("train catching", ["running"]),
        ("C++", ["c++"]),
        ("c#", ["c++"]),
        ("", []),
        (" \t\n\u3000", []),
        ('"', []),
        ('"""', []),
        ("'", []),
        ("-", []),
        ("()", []),
        ("\ud83d deploy", ["deploy"]),
        ("the", ["deploy", "hyphen"]),
        ("where did the trains go", ["running"]),
        ("deploy " * 150_000, ["deploy"]),
        ("x" * 1_000_000, []),
        ('"' * 1_000_000, []),
        (" ".join(f"word{n}" for n in range(3_000)) + " deploy", []),
    ],
    ids=lambda value: repr(value[:24]) if isinstance(value, str) else "",
)
def test_pitfall_10_any_text_is_a_safe_query_and_finds_what_it_should(store: Store, query: str, expected: list[str]):
    names = {id_of(number): name for number, name in enumerate(LIBRARY)}
    store.add([record(number, text) for number, text in enumerate(LIBRARY.values())], model=None)

    found = [names[id] for id in by_words(store, query)]

    assert found[:1] == expected[:1]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("identifier", "pieces"),
    [
        ("ERR_CONN_42", "err conn 42"),
        ("v2.13.0", "v2 13 0"),
        ("auth-service/login", "auth service login"),
        ("user@example.com", "user example com"),
        ("10.0.0.1:8080", "10 0 0 1 8080"),
        ("src/main.py#L10", "src main py l10"),
    ],
)
def test_an_identifier_as_typed_ranks_its_memory_over_those_with_only_its_pieces(
    store: Store, identifier: str, pieces: str
):
    store.add([record(number, f"the one with {pieces} in a sentence") for number in range(3)], model=None)
    store.add([record(9, f"the one with {identifier} in a sentence that is longer by some words")], model=None)
    store.add([record(number) for number in range(20, 30)], model=None)

    assert by_words(store, f"what about {identifier.lower()}?")[0] == id_of(9)
    assert set(by_words(store, identifier)) == {id_of(number) for number in (0, 1, 2, 9)}


def test_a_memory_is_found_by_who_said_it(store: Store):
    store.add([record(1, "hello there", speaker="Melanie"), record(2, "hello there", speaker="Tom")], model=None)

    assert by_words(store, "melanie") == [id_of(1)]


def test_pitfall_4_word_scores_are_positive_and_larger_is_better(store: Store):
    store.add([record(1, "tea tea tea milk"), record(2, "tea milk milk milk"), record(3, "tea")], model=None)
    store.add([record(number, "something else entirely") for number in range(10, 20)], model=None)

    found = store.search_words("tea", HERE, limit=10)

    assert len(found) == 3
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    assert found[-1].score > 0
    assert by_words(store, "tea", limit=1) == [id_of(1)]
    assert by_words(store, "tea")[-1] == id_of(2)


def test_a_word_that_every_memory_has_still_scores_above_nothing(store: Store):
    store.add([record(number, "tea") for number in range(30)], model=None)

    assert all(found.score > 0 for found in store.search_words("tea", HERE, limit=ALL))
    assert len(by_words(store, "tea")) == 30


def test_equal_scores_come_in_the_order_of_writing(store: Store):
    store.add([record(number, "tea", vectors=rows(axis(0))) for number in (5, 3, 9, 1)], model=MODEL)

    expected = [id_of(number) for number in (5, 3, 9, 1)]

    assert by_words(store, "tea") == by_vector(store, axis(0)) == expected
    assert by_words(store, "tea", limit=2) == by_vector(store, axis(0), limit=2) == expected[:2]


def test_terms_commoner_than_asked_for_do_not_search_unless_there_is_no_rarer_one(store: Store):
    store.add([record(number, "tea and coffee" if number < 3 else "tea") for number in range(40)], model=None)

    assert len(by_words(store, "tea coffee", common=0.5)) == 3
    assert len(by_words(store, "tea coffee", common=1.0)) == 40
    assert len(by_words(store, "tea", common=0.5)) == 40


def test_terms_that_do_not_search_still_score(store: Store):
    texts = {1: "coffee with milk", 2: "coffee with tea"} | dict.fromkeys(range(3, 40), "tea")
    store.add([record(number, text) for number, text in texts.items()], model=None)

    assert by_words(store, "tea coffee", common=0.5) == [id_of(2), id_of(1)]


def test_scores_by_words_are_those_of_the_search_and_0_where_nothing_matches(store: Store):
    texts = ["tea with milk", "green tea green cup", "milk", "coffee", "tea " * 30, "a cup"]
    store.add([record(number, f"{texts[number % 6]} note{number}") for number in range(36)], model=None)
    store.remove([id_of(0), id_of(7)])
    query = "green tea note8"
    found = {one.key: one.score for one in store.search_words(query, HERE, limit=ALL)}
    few = {one.key: one.score for one in store.search_words(query, HERE, limit=ALL, common=0.3)}
    everyone = [one.key for one in store.search_words(" ".join(texts), HERE, limit=ALL)]

    scores = store.score_words(query, HERE, everyone)

    assert len(everyone) == 34
    assert scores == {key: pytest.approx(found.get(key, 0.0), abs=1e-6) for key in everyone}
    assert 0 < len(few) < len(found)
    assert few == {key: pytest.approx(scores[key], abs=1e-6) for key in few}
    assert store.score_words("!?", HERE, everyone) == dict.fromkeys(everyone, 0.0)


# Vectors


def test_the_nearest_come_first_with_their_cosine(store: Store):
    store.add([record(n, vectors=rows(axis(0, lean=1, by=n / 4))) for n in range(5)], model=MODEL)

    found = store.search_vectors(axis(0), HERE, limit=3)

    assert [one.score for one in found] == [pytest.approx(1 / np.hypot(1, n / 4), abs=1e-3) for n in range(3)]
    assert by_vector(store, axis(0), limit=3) == [id_of(n) for n in range(3)]


def test_a_memory_of_three_parts_is_found_once_by_its_nearest_part(store: Store):
    store.add([record(1, vectors=rows(axis(5), axis(0), axis(1))), record(2, vectors=rows(axis(2)))], model=MODEL)

    found = store.search_vectors(axis(0), HERE, limit=10)

    assert len(found) == 2
    assert found[0].score == pytest.approx(1.0)
    assert store.vectors([found[0].key])[found[0].key] == pytest.approx(axis(5))
    assert store.score_vectors(axis(1), [found[0].key]) == {found[0].key: pytest.approx(1.0)}


def test_memories_of_many_parts_do_not_crowd_others_out_of_the_result(store: Store):
    crowd = [record(n, vectors=rows(*[axis(0, lean=1, by=n / 100)] * 60)) for n in range(4)]
    store.add([*crowd, record(9, vectors=rows(axis(1)))], model=MODEL)

    assert by_vector(store, axis(0), limit=5) == [id_of(n) for n in (0, 1, 2, 3, 9)]


def test_scores_by_vector_are_those_of_the_search_and_leave_out_what_has_none(store: Store):
    store.add([embedded(number) for number in range(20)], model=MODEL)
    store.add([record(20), record(21, vectors=rows(-vector(99)))], model=MODEL)
    keys = [found.key for found in store.search_words("note", HERE, limit=ALL)]
    found = {one.key: one.score for one in store.search_vectors(vector(99), HERE, limit=ALL)}

    scores = store.score_vectors(vector(99), keys)

    assert (len(keys), len(found)) == (22, 21)
    assert scores == {key: pytest.approx(score, abs=1e-6) for key, score in found.items()}
    assert set(store.vectors(keys)) == set(found)


def test_a_memory_without_a_vector_is_found_by_its_words(store: Store):
    store.add([record(1)], model=None)

    assert (by_words(store, "note"), by_vector(store, vector(1))) == ([id_of(1)], [])


# Models


def test_pitfall_11_vectors_of_another_model_of_the_same_dimension_are_never_mixed_in(store: Store):
    store.add([record(1, vectors=rows(axis(0)))], model=MODEL)
    store.add([record(2, vectors=rows(axis(0)))], model=OTHER)

    [found] = store.search_vectors(axis(0), HERE, limit=10)

    assert store.fetch([found.key])[found.key].id == id_of(1)
    keys = [one.key for one in store.search_words("note", HERE, limit=10)]
    assert set(store.score_vectors(axis(0), keys)) == set(store.vectors(keys)) == {found.key}
    assert (store.model(), store.stats().vectors, store.stats().unembedded) == (MODEL, 1, 1)
    assert [one.id for one in store.unembedded(MODEL, limit=5).values()] == [id_of(2)]
    assert [one.id for one in store.unembedded(OTHER, limit=5).values()] == [id_of(1)]


def test_the_first_vectors_make_their_model_the_one_searched(store: Store):
    store.add([record(1)], model=MODEL)
    assert store.model() is None
    waiting = store.unembedded(MODEL, limit=5)
    store.attach({}, model=OTHER)
    assert store.model() is None

    store.attach({key: rows(axis(0)) for key in waiting}, model=MODEL)

    assert store.model() == MODEL
    assert by_vector(store, axis(0)) == [id_of(1)]


def test_a_store_changes_over_to_another_model_only_when_every_memory_has_its_vector(store: Store):
    store.add([record(n, vectors=rows(axis(0)), session="a", project="p") for n in range(5)], model=MODEL)
    store.add([record(5)], model=None)
    assert store.switch_model(OTHER) is False
    assert store.model() == MODEL

    sizes = []
    while waiting := store.unembedded(OTHER, limit=4):
        sizes.append((store.count_unembedded(OTHER), len(waiting)))
        assert store.switch_model(OTHER) is False
        store.attach({key: rows(axis(1), axis(2)) for key in waiting}, model=OTHER)
        assert len(by_vector(store, axis(0))) == 5  # the old vectors serve until the last one is there

    assert sizes == [(6, 4), (2, 2)]
    assert store.switch_model(OTHER) is True
    assert (store.model(), store.stats().vectors, store.stats().unembedded) == (OTHER, 12, 0)
    assert [found.score for found in store.search_vectors(axis(0), HERE, limit=9)] == [pytest.approx(0.0)] * 6
    assert [found.score for found in store.search_vectors(axis(2), HERE, limit=9)] == [pytest.approx(1.0)] * 6
    assert len(by_vector(store, axis(2), Scope(project="p"))) == 5
    assert len(store.unembedded(MODEL, limit=9)) == 6


def test_refusing_to_switch_leaves_a_store_without_vectors_without_a_model(store: Store):
    store.add([record(1)], model=None)

    assert store.switch_model(MODEL) is False
    assert store.model() is None


def test_a_store_can_change_over_to_a_model_of_another_dimension_and_back(store: Store):
    small = Model("small", "1", 3, "fingerprint of small")
    store.add([embedded(number) for number in range(3)], model=MODEL)
    store.attach({key: rows(unit([1, 2, 3])) for key in store.unembedded(small, limit=9)}, model=small)
    assert store.switch_model(small) is True
    assert len(by_vector(store, unit([3, 2, 1]))) == 3

    store.attach({key: rows(axis(4)) for key in store.unembedded(MODEL, limit=9)}, model=MODEL)

    assert store.switch_model(MODEL) is True
    assert [found.score for found in store.search_vectors(axis(4), HERE, limit=9)] == [pytest.approx(1.0)] * 3


def test_attaching_skips_what_is_gone_and_what_has_a_vector_by_now(store: Store):
    store.add([record(1), record(2), record(3)], model=None)
    waiting = {one.id: key for key, one in store.unembedded(MODEL, limit=9).items()}
    store.remove([id_of(1)])
    store.attach({waiting[id_of(2)]: rows(axis(0))}, model=MODEL)

    store.attach({key: rows(axis(1)) for key in waiting.values()}, model=MODEL)

    assert store.stats().vectors == 2
    assert by_vector(store, axis(0), limit=1) == [id_of(2)]
    assert by_vector(store, axis(1), limit=1) == [id_of(3)]


def test_vectors_of_the_wrong_length_are_refused_and_change_nothing(store: Store):
    store.add([embedded(1), record(2)], model=MODEL)
    before = everything(store)
    short = rows(unit([1, 2, 3]))

    with pytest.raises(Invalid, match=f"has {MODEL.dimension} numbers"):
        store.add([embedded(3, session="new"), record(4, vectors=short)], model=MODEL)
    with pytest.raises(Invalid):
        store.update(record(1, "note changed", vectors=short), model=MODEL)
    with pytest.raises(Invalid):
        store.attach(dict.fromkeys(store.unembedded(MODEL, limit=1), short), model=MODEL)

    assert everything(store) == before


def test_removing_and_moving_reach_the_vectors_of_the_model_that_is_not_searched_yet(store: Store):
    store.add([embedded(1, session="a"), embedded(2, session="a")], model=MODEL)
    store.attach({key: rows(axis(0)) for key in store.unembedded(OTHER, limit=9)}, model=OTHER)

    store.remove([id_of(1)])
    store.move_session("default", "a", project="p")
    store.switch_model(OTHER)

    assert by_vector(store, axis(0), Scope(project="p")) == [id_of(2)]
    assert store.stats().vectors == 1


# Threads


def test_threads_may_write_and_search_at_once(store: Store):
    def work(thread: int) -> list[bool]:
        found = []
        for number in range(1000 * thread, 1000 * thread + 10):
            batch = [embedded(100 * number + at, f"note number{number}", session=f"s{thread}") for at in range(30)]
            store.add(batch, model=MODEL)
            near = by_vector(store, vector(100 * number), limit=1)
            found.append(near == [id_of(100 * number)] and len(by_words(store, f"number{number}")) == 30)
        return found

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(work, range(1, 5)))

    assert outcomes == [[True] * 10] * 4
    assert store.stats().vectors == 1200


# Kept settings


def test_a_setting_is_kept_changed_and_forgotten(store: Store):
    store.keep({"tuning": '{"rrf_k": 10}'})
    store.keep({"other": "ü"})
    store.keep({"tuning": "{}"})
    assert (store.get_value("tuning"), store.get_value("other")) == ("{}", "ü")

    store.keep({"tuning": None})
    store.keep({"tuning": None})

    assert (store.get_value("tuning"), store.get_value("other")) == (None, "ü")


# The long walk

VOCABULARY = ["tea", "milk", "running", "runs", "café", "ERR_CONN_42", "東京", "🚀", "the", "deploy", "auth-service"]
WALK_SCOPES = [
    HERE,
    Scope(project="p"),
    Scope(sessions=("a",)),
    Scope(sessions=("a", "b"), only_sessions=True),
    Scope(sessions=("a", "b", "c")),
    Scope(kinds=("semantic", "identity")),
    Scope("bob", sessions=("a",), kinds=("episodic",)),
]


def any_record(dice: random.Random, number: int) -> Record:
    return Record(
        memory(
            number,
            " ".join(dice.choices(VOCABULARY, k=dice.randint(1, 12))),
            profile=dice.choice(["default", "default", "bob"]),
            session=dice.choice([None, "a", "b", "c"]),
            project=dice.choice([*[None] * 8, "p", "q"]),
            kind=dice.choice(KINDS),
            speaker=dice.choice([None, "Ada"]),
            occurred=dice.choice([None, NOW - timedelta(days=number)]),
        ),
        None if dice.random() < 0.2 else rows(*(vector(dice.randrange(10**6)) for _ in range(dice.randint(1, 3)))),
    )


def step(dice: random.Random, number: int, known: list[str]) -> Callable[[Store], object]:
    """One random change, to be done to each store alike. What it returns can be compared."""
    some = dice.sample(known, min(len(known), dice.randint(1, 3)))
    fresh = [any_record(dice, 10 * number + at) for at in range(dice.randint(1, 4))]
    model = dice.choice([MODEL, MODEL, MODEL, OTHER])
    changed = replace(fresh[0], memory=fresh[0].memory._replace(id=dice.choice(known or ["nobody"])))
    session, target = dice.choice("abc"), dice.choice([None, "p", "q"])
    seed = dice.randrange(10**6)

    def reembed(store: Store) -> bool:
        waiting = store.unembedded(model, limit=ALL)
        store.attach({key: rows(vector(seed + at)) for at, key in enumerate(waiting)}, model=model)
        return store.switch_model(model)

    changes: list[tuple[int, Callable[[Store], object]]] = [
        (16, lambda store: store.add(fresh, model=model)),
        (4, lambda store: store.update(changed, model=model)),
        (2, lambda store: store.update(replace(changed, vectors=None), model=None, keep_vectors=True)),
        (4, lambda store: store.remove(some)),
        (2, lambda store: store.move_session("default", session, project=target)),
        (2, lambda store: store.touch(some, at=NOW + timedelta(hours=seed % 100))),
        (1, lambda store: store.switch_model(model)),
        (1, reembed),
        (1, lambda store: store.remove_scope(Scope(sessions=("c",), only_sessions=True))),
    ]
    return dice.choices([change for _, change in changes], [weight for weight, _ in changes])[0]


def outcome(change: Callable[[Store], object], store: Store) -> object:
    try:
        return change(store)
    except (Conflict, NotFound) as error:
        return type(error)


def scored(store: Store, found: list[Found]) -> dict[str, float]:
    return dict(zip(ids(store, found), (one.score for one in found), strict=True))


def walk_along(real_store: Store, twin: Store, *, seed: int, steps: int) -> None:
    """Change both at random and alike, and look after each step whether they still show the same."""
    dice = random.Random(seed)
    for number in range(steps):
        known = [one.id for profile in ("default", "bob") for one in twin.list(Scope(profile), limit=ALL).memories]
        change = step(dice, number, known)
        assert outcome(change, real_store) == outcome(change, twin)

        scope, query = dice.choice(WALK_SCOPES), " ".join(dice.sample(VOCABULARY, 3))
        common = dice.choice([1.0, 0.2])
        asked = vector(dice.randrange(10**6))
        assert real_store.list(scope, limit=ALL) == twin.list(scope, limit=ALL)
        words, expected = (
            scored(store, store.search_words(query, scope, limit=ALL, common=common)) for store in (real_store, twin)
        )
        assert words == pytest.approx(expected, rel=1e-5, abs=1e-6)  # some stores count in single precision
        near, expected = (scored(store, store.search_vectors(asked, scope, limit=ALL)) for store in (real_store, twin))
        assert near == pytest.approx(expected, abs=1e-6)

    for profile in ("default", "bob"):
        assert real_store.sessions(profile) == twin.sessions(profile)
        assert real_store.projects(profile) == twin.projects(profile)
    assert replace(real_store.stats(), bytes=0) == twin.stats()
    assert real_store.check() == []


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_each_of_many_random_changes_a_store_shows_what_the_store_in_memory_shows(
    real_and_twin: tuple[Store, Store], seed: int
):
    real_store, twin = real_and_twin

    walk_along(real_store, twin, seed=seed, steps=200)

    assert twin.stats().memories > 20


# Keys


def test_a_key_found_by_id_leads_to_the_same_memory_and_an_unknown_id_to_none(store: Store):
    store.add([record(1), record(2)], model=None)

    keys = store.keys([id_of(2), id_of(9), "\ud800"])

    assert list(keys) == [id_of(2)]
    assert store.fetch(list(keys.values()))[keys[id_of(2)]].id == id_of(2)


# Walking


def walked(store: Store, *, limit: int) -> list[Record]:
    found, cursor = [], None
    while True:
        stretch = store.walk(cursor=cursor, limit=limit)
        assert len(stretch.records) <= limit
        found += stretch.records
        cursor = stretch.next_cursor
        if cursor is None:
            return found


def test_a_walk_gives_every_memory_of_every_profile_once_with_all_its_vectors(store: Store):
    given = [
        record(1, vectors=rows(axis(0), axis(1)), session="a", project="p", access_count=3, accessed=NOW),
        embedded(2, profile="elsewhere", metadata={"n": 1}, evergreen=True),
        record(3, profile="elsewhere", session="b", position=7),
        embedded(4),
        embedded(5),
    ]
    stored = store.add(given, model=MODEL)
    keys = store.keys([id_of(5)])
    store.attach({keys[id_of(5)]: rows(axis(9))}, model=OTHER)

    for limit in (1, 2, 5, 50):
        found = {one.memory.id: one for one in walked(store, limit=limit)}

        assert len(found) == 5
        assert [found[one.id].memory for one in stored] == stored
        assert {id: len(one.vectors) for id, one in found.items() if one.vectors is not None} == {
            id_of(1): 2, id_of(2): 1, id_of(4): 1, id_of(5): 1
        }  # fmt: skip
        assert found[id_of(1)].vectors == pytest.approx(rows(axis(0), axis(1)), abs=1e-3)


def test_a_walk_goes_on_behind_its_cursor_when_memories_come_and_go_meanwhile(store: Store):
    store.add([record(number) for number in range(6)], model=None)
    first = store.walk(limit=2)
    seen = [one.memory.id for one in first.records]

    store.remove([seen[-1]])
    store.add([record(9)], model=None)
    cursor = first.next_cursor
    while cursor is not None:
        stretch = store.walk(cursor=cursor, limit=2)
        seen += [one.memory.id for one in stretch.records]
        cursor = stretch.next_cursor

    assert len(seen) == len(set(seen))
    assert {id_of(number) for number in range(6)} <= set(seen)


def test_a_walk_through_an_empty_store_has_nothing_to_show(store: Store):
    assert store.walk() == ([], None)


def test_what_was_walked_makes_an_equal_store_elsewhere(store: Store):
    store.add(scoped_memories(), model=MODEL)
    store.add([record(900, session="a", profile="ada")], model=None)
    store.touch([id_of(3)], at=NOW)
    twin = InMemoryStore()

    for one in walked(store, limit=7):
        twin.add([one], model=MODEL)

    assert everything(twin, "ada", "bob") == everything(store, "ada", "bob")
    assert replace(twin.stats(), bytes=0) == replace(store.stats(), bytes=0)
