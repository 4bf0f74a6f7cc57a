"""What every store promises about an open search: one snapshot, independence of other searches, and release."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.values import Record
from tests.stores.build import (
    ALL,
    MODEL,
    axis,
    embedded,
    find_nearest,
    first_vectors,
    id_of,
    ids_of,
    keyword_ids,
    keyword_scores,
    make_query,
    memory,
    nearest_ids,
    record,
    rows,
    semantic_scores,
    vector,
)

# One snapshot


def test_a_search_does_not_see_writes_after_its_first_read(store: Store):
    store.add([embedded(number, "green tea", session="a") for number in range(1, 6)], model=MODEL)
    ids = [id_of(number) for number in range(1, 7)]

    with store.open_search(make_query("tea")) as search:
        first = search.keyword(ALL)
        store.add([embedded(6, "tea tea tea", session="a")], model=MODEL)
        store.remove([id_of(2)])
        store.update(Record(memory(3, "coffee", session="a", position=2), rows(vector(77))), model=MODEL)

        again = search.keyword(ALL)
        near = search.nearest(vector(1), ALL)
        scores, neighbours, vectors = search.scores(ids), search.neighbours(ids), search.vectors(ids)

    assert ids_of(first.candidates) == ids_of(again.candidates) == ids[:5]
    assert [one.memory.text for one in again.candidates] == ["green tea"] * 5
    assert [one.score for one in again.candidates] == [one.score for one in first.candidates]
    assert set(ids_of(near.candidates)) == set(ids[:5])
    assert {one.memory.text for one in near.candidates} == {"green tea"}
    assert set(scores.keyword) == set(scores.semantic) == set(neighbours) == set(vectors) == set(ids[:5])
    assert scores.semantic[id_of(3)] == pytest.approx(float(vector(3) @ vector(1)), abs=2e-3)
    assert vectors[id_of(3)] == pytest.approx(vector(3), abs=1e-3)
    assert [one and one.text for one in neighbours[id_of(2)]] == ["green tea", "green tea"]
    assert neighbours[id_of(5)][1] is None


def test_a_search_goes_on_with_the_scope_and_model_of_its_first_read(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="b", project="p")], model=MODEL)

    with store.open_search(make_query("note", Scope(sessions=("a",)))) as search:
        assert set(ids_of(search.keyword(ALL).candidates)) == {id_of(1), id_of(2)}
        store.move_session("default", "a", project=None)
        store.remove_scope(Scope(sessions=("b",), only_sessions=True))

        assert set(ids_of(search.keyword(ALL).candidates)) == {id_of(1), id_of(2)}
        assert set(ids_of(search.nearest(vector(1), ALL).candidates)) == {id_of(1), id_of(2)}
        assert search.model == MODEL


def test_a_search_keeps_its_snapshot_when_a_later_search_sees_the_writes(store: Store):
    store.add([embedded(number, "tea") for number in (1, 2, 3)], model=MODEL)
    assert len(nearest_ids(store, vector(1))) == 3

    with store.open_search(make_query("tea")) as search:
        first = set(ids_of(search.keyword(ALL).candidates))
        store.add([embedded(4, "tea")], model=MODEL)
        store.remove([id_of(2)])
        later = [set(keyword_ids(store, "tea")), set(nearest_ids(store, vector(4)))]
        found = [set(ids_of(one.candidates)) for one in (search.keyword(ALL), search.nearest(vector(4), ALL))]

    assert later == [{id_of(1), id_of(3), id_of(4)}] * 2
    assert found == [first] * 2 == [{id_of(1), id_of(2), id_of(3)}] * 2


def test_a_search_on_an_old_snapshot_hides_nothing_from_later_searches(store: Store):
    store.add([embedded(1, "tea"), embedded(2, "tea", profile="elsewhere")], model=MODEL)

    with store.open_search(make_query("tea")) as search:
        search.keyword(ALL)
        store.add([embedded(3, "tea")], model=MODEL)
        assert nearest_ids(store, vector(2), Scope("elsewhere")) == [id_of(2)]
        assert ids_of(search.nearest(vector(3), ALL).candidates) == [id_of(1)]

    [nearest, other] = find_nearest(store, vector(3))
    assert (nearest.memory.id, nearest.score) == (id_of(3), pytest.approx(1, abs=1e-3))
    assert (other.memory.id, other.score) == (id_of(1), pytest.approx(float(vector(1) @ vector(3)), abs=2e-3))


def test_the_next_search_sees_all_writes(store: Store):
    store.add([embedded(1, "tea"), embedded(2, "tea")], model=MODEL)

    with store.open_search(make_query("tea")) as search:
        search.keyword(ALL)
        search.nearest(vector(1), ALL)
        store.add([embedded(3, "tea")], model=MODEL)
        store.remove([id_of(1)])

    assert set(keyword_ids(store, "tea")) == set(nearest_ids(store, vector(1))) == {id_of(2), id_of(3)}
    assert set(keyword_scores(store, "tea", [id_of(1), id_of(3)])) == {id_of(3)}
    assert set(semantic_scores(store, vector(1), [id_of(1), id_of(3)])) == {id_of(3)}
    assert set(first_vectors(store, [id_of(1), id_of(3)])) == {id_of(3)}


def test_a_search_goes_on_when_what_it_found_is_removed(store: Store):
    store.add([embedded(number, "tea", session="a") for number in range(1, 9)], model=MODEL)

    with store.open_search(make_query("tea")) as search:
        found = ids_of(search.keyword(ALL).candidates)
        store.remove([id_of(number) for number in (1, 2, 3)])
        near = ids_of(search.nearest(vector(1), ALL).candidates)
        scores, neighbours, vectors = search.scores(found), search.neighbours(found), search.vectors(found)

    left = {id_of(number) for number in range(4, 9)}
    for ids in (near, scores.keyword, scores.semantic, neighbours, vectors):
        assert left <= set(ids) <= set(found)


def test_two_open_searches_are_independent(store: Store):
    store.add([record(1, "tea", vectors=rows(axis(0))), record(2, "milk", vectors=rows(axis(1)))], model=MODEL)
    both = [id_of(1), id_of(2)]

    with store.open_search(make_query("tea")) as tea, store.open_search(make_query("milk")) as milk:
        found = [ids_of(search.keyword(ALL).candidates) for search in (tea, milk)]
        tea.nearest(axis(0), 1)
        milk.nearest(axis(1), 1)
        scores = [search.scores(both) for search in (tea, milk)]

    assert found == [[id_of(1)], [id_of(2)]]
    assert scores[0].semantic == {id_of(1): pytest.approx(1), id_of(2): pytest.approx(0)}
    assert scores[1].semantic == {id_of(1): pytest.approx(0), id_of(2): pytest.approx(1)}
    assert [one.keyword[id_of(1)] > 0 for one in scores] == [True, False]


# Closing


def test_a_search_can_be_closed_twice_and_before_any_read(store: Store):
    store.add([embedded(1)], model=MODEL)
    search = store.open_search(make_query("note"))
    search.close()
    search.close()

    search = store.open_search(make_query("note"))
    assert ids_of(search.keyword(5).candidates) == [id_of(1)]
    search.close()
    search.close()

    assert keyword_ids(store, "note") == [id_of(1)]


def test_a_hundred_searches_in_a_row_release_their_connections(store: Store):
    store.add([embedded(number) for number in range(5)], model=MODEL)

    for number in range(100):
        with store.open_search(make_query("note")) as search:
            assert len(search.keyword(5).candidates) == 5
            if number % 2:
                assert len(search.nearest(vector(1), 5).candidates) == 5

    store.add([embedded(9)], model=MODEL)
    assert len(keyword_ids(store, "note")) == 6


def test_a_hundred_searches_that_fail_release_their_connections(store: Store):
    store.add([embedded(number) for number in range(5)], model=MODEL)

    def fail_during_search() -> None:
        with store.open_search(make_query("note")) as search:
            assert len(search.keyword(5).candidates) == 5
            raise ZeroDivisionError

    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            fail_during_search()

    store.add([embedded(9)], model=MODEL)
    assert len(keyword_ids(store, "note")) == 6


def test_a_search_can_be_used_and_closed_in_another_thread(store: Store):
    store.add([embedded(number) for number in range(5)], model=MODEL)
    search = store.open_search(make_query("note"))
    assert len(search.keyword(5).candidates) == 5

    with ThreadPoolExecutor(1) as threads:
        near = threads.submit(search.nearest, vector(1), 5).result()
        scores = search.scores(ids_of(near.candidates))
        threads.submit(search.close).result()

    assert len(near.candidates) == len(scores.keyword) == len(scores.semantic) == 5
    assert len(keyword_ids(store, "note")) == 5
