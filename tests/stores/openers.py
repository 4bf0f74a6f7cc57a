"""How each store is opened for a test. The contract tests run on all of them.

A store's own modules are imported when it is opened, so that tests of one store do not depend on another.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.stores.in_memory import InMemoryStore

QDRANT_SERVER = os.environ.get("RETENTIVE_TEST_QDRANT", "")
"""A server to run the contract on as well, such as qdrant+http://127.0.0.1:6333; `edge` for the engine in process."""


def open_postgres(_: Path) -> Store:
    from tests.stores import postgres_server

    return open_store(postgres_server.address())


def open_local_qdrant(_: Path) -> Store:
    from retentive.stores.qdrant import QdrantStore
    from tests.stores.local_qdrant import LocalQdrant

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
