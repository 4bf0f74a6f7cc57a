"""What every store promises about vectors and the models that made them."""

from __future__ import annotations

import numpy as np
import pytest

from retentive.errors import Invalid
from retentive.models import Model, Scope
from retentive.stores.base import Store
from retentive.stores.values import Record
from tests.stores.build import (
    MODEL,
    OTHER,
    axis,
    embedded,
    everything,
    find_nearest,
    first_vectors,
    id_of,
    keyword_ids,
    nearest_ids,
    record,
    rows,
    scores_by_id,
    semantic_scores,
    unit,
    vector,
)

# Vectors


def test_the_nearest_come_first_with_their_cosine(store: Store):
    store.add([record(n, vectors=rows(axis(0, lean=1, by=n / 4))) for n in range(5)], model=MODEL)

    found = find_nearest(store, axis(0), limit=3)

    assert [one.score for one in found] == [pytest.approx(1 / np.hypot(1, n / 4), abs=1e-3) for n in range(3)]
    assert nearest_ids(store, axis(0), limit=3) == [id_of(n) for n in range(3)]


def test_a_memory_of_three_parts_is_found_once_by_its_nearest_part(store: Store):
    store.add([record(1, vectors=rows(axis(5), axis(0), axis(1))), record(2, vectors=rows(axis(2)))], model=MODEL)

    found = find_nearest(store, axis(0), limit=10)

    assert (len(found), found[0].memory.id) == (2, id_of(1))
    assert found[0].score == pytest.approx(1.0)
    assert first_vectors(store, [id_of(1)])[id_of(1)] == pytest.approx(axis(5))
    assert semantic_scores(store, axis(1), [id_of(1)]) == {id_of(1): pytest.approx(1.0)}


def test_memories_of_many_parts_do_not_displace_others_from_the_result(store: Store):
    crowd = [record(n, vectors=rows(*[axis(0, lean=1, by=n / 100)] * 60)) for n in range(4)]
    store.add([*crowd, record(9, vectors=rows(axis(1)))], model=MODEL)

    assert nearest_ids(store, axis(0), limit=5) == [id_of(n) for n in (0, 1, 2, 3, 9)]


def test_semantic_scores_are_those_of_the_retriever_without_memories_that_have_no_vector(store: Store):
    store.add([embedded(number) for number in range(20)], model=MODEL)
    store.add([record(20), record(21, vectors=rows(-vector(99)))], model=MODEL)
    everyone = keyword_ids(store, "note")
    found = scores_by_id(find_nearest(store, vector(99)))

    scores = semantic_scores(store, vector(99), everyone)

    assert (len(everyone), len(found)) == (22, 21)
    assert scores == {id: pytest.approx(score, abs=1e-6) for id, score in found.items()}
    assert set(first_vectors(store, everyone)) == set(found)


def test_a_memory_without_a_vector_is_found_by_the_keyword_retriever(store: Store):
    store.add([record(1)], model=None)

    assert (keyword_ids(store, "note"), nearest_ids(store, vector(1))) == ([id_of(1)], [])


# Models


def test_pitfall_11_vectors_of_another_model_of_the_same_dimension_are_never_mixed_in(store: Store):
    store.add([record(1, vectors=rows(axis(0)))], model=MODEL)
    store.add([record(2, vectors=rows(axis(0)))], model=OTHER)

    assert nearest_ids(store, axis(0), limit=10) == [id_of(1)]
    both = keyword_ids(store, "note", limit=10)
    assert set(both) == {id_of(1), id_of(2)}
    assert set(semantic_scores(store, axis(0), both)) == set(first_vectors(store, both)) == {id_of(1)}
    assert (store.model(), store.stats().vectors, store.stats().unembedded) == (MODEL, 1, 1)
    assert [one.id for one in store.unembedded(MODEL, limit=5)] == [id_of(2)]
    assert [one.id for one in store.unembedded(OTHER, limit=5)] == [id_of(1)]


def test_the_model_of_the_first_vectors_is_the_one_searched(store: Store):
    store.add([record(1)], model=MODEL)
    assert store.model() is None
    waiting = store.unembedded(MODEL, limit=5)
    store.attach([], model=OTHER)
    assert store.model() is None

    store.attach([Record(one, rows(axis(0))) for one in waiting], model=MODEL)

    assert store.model() == MODEL
    assert nearest_ids(store, axis(0)) == [id_of(1)]


def test_a_store_switches_to_another_model_only_when_every_memory_has_its_vector(store: Store):
    store.add([record(n, vectors=rows(axis(0)), session="a", project="p") for n in range(5)], model=MODEL)
    store.add([record(5)], model=None)
    assert store.switch_model(OTHER) is False
    assert store.model() == MODEL

    sizes = []
    while waiting := store.unembedded(OTHER, limit=4):
        sizes.append((store.count_unembedded(OTHER), len(waiting)))
        assert store.switch_model(OTHER) is False
        store.attach([Record(one, rows(axis(1), axis(2))) for one in waiting], model=OTHER)
        assert len(nearest_ids(store, axis(0))) == 5  # the old vectors serve until the last one is there

    assert sizes == [(6, 4), (2, 2)]
    assert store.switch_model(OTHER) is True
    assert (store.model(), store.stats().vectors, store.stats().unembedded) == (OTHER, 12, 0)
    assert [found.score for found in find_nearest(store, axis(0), limit=9)] == [pytest.approx(0.0)] * 6
    assert [found.score for found in find_nearest(store, axis(2), limit=9)] == [pytest.approx(1.0)] * 6
    assert len(nearest_ids(store, axis(2), Scope(project="p"))) == 5
    assert len(store.unembedded(MODEL, limit=9)) == 6


def test_a_store_switches_without_the_vectors_of_memories_that_the_model_refuses(store: Store):
    store.add([embedded(number) for number in range(3)], model=MODEL)
    attached = [Record(one, rows(axis(1))) for one in store.unembedded(OTHER, limit=9) if one.id != id_of(1)]
    store.attach(attached, model=OTHER)

    assert store.switch_model(OTHER, without=[id_of(0)]) is False
    assert store.switch_model(OTHER, without=[id_of(1), id_of(9)]) is True

    assert (store.model(), store.stats().unembedded) == (OTHER, 1)
    assert sorted(nearest_ids(store, axis(1))) == [id_of(0), id_of(2)]
    assert [one.id for one in store.unembedded(OTHER, limit=9)] == [id_of(1)]
    assert store.check() == []


def test_refusing_to_switch_leaves_a_store_without_vectors_without_a_model(store: Store):
    store.add([record(1)], model=None)

    assert store.switch_model(MODEL) is False
    assert store.model() is None


def test_a_store_can_switch_to_a_model_of_another_dimension_and_back(store: Store):
    small = Model("small", "1", 3, "fingerprint of small")
    store.add([embedded(number) for number in range(3)], model=MODEL)
    store.attach([Record(one, rows(unit([1, 2, 3]))) for one in store.unembedded(small, limit=9)], model=small)
    assert store.switch_model(small) is True
    assert len(nearest_ids(store, unit([3, 2, 1]))) == 3

    store.attach([Record(one, rows(axis(4))) for one in store.unembedded(MODEL, limit=9)], model=MODEL)

    assert store.switch_model(MODEL) is True
    assert [found.score for found in find_nearest(store, axis(4), limit=9)] == [pytest.approx(1.0)] * 3


def test_attaching_skips_memories_that_were_removed_or_have_a_vector_by_now(store: Store):
    store.add([record(1), record(2), record(3)], model=None)
    waiting = store.unembedded(MODEL, limit=9)
    assert {one.id for one in waiting} == {id_of(1), id_of(2), id_of(3)}
    store.remove([id_of(1)])
    store.attach([record(2, vectors=rows(axis(0)))], model=MODEL)

    store.attach([Record(one, rows(axis(1))) for one in waiting], model=MODEL)

    assert store.stats().vectors == 2
    assert nearest_ids(store, axis(0), limit=1) == [id_of(2)]
    assert nearest_ids(store, axis(1), limit=1) == [id_of(3)]


def test_vectors_of_the_wrong_length_are_refused_and_change_nothing(store: Store):
    store.add([embedded(1), record(2)], model=MODEL)
    before = everything(store)
    short = rows(unit([1, 2, 3]))

    with pytest.raises(Invalid, match=f"has {MODEL.dimension} "):
        store.add([embedded(3, session="new"), record(4, vectors=short)], model=MODEL)
    with pytest.raises(Invalid):
        store.update(record(1, "note changed", vectors=short), model=MODEL)
    with pytest.raises(Invalid):
        store.attach([record(2, vectors=short)], model=MODEL)

    assert everything(store) == before


def test_removing_and_moving_apply_to_vectors_of_a_model_that_is_not_searched_yet(store: Store):
    store.add([embedded(1, session="a"), embedded(2, session="a")], model=MODEL)
    store.attach([Record(one, rows(axis(0))) for one in store.unembedded(OTHER, limit=9)], model=OTHER)

    store.remove([id_of(1)])
    store.move_session("default", "a", project="p")
    store.switch_model(OTHER)

    assert nearest_ids(store, axis(0), Scope(project="p")) == [id_of(2)]
    assert store.stats().vectors == 1
