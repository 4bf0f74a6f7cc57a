"""How each store is opened for a test. The contract tests run on all of them.

A store's own modules are imported when it is opened, so that tests of one store do not depend on another.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import uuid4

from qdrant_client import QdrantClient
from qdrant_client.common import client_warnings
from qdrant_client.local import local_collection

from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore

QDRANT_SERVER = os.environ.get("RETENTIVE_TEST_QDRANT", "")
"""A server to run the contract on as well, such as qdrant+http://127.0.0.1:6333; `edge` for the engine in process."""


_READS = frozenset({"query_batch_points", "query_points", "scroll", "count", "retrieve"})
_masks: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("masks", default=None)
_calculate_mask = local_collection.calculate_payload_mask


def _mask_of(payloads: list[Any], payload_filter: Any, *others: Any, **named: Any) -> Any:
    """Return which points a filter accepts. The engine would evaluate the same filter many times in one request."""
    known = _masks.get()
    if known is None or payload_filter is None:
        return _calculate_mask(payloads, payload_filter, *others, **named)
    key = (id(payloads), payload_filter.model_dump_json())
    if key not in known:
        known[key] = _calculate_mask(payloads, payload_filter, *others, **named)
    return known[key]


local_collection.calculate_payload_mask = _mask_of


class LocalQdrant(QdrantClient):
    """The engine inside qdrant-client, with a lock: unlike a server it cannot answer two requests at once.

    Filters, which it evaluates in Python for each point, are evaluated once between two writes.
    """

    def __init__(self) -> None:
        # It has no indexes and warns about it; test_qdrant.py checks what the store requests.
        client_warnings.SEEN_MESSAGES |= {
            "create-local-payload-indexes",
            "local_query_points_search_params_ignored",
        }
        self._one_at_a_time = threading.RLock()
        self._known_masks: dict[tuple[int, str], Any] = {}
        super().__init__(":memory:")

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def one_at_a_time(*given: Any, **options: Any) -> Any:
            with self._one_at_a_time:
                reads = name in _READS
                if not reads:
                    self._known_masks.clear()
                before = _masks.set(self._known_masks if reads else None)
                try:
                    return found(*given, **options)
                finally:
                    _masks.reset(before)

        return one_at_a_time


def open_postgres(_: Path) -> Store:
    from tests.stores import postgres_server

    return open_store(postgres_server.address())


def open_local_qdrant(_: Path) -> Store:
    from retentive.stores.qdrant import QdrantStore

    return QdrantStore(LocalQdrant())


def open_qdrant_edge(folder: Path) -> Store:
    from tests.stores.qdrant_edge import open_edge

    return open_edge(folder)


def open_qdrant_server(_: Path) -> Store:
    """Open a store on a real server that deletes its collections when it is closed."""
    from retentive.stores.qdrant import QdrantStore
    from retentive.stores.qdrant.address import parse_address
    from retentive.stores.qdrant.connection import connect

    address = parse_address(QDRANT_SERVER, os.environ)
    client, prefix = connect(address), f"test_{uuid4().hex[:12]}"

    class TemporaryStore(QdrantStore):
        def close(self) -> None:
            for one in client.get_collections().collections:
                if one.name.startswith(f"{prefix}_"):
                    client.delete_collection(one.name)
            super().close()

    return TemporaryStore(client, prefix=prefix, settings=address.settings, place=address.url)


# A further store is one more line here.
OPENERS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: open_store(str(folder / "memories.db")),
    "memory": lambda _: open_store("memory://"),
    "postgres": open_postgres,
    "qdrant": open_local_qdrant,
}
if QDRANT_SERVER == "edge":
    OPENERS["qdrant-edge"] = open_qdrant_edge
elif QDRANT_SERVER:
    OPENERS["qdrant-server"] = open_qdrant_server

WITH_SNAPSHOTS = [name for name in OPENERS if not name.startswith("qdrant")]
"""The stores whose searches read one snapshot; Qdrant has no transactions."""


def reference_for(name: str) -> InMemoryStore:
    """Return an empty store in memory that scores as the store of this name does."""
    if not name.startswith("qdrant"):
        return InMemoryStore()
    from retentive.stores.qdrant.sparse import MEAN_LENGTH

    return InMemoryStore(mean_length=MEAN_LENGTH)
