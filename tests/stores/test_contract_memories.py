"""What every store promises about memories: opening, adding, reading, updating and removing them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import Memory, Scope
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.rules import scan_pages
from retentive.stores.values import Record
from tests.stores.build import (
    HERE,
    MODEL,
    NOW,
    axis,
    embedded,
    everything,
    find_keyword,
    find_nearest,
    first_vectors,
    id_of,
    keyword_ids,
    keyword_scores,
    listed,
    make_query,
    memory,
    nearest_ids,
    record,
    rows,
    search,
    semantic_scores,
    vector,
)

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


def test_a_memory_is_returned_with_every_field_as_it_was_given(store: Store):
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
    assert [one.memory for one in find_keyword(store, "quoted", Scope("ada"))] == [given]
    assert store.get([id_of(1)])[0].created.isoformat() == NOW.isoformat()


def test_a_stored_memory_does_not_change_when_the_caller_changes_its_own_values(store: Store):
    metadata = {"tags": ["a"]}
    store.add([record(1, metadata=metadata)], model=None)

    metadata["tags"].append("b")

    assert store.get([id_of(1)])[0].metadata == {"tags": ["a"]}


def test_memories_are_returned_in_the_order_of_the_ids_without_those_that_do_not_exist(store: Store):
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


def test_standing_rules_are_listed_alone_whenever_they_became_rules(store: Store):
    rule = {"rule": True}
    others = {1: {"rule": False}, 2: {"rules": 1}, 3: {}}
    store.add([record(number, metadata=metadata) for number, metadata in others.items()], model=None)
    store.add(
        [record(number, metadata={"a": 1, **rule}, project="pq"[number % 2]) for number in range(4, 9)], model=None
    )
    store.update(record(3, metadata=rule), model=None, fields={"metadata"})
    store.update(record(4), model=None, fields={"metadata"})

    def rules(scope: Scope = HERE, **options: Any) -> list[str]:
        return [one.id for one in store.list(scope, rules=True, **options).memories]

    assert rules() == [id_of(number) for number in (8, 7, 6, 5, 3)]
    assert rules(Scope(project="q")) == [id_of(7), id_of(5)]
    assert rules(Scope(project="q"), limit=1) == [id_of(7)]
    assert rules(Scope("nobody")) == []


def test_a_page_continues_after_its_cursor_when_memories_are_added_and_removed_meanwhile(store: Store):
    store.add([record(number) for number in range(6)], model=None)
    page = store.list(HERE, limit=2)
    assert [one.id for one in page.memories] == [id_of(5), id_of(4)]
    cursor = page.next_cursor

    store.remove([id_of(4)])
    store.add([record(9)], model=None)

    assert [one.id for one in store.list(HERE, cursor=cursor, limit=2).memories] == [id_of(3), id_of(2)]


def test_memories_are_listed_by_the_time_they_happened_or_were_stored_and_not_by_id(store: Store):
    times = {1: 5, 2: 3, 3: 9, 4: 3, 5: 3, 6: -400}  # days from NOW, by number; three at the same time
    store.add([record(number, created=NOW + timedelta(days=days)) for number, days in times.items()], model=None)
    store.add([record(7, created=NOW - timedelta(days=99), occurred=NOW + timedelta(days=4))], model=None)

    for limit in (1, 2, 3, 50):
        assert listed_in_pages(store, limit=limit) == [id_of(number) for number in (3, 1, 7, 5, 4, 2, 6)]


def listed_in_pages(store: Store, *, limit: int) -> list[str]:
    seen, cursor = [], None
    while True:
        page = store.list(HERE, cursor=cursor, limit=limit)
        assert 0 < len(page.memories) <= limit
        seen += [one.id for one in page.memories]
        cursor = page.next_cursor
        if cursor is None:
            return seen


@pytest.mark.parametrize("cursor", ["", "x", id_of(1), f"x_{id_of(1)}", "12_x", f"1e3_{id_of(1)}", "\ud800_", "9" * 60])
def test_a_cursor_that_no_page_returned_is_refused(store: Store, cursor: str):
    store.add([record(1)], model=None)

    with pytest.raises(Invalid, match="cursor"):
        store.list(HERE, cursor=cursor)


def test_pages_of_long_texts_are_short_and_still_follow_one_another(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("retentive.stores.rules.PAGE_BYTES", 1000)
    store.add([record(number, "long " * (1 if number % 3 else 150)) for number in range(9)], model=None)

    page, scan = store.list(HERE, limit=9), store.scan(limit=9)

    assert sum(len(one.text) for one in page.memories) <= 1000
    assert sum(len(one.memory.text) for one in scan.records) <= 1000
    assert page.next_cursor is not None
    assert scan.next_cursor is not None
    assert listed_in_pages(store, limit=9) == [id_of(number) for number in range(8, -1, -1)]
    assert {record.memory.id for some in scan_pages(store) for record in some.records} == {id_of(n) for n in range(9)}


# Updating, removing, touching


def test_an_update_changes_terms_and_vectors_under_the_old_id(store: Store):
    store.add([record(1, "apples", vectors=rows(axis(0), axis(1)), session="a"), embedded(2)], model=MODEL)
    new = store.get([id_of(1)])[0]._replace(text="pears", kind="semantic", speaker="Eve", metadata={"n": 1})

    updated = store.update(Record(new, rows(axis(2))), model=MODEL)

    assert updated == new == store.get([id_of(1)])[0]
    assert (keyword_ids(store, "apples"), keyword_ids(store, "pears"), keyword_ids(store, "eve")) == (
        [],
        [id_of(1)],
        [id_of(1)],
    )
    [best, *_] = find_nearest(store, axis(2), limit=5)
    assert (best.memory.id, best.score) == (id_of(1), pytest.approx(1.0, abs=1e-3))
    assert semantic_scores(store, axis(0), [id_of(1)]) == {id_of(1): pytest.approx(0.0, abs=1e-3)}
    assert (store.stats().vectors, store.stats().unembedded) == (2, 0)


def test_an_update_that_keeps_vectors_moves_them_with_the_memory(store: Store):
    store.add([record(1, vectors=rows(axis(0), axis(1)))], model=MODEL)
    new = store.get([id_of(1)])[0]._replace(kind="identity", project="p", importance=1.0)

    store.update(Record(new), model=None)

    scope = Scope(project="p", kinds=("identity",))
    [found] = find_nearest(store, axis(1), scope, limit=5)
    assert found.score == pytest.approx(1.0)
    assert keyword_ids(store, "note", scope) == listed(store, scope) == [id_of(1)]
    assert nearest_ids(store, axis(1), Scope(kinds=("episodic",))) == []


def test_an_update_without_vectors_waits_to_be_embedded(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)

    store.update(Record(memory(1, "new note")), model=None)

    assert nearest_ids(store, vector(1)) == [id_of(2)]
    assert keyword_ids(store, "note") != []
    assert [one.id for one in store.unembedded(MODEL, limit=5)] == [id_of(1)]


def test_updating_a_memory_that_does_not_exist_is_not_found(store: Store):
    for id in (id_of(1), "with\0nul"):
        with pytest.raises(NotFound, match="there is no memory"):
            store.update(Record(memory(1, project="new")._replace(id=id)), model=None)

    assert (store.projects("default"), store.stats().profiles) == ([], 0)


def test_an_update_into_another_project_puts_a_memory_into_the_session_of_its_name_there(store: Store):
    store.add([embedded(n, session="a", project="p") for n in (1, 2)], model=MODEL)

    store.update(Record(memory(1, "note changed", session="a", project="q")), model=MODEL, fields=["text", "project"])

    assert [one.project for one in store.get([id_of(1), id_of(2)])] == ["q", "p"]
    assert [(one.name, one.project, one.memories) for one in store.sessions("default")] == [
        ("a", "p", 1),
        ("a", "q", 1),
    ]
    assert listed(store, Scope(project="q")) == [id_of(1)]


def test_an_update_that_names_no_project_leaves_a_memory_in_its_session(store: Store):
    store.add([record(1, session="a", project="p"), record(2, session="a", project="q")], model=None)

    updated = store.update(Record(memory(1, "note changed", session="a", position=0)), model=None)

    assert (updated.text, updated.project) == ("note changed", "p")


def test_removed_memories_are_returned_once_each_and_no_longer_found_anywhere(store: Store):
    store.add([embedded(number, session="a") for number in range(4)], model=MODEL)

    removed = store.remove([id_of(1), "nobody", "with\0nul", id_of(2), id_of(1)])

    assert removed == [id_of(1), id_of(2)]
    assert listed(store) == [id_of(3), id_of(0)]
    assert set(keyword_ids(store, "note")) == set(nearest_ids(store, vector(1))) == {id_of(0), id_of(3)}
    assert store.remove([id_of(1)]) == store.remove([]) == []
    assert (store.stats().memories, store.stats().vectors, store.sessions("default")[0].memories) == (2, 2, 2)


def test_a_removed_memory_can_be_stored_again_and_nothing_of_the_old_one_is_found(store: Store):
    store.add([embedded(1, "first words")], model=MODEL)
    store.remove([id_of(1)])
    for found in (keyword_scores(store, "first", [id_of(1)]), first_vectors(store, [id_of(1)])):
        assert found == {}

    store.add([record(1, "second words", vectors=rows(axis(0)))], model=MODEL)

    assert (keyword_ids(store, "second"), keyword_ids(store, "first")) == ([id_of(1)], [])
    assert semantic_scores(store, axis(0), [id_of(1)]) == {id_of(1): pytest.approx(1.0)}
    assert first_vectors(store, [id_of(1)])[id_of(1)] == pytest.approx(axis(0))


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
    assert keyword_ids(store, "note") == nearest_ids(store, vector(0)) == [id_of(3)]


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


def test_an_empty_store_returns_empty_results(store: Store):
    for some in ([], [id_of(1)]):
        options = {"keyword": 5, "semantic": 5, "depth": 9, "vector": vector(0), "centres": 5, "around": some}
        found = search(store, make_query("anything"), **options, ids=some, scores=True, vectors=True)
        assert (found.model, found.size) == (None, 0)
        assert [list(one) for one in (*found.candidates.values(), *found.tails.values())] == [[]] * 4
        assert found.scores == {"keyword": {}, "semantic": {}}
        assert found.vectors == found.neighbours == store.vectors(some) == {}
    assert (listed(store), store.model(), store.get_value("x")) == ([], None, None)
    assert (store.stats().memories, store.stats().unembedded) == (0, 0)
    assert store.unembedded(MODEL, limit=5) == []
    assert store.count_unembedded(MODEL) == 0


# Threads


def test_threads_may_write_and_search_at_once(store: Store):
    def work(thread: int) -> list[bool]:
        found = []
        for number in range(1000 * thread, 1000 * thread + 10):
            batch = [embedded(100 * number + at, f"note number{number}", session=f"s{thread}") for at in range(30)]
            store.add(batch, model=MODEL)
            near = nearest_ids(store, vector(100 * number), limit=1)
            found.append(near == [id_of(100 * number)] and len(keyword_ids(store, f"number{number}")) == 30)
        return found

    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(work, range(1, 5)))

    assert outcomes == [[True] * 10] * 4
    assert store.stats().vectors == 1200
