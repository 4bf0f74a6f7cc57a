from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.pipeline.tuning_history import MAX_HISTORY, history, save_parameters, saved_parameters, undo_change
from retentive.settings import Settings
from retentive.stores import open_store
from retentive.stores.in_memory import InMemoryStore
from tests.conftest import NOW


def test_every_change_is_remembered_with_who_made_it_newest_first():
    store = InMemoryStore()
    save_parameters(store, {"keywordWeight": 2}, by="ana", now=NOW)
    save_parameters(store, {"keyword_weight": 3, "rrf-k": 5}, by="bo", now=NOW)

    newest, oldest = history(store)

    assert (oldest.id, oldest.by, oldest.before, oldest.after) == (1, "ana", {}, {"keyword_weight": 2.0})
    assert (newest.id, newest.by, newest.at) == (2, "bo", NOW)
    assert newest.after == {"keyword_weight": 3.0, "rrf_k": 5.0} == saved_parameters(store)


def test_parameters_that_an_earlier_version_has_saved_are_read_by_their_present_names(caplog):
    store = InMemoryStore()
    saved = {"match_least": 3.0, "rrf_k": 5.0, "rank_base": 0, "pool_factor": 4, "keyword_weight": 2.0}
    store.compare_and_set({"tuning": json.dumps(saved)})

    with Engine(store, settings=Settings(store="")) as engine:
        tuning = engine.tuning.current()
        assert (tuning.min_match, tuning.rrf_k, tuning.keyword_weight) == (3.0, 4.0, 2.0)
        engine.tuning.save({"min_match": None})
        assert engine.tuning.saved() == {"rrf_k": 4.0, "keyword_weight": 2.0}
    assert "'match_least'; it is called 'min_match' now" in caplog.text


def test_a_change_can_be_undone_and_so_can_that():
    store = InMemoryStore()
    save_parameters(store, {"keyword_weight": 2}, by="", now=NOW)
    save_parameters(store, {"fusion": "rrf"}, by="", now=NOW)

    undo_change(store, by="", now=NOW)
    assert saved_parameters(store) == {"keyword_weight": 2.0}
    undo_change(store, by="", now=NOW)
    assert saved_parameters(store) == {"keyword_weight": 2.0, "fusion": "rrf"}
    undo_change(store, 1, by="", now=NOW)
    assert saved_parameters(store) == {}
    assert [change.id for change in history(store)] == [5, 4, 3, 2, 1]


def test_an_undo_sees_a_change_that_another_process_makes_at_the_same_time():
    class OvertakenStore(InMemoryStore):
        """Another process saves a parameter just before the first write after `overtaking` is set."""

        overtaking = False

        def compare_and_set(self, *given, **options):
            if self.overtaking:
                self.overtaking = False
                save_parameters(self, {"rrf_k": 7}, by="other", now=NOW)
            return super().compare_and_set(*given, **options)

    store = OvertakenStore()
    save_parameters(store, {"keyword_weight": 2}, by="", now=NOW)
    store.overtaking = True

    undo_change(store, by="", now=NOW)

    newest, other, _ = history(store)
    assert (newest.before, newest.after) == (other.after, other.before)
    assert saved_parameters(store) == {"keyword_weight": 2.0}


def test_what_changes_nothing_leaves_no_trace():
    store = InMemoryStore()
    save_parameters(store, {"keyword_weight": 2}, by="", now=NOW)
    save_parameters(store, {"keywordWeight": 2.0, "fusion": None}, by="", now=NOW)

    assert len(history(store)) == 1


def test_a_change_that_is_sent_again_is_not_made_again_whatever_came_after_it():
    store = InMemoryStore()
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")
    save_parameters(store, {"rrf_k": 3}, by="", now=NOW)
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")
    assert saved_parameters(store) == {"rrf_k": 3.0}

    undo_change(store, by="", now=NOW, idempotency_key="b")
    undo_change(store, by="", now=NOW, idempotency_key="b")
    assert saved_parameters(store) == {"rrf_k": 2.0}


def test_a_request_that_changed_nothing_is_not_made_when_it_is_sent_again():
    store = InMemoryStore()
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW)
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")
    save_parameters(store, {"rrf_k": 3}, by="", now=NOW)
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")

    assert saved_parameters(store) == {"rrf_k": 3.0}


def test_a_request_with_the_names_of_its_parameters_in_another_spelling_is_the_same():
    store = InMemoryStore()
    save_parameters(store, {"rrfK": 2}, by="", now=NOW, idempotency_key="a")
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")

    assert len(history(store)) == 1


def test_the_idempotency_key_of_another_change_is_a_conflict_for_a_day():
    store = InMemoryStore()
    save_parameters(store, {"rrf_k": 2}, by="", now=NOW, idempotency_key="a")
    with pytest.raises(Conflict, match="for another request"):
        save_parameters(store, {"rrf_k": 3}, by="", now=NOW, idempotency_key="a")
    with pytest.raises(Conflict, match="for another request"):
        undo_change(store, by="", now=NOW, idempotency_key="a")
    assert saved_parameters(store) == {"rrf_k": 2.0}

    save_parameters(store, {"rrf_k": 3}, by="", now=NOW + timedelta(days=1, seconds=1), idempotency_key="a")
    assert saved_parameters(store) == {"rrf_k": 3.0}


def test_a_parameter_that_is_wrong_changes_nothing():
    store = InMemoryStore()
    save_parameters(store, {"keyword_weight": 2}, by="", now=NOW)

    for wrong in ({"keyword_weight": 99}, {"keywordWeights": 1}, {"nope": None}, {"rrf_k": 5, "fusion": "best"}):
        with pytest.raises(Invalid):
            save_parameters(store, wrong, by="", now=NOW)

    assert saved_parameters(store) == {"keyword_weight": 2.0}
    assert len(history(store)) == 1


def test_there_is_nothing_to_undo_at_first_nor_by_a_wrong_number():
    with pytest.raises(NotFound, match="no change to undo"):
        undo_change(InMemoryStore(), by="", now=NOW)
    with pytest.raises(NotFound, match="no change 7"):
        undo_change(InMemoryStore(), 7, by="", now=NOW)


def test_the_history_is_as_long_as_it_needs_to_be_and_its_numbers_go_on():
    store = InMemoryStore()
    for number in range(MAX_HISTORY + 5):
        save_parameters(store, {"rrf_k": 1 + number % 2}, by="", now=NOW)

    assert len(history(store)) == MAX_HISTORY
    assert history(store)[0].id == MAX_HISTORY + 5


def test_parameters_turned_at_the_same_moment_are_all_kept(tmp_path):
    parameters = [
        {"rrf_k": 7},
        {"keyword_weight": 2},
        {"session_weight": 1},
        {"decay": True},
        {"judge_depth": 5},
        {"dedup": False},
    ]
    stores = [open_store(str(tmp_path / "store.db")) for _ in parameters]

    with ThreadPoolExecutor(len(parameters)) as threads:
        list(threads.map(lambda store, turned: save_parameters(store, turned, by="", now=NOW), stores, parameters))

    assert saved_parameters(stores[0]).keys() == {name for turned in parameters for name in turned}
    assert len(history(stores[0])) == len(parameters)
    for store in stores:
        store.close()
