"""What every store promises about key-value entries."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from retentive.stores.base import Store


def test_an_entry_is_written_changed_and_deleted(store: Store):
    store.compare_and_set({"tuning": '{"rrf_k": 10}'})
    store.compare_and_set({"other": "ü"})
    store.compare_and_set({"tuning": "{}"})
    assert (store.get_value("tuning"), store.get_value("other")) == ("{}", "ü")

    store.compare_and_set({"tuning": None})
    store.compare_and_set({"tuning": None})

    assert (store.get_value("tuning"), store.get_value("other")) == (None, "ü")


def test_entries_are_listed_by_the_prefix_of_their_names(store: Store):
    store.compare_and_set({"token/b": "2", "token/a": "1", "token": "no", "tokenless": "no", "to%en/": "no"})

    assert list(store.list_values("token/").items()) == [("token/a", "1"), ("token/b", "2")]
    assert store.list_values("t_ken/") == store.list_values("%") == {}


def test_changes_are_written_together_or_not_at_all(store: Store):
    store.compare_and_set({"a": "1", "b": "1"})

    assert not store.compare_and_set({"a": "2", "b": "2"}, expected={"a": "1", "b": "another"})
    assert not store.compare_and_set({"c": "2"}, expected={"a": None})
    assert (store.get_value("a"), store.get_value("b"), store.get_value("c")) == ("1", "1", None)

    assert store.compare_and_set({"a": "2", "b": None, "c": "2"}, expected={"a": "1", "c": None})
    assert (store.get_value("a"), store.get_value("b"), store.get_value("c")) == ("2", None, "2")


def test_of_many_threads_that_expect_the_same_value_only_one_writes(store: Store):
    with ThreadPoolExecutor(8) as threads:
        kept = list(threads.map(lambda n: store.compare_and_set({"a": str(n)}, expected={"a": None}), range(8)))

    assert kept.count(True) == 1
    assert store.get_value("a") == str(kept.index(True))
