"""The Qdrant of the tests: the engine inside qdrant-client."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client.common import client_warnings
from qdrant_client.local import local_collection

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
