from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from retentive.errors import Invalid, NotFound
from retentive.pipeline.tuning_history import LONGEST, history, kept_parameters, turn, undo
from retentive.stores import open_store
from retentive.stores.in_memory import InMemoryStore
from tests.conftest import NOW


def test_every_change_is_remembered_with_who_made_it_newest_first():
    store = InMemoryStore()
    turn(store, {"keywordWeight": 2}, by="ana", now=NOW)
    turn(store, {"keyword_weight": 3, "rrf-k": 5}, by="bo", now=NOW)

    newest, oldest = history(store)

    assert (oldest.id, oldest.by, oldest.before, oldest.after) == (1, "ana", {}, {"keyword_weight": 2.0})
    assert (newest.id, newest.by, newest.at) == (2, "bo", NOW)
    assert newest.after == {"keyword_weight": 3.0, "rrf_k": 5.0} == kept_parameters(store)


def test_a_change_can_be_undone_and_so_can_that():
    store = InMemoryStore()
    turn(store, {"keyword_weight": 2}, by="", now=NOW)
    turn(store, {"fusion": "rrf"}, by="", now=NOW)

    undo(store, by="", now=NOW)
    assert kept_parameters(store) == {"keyword_weight": 2.0}
    undo(store, by="", now=NOW)
    assert kept_parameters(store) == {"keyword_weight": 2.0, "fusion": "rrf"}
    undo(store, 1, by="", now=NOW)
    assert kept_parameters(store) == {}
    assert [change.id for change in history(store)] == [5, 4, 3, 2, 1]


def test_what_changes_nothing_leaves_no_trace():
    store = InMemoryStore()
    turn(store, {"keyword_weight": 2}, by="", now=NOW)
    turn(store, {"keywordWeight": 2.0, "fusion": None}, by="", now=NOW)

    assert len(history(store)) == 1


def test_a_change_that_is_sent_again_is_not_made_again_whatever_came_after_it():
    store = InMemoryStore()
    turn(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")
    turn(store, {"rrf_k": 3}, by="", now=NOW)
    turn(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")
    assert kept_parameters(store) == {"rrf_k": 3.0}

    undo(store, by="", now=NOW, idempotency_key="b")
    undo(store, by="", now=NOW, idempotency_key="b")
    assert kept_parameters(store) == {"rrf_k": 2.0}


def test_a_parameter_that_is_wrong_changes_nothing():
    store = InMemoryStore()
    turn(store, {"keyword_weight": 2}, by="", now=NOW)

    for wrong in ({"keyword_weight": 99}, {"keywordWeights": 1}, {"rrf_k": 5, "fusion": "best"}):
        with pytest.raises(Invalid):
            turn(store, wrong, by="", now=NOW)

    assert kept_parameters(store) == {"keyword_weight": 2.0}
    assert len(history(store)) == 1


def test_there_is_nothing_to_undo_at_first_nor_by_a_wrong_number():
    with pytest.raises(NotFound, match="no change to undo"):
        undo(InMemoryStore(), by="", now=NOW)
    with pytest.raises(NotFound, match="no change 7"):
        undo(InMemoryStore(), 7, by="", now=NOW)


def test_the_history_is_as_long_as_it_needs_to_be_and_its_numbers_go_on():
    store = InMemoryStore()
    for number in range(LONGEST + 5):
        turn(store, {"rrf_k": 1 + number % 2}, by="", now=NOW)

    assert len(history(store)) == LONGEST
    assert history(store)[0].id == LONGEST + 5


def test_parameters_turned_at_the_same_moment_are_all_kept(tmp_path):
    parameters = [
        {"rrf_k": 7},
        {"keyword_weight": 2},
        {"session_weight": 1},
        {"decay": True},
        {"rerank": 5},
        {"dedup": False},
    ]
    stores = [open_store(str(tmp_path / "store.db")) for _ in parameters]

    with ThreadPoolExecutor(len(parameters)) as threads:
        list(threads.map(lambda store, turned: turn(store, turned, by="", now=NOW), stores, parameters))

    assert kept_parameters(stores[0]).keys() == {name for turned in parameters for name in turned}
    assert len(history(stores[0])) == len(parameters)
    for store in stores:
        store.close()
