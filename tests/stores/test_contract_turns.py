"""What every store promises about vectors of a turn and the one before it."""

from __future__ import annotations

import pytest

from retentive.stores.base import Store
from retentive.stores.values import PreviousTurn, Record
from tests.stores.build import MODEL, OTHER, axis, id_of, memory, record, rows, semantic_scores

ALONE, TOGETHER = axis(0), axis(1)


@pytest.fixture
def stored(store: Store) -> Store:
    """A store with two turns, of which the second has a vector of both."""
    first = record(1, "Shall we meet on Friday?", session="s", vectors=rows(axis(2)))
    store.add([first], model=MODEL)
    store.add([answer(first.memory.text_hash)], model=MODEL)
    return store


def answer(text_hash: str, number: int = 2) -> Record:
    said = memory(number, "Yes, at noon", session="s")
    return Record(said, rows(ALONE, TOGETHER), PreviousTurn(id_of(1), text_hash))


def cosine(store: Store, vector, number: int = 2) -> float:
    return semantic_scores(store, vector, [id_of(number)])[id_of(number)]


def test_a_turn_is_found_by_itself_and_with_the_one_before_it(stored: Store):
    assert (cosine(stored, ALONE), cosine(stored, TOGETHER)) == (pytest.approx(1), pytest.approx(1))
    [_, second] = sorted(stored.scan().records, key=lambda one: one.memory.id)
    assert (second.previous.id, len(second.vectors)) == (id_of(1), 2)


def test_the_turn_before_is_found_by_position_or_is_the_last(stored: Store):
    first, second = stored.get([id_of(1), id_of(2)])
    new = memory(3, session="s")

    asked = [first, second, new, new._replace(position=1), new._replace(session="t"), new._replace(session=None)]

    assert stored.previous(asked) == [None, first, second, first, None, None]


def test_a_vector_goes_with_the_turn_whose_text_it_contains(stored: Store):
    stored.remove([id_of(1)])

    assert (cosine(stored, ALONE), cosine(stored, TOGETHER)) == (pytest.approx(1), pytest.approx(0, abs=1e-3))
    assert [(one.previous, len(one.vectors)) for one in stored.scan().records] == [(None, 1)]
    assert stored.check() == []


def test_a_vector_goes_when_the_text_of_the_turn_before_changes(stored: Store):
    [first] = stored.get([id_of(1)])
    stored.update(Record(first._replace(importance=0.9)), model=MODEL, fields={"importance"})
    assert cosine(stored, TOGETHER) == pytest.approx(1)

    stored.update(Record(first._replace(text="Shall we meet on Monday?")), model=MODEL, fields={"text"})

    assert (cosine(stored, ALONE), cosine(stored, TOGETHER)) == (pytest.approx(1), pytest.approx(0, abs=1e-3))
    assert stored.check() == []


def test_every_store_leaves_out_a_vector_of_a_turn_that_it_does_not_have(store: Store):
    store.add([answer("00" * 32)], model=MODEL)

    assert (cosine(store, ALONE), cosine(store, TOGETHER)) == (pytest.approx(1), pytest.approx(0, abs=1e-3))


def test_a_vector_of_a_text_that_the_turn_before_no_longer_has_is_not_stored(stored: Store):
    stored.add([answer("00" * 32, 3)], model=MODEL)
    [second] = stored.get([id_of(2)])
    stored.attach([Record(second, rows(ALONE, TOGETHER), PreviousTurn(id_of(9), "00" * 32))], model=OTHER)

    assert (cosine(stored, ALONE, 3), cosine(stored, TOGETHER, 3)) == (pytest.approx(1), pytest.approx(0, abs=1e-3))
    assert stored.switch_model(OTHER, without=[id_of(1), id_of(3)])
    assert cosine(stored, TOGETHER) == pytest.approx(0, abs=1e-3)


def test_turns_of_one_batch_refer_to_each_other(stored: Store):
    said = [memory(number, f"turn {number}", session="u") for number in (5, 6)]
    pair = PreviousTurn(said[0].id, said[0].text_hash)
    stored.add([Record(said[0], rows(axis(3))), Record(said[1], rows(ALONE, TOGETHER), pair)], model=MODEL)
    assert cosine(stored, TOGETHER, 6) == pytest.approx(1)

    stored.remove([id_of(5)])

    assert cosine(stored, TOGETHER, 6) == pytest.approx(0, abs=1e-3)


def test_the_turn_after_is_found_by_position(stored: Store):
    first, second = stored.get([id_of(1), id_of(2)])

    assert stored.following([first, second, memory(3, session="s"), memory(3)]) == [second, None, None, None]


def test_vectors_are_replaced_only_by_those_with_a_turn_that_they_were_not_made_with(stored: Store):
    [first] = stored.get([id_of(1)])
    stored.remove([id_of(1)])
    stored.add([Record(first, rows(axis(2)))], model=MODEL)
    [second] = stored.get([id_of(2)])

    assert stored.attach([Record(second, rows(axis(4)))], model=MODEL) == 0
    again = Record(second, rows(ALONE, axis(4)), PreviousTurn(first.id, first.text_hash))
    assert (stored.attach([again], model=MODEL), stored.attach([again], model=MODEL)) == (1, 0)

    assert (cosine(stored, ALONE), cosine(stored, axis(4))) == (pytest.approx(1), pytest.approx(1))
    assert cosine(stored, TOGETHER) == pytest.approx(0, abs=1e-3)


def only_together(text_hash: str) -> Record:
    said = memory(2, "Yes, at noon", session="s")
    return Record(said, rows(TOGETHER), PreviousTurn(id_of(1), text_hash))


@pytest.fixture
def paired(store: Store) -> Store:
    """A store with two turns, of which the second has only a vector of both."""
    first = record(1, "Shall we meet on Friday?", session="s", vectors=rows(axis(2)))
    store.add([first, only_together(first.memory.text_hash)], model=MODEL)
    return store


def test_a_turn_may_have_only_a_vector_with_the_one_before_it(paired: Store):
    assert (cosine(paired, ALONE), cosine(paired, TOGETHER)) == (pytest.approx(0, abs=1e-3), pytest.approx(1))
    assert paired.unembedded(MODEL, limit=10) == []


def test_a_turn_whose_only_vector_is_deleted_waits_to_be_embedded(paired: Store):
    [first, second] = paired.get([id_of(1), id_of(2)])

    paired.remove([first.id])

    assert paired.unembedded(MODEL, limit=10) == [second]
    assert paired.check() == []
    assert paired.attach([Record(second, rows(ALONE))], model=MODEL) == 1
    assert cosine(paired, ALONE) == pytest.approx(1)


def test_a_turn_waits_to_be_embedded_if_its_only_vector_contains_a_text_that_is_not_stored(store: Store):
    store.add([only_together("00" * 32)], model=MODEL)

    assert [one.id for one in store.unembedded(MODEL, limit=10)] == [id_of(2)]
    assert store.check() == []
