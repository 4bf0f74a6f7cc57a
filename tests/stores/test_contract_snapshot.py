"""What every store promises about the snapshot of a search, and about its connection."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.values import Record
from tests.stores.build import (
    ALL,
    MODEL,
    Meanwhile,
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
    rows,
    search,
    semantic_scores,
    vector,
)


def test_a_search_does_not_see_writes_after_its_first_read(store: Store):
    store.add([embedded(number, "green tea", session="a") for number in range(1, 6)], model=MODEL)
    ids = [id_of(number) for number in range(1, 7)]

    def write() -> None:
        store.add([embedded(6, "tea tea tea", session="a")], model=MODEL)
        store.remove([id_of(2)])
        store.update(Record(memory(3, "coffee", session="a", position=2), rows(vector(77))), model=MODEL)

    options = {"keyword": ALL, "semantic": ALL, "ids": ids, "around": ids, "scores": True, "vectors": True}
    found = search(store, make_query("tea"), vector=Meanwhile(vector(1), write), **options)

    for candidates in found.candidates.values():
        assert set(ids_of(candidates)) == set(ids[:5])
        assert {one.memory.text for one in candidates} == {"green tea"}
    for read in (*found.scores.values(), found.neighbours, found.vectors):
        assert set(read) == set(ids[:5])
    assert found.scores["semantic"][id_of(3)] == pytest.approx(float(vector(3) @ vector(1)), abs=2e-3)
    assert found.vectors[id_of(3)] == pytest.approx(vector(3), abs=1e-3)
    assert [one and one.text for one in found.neighbours[id_of(2)]] == ["green tea", "green tea"]
    assert found.neighbours[id_of(5)][1] is None


def test_a_search_goes_on_with_the_scope_and_model_of_its_first_read(store: Store):
    store.add([embedded(1, session="a", project="p"), embedded(2, session="b", project="p")], model=MODEL)

    def write() -> None:
        store.move_session("default", "a", project=None)
        store.remove_scope(Scope(sessions=("b",), only_sessions=True))

    query = make_query("note", Scope(sessions=("a",)))
    found = search(store, query, keyword=ALL, semantic=ALL, vector=Meanwhile(vector(1), write))

    assert [set(ids_of(best)) for best in found.candidates.values()] == [{id_of(1), id_of(2)}] * 2
    assert found.model == MODEL


def test_a_search_on_an_old_snapshot_hides_nothing_from_later_searches(store: Store):
    store.add([embedded(1, "tea"), embedded(2, "tea", profile="elsewhere")], model=MODEL)

    def write() -> None:
        store.add([embedded(3, "tea")], model=MODEL)
        assert nearest_ids(store, vector(2), Scope("elsewhere")) == [id_of(2)]

    found = search(store, make_query("tea"), semantic=ALL, vector=Meanwhile(vector(3), write))
    assert ids_of(found.candidates["semantic"]) == [id_of(1)]

    [nearest, other] = find_nearest(store, vector(3))
    assert (nearest.memory.id, nearest.score) == (id_of(3), pytest.approx(1, abs=1e-3))
    assert (other.memory.id, other.score) == (id_of(1), pytest.approx(float(vector(1) @ vector(3)), abs=2e-3))


def test_the_next_search_sees_all_writes(store: Store):
    store.add([embedded(1, "tea"), embedded(2, "tea")], model=MODEL)
    assert len(nearest_ids(store, vector(1))) == len(keyword_ids(store, "tea")) == 2
    store.add([embedded(3, "tea")], model=MODEL)
    store.remove([id_of(1)])

    assert set(keyword_ids(store, "tea")) == set(nearest_ids(store, vector(1))) == {id_of(2), id_of(3)}
    assert set(keyword_scores(store, "tea", [id_of(1), id_of(3)])) == {id_of(3)}
    assert set(semantic_scores(store, vector(1), [id_of(1), id_of(3)])) == {id_of(3)}
    assert set(first_vectors(store, [id_of(1), id_of(3)])) == {id_of(3)}


def test_searches_at_the_same_time_are_independent(store: Store):
    store.add([embedded(number, f"tea {number}") for number in range(50)], model=MODEL)
    expected = [nearest_ids(store, vector(number), limit=5) for number in range(50)]

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda number: nearest_ids(store, vector(number), limit=5), range(50)))

    assert found == expected


def test_a_hundred_searches_that_fail_release_their_connections(store: Store):
    store.add([embedded(number) for number in range(5)], model=MODEL)

    def fail() -> None:
        raise ZeroDivisionError

    for _ in range(100):
        with pytest.raises(ZeroDivisionError):
            search(store, make_query("note"), keyword=5, semantic=5, vector=Meanwhile(None, fail))

    store.add([embedded(9)], model=MODEL)
    assert len(keyword_ids(store, "note")) == 6
