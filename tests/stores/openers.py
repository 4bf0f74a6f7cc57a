"""How each store is opened for a test; the contract runs over all of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from qdrant_client import QdrantClient
from qdrant_client.common import client_warnings

from retentive.stores import Store, open_store
from retentive.stores.in_memory import InMemoryStore
from retentive.stores.qdrant import QdrantStore
from retentive.stores.qdrant.address import Address, parse_address
from retentive.stores.qdrant.connection import connect
from retentive.stores.qdrant.sparse import MEAN_LENGTH
from tests.stores import postgres_server
from tests.stores.qdrant_edge import open_edge

QDRANT_SERVER = os.environ.get("RETENTIVE_TEST_QDRANT", "")
"""A server to run the contract on as well, such as qdrant+http://127.0.0.1:6333; `edge` for the engine in process."""


class LocalQdrant(QdrantClient):
    """The client's own engine, for one thread at a time: unlike a server it takes no two requests at once."""

    def __init__(self) -> None:
        # It has no indexes, compares everything with everything, and says so; what is asked for, test_qdrant.py sees.
        client_warnings.SEEN_MESSAGES |= {
            "create-local-payload-indexes",
            "local_query_points_search_params_ignored",
        }
        self._one_at_a_time = threading.RLock()
        super().__init__(":memory:")

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def one_at_a_time(*given: Any, **options: Any) -> Any:
            with self._one_at_a_time:
                return found(*given, **options)

        return one_at_a_time


class OnServer(QdrantStore):
    """A store on a real server, of which nothing is left when it is closed."""

    def __init__(self, address: Address) -> None:
        self._prefix = f"test_{uuid4().hex[:12]}"
        super().__init__(connect(address), prefix=self._prefix, settings=address.settings, place=address.url)

    def close(self) -> None:
        client = self._connection._client
        for one in client.get_collections().collections:
            if one.name.startswith(f"{self._prefix}_"):
                client.delete_collection(one.name)
        super().close()


# A further store is one more line here.
OPENERS: dict[str, Callable[[Path], Store]] = {
    "sqlite": lambda folder: open_store(str(folder / "memories.db")),
    "memory": lambda _: open_store("memory://"),
    "postgres": lambda _: open_store(postgres_server.address()),
    "qdrant": lambda _: QdrantStore(LocalQdrant()),
}
if QDRANT_SERVER == "edge":
    OPENERS["qdrant-edge"] = open_edge
elif QDRANT_SERVER:
    OPENERS["qdrant-server"] = lambda _: OnServer(parse_address(QDRANT_SERVER, os.environ))

TWINS: dict[str, Callable[[], InMemoryStore]] = {
    name: lambda: InMemoryStore(mean_length=MEAN_LENGTH) for name in OPENERS if name.startswith("qdrant")
}
"""What a store is compared with, where that is not the store in memory as it is."""


def twin_of(name: str) -> InMemoryStore:
    """The store in memory that shows what the store of this name has to show."""
    return TWINS.get(name, InMemoryStore)()
