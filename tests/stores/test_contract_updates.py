"""What every store promises about changes of one memory at the same time, and about the text of its vectors."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from retentive.errors import VersionConflict
from retentive.models import Memory, Scope
from retentive.stores.base import Store
from retentive.stores.values import IdempotencyKey, Record
from tests.stores.build import (
    MODEL,
    NOW,
    OTHER,
    axis,
    embedded,
    everything,
    first_vectors,
    id_of,
    keyword_ids,
    memory,
    record,
    rows,
)

FIRST = id_of(1)


def stored(store: Store) -> Memory:
    [found] = store.get([FIRST])
    return found


# Fields


def test_an_update_changes_only_the_fields_that_it_names(store: Store):
    store.add([record(1, "apples", vectors=rows(axis(0)), session="a", importance=0.2)], model=MODEL)
    read_before = stored(store)
    store.update(Record(read_before._replace(text="pears"), rows(axis(1))), model=MODEL, fields=["text"])

    updated = store.update(Record(read_before._replace(importance=0.9)), model=None, fields=["importance"])

    assert updated == read_before._replace(text="pears", importance=0.9) == stored(store)
    assert (keyword_ids(store, "pears"), keyword_ids(store, "apples")) == ([FIRST], [])
    assert first_vectors(store, [FIRST])[FIRST] == pytest.approx(axis(1), abs=1e-3)


def test_an_update_after_a_move_of_its_session_leaves_the_memory_there(store: Store):
    store.add([embedded(1, session="a", project="p")], model=MODEL)
    read_before = stored(store)
    store.move_session("default", "a", project="q")

    updated = store.update(Record(read_before._replace(kind="semantic")), model=None, fields=["kind"])

    assert (updated.project, updated.kind) == ("q", "semantic")


def test_use_that_is_recorded_between_reading_and_changing_is_not_lost_and_changes_nothing_else(store: Store):
    store.add([embedded(1, "apples")], model=MODEL)
    read_before = stored(store)
    store.touch([FIRST], at=NOW)
    store.update(Record(read_before._replace(text="pears")), model=None)
    store.touch([FIRST], at=NOW + timedelta(hours=1))

    assert (stored(store).text, stored(store).access_count) == ("pears", 2)
    assert stored(store).accessed == NOW + timedelta(hours=1)


def test_of_changes_by_many_threads_to_different_fields_none_is_lost(store: Store):
    store.add([record(1, "start", vectors=rows(axis(0)), session="a")], model=MODEL)
    last = 12
    changes: dict[str, Callable[[int], Any]] = {
        "text": lambda n: f"text {n}",
        "importance": lambda n: n / 100,
        "metadata": lambda n: {"n": n},
        "source": lambda n: f"source {n}",
    }
    errors: list[BaseException] = []

    def work(field: str) -> None:
        try:
            for n in range(1, last + 1):
                read = stored(store)
                vectors = rows(axis(n)) if field == "text" else None
                new = Record(read._replace(**{field: changes[field](n)}), vectors)
                store.update(new, model=MODEL, fields=[field])
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(field,)) for field in changes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert {field: getattr(stored(store), field) for field in changes} == {
        field: value(last) for field, value in changes.items()
    }
    assert first_vectors(store, [FIRST])[FIRST] == pytest.approx(axis(last), abs=1e-3)
    assert keyword_ids(store, "text") == [FIRST]


# Versions


def test_every_change_gives_a_memory_another_version_and_use_does_not(store: Store):
    [first] = store.add([record(1, session="a", metadata={"a": [1.5, None]}, occurred=NOW)], model=None)
    store.touch([FIRST], at=NOW)
    assert stored(store).version == first.version

    versions = [first.version]
    for name, value in {"text": "pears", "importance": 0.7, "metadata": {"b": 1}, "occurred": None}.items():
        updated = store.update(Record(stored(store)._replace(**{name: value})), model=None, fields=[name])
        assert updated.version == stored(store).version
        versions.append(updated.version)
    store.move_session("default", "a", project="p")
    versions.append(stored(store).version)

    assert len(set(versions)) == len(versions)


def test_an_update_of_another_version_than_expected_is_a_conflict_that_changes_nothing(store: Store):
    [first] = store.add([embedded(1)], model=MODEL)
    key = IdempotencyKey("key", "print", NOW)
    changed = Record(first._replace(importance=0.9))
    second = store.update(changed, model=None, fields=["importance"], if_version=first.version, idempotency_key=key)
    before = everything(store)

    with pytest.raises(VersionConflict, match=f"{FIRST} has changed since it was read, its version is now"):
        store.update(Record(memory(1, "late")), model=None, if_version=first.version)

    assert everything(store) == before
    again = store.update(changed, model=None, fields=["importance"], if_version=first.version, idempotency_key=key)
    assert again == second
    assert store.update(Record(memory(1, "late")), model=None, if_version=second.version).text == "late"


def test_a_removal_of_another_version_than_expected_is_a_conflict_that_changes_nothing(store: Store):
    [first] = store.add([embedded(1)], model=MODEL)
    second = store.update(Record(first._replace(importance=0.9)), model=None, fields=["importance"])
    key, before = IdempotencyKey("key", "print", NOW), everything(store)

    with pytest.raises(VersionConflict, match=f"{FIRST} has changed since it was read, its version is now"):
        store.remove([FIRST], if_version=first.version, idempotency_key=key)

    assert everything(store) == before
    assert store.remove([FIRST], within=Scope("other"), if_version=first.version) == []
    for _ in range(2):  # the second is answered by the key
        assert store.remove([FIRST], if_version=second.version, idempotency_key=key) == [FIRST]
    assert store.get([FIRST]) == []
    assert store.remove([FIRST], if_version=second.version) == []


# Vectors and their text


def test_vectors_of_a_text_that_is_not_the_one_that_comes_out_are_not_stored(store: Store):
    store.add([record(1, "apples", vectors=rows(axis(0)), speaker="Ana")], model=MODEL)
    read_before = stored(store)
    store.update(Record(read_before._replace(speaker="Bo"), rows(axis(1))), model=MODEL, fields=["speaker"])

    updated = store.update(
        Record(read_before._replace(text="pears"), rows(axis(2))), model=MODEL, fields=["text"]
    )  # the vectors are of "Ana: pears"

    assert updated.indexed_text == "Bo: pears"
    assert (first_vectors(store, [FIRST]), [one.id for one in store.unembedded(MODEL, limit=5)]) == ({}, [FIRST])
    assert (keyword_ids(store, "ana"), keyword_ids(store, "bo")) == ([], [FIRST])


def test_vectors_of_a_former_text_are_not_attached(store: Store):
    store.add([record(1, "apples"), record(2, "plums"), record(3, "figs")], model=None)
    store.add([embedded(9)], model=MODEL)
    waiting = store.unembedded(OTHER, limit=9)
    store.update(record(1, "pears"), model=None)
    store.remove([id_of(3)])

    attached = store.attach([Record(one, rows(axis(0))) for one in waiting], model=OTHER)

    assert attached == 2
    assert [one.text for one in store.unembedded(OTHER, limit=9)] == ["pears"]
    assert store.attach([Record(one, rows(axis(1))) for one in store.unembedded(OTHER, limit=9)], model=OTHER) == 1
    assert store.switch_model(OTHER) is True
    assert first_vectors(store, [FIRST])[FIRST] == pytest.approx(axis(1), abs=1e-3)


def test_a_change_of_the_text_removes_vectors_of_every_model(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)
    store.attach([Record(one, rows(axis(0))) for one in store.unembedded(OTHER, limit=9)], model=OTHER)

    store.update(record(1, "changed", vectors=rows(axis(3))), model=MODEL, fields=["text"])

    assert [one.id for one in store.unembedded(OTHER, limit=9)] == [FIRST]
    assert store.count_unembedded(MODEL) == 0


def test_a_vector_of_another_text_is_found_and_removed(store: Store):
    store.add([embedded(1), embedded(2)], model=MODEL)
    store.add([record(3)], model=None)
    store.update(record(2, "changed", vectors=rows(axis(3))), model=MODEL)
    assert (store.check(), store.remove_stale_vectors()) == ([], 0)

    set_text_hash(store, id_of(2), "00" * 16)

    assert store.check() == ["1 memory has a vector of another text; run: retentive doctor --repair"]
    assert store.remove_stale_vectors() == 1
    assert {one.id for one in store.unembedded(MODEL, limit=9)} == {id_of(2), id_of(3)}
    assert set(first_vectors(store, [FIRST, id_of(2)])) == {FIRST}


def test_a_vector_without_a_hash_of_its_text_is_taken_to_be_right(store: Store):
    store.add([embedded(1)], model=MODEL)
    set_text_hash(store, FIRST, None)

    assert (store.check(), store.remove_stale_vectors()) == ([], 0)
    store.update(Record(stored(store)._replace(kind="identity")), model=None, fields=["kind"])
    assert (store.check(), len(first_vectors(store, [FIRST]))) == ([], 1)


def set_text_hash(store: Any, id: str, text_hash: str | None) -> None:
    """Change the hash that is stored with the vectors of a memory, behind the back of the store."""
    value = None if text_hash is None else bytes.fromhex(text_hash)
    kind = type(store).__name__
    if kind == "SqliteStore":
        with store._connections.write() as connection:
            connection.execute(
                "UPDATE vectors SET text_hash = ? WHERE memory = (SELECT key FROM memories WHERE id = ?)", (value, id)
            )
    elif kind == "PostgresStore":
        statement = "UPDATE vectors SET text_hash = %s WHERE memory = (SELECT key FROM memories WHERE id = %s)"
        store._connections.write(lambda connection: connection.execute(statement, (value, id)) and None)
    else:
        store.entries[id] = replace(store.entries[id], text_hash=text_hash)
