"""A recall on SQLite reads through one connection, in one snapshot, and at most five times."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from retentive.engine import Engine
from retentive.stores.sqlite import SqliteStore
from retentive.stores.sqlite.connections import Connections
from retentive.stores.sqlite.search import SqliteSearch
from tests.compass import Compass


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
        for name in ("keyword", "nearest", "neighbours", "scores", "vectors", "close"):
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

    def count(self, start: str) -> int:
        return sum(one.startswith(start) for _, statements in self.statements for one in statements)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(SqliteStore(tmp_path / "memories.db"), Compass()) as engine:
        engine.remember_many(
            {"text": f"at{at} turn {at} about the key", "session": "talk", "project": "home"} for at in range(0, 80, 2)
        )
        engine.remember("at5 the key is elsewhere", project="work")
        yield engine


@pytest.mark.parametrize("scope", [{}, {"project": "home"}, {"session": "talk", "only_session": True}])
def test_a_recall_makes_at_most_five_reads_on_one_connection_in_one_snapshot(
    engine: Engine, scope: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    engine.recall("at10 where is the key?", **scope)  # the vector index is loaded
    reads = Reads(monkeypatch)

    assert engine.recall("at12 where is the key?", **scope).hits

    # The saved tuning; then the search: its state and scope, and one read each for three of its methods.
    assert reads.names() == ["acquire", "acquire", "keyword", "nearest", "neighbours"]
    assert (reads.count("BEGIN"), reads.count("ROLLBACK")) == (1, 1)


def test_an_open_search_leaves_no_transaction_behind_when_it_fails(engine: Engine, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SqliteSearch, "nearest", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.recall("at10 where is the key?")

    store = engine.store
    assert isinstance(store, SqliteStore)
    assert [connection.in_transaction for connection in store._connections._idle] == [False]
