"""What every store promises about a search: the reads of one recall."""

from __future__ import annotations

import pytest

from retentive.models import Model, Scope
from retentive.stores.base import Store
from retentive.stores.values import Vector
from tests.stores.build import (
    ALL,
    MODEL,
    Meanwhile,
    embedded,
    find_keyword,
    find_nearest,
    id_of,
    ids_of,
    keyword_ids,
    make_query,
    neighbours,
    record,
    rows,
    scores_by_id,
    search,
    vector,
)

# Candidates and scores


def test_candidates_are_whole_memories_up_to_the_limit(store: Store):
    stored = {
        one.id: one for one in store.add([embedded(n, session="a", speaker="Ada") for n in range(9)], model=MODEL)
    }

    found = search(store, make_query("note number3"), keyword=4, semantic=4, vector=vector(3))

    for candidates in found.candidates.values():
        assert len(candidates) == 4
        assert candidates[0].memory.id == id_of(3)
        assert [one.memory for one in candidates] == [stored[one.memory.id] for one in candidates]
        assert [one.score for one in candidates] == sorted((one.score for one in candidates), reverse=True)


def test_a_retriever_without_a_limit_or_a_vector_does_not_run(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)

    words = search(store, make_query("note"), keyword=5, vector=vector(1))
    waited = search(store, make_query("note"), semantic=5, vector=Meanwhile(None))

    assert (list(words.candidates), list(words.tails)) == (["keyword"], ["keyword"])
    assert (dict(waited.candidates), dict(waited.tails)) == ({}, {})


def test_a_search_waits_for_a_vector_of_the_model_that_is_searched(store: Store):
    store.add([embedded(1)], model=MODEL)
    seen: list[Model | None] = []

    class Asked(Meanwhile):
        def wait(self, model: Model | None) -> Vector | None:
            seen.append(model)
            return None

    search(store, make_query("note"), keyword=1, semantic=1, vector=Asked(None))

    assert seen == [MODEL]


@pytest.mark.parametrize(("limit", "depth", "expected"), [(3, 0, 3), (3, 2, 3), (3, 7, 7), (3, 99, 20), (99, 5, 20)])
def test_the_scores_of_the_nearest_go_down_to_the_depth(store: Store, limit: int, depth: int, expected: int):
    store.add([record(n, vectors=rows(vector(n), vector(100 + n))) for n in range(20)], model=MODEL)
    every = [one.score for one in find_nearest(store, vector(3))]

    found = search(store, make_query(), semantic=limit, vector=vector(3), depth=depth)

    assert len(found.candidates["semantic"]) == min(limit, 20)
    assert list(found.tails["semantic"]) == pytest.approx(every[:expected], abs=1e-6)


def test_the_scores_of_the_keyword_retriever_are_those_of_its_candidates(store: Store):
    store.add([record(number, "tea " * (1 + number % 4)) for number in range(20)], model=None)

    found = search(store, make_query("tea"), keyword=5)

    assert list(found.tails["keyword"]) == [one.score for one in found.candidates["keyword"]]
    assert len(found.candidates["keyword"]) == 5


def test_a_limit_may_exceed_what_a_recall_of_the_query_needs(store: Store):
    # Of different lengths, so that no scores are equal.
    store.add([embedded(number, f"tea{' milk' * number}") for number in range(60)], model=MODEL)
    query = make_query("tea", limit=1, min_candidates=1, judge="off")
    assert query.pool == 3

    small = search(store, query, keyword=3, semantic=3, vector=vector(1), depth=query.depth).candidates
    large = search(store, query, keyword=ALL, semantic=ALL, vector=vector(1)).candidates

    assert [len(found) for found in (*small.values(), *large.values())] == [3, 3, 60, 60]
    assert [ids_of(found) for found in small.values()] == [ids_of(found[:3]) for found in large.values()]


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

    found = search(store, query, keyword=1, semantic=1, vector=vector(1), ids=unfound, scores=True)
    keyword, semantic = ({id: of[id] for id in unfound if id in of} for of in found.scores.values())

    assert [len(candidates) for candidates in found.candidates.values()] == [1, 1]
    everyone = scores_by_id(find_keyword(store, "tea", query.scope))
    expected = {id_of(n): everyone.get(id_of(n), 0.0) for n in (2, 3, 4, 6)}
    assert expected[id_of(3)] == 0
    assert {id: score for id, score in keyword.items() if id != id_of(5)} == pytest.approx(expected, abs=1e-6)
    assert keyword[id_of(5)] > 0
    assert set(semantic) == {id_of(n) for n in (2, 3, 4, 5)}
    for n in (2, 3, 4, 5):
        assert semantic[id_of(n)] == pytest.approx(float(vector(n) @ vector(1)), abs=2e-3)


def test_without_a_vector_there_are_no_semantic_scores(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)

    scores = search(store, make_query("note"), ids=[id_of(1), id_of(2)], scores=True).scores

    assert scores["semantic"] == {}
    assert set(scores["keyword"]) == {id_of(1), id_of(2)}
    assert min(scores["keyword"].values()) > 0


def test_unknown_ids_are_missing_from_scores_vectors_and_neighbours(store: Store):
    store.add([embedded(1, session="a"), embedded(2, session="a")], model=MODEL)
    some = [id_of(2), id_of(9), "", "nobody", "with\0nul", "half a pair \ud83d"]

    options = {"vector": vector(1), "ids": some, "around": some, "scores": True, "vectors": True}
    found = search(store, make_query("note"), **options)

    assert list(found.neighbours) == list(store.vectors(some)) == [id_of(2)]
    for read in (*found.scores.values(), found.vectors):
        assert set(read) == {id_of(1), id_of(2)}  # the neighbour is read too


# Neighbours


def neighbour_ids(store: Store, ids: list[str], **options: object) -> dict[str, tuple[str | None, str | None]]:
    pairs = neighbours(store, ids, **options)
    return {id: (before and before.id, after and after.id) for id, (before, after) in pairs.items()}


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
    pairs = neighbours(store, [id_of(n) for n in (1, 2, 3, 4)])

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

    assert neighbours(store, [id_of(2)]) == {id_of(2): (stored[0], stored[2])}


def test_the_neighbours_of_the_best_of_each_retriever_are_read(store: Store):
    store.add([embedded(n, f"tea {'tea ' * n}", session=f"s{n % 2}") for n in range(8)], model=MODEL)

    found = search(store, make_query("tea"), keyword=5, semantic=5, vector=vector(3), centres=2)

    assert set(found.neighbours) == {id for best in found.candidates.values() for id in ids_of(best)[:2]}
