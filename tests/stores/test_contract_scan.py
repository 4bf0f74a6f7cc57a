"""What every store promises about a scan of everything in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.values import Record
from tests.stores.build import (
    MODEL,
    NOW,
    OTHER,
    axis,
    embedded,
    everything,
    id_of,
    record,
    rows,
    scoped_memories,
)


def scanned(store: Store, *, limit: int) -> list[Record]:
    found, cursor = [], None
    while True:
        page = store.scan(cursor=cursor, limit=limit)
        assert len(page.records) <= limit
        found += page.records
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_a_scan_returns_every_memory_of_every_profile_once_with_all_its_vectors(store: Store):
    given = [
        record(1, vectors=rows(axis(0), axis(1)), session="a", project="p", access_count=3, accessed=NOW),
        embedded(2, profile="elsewhere", metadata={"n": 1}, evergreen=True),
        record(3, profile="elsewhere", session="b", position=7),
        embedded(4),
        embedded(5),
    ]
    stored = store.add(given, model=MODEL)
    store.attach([record(5, vectors=rows(axis(9)))], model=OTHER)

    for limit in (1, 2, 5, 50):
        found = {one.memory.id: one for one in scanned(store, limit=limit)}

        assert len(found) == 5
        assert [found[one.id].memory for one in stored] == stored
        assert {id: len(one.vectors) for id, one in found.items() if one.vectors is not None} == {
            id_of(1): 2, id_of(2): 1, id_of(4): 1, id_of(5): 1
        }  # fmt: skip
        assert found[id_of(1)].vectors == pytest.approx(rows(axis(0), axis(1)), abs=1e-3)


def test_a_scan_continues_after_its_cursor_when_memories_are_added_and_removed_meanwhile(store: Store):
    store.add([record(number) for number in range(6)], model=None)
    first = store.scan(limit=2)
    seen = [one.memory.id for one in first.records]

    store.remove([seen[-1]])
    store.add([record(9)], model=None)
    cursor = first.next_cursor
    while cursor is not None:
        page = store.scan(cursor=cursor, limit=2)
        seen += [one.memory.id for one in page.records]
        cursor = page.next_cursor

    assert len(seen) == len(set(seen))
    assert {id_of(number) for number in range(6)} <= set(seen)


def test_a_scan_of_an_empty_store_returns_nothing(store: Store):
    page = store.scan()

    assert (list(page.records), page.next_cursor, list(page.damaged)) == ([], None, [])


def test_the_records_of_a_scan_make_an_equal_store_elsewhere(store: Store):
    store.add(scoped_memories(), model=MODEL)
    store.add([record(900, session="a", profile="ada")], model=None)
    store.touch([id_of(3)], at=NOW)
    copy = InMemoryStore()

    for one in scanned(store, limit=7):
        copy.add([one], model=MODEL)

    assert everything(copy, "ada", "bob") == everything(store, "ada", "bob")
    assert replace(copy.stats(), bytes=0) == replace(store.stats(), bytes=0)
