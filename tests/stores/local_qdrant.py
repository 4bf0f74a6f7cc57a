"""The Qdrant of the tests: the engine inside qdrant-client."""

from __future__ import annotations

import threading
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.common import client_warnings


class LocalQdrant(QdrantClient):
    """The engine inside qdrant-client, with a lock: unlike a server it cannot answer two requests at once."""

    def __init__(self) -> None:
        # It has no indexes and warns about it; test_qdrant.py checks what the store requests.
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
