"""What every store promises about changes of many memories, and about returning space."""

from __future__ import annotations

from retentive.models import Scope
from retentive.stores.base import Store
from tests.stores.build import MODEL, embedded, id_of, keyword_ids, listed, nearest_ids, vector

MANY = 150


def fill(store: Store) -> None:
    store.add([embedded(number, session="a", project="p") for number in range(MANY)], model=MODEL)
    store.add([embedded(1000, session="b", project="p"), embedded(1001)], model=MODEL)


def test_removing_many_memories_reports_each_part_and_leaves_the_others(store: Store):
    fill(store)
    parts: list[int] = []

    count = store.remove_scope(Scope(sessions=("a",), only_sessions=True), progress=parts.append)

    assert count == sum(parts) == MANY
    assert set(listed(store)) == {id_of(1000), id_of(1001)}
    assert set(nearest_ids(store, vector(1))) == {id_of(1000), id_of(1001)}
    assert store.remove_scope(Scope(sessions=("a",), only_sessions=True), progress=parts.append) == 0


def test_moving_many_memories_reports_each_part_and_moves_all(store: Store):
    fill(store)
    parts: list[int] = []

    moved = store.move_session("default", "a", project="q", progress=parts.append)

    assert (moved.project, moved.memories, sum(parts)) == ("q", MANY, MANY)
    expected = {id_of(number) for number in range(MANY)}
    scope = Scope(project="q")
    assert set(listed(store, scope)) == set(keyword_ids(store, "note", scope)) == expected
    assert set(nearest_ids(store, vector(0), scope)) == expected
    assert listed(store, Scope(project="p")) == [id_of(1000)]


def test_a_session_without_memories_can_be_moved(store: Store):
    fill(store)
    store.remove_scope(Scope(sessions=("a",), only_sessions=True))

    moved = store.move_session("default", "a", project=None)

    assert (moved.project, moved.memories) == (None, 0)


def test_compacting_changes_no_memory_and_gives_the_size_or_says_why_not(store: Store):
    fill(store)
    store.remove_scope(Scope(sessions=("a",), only_sessions=True))

    done = store.compact()

    assert done.note is not None or done.bytes_after <= done.bytes_before
    assert done.bytes_before == 0 or done.bytes_after == store.stats().bytes > 0
    assert set(listed(store)) == set(nearest_ids(store, vector(1))) == {id_of(1000), id_of(1001)}
