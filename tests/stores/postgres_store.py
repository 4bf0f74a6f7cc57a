"""PostgreSQL stores for tests, and a look at what is behind them: statements, statistics and transactions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from retentive.models import Scope
from retentive.stores.postgres import PostgresStore, connections
from retentive.stores.postgres.connections import execute_on
from retentive.stores.postgres.search_stats import SearchStats, read_search_stats
from tests.stores.build import HERE


@contextmanager
def opened(address: str) -> Iterator[PostgresStore]:
    store = PostgresStore(address)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def connected(address: str) -> Iterator[psycopg.Connection]:
    """A connection of another program, which uses our schema."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SET search_path = retentive, public")
        yield connection


def fetch(store: PostgresStore, statement: str) -> list[tuple[Any, ...]]:
    """Return the rows of a statement on a connection of the store."""
    return store._connections.fetch(statement.encode())


def stats_of(store: PostgresStore, text: str = "", scope: Scope = HERE) -> SearchStats:
    """Return the statistics that a search would read."""
    return store._connections.read(lambda connection: read_search_stats(execute_on(connection), scope, text))


def has_index(store: PostgresStore) -> bool:
    """Whether the active model has an HNSW index that searches use."""
    active = stats_of(store).active
    return active is not None and active.indexed


@contextmanager
def statements(monkeypatch: pytest.MonkeyPatch, part: bytes) -> Iterator[list[tuple[str, Any]]]:
    """Collect the text and the parameters of every statement of a search with this part that is sent meanwhile."""
    sent: list[tuple[str, Any]] = []
    execute = connections._execute_in_snapshot

    def noted(connection: Any, statement: bytes, parameters: Any) -> Any:
        if part in statement:
            sent.append((statement.decode(), parameters))
        return execute(connection, statement, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(connections, "_execute_in_snapshot", noted)
        yield sent


def until(condition: Callable[[], bool]) -> None:
    """Wait; the time limit of the test ends a wait that is in vain."""
    while not condition():
        time.sleep(0.02)


def open_transactions(address: str) -> int:
    """Return how many connections of stores to this database are in a transaction."""
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name = 'retentive' AND xact_start IS NOT NULL"
        ).fetchone()
    assert row is not None
    return int(row[0])
