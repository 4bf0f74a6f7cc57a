"""A recall on SQLite reads through one connection, in one snapshot, and at most five times."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.models import Filter, Scope
from retentive.stores.sqlite import SqliteStore, memory_table
from retentive.stores.sqlite.connections import Connections
from retentive.stores.sqlite.search import SqliteSearch
from tests.compass import Compass
from tests.stores.build import id_of, keyword_ids, record


class Reads:
    """The statements of each read: one list for each connection taken or search method called."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.statements: list[tuple[str, list[str]]] = []
        acquire = Connections.acquire

        def traced(connections: Connections) -> apsw.Connection:
            connection = acquire(connections)
            connection.exec_trace = self._record
            self.statements.append(("acquire", []))
            return connection

        monkeypatch.setattr(Connections, "acquire", traced)
        for name in ("_keyword_candidates", "_nearest", "_neighbours", "_scores", "_vectors"):
            monkeypatch.setattr(SqliteSearch, name, self._marked(name, getattr(SqliteSearch, name)))

    def _record(self, _: Any, statement: str, __: Any) -> bool:
        self.statements[-1][1].append(" ".join(statement.split()))
        return True

    def _marked(self, name: str, method: Any) -> Any:
        def called(search: SqliteSearch, *arguments: Any, **options: Any) -> Any:
            self.statements.append((name, []))
            return method(search, *arguments, **options)

        return called

    def names(self) -> list[str]:
        return [name for name, statements in self.statements if any(one.startswith("SELECT") for one in statements)]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(SqliteStore(tmp_path / "memories.db"), Compass()) as engine:
        engine.remember_many(
            {"text": f"at{at} turn {at} about the key", "session": "talk", "project": "home"} for at in range(0, 80, 2)
        )
        engine.remember("at5 the key is elsewhere", project="work")
        yield engine


@pytest.mark.parametrize("scope", [{}, {"project": "home"}, {"session": "talk", "only_session": True}])
def test_a_recall_makes_at_most_five_reads_on_one_connection(
    engine: Engine, scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    engine.recall("at10 where is the key?", **scope)  # the vector index is loaded
    reads = Reads(monkeypatch)

    assert engine.recall("at12 where is the key?", **scope).hits

    # The saved tuning; then the search: its state and scope, and one read each for three of its methods.
    assert reads.names() == ["acquire", "acquire", "_keyword_candidates", "_nearest", "_neighbours"]


@pytest.mark.parametrize("scope", [{}, {"project": "home"}])
@pytest.mark.parametrize("bound", [{"since": "2020-01-01"}, {"until": "2090-01-01"}, {"as_of": "2090-01-01"}], ids=str)
def test_a_filter_of_time_reads_an_index_and_no_memory(
    engine: Engine, scope: dict[str, Any], bound: dict[str, str], monkeypatch: pytest.MonkeyPatch
):
    reads = Reads(monkeypatch)

    assert engine.recall("at12 where is the key?", **scope, **bound).hits

    name = {"as_of": "started_by"}.get(*bound, *bound)
    [statement] = [one for _, some in reads.statements for one in some if f":{name}" in one]
    with closing(apsw.Connection(engine.store.path)) as connection:
        names = dict.fromkeys(re.findall(r":(\w+)", statement))
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", names)]
    assert any("m USING COVERING INDEX memories_by_time" in step for step in plan), plan


def test_metadata_is_compared_as_json_however_it_is_written(tmp_path: Path):
    texts = {
        1: '{"topic": "car"}',
        2: '{"topic":"car"}',
        3: '{"other": 1,\n "topic" : "car"}',
        4: '{"x\\"topic": "car"}',
        5: '{"nested": {"topic": "car"}}',
        6: '{"note": "\\"topic\\": \\"car\\""}',
        7: '{"topic": "cars"}',
        8: 'not JSON, and yet "topic" and "car"',
        9: '{"topic": "car", "nested": {"a": 1}}',
    }
    with closing(SqliteStore(tmp_path / "memories.db")) as store:
        store.add([record(number, "tea", metadata={"a": 1}) for number in texts], model=None)
        with store._write() as connection:
            for number, text in texts.items():
                connection.execute("UPDATE memories SET metadata = ? WHERE id = ?", (text, id_of(number)))

        found = keyword_ids(store, "tea", filter=Filter(metadata=(("topic", "car"),)))

    assert sorted(found) == [id_of(number) for number in (1, 2, 3, 9)]


def test_an_open_search_leaves_no_transaction_behind_when_it_fails(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SqliteSearch, "_nearest", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.recall("at10 where is the key?")

    store = engine.store
    assert isinstance(store, SqliteStore)
    assert [connection.in_transaction for connection in store._connections._idle] == [False]


def test_of_a_memory_outside_the_scope_nothing_is_read_so_that_it_takes_as_long_as_none(tmp_path, monkeypatch):
    read: list[int] = []
    by_keys = memory_table.by_keys

    def counting(connection, keys, *rest):
        read.extend(wanted := list(keys))
        return by_keys(connection, wanted, *rest)

    with closing(SqliteStore(tmp_path / "store.db")) as store:
        store.add([record(1, "x" * 1_000_000, profile="theirs"), record(2, profile="mine")], model=None)
        monkeypatch.setattr(memory_table, "by_keys", counting)

        assert store.get([id_of(1)], within=Scope("mine")) == store.get([id_of(9)], within=Scope("mine")) == []
        assert read == []
        assert [memory.id for memory in store.get([id_of(1), id_of(2)], within=Scope("mine"))] == [id_of(2)]
        assert len(read) == 1


@pytest.fixture
def read_only_folder(tmp_path: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder, and a function that makes it a read-only medium: by a mount, or by permissions for ordinary users."""
    folder = tmp_path / "medium"
    folder.mkdir()
    mounted = os.geteuid() == 0
    if mounted:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)

    def protect() -> None:
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        else:
            for file in folder.iterdir():
                file.chmod(0o444)
            folder.chmod(0o555)

    yield folder, protect
    if mounted:
        subprocess.run(["umount", str(folder)], check=True)
    else:
        folder.chmod(0o755)


def test_a_store_on_a_read_only_medium_can_be_read(read_only_folder, model, caplog):
    folder, protect = read_only_folder
    with Engine(SqliteStore(folder / "a store.db"), model) as engine:
        stored = engine.remember("the cat eats at eight", session="s")
    protect()

    with Engine(SqliteStore(folder / "a store.db"), model) as engine:
        answer = engine.recall("when does the cat eat?")
        assert ([hit.id for hit in answer], answer.degraded) == ([stored.id], None)
        assert engine.get(stored.id) == stored
        assert (engine.stats().memories, engine.check()) == (1, [])
        with pytest.raises(Unavailable, match="can only be read here"):
            engine.remember("something else")
        with pytest.raises(Unavailable, match="can only be read here"):
            engine.forget(stored.id)
    assert caplog.text == ""
    assert [file.name for file in folder.iterdir()] == ["a store.db"]
