"""Postings that a process keeps of the keyword index are those of the snapshot of each search."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from retentive.models import Scope
from retentive.stores.base import Store
from retentive.stores.sqlite import SqliteStore, memory_table
from retentive.stores.sqlite import search as sqlite_search
from retentive.stores.values import Record
from retentive.text import bm25
from tests.stores.build import NOW, Meanwhile, find_keyword, id_of, make_query, memory, record, search

WORDS = ("tea", "milk", "sugar", "cup", "spoon", "kettle", "biscuit")
SCOPES = (Scope(), Scope(sessions=("a",), only_sessions=True), Scope(project="home"), Scope(kinds=("semantic",)))


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[SqliteStore, SqliteStore]]:
    """Two stores on one file, as in two processes. Scopes of a few memories are searched through the index."""
    monkeypatch.setattr(sqlite_search, "MAX_READ", 2)
    monkeypatch.setattr(bm25, "MIN_SCORED", 2)
    path = tmp_path / "memories.db"
    with closing(SqliteStore(path)) as one, closing(SqliteStore(path)) as other:
        yield one, other


def found(store: Store, text: str, scope: Scope = SCOPES[1]) -> list[tuple[str, float]]:
    """The ids and scores of a keyword search."""
    return [(one.memory.id, one.score) for one in find_keyword(store, text, scope)]


def texts(number: int, chosen: random.Random) -> str:
    return " ".join(chosen.choices(WORDS, k=4)) + f" number{number}"


def test_a_store_finds_what_one_without_any_postings_finds_whatever_is_written(stores, tmp_path):
    one, other = stores
    chosen = random.Random(3)
    added = 0
    for turn in range(40):
        writer = chosen.choice(stores)
        known = range(1, added + 1)
        if turn < 5 or chosen.random() < 0.5:
            numbers = range(added + 1, added + 1 + chosen.randrange(1, 6))
            added = numbers[-1]
            kinds, homes = ("episodic", "semantic"), ((None, None), ("a", None), ("b", "home"))
            fields = {number: chosen.choice(homes) for number in numbers}
            writer.add(
                [
                    record(n, texts(n, chosen), session=fields[n][0], project=fields[n][1], kind=chosen.choice(kinds))
                    for n in numbers
                ],
                model=None,
            )
        elif chosen.random() < 0.5:
            writer.remove([id_of(chosen.choice(known))])
        elif stored := writer.get([id_of(chosen.choice(known))]):
            changed = memory(0, texts(turn, chosen))._replace(id=stored[0].id)
            writer.update(Record(changed), model=None, fields=("text",))
        writer.touch([id_of(chosen.choice(known or (1,)))], at=NOW)
        asked = " ".join(chosen.sample(WORDS, 2))
        with closing(SqliteStore(tmp_path / "memories.db")) as fresh:
            for scope in SCOPES:
                assert found(one, asked, scope) == found(other, asked, scope) == found(fresh, asked, scope)


def test_a_search_in_an_earlier_snapshot_has_the_postings_of_that(stores):
    one, other = stores
    one.add([record(number, "green tea", session="a") for number in range(1, 5)], model=None)
    before = found(one, "tea")

    def earlier(change: Callable[[], object]) -> dict[str, float]:
        """What a search scores whose snapshot is before a change."""
        wait = Meanwhile(None, change)
        ids = [id_of(number) for number in range(1, 6)]
        query = make_query("tea", SCOPES[1])
        return dict(search(one, query, vector=wait, ids=ids, scores=True).scores["keyword"])

    def add() -> None:
        other.add([record(5, "tea again", session="a")], model=None)
        assert len(found(one, "tea")) == 5

    def remove() -> None:
        other.remove([id_of(1)])
        assert id_of(1) not in dict(found(one, "tea"))

    assert earlier(add) == dict(before)
    assert sorted(earlier(remove)) == [id_of(number) for number in range(1, 6)]
    assert sorted(dict(found(one, "tea"))) == [id_of(number) for number in range(2, 6)]


def test_only_new_postings_of_a_query_are_read(stores, monkeypatch):
    one, other = stores
    one.add([record(number, "green tea", session="a") for number in range(1, 5)], model=None)
    found(one, "tea")
    read: list[str] = []
    fetch = memory_table.fetch_json

    def noted(connection, statement, bindings):
        if statement in (memory_table._MATCHING, memory_table._MATCHING_SINCE):
            read.append(bindings[0])
        return fetch(connection, statement, bindings)

    monkeypatch.setattr(memory_table, "fetch_json", noted)
    found(one, "tea")
    assert read == []
    other.add([record(5, "tea again", session="a")], model=None)
    found(one, "tea")

    assert read
    assert all(", 5]" in queries for queries in read)


def test_postings_take_limited_memory(stores, monkeypatch):
    one, _ = stores
    one.add([record(number, " ".join(WORDS), session="a") for number in range(1, 5)], model=None)
    monkeypatch.setattr(memory_table, "CACHED_POSTINGS", 5 * 8)
    for word in WORDS:
        assert len(found(one, word)) == 4

    assert one._postings._bytes <= 5 * 8
    assert len(one._postings._cached) == 1


def test_a_repair_lets_readers_read_the_index_again(stores):
    one, other = stores
    one.add([record(number, "green tea", session="a") for number in range(1, 5)], model=None)
    found(one, "tea")
    state = other._connections
    with state.read() as connection:
        before = connection.execute("SELECT unindexed FROM state").get
    other.repair(at=NOW)
    with state.read() as connection:
        assert connection.execute("SELECT unindexed FROM state").get > before

    assert len(found(one, "tea")) == 4
