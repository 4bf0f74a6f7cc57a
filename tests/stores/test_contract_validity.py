"""Every store: memories that are retired, expired or not valid yet, and keys with one open memory each."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from retentive.errors import Conflict
from retentive.models import Filter, Memory, Query, Scope
from retentive.stores.base import Record, Store
from retentive.stores.validity import NEWER_OF_KEY
from tests.stores.build import HERE, MODEL, NOW, embedded, id_of, ids_of, make_query, memory, record, search, vector

DAY = timedelta(days=1)


def day(number: int) -> datetime:
    return NOW + number * DAY


def searched(store: Store, query: Query) -> tuple[list[str], list[str], list[str]]:
    """The ids that each retriever finds, and those that were left out."""
    found = search(store, query, keyword=10, semantic=10, vector=vector(1), retired=10)
    keyword, nearest = (sorted(ids_of(found.candidates[name])) for name in ("keyword", "semantic"))
    return keyword, nearest, sorted(one.id for one in found.retired)


def fact(number: int, key: str = "home", **fields: object) -> Record:
    return embedded(number, f"lives in city{number}", key=key, **fields)


def test_what_is_not_current_is_found_by_neither_retriever_and_reported_as_left_out(store: Store) -> None:
    fields = [{}, {"valid_to": NOW}, {"expires": day(-1)}, {"valid_from": day(1)}, {"valid_to": day(1)}]
    store.add([embedded(at, f"tea {at}", **given) for at, given in enumerate(fields)], model=MODEL)  # type: ignore[arg-type]
    query = make_query("tea")
    assert searched(store, query) == ([id_of(0), id_of(4)], [id_of(0), id_of(4)], [id_of(1), id_of(2), id_of(3)])
    assert searched(store, replace(query, include_retired=True)) == ([id_of(at) for at in range(5)],) * 2 + ([],)
    assert searched(store, replace(query, now=day(2)))[0] == [id_of(0), id_of(3)]


def test_as_of_finds_what_had_started_and_had_not_ended(store: Store) -> None:
    store.add(
        [
            embedded(1, "tea", occurred=day(-9), valid_to=day(-5)),
            embedded(2, "tea", occurred=day(-5), valid_to=day(-2)),
            embedded(3, "tea", occurred=day(-9), valid_from=day(-2)),
        ],
        model=MODEL,
    )
    found = [searched(store, replace(make_query("tea"), as_of=day(at), filter=Filter()))[0] for at in (-10, -6, -5, 0)]
    assert found == [[], [id_of(1)], [id_of(2)], [id_of(3)]]
    listed = store.list(HERE, current_at=day(-6), started_by=day(-6)).memories
    assert [one.id for one in listed] == [id_of(1)]


def test_a_neighbour_is_the_next_current_memory_of_the_session(store: Store) -> None:
    store.add(
        [
            embedded(at, f"tea {at}", session="s", position=at, valid_to=NOW if at in (1, 3) else None)
            for at in range(5)
        ],
        model=MODEL,
    )
    query = make_query("tea")
    for asked, expected in (
        (query, (id_of(0), id_of(4))),
        (replace(query, include_retired=True), (id_of(1), id_of(3))),
    ):
        before, after = search(store, asked, around=[id_of(2)]).neighbours[id_of(2)]
        assert (before and before.id, after and after.id) == expected


def test_a_list_leaves_out_what_is_not_current_and_pages_are_full(store: Store) -> None:
    store.add([record(at, occurred=day(-at), valid_to=NOW if at % 2 else None) for at in range(6)], model=None)
    first = store.list(HERE, limit=2, current_at=NOW)
    rest = store.list(HERE, limit=2, current_at=NOW, cursor=first.next_cursor)
    assert [one.id for one in (*first.memories, *rest.memories)] == [id_of(0), id_of(2), id_of(4)]
    assert len(store.list(HERE).memories) == 6


def test_many_retired_memories_above_the_current_ones_hide_none_of_them(store: Store) -> None:
    text = "tea tea tea"
    retired = [embedded(at, text, valid_to=NOW) for at in range(300)]
    store.add([*retired, *(embedded(at, f"tea and {at}") for at in range(300, 330))], model=MODEL)
    found = search(store, make_query("tea"), keyword=30, semantic=30, vector=vector(7), retired=5)
    assert [set(ids_of(best)) for best in found.candidates.values()] == [{id_of(at) for at in range(300, 330)}] * 2
    assert 5 <= len(found.retired) <= 10


def test_every_field_of_validity_is_stored_and_scanned(store: Store) -> None:
    given = memory(
        1,
        key="k",
        valid_from=day(-1),
        valid_to=day(3),
        superseded_by=id_of(2),
        reason="moved",
        actor="ana",
        expires=day(9),
    )
    store.add([Record(given)], model=None)
    assert store.get([given.id]) == [given]
    assert [one.memory for one in store.scan().records] == [given]
    cleared = given._replace(valid_to=None, superseded_by=None, reason=None, actor=None)
    fields = ("valid_to", "superseded_by", "reason", "actor")
    assert store.update(Record(cleared), model=None, fields=fields) == cleared


def intervals(store: Store) -> dict[str, tuple[datetime, datetime | None, str | None]]:
    return {one.text: (one.start, one.valid_to, one.superseded_by) for one in store.list(HERE).memories}


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1), (3, 1, 2)])
def test_memories_of_a_key_follow_one_another_whatever_the_order_of_arrival(
    store: Store, order: tuple[int, ...]
) -> None:
    for number in order:
        store.add([fact(number, occurred=day(number))], model=MODEL)
    assert intervals(store) == {
        "lives in city1": (day(1), day(2), id_of(2)),
        "lives in city2": (day(2), day(3), id_of(3)),
        "lives in city3": (day(3), None, None),
    }
    assert [one.id for one in sorted(store.superseded([id_of(2)]), key=lambda one: one.id)] == [
        id_of(1), id_of(2), id_of(3),
    ]  # fmt: skip
    assert searched(store, replace(make_query("lives"), now=day(9)))[0] == [id_of(3)]


def test_memories_of_one_batch_with_one_key_follow_one_another(store: Store) -> None:
    stored = store.add([fact(2, occurred=day(2)), fact(1, occurred=day(1)), fact(3)], model=MODEL)
    assert [one.valid_to for one in stored] == [None, day(2), day(1)]
    assert [one.reason for one in stored] == [None, NEWER_OF_KEY, NEWER_OF_KEY]


def test_a_key_is_its_own_in_each_project_and_profile(store: Store) -> None:
    scopes = [{}, {"project": "p"}, {"project": "q"}, {"profile": "bob"}]
    store.add([fact(at, **given) for at, given in enumerate(scopes)], model=MODEL)  # type: ignore[arg-type]
    assert all(one.valid_to is None for one in store.get([id_of(at) for at in range(4)]))


def test_a_memory_that_is_open_again_conflicts_with_the_one_that_has_its_key(store: Store) -> None:
    store.add([fact(1, occurred=day(1)), fact(2, occurred=day(2))], model=MODEL)
    [old] = store.get([id_of(1)])
    opened = old._replace(valid_to=None, superseded_by=None, reason=None)
    with pytest.raises(Conflict, match="has the key 'home' now"):
        store.update(Record(opened), model=None, fields=("valid_to", "superseded_by", "reason"))
    assert store.get([id_of(1)]) == [old]


def test_a_key_that_is_given_later_takes_its_place_among_the_others(store: Store) -> None:
    store.add([fact(1, occurred=day(1)), fact(2, key="other", occurred=day(2))], model=MODEL)
    [second] = store.get([id_of(2)])
    store.update(Record(second._replace(key="home")), model=None, fields=("key",))
    assert [one.valid_to for one in store.get([id_of(1), id_of(2)])] == [day(2), None]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"occurred": day(4)}, {1: (day(4), 2), 2: (day(5), 3), 3: (None, None)}),
        ({"occurred": day(7)}, {1: (day(5), 3), 3: (day(7), 2), 2: (None, None)}),
        ({"occurred": day(0)}, {2: (day(1), 1), 1: (day(5), 3), 3: (None, None)}),
        ({"key": "job"}, {1: (day(5), 3), 2: (None, None), 3: (None, None)}),
        ({"key": None}, {1: (day(5), 3), 2: (None, None), 3: (None, None)}),
    ],
)
def test_a_memory_of_a_key_that_is_moved_ends_others_where_it_is_now_and_no_longer_where_it_was(
    store: Store, changes: dict[str, object], expected: dict[int, tuple[datetime | None, int | None]]
) -> None:
    store.add([fact(number, occurred=day(at)) for number, at in ((1, 1), (2, 3), (3, 5))], model=MODEL)
    [second] = store.get([id_of(2)])
    store.update(Record(second._replace(**changes)), model=None, fields=tuple(changes))
    found = {one.id: (one.valid_to, one.superseded_by) for one in store.get([id_of(at) for at in (1, 2, 3)])}
    assert found == {id_of(at): (end, by and id_of(by)) for at, (end, by) in expected.items()}
    assert store.check() == []


def test_of_equal_starts_the_last_one_stays_open_when_one_before_it_has_another_key(store: Store) -> None:
    for number in (1, 2, 3):
        store.add([fact(number, occurred=day(1))], model=MODEL)
    [second] = store.get([id_of(2)])
    store.update(Record(second._replace(key="job")), model=None, fields=("key",))
    found = {one.id: (one.valid_to, one.superseded_by) for one in store.get([id_of(at) for at in (1, 2, 3)])}
    assert found == {id_of(1): (day(1), id_of(3)), id_of(2): (None, None), id_of(3): (None, None)}


def test_an_end_that_was_given_is_left_as_it_is_by_the_memories_of_its_key(store: Store) -> None:
    given = [
        fact(1, occurred=day(1), valid_to=day(9), reason="the lease ends", actor="ana"),
        fact(2, occurred=day(2), valid_to=day(9), superseded_by=id_of(7), reason="moved"),
    ]
    store.add(given, model=MODEL)
    store.add([fact(3, occurred=day(3))], model=MODEL)
    [third] = store.get([id_of(3)])
    store.update(Record(third._replace(occurred=day(4))), model=None, fields=("occurred",))
    store.add([fact(4, occurred=day(0))], model=MODEL)
    assert store.get([id_of(1), id_of(2)]) == [one.memory for one in given]
    assert [one.valid_to for one in store.get([id_of(3), id_of(4)])] == [None, day(4)]


def test_of_equal_starts_one_stays_open_when_the_last_of_the_key_moves_before_them(store: Store) -> None:
    for number, at in ((1, 2), (2, 3)):
        store.add([fact(number, occurred=day(at))], model=MODEL)
    for number in (2, 1):  # both of the same day, the first one stored last
        [memory] = store.get([id_of(number)])
        store.update(Record(memory._replace(occurred=day(1))), model=None, fields=("occurred",))
    store.add([fact(3, occurred=day(5))], model=MODEL)
    [third] = store.get([id_of(3)])
    store.update(Record(third._replace(occurred=day(0))), model=None, fields=("occurred",))

    found = {one.id: (one.valid_to, one.superseded_by) for one in store.get([id_of(at) for at in (1, 2, 3)])}
    assert found == {id_of(3): (day(1), id_of(1)), id_of(2): (day(1), id_of(1)), id_of(1): (None, None)}


def test_of_equal_starts_one_stays_open_when_the_last_of_the_key_leaves_them(store: Store) -> None:
    store.add([fact(1, project="p", session="t", occurred=day(2))], model=MODEL)
    store.add([fact(2, occurred=day(2))], model=MODEL)
    store.move_session("default", "t", project=None)
    store.add([fact(3, occurred=day(2))], model=MODEL)
    [third] = store.get([id_of(3)])
    store.update(Record(third._replace(occurred=day(1))), model=None, fields=("occurred",))

    found = [one.id for one in store.list(Scope(), current_at=day(3)).memories]
    assert len(found) == 1


MOVES = {
    "its memories go between those of the key in the project": (
        {1: ("p", "s", 1), 2: ("p", "s", 5), 3: (None, None, 3)},
        None,
        {1: (3, 3), 3: (5, 2), 2: None},
    ),
    "what it had ended in its project is open again": (
        {1: ("p", None, 1), 2: ("p", "s", 3)},
        "q",
        {1: None, 2: None},
    ),
    "what others had ended is open again where it is now": (
        {1: ("p", "s", 1), 2: ("p", None, 3)},
        "q",
        {1: None, 2: None},
    ),
    "it is older than what is there": (
        {1: ("p", "s", 1), 2: ("p", "s", 2), 3: ("q", None, 3), 4: ("p", None, 4)},
        "q",
        {1: (2, 2), 2: (3, 3), 3: None, 4: None},
    ),
}


@pytest.mark.parametrize("case", MOVES)
def test_a_session_that_is_moved_leaves_one_memory_of_a_key_open_in_both_projects(store: Store, case: str) -> None:
    facts, target, expected = MOVES[case]
    for number, (project, session, at) in facts.items():
        store.add([fact(number, project=project, session=session, occurred=day(at))], model=MODEL, exact=True)
    store.move_session("default", "s", from_project="p", project=target)

    found = {one.id: (one.valid_to, one.superseded_by) for one in store.get([id_of(number) for number in facts])}
    ends = {number: (None, None) if end is None else (day(end[0]), id_of(end[1])) for number, end in expected.items()}
    assert found == {id_of(number): end for number, end in ends.items()}
    assert store.check() == []


def test_a_session_that_is_moved_brings_its_keys_into_the_project(store: Store) -> None:
    store.add([fact(1, project="p", occurred=day(1)), fact(2, session="s", occurred=day(2))], model=MODEL)
    store.add([fact(3, key="job", project="p", occurred=day(5)), fact(4, key="job", session="s")], model=MODEL)
    store.move_session("default", "s", project="p")
    ends = {one.id: one.valid_to for one in store.list(Scope(project="p")).memories}
    assert ends == {id_of(1): day(2), id_of(2): None, id_of(3): None, id_of(4): day(5)}


def test_vectors_that_come_later_are_those_of_a_retired_memory_too(store: Store) -> None:
    store.add([record(1, "tea", valid_to=NOW), embedded(2, "milk")], model=MODEL)
    waiting: list[Memory] = store.unembedded(MODEL, limit=9)
    store.attach([Record(one, embedded(1).vectors) for one in waiting], model=MODEL)
    assert searched(store, make_query("tea"))[1:] == ([id_of(2)], [id_of(1)])


def test_expired_memories_are_removed_in_parts_and_others_stay(store: Store) -> None:
    store.add([record(at, expires=day(at), profile="bob" if at == 2 else "default") for at in range(1, 6)], model=None)
    store.add([record(9)], model=None)
    assert store.remove_expired(day(0)) == []
    assert store.remove_expired(day(2), profile="bob") == [id_of(2)]
    assert len(store.remove_expired(day(4), limit=2)) == 2
    assert len(store.remove_expired(day(4), limit=2)) == 1
    assert sorted(one.id for one in store.list(HERE).memories) == [id_of(5), id_of(9)]
