"""What conversation context and scoped scores ask of every store."""

from __future__ import annotations

import pytest

from retentive.models import Scope
from retentive.stores import Store
from tests.stores.test_contract import HERE, id_of, record, store

__all__ = ["store"]


def ids_of(store: Store, pair):
    found = store.fetch([key for key in pair if key is not None])
    return tuple(None if key is None else found[key].id for key in pair)


def keys_by_id(store: Store, query: str) -> dict[str, object]:
    found = store.search_words(query, HERE, limit=100)
    memories = store.fetch([one.key for one in found])
    return {memory.id: key for key, memory in memories.items()}


def test_neighbours_are_the_turns_before_and_behind_in_the_same_session(store: Store):
    store.add([record(number, "tea", session="a" if number % 2 else "b") for number in range(1, 7)], model=None)
    store.add([record(7, "tea")], model=None)
    keys = keys_by_id(store, "tea")

    found = store.neighbours(list(keys.values()))

    beside = {id: ids_of(store, found[key]) for id, key in keys.items() if key in found}
    assert beside == {
        id_of(1): (None, id_of(3)),
        id_of(3): (id_of(1), id_of(5)),
        id_of(5): (id_of(3), None),
        id_of(2): (None, id_of(4)),
        id_of(4): (id_of(2), id_of(6)),
        id_of(6): (id_of(4), None),
    }


def test_neighbours_close_the_gap_that_a_forgotten_turn_leaves(store: Store):
    store.add([record(number, "tea", session="a") for number in (1, 2, 3)], model=None)
    store.remove([id_of(2)])
    keys = keys_by_id(store, "tea")

    found = store.neighbours([keys[id_of(1)]])

    assert ids_of(store, found[keys[id_of(1)]]) == (None, id_of(3))


def test_sessions_of_the_same_name_in_two_profiles_are_not_neighbours(store: Store):
    store.add([record(1, "tea", session="a"), record(2, "tea", session="a", profile="other")], model=None)

    found = store.neighbours(list(keys_by_id(store, "tea").values()))

    assert [ids_of(store, pair) for pair in found.values()] == [(None, None)]


def test_no_keys_have_no_neighbours(store: Store):
    assert store.neighbours([]) == {}


def test_a_word_that_everybody_in_the_scope_says_counts_for_little_there_and_for_much_elsewhere(store: Store):
    store.add([record(number, f"ana note{number}", project="p") for number in range(1, 9)], model=None)
    store.add([record(9, "ana garden", project="q")], model=None)
    store.add([record(number, f"garden note{number}", project="q") for number in range(10, 40)], model=None)

    def best(project: str) -> float:
        return store.search_words("ana", Scope(project=project), limit=1)[0].score

    assert best("p") == pytest.approx(0.0, abs=1e-4)
    assert best("q") > 2
    inside = store.search_words("ana garden", Scope(project="q"), limit=5)
    scores = store.score_words("ana garden", Scope(project="q"), [one.key for one in inside])
    assert scores == {one.key: pytest.approx(one.score, abs=1e-6) for one in inside}
