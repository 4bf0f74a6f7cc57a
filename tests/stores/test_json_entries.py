"""Typed values in key-value entries, and transactions over several of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import pytest
from pydantic import Field

from retentive.errors import Conflict
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.json_entries import FIRST_PAUSE, MAX_PAUSE, JsonEntries, Transaction, transact


@dataclass(frozen=True)
class Note:
    text: str
    at: datetime | None = None
    ids: tuple[str, ...] = ()
    digest: Annotated[str | None, Field(alias="print")] = None


NOTES = JsonEntries[Note]("note/", Note)
COUNT = JsonEntries[int]("count", int)
WHOLE = Note("grüße \udcff", datetime(2026, 5, 8, tzinfo=UTC), ("a", "b"), "x")


@pytest.fixture
def store() -> Store:
    return open_store("memory://")


def put(store: Store, **notes: Note) -> None:
    transaction = Transaction(store)
    for key, note in notes.items():
        transaction.set(NOTES, note, key)
    assert transaction.commit()


def test_a_value_is_read_as_it_was_written_under_its_stored_names(store):
    put(store, a=WHOLE)

    assert NOTES.get(store, "a") == WHOLE
    assert NOTES.get(store, "b") is None
    assert '"print": "x"' in (store.get_value("note/a") or "")


def test_unknown_keys_are_ignored_and_missing_ones_have_their_defaults(store):
    store.compare_and_set({"note/a": '{"text": "x", "later": 1}'})

    assert NOTES.get(store, "a") == Note("x")


def test_a_value_that_is_not_valid_is_a_value_error(store):
    store.compare_and_set({"note/a": '{"text": 3}'})

    with pytest.raises(ValueError, match="text"):
        NOTES.get(store, "a")


def test_entries_are_listed_by_their_keys(store):
    put(store, a1=Note("1"), a2=Note("2"), b=Note("3"))
    store.compare_and_set({"other": "1"})

    assert {key: note.text for key, note in NOTES.list(store).items()} == {"a1": "1", "a2": "2", "b": "3"}
    assert list(NOTES.list(store, "a")) == ["a1", "a2"]


def test_a_transaction_changes_nothing_if_what_it_read_has_changed(store):
    put(store, a=Note("1"))
    transaction = Transaction(store)
    assert transaction.get(NOTES, "a") == Note("1")
    put(store, a=Note("2"))

    transaction.set(NOTES, Note("3"), "a")
    transaction.set(NOTES, Note("4"), "b")

    assert not transaction.commit()
    assert NOTES.list(store) == {"a": Note("2")}


def test_an_entry_is_created_only_if_it_does_not_exist_and_none_deletes_it(store):
    first, second, third = Transaction(store), Transaction(store), Transaction(store)
    first.create(NOTES, Note("1"), "a")
    second.create(NOTES, Note("2"), "a")
    third.set(NOTES, None, "a")

    assert (first.commit(), second.commit()) == (True, False)
    assert NOTES.get(store, "a") == Note("1")
    assert third.commit()
    assert store.list_values("") == {}


def test_a_change_is_made_again_if_another_process_interfered(store):
    store.compare_and_set({"count": "1"})

    def increment(transaction: Transaction) -> int:
        count = (transaction.get(COUNT) or 0) + 1
        if count == 2:
            store.compare_and_set({"count": "10"})
        transaction.set(COUNT, count)
        return count

    assert (transact(store, increment), COUNT.get(store)) == (11, 11)


def test_a_change_waits_longer_before_each_further_try_up_to_a_bound(store):
    pauses: list[float] = []
    interfering = iter(range(25))

    def change(transaction: Transaction) -> int:
        count = transaction.get(COUNT) or 0
        if next(interfering, None) is not None:
            store.compare_and_set({"count": str(count + 1)})
        transaction.set(COUNT, -1)
        return count

    assert (transact(store, change, pause=pauses.append), COUNT.get(store)) == (25, -1)
    bounds = [min(FIRST_PAUSE * 2**number, MAX_PAUSE) for number in range(1, 26)]
    assert len(pauses) == 25
    assert all(0 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))
    assert max(pauses[10:]) > max(pauses[:3])


def test_a_change_that_is_always_interfered_with_is_a_conflict(store):
    tries = 0

    def change(transaction: Transaction) -> None:
        nonlocal tries
        tries += 1
        count = transaction.get(COUNT) or 0
        store.compare_and_set({"count": str(count + 1)})
        transaction.set(COUNT, 0)

    with pytest.raises(Conflict, match="other processes"):
        transact(store, change, tries=7, pause=lambda seconds: None)
    assert tries == 7
