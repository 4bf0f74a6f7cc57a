"""SQLite stores opened for a test, and a look whether a memory is complete in one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from retentive.stores.sqlite import SqliteStore
from tests.stores.build import (
    id_of,
    keyword_ids,
    nearest_ids,
    vector,
)


@contextmanager
def opened(path: str, *, busy_seconds: float = 60) -> Iterator[SqliteStore]:
    store = SqliteStore(path, busy_seconds=busy_seconds)
    try:
        yield store
    finally:
        store.close()


def finds(store: SqliteStore, number: int) -> tuple[bool, bool, bool]:
    """Whether a memory is found by its id, by a term that only it has, and by its vector."""
    id = id_of(number)
    return (
        [one.id for one in store.get([id])] == [id],
        keyword_ids(store, f"number{number}") == [id],
        nearest_ids(store, vector(number), limit=1) == [id],
    )


EVERYWHERE = (True, True, True)
