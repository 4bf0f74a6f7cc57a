"""Stores hold memories and retrieve candidates; they never rank. `open_store` opens one by its address."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

from retentive.errors import Invalid
from retentive.extras import needs_extra
from retentive.stores.base import Store


def open_store(address: str, *, busy_seconds: float = 60, create: bool = True, vectors: str | None = None) -> Store:
    """The store at an address: a file path or `sqlite:///path`, `memory://`, or `postgresql://…`.

    A store that does not exist is created, or `NotFound` is raised if `create` is False. A write waits `busy_seconds`
    for other processes that write, and then gives up. `vectors` is the address of an index of the store's vectors,
    `qdrant+http://host:6333/prefix` or `qdrant+https://…`.
    """
    if address in (":memory:", "sqlite:///:memory:", "sqlite://:memory:") or address.startswith("file::memory:"):
        raise Invalid("a store in memory is memory://, which is gone when the process ends")
    scheme, separator, _ = address.partition("://")
    loader = _LOADERS.get(scheme if separator else "sqlite")
    if loader is None:
        raise Invalid(f"there is no store '{scheme}://'; use a file path, or one of {', '.join(_LOADERS)}://")
    if not vectors:
        return loader(address, busy_seconds, create)
    from retentive.stores.qdrant import QdrantIndex, parse_address

    place = parse_address(vectors, os.environ)
    store = loader(address, busy_seconds, create)
    try:
        store.use_index(partial(QdrantIndex, place))
    except BaseException:
        store.close()
        raise
    return store


def _open_sqlite(address: str, busy_seconds: float, create: bool) -> Store:
    from retentive.stores.sqlite import SqliteStore

    path = address.removeprefix("sqlite:///").removeprefix("sqlite://")
    return SqliteStore(path, busy_seconds=busy_seconds, create=create)


def _open_postgres(address: str, busy_seconds: float, create: bool) -> Store:
    with needs_extra("a PostgreSQL store", "postgres"):
        from retentive.stores.postgres import PostgresStore
    return PostgresStore(address, busy_seconds=busy_seconds, create=create)


def _open_memory(_: str, _busy_seconds: float, _create: bool) -> Store:
    from retentive.stores.in_memory import InMemoryStore

    return InMemoryStore()


_LOADERS: dict[str, Callable[[str, float, bool], Store]] = {
    "sqlite": _open_sqlite,
    "memory": _open_memory,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
}
