"""What every store promises about a search: the reads of one recall."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest

from retentive.models import Memory, Scope
from retentive.stores.base import Search, Store
from tests.stores.build import (
    ALL,
    HERE,
    MODEL,
    axis,
    embedded,
    fill,
    find_keyword,
    find_nearest,
    id_of,
    ids_of,
    keyword_ids,
    make_query,
    record,
    rows,
    scores_by_id,
    vector,
)

# Candidates and scores


def test_candidates_are_whole_memories_up_to_the_limit(store: Store):
    stored = {
        one.id: one for one in store.add([embedded(n, session="a", speaker="Ada") for n in range(9)], model=MODEL)
    }

    with store.open_search(make_query("note number3")) as search:
        results = [search.keyword(4), search.nearest(vector(3), 4)]

    for found in results:
        assert len(found.candidates) == 4
        assert found.candidates[0].memory.id == id_of(3)
        assert [one.memory for one in found.candidates] == [stored[one.memory.id] for one in found.candidates]
        assert [one.score for one in found.candidates] == sorted((one.score for one in found.candidates), reverse=True)


@pytest.mark.parametrize(("limit", "depth", "expected"), [(3, 0, 3), (3, 2, 3), (3, 7, 7), (3, 99, 20), (99, 5, 20)])
def test_the_scores_of_the_nearest_go_down_to_the_depth(store: Store, limit: int, depth: int, expected: int):
    store.add([record(n, vectors=rows(vector(n), vector(100 + n))) for n in range(20)], model=MODEL)
    every = [one.score for one in find_nearest(store, vector(3))]

    with store.open_search(make_query()) as search:
        found = search.nearest(vector(3), limit, depth=depth)

    assert len(found.candidates) == min(limit, 20)
    assert list(found.depth_scores) == pytest.approx(every[:expected], abs=1e-6)


def test_the_scores_of_the_keyword_retriever_are_those_of_its_candidates(store: Store):
    store.add([record(number, "tea " * (1 + number % 4)) for number in range(20)], model=None)

    with store.open_search(make_query("tea")) as search:
        found = search.keyword(5)

    assert list(found.depth_scores) == [one.score for one in found.candidates]
    assert len(found.candidates) == 5


def test_a_limit_may_exceed_what_a_recall_of_the_query_needs(store: Store):
    # Of different lengths, so that no scores are equal.
    store.add([embedded(number, f"tea{' milk' * number}") for number in range(60)], model=MODEL)
    query = make_query("tea", limit=1, min_candidates=1, judge="off")
    assert query.pool == 3

    with store.open_search(query) as search:
        small = [search.keyword(query.pool), search.nearest(vector(1), query.pool, depth=query.depth)]
        large = [search.keyword(ALL), search.nearest(vector(1), ALL)]

    assert [len(found.candidates) for found in (*small, *large)] == [3, 3, 60, 60]
    assert [ids_of(found.candidates) for found in small] == [ids_of(found.candidates[:3]) for found in large]


def test_memories_that_the_retrievers_did_not_find_are_scored(store: Store):
    store.add(
        [
            embedded(1, "green tea", session="a"),
            embedded(2, "black tea", session="a"),
            embedded(3, "coffee", session="a"),
            embedded(4, "tea tea", session="a"),
            embedded(5, "green tea", session="b"),
            record(6, "tea", session="a"),
            *(record(number, "something else", session="a") for number in range(10, 20)),
        ],
        model=MODEL,
    )
    query = make_query("tea", Scope(sessions=("a",)), exclude=[id_of(4)])
    unfound = [id_of(n) for n in (2, 3, 4, 5, 6)]

    with store.open_search(query) as search:
        assert len(search.keyword(1).candidates) == len(search.nearest(vector(1), 1).candidates) == 1
        scores = search.scores(unfound)

    everyone = scores_by_id(find_keyword(store, "tea", query.scope))
    expected = {id_of(n): everyone.get(id_of(n), 0.0) for n in (2, 3, 4, 6)}
    assert expected[id_of(3)] == 0
    assert {id: score for id, score in scores.keyword.items() if id != id_of(5)} == pytest.approx(expected, abs=1e-6)
    assert scores.keyword[id_of(5)] > 0
    assert set(scores.semantic) == {id_of(n) for n in (2, 3, 4, 5)}
    for n in (2, 3, 4, 5):
        assert scores.semantic[id_of(n)] == pytest.approx(float(vector(n) @ vector(1)), abs=2e-3)


def test_without_a_vector_there_are_no_semantic_scores(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)

    with store.open_search(make_query("note")) as search:
        before = search.scores([id_of(1), id_of(2)])
        search.keyword(5)
        after = search.scores([id_of(1), id_of(2)])

    assert before.semantic == after.semantic == {}
    assert set(before.keyword) == set(after.keyword) == {id_of(1), id_of(2)}
    assert min(before.keyword.values()) > 0


def test_semantic_scores_are_for_the_vector_of_the_last_call(store: Store):
    store.add([record(1, vectors=rows(axis(0))), record(2, vectors=rows(axis(1)))], model=MODEL)

    with store.open_search(make_query("note", vector=axis(0))) as search:
        search.nearest(axis(0), 1)
        first = search.scores([id_of(1), id_of(2)]).semantic
        search.nearest(axis(1), 1)
        second = search.scores([id_of(1), id_of(2)]).semantic

    assert first == {id_of(1): pytest.approx(1), id_of(2): pytest.approx(0)}
    assert second == {id_of(1): pytest.approx(0), id_of(2): pytest.approx(1)}


def test_unknown_ids_are_missing_from_scores_vectors_and_neighbours(store: Store):
    store.add([embedded(1, session="a"), embedded(2, session="a")], model=MODEL)
    some = [id_of(2), id_of(9), "", "nobody", "with\0nul", "half a pair \ud83d"]

    with store.open_search(make_query("note")) as search:
        search.nearest(vector(1), 1)
        scores = search.scores(some)
        found = [scores.keyword, scores.semantic, search.vectors(some), search.neighbours(some)]

    assert [list(one) for one in found] == [[id_of(2)]] * 4


READS: dict[str, Callable[[Search], object]] = {
    "keyword": lambda search: scores_by_id(search.keyword(20).candidates),
    "nearest": lambda search: scores_by_id(search.nearest(vector(3), 20, depth=40).candidates),
    "neighbours": lambda search: search.neighbours([id_of(n) for n in range(30, 60)]),
    "scores": lambda search: search.scores([id_of(n) for n in range(0, 120, 9)]).keyword,
}


@pytest.mark.parametrize("scope", [HERE, Scope(sessions=("s1",)), Scope("nobody")], ids=["all", "session", "nobody"])
@pytest.mark.parametrize("known", [None, vector(3)], ids=["later vector", "vector in the query"])
def test_the_order_of_the_reads_does_not_matter(store: Store, scope: Scope, known: object):
    fill(store)
    query = make_query("green tea with milk", scope, vector=known, exclude=[id_of(1)])
    expected = {}
    for name, read in READS.items():
        with store.open_search(query) as search:
            expected[name] = read(search)

    for order in permutations(READS):
        with store.open_search(query) as search:
            results = {name: READS[name](search) for name in order}
        for name, result in results.items():
            exact = name == "neighbours"
            assert result == (expected[name] if exact else pytest.approx(expected[name], abs=1e-6)), (name, order)


# Neighbours


def neighbour_ids(store: Store, ids: list[str], **options: object) -> dict[str, tuple[str | None, str | None]]:
    def id_of_memory(one: Memory | None) -> str | None:
        return one and one.id

    with store.open_search(make_query("tea", **options)) as search:
        pairs = search.neighbours(ids)
    return {id: (id_of_memory(before), id_of_memory(after)) for id, (before, after) in pairs.items()}


def test_neighbours_are_the_memories_before_and_after_in_the_same_session(store: Store):
    store.add([record(number, "tea", session="a" if number % 2 else "b") for number in range(1, 7)], model=None)
    store.add([record(7, "tea")], model=None)

    assert neighbour_ids(store, keyword_ids(store, "tea")) == {
        id_of(1): (None, id_of(3)),
        id_of(3): (id_of(1), id_of(5)),
        id_of(5): (id_of(3), None),
        id_of(2): (None, id_of(4)),
        id_of(4): (id_of(2), id_of(6)),
        id_of(6): (id_of(4), None),
    }


def test_memories_at_the_same_position_are_not_neighbours(store: Store):
    store.add([record(n, "note", session="s", position=at) for n, at in ((1, 1), (2, 2), (3, 2), (4, 3))], model=None)
    with store.open_search(make_query("note")) as search:
        pairs = search.neighbours([id_of(n) for n in (1, 2, 3, 4)])

    found = {id: tuple(one and one.position for one in pair) for id, pair in pairs.items()}
    assert found == {id_of(1): (None, 2), id_of(2): (1, 3), id_of(3): (1, 3), id_of(4): (2, None)}


def test_neighbours_follow_positions_and_not_the_order_of_writing(store: Store):
    store.add([record(number, session="a", position=9 - 2 * number) for number in (1, 2, 3)], model=None)

    assert neighbour_ids(store, [id_of(3), id_of(2), id_of(1)]) == {
        id_of(3): (None, id_of(2)),
        id_of(2): (id_of(3), id_of(1)),
        id_of(1): (id_of(2), None),
    }


def test_a_memory_alone_in_its_session_has_no_neighbours(store: Store):
    store.add([record(1, session="a"), record(2, session="b")], model=None)

    assert neighbour_ids(store, [id_of(1)]) == {id_of(1): (None, None)}


def test_neighbours_skip_a_removed_memory(store: Store):
    store.add([record(number, "tea", session="a") for number in (1, 2, 3)], model=None)
    store.remove([id_of(2)])

    assert neighbour_ids(store, [id_of(1)]) == {id_of(1): (None, id_of(3))}


def test_sessions_of_the_same_name_in_two_profiles_are_not_neighbours(store: Store):
    store.add([record(1, "tea", session="a"), record(2, "tea", session="a", profile="other")], model=None)

    assert neighbour_ids(store, keyword_ids(store, "tea")) == {id_of(1): (None, None)}


def test_no_ids_have_no_neighbours(store: Store):
    assert neighbour_ids(store, []) == {}


def test_exclusions_and_kinds_do_not_apply_to_neighbours(store: Store):
    store.add(
        [record(1, session="a", kind="semantic"), record(2, session="a"), record(3, session="a", kind="identity")],
        model=None,
    )

    found = neighbour_ids(store, [id_of(2)], scope=Scope(kinds=("episodic",)), exclude=[id_of(1)])

    assert found == {id_of(2): (id_of(1), id_of(3))}


def test_neighbours_are_whole_memories(store: Store):
    stored = store.add(
        [record(n, session="a", project="p", metadata={"n": n}, speaker="Ada") for n in (1, 2, 3)], model=None
    )

    with store.open_search(make_query("note")) as search:
        assert search.neighbours([id_of(2)]) == {id_of(2): (stored[0], stored[2])}
