"""The way to a Qdrant server: every request goes through here, is tried again for a while, and fails in words."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from qdrant_client import QdrantClient
from qdrant_client import models as q
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.http.models import QueryResponse

from retentive.errors import Invalid, Unavailable
from retentive.stores.qdrant.address import API_KEY, Address, CollectionSettings
from retentive.stores.qdrant.points import Clock

T = TypeVar("T")

PAGE = 1000
"""How many points are read at once."""

FIRST_PAUSE = 0.05
"""Seconds before a request that failed is sent again; each pause is twice the one before."""


def connect(address: Address) -> QdrantClient:
    """A client for the server at an address."""
    with warnings.catch_warnings():
        # A key over plain http is the caller's decision: docs/qdrant.md says when it is a bad one.
        warnings.simplefilter("ignore", UserWarning)
        return QdrantClient(
            url=address.url,
            api_key=address.api_key,
            timeout=max(1, round(address.settings.timeout)),
            check_compatibility=False,
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A note to be written over the one that was seen, or as a new one if none was."""

    id: str
    payload: Mapping[str, Any]
    seen: int | None = None


class Connection:
    """The collections of one store: memories under an alias, and everything else as notes without vectors."""

    def __init__(self, client: QdrantClient, *, prefix: str, settings: CollectionSettings, place: str) -> None:
        self._client = client
        self._place = place
        self.settings = settings
        self.clock = Clock()
        self.memories = f"{prefix}_memories"
        self.notes = f"{prefix}_notes"

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def ask(self, request: Callable[[QdrantClient], T]) -> T:
        """The answer to a request that may be sent twice: all reads, and writes that leave the same behind."""
        deadline = time.monotonic() + self.settings.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                return request(self._client)
            except (ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse) as error:
                if not _passing(error) or time.monotonic() + pause > deadline:
                    raise self._in_words(error) from error
            time.sleep(pause)
            pause *= 2

    def _in_words(self, error: Exception) -> Invalid | Unavailable:
        if isinstance(error, UnexpectedResponse):
            if error.status_code in (401, 403):
                return Unavailable(f"Qdrant at {self._place} does not accept the API key; set {API_KEY}")
            if error.status_code is not None and error.status_code < 500:
                return Invalid(f"Qdrant at {self._place} refused a request: {_reason(error)}")
            return Unavailable(f"Qdrant at {self._place} failed: {_reason(error)}; try again later")
        if isinstance(error, ResourceExhaustedResponse):
            return Unavailable(f"Qdrant at {self._place} has too much to do; try again later")
        source = getattr(error, "source", error)
        return Unavailable(f"Qdrant at {self._place} cannot be reached ({type(source).__name__}); is it running?")

    # Reading

    def retrieve(
        self, collection: str, points: Iterable[str], *, fields: Sequence[str] | bool = True, vectors: Any = False
    ) -> dict[str, q.Record]:
        """Those of these points that exist, by id."""
        wanted = list(dict.fromkeys(points))
        if not wanted:
            return {}
        payload = fields if isinstance(fields, bool) else list(fields)
        found = self.ask(lambda client: client.retrieve(collection, wanted, with_payload=payload, with_vectors=vectors))
        return {str(point.id): point for point in found}

    def batch(self, requests: Sequence[q.QueryRequest]) -> list[QueryResponse]:
        """The answers to several queries about memories, in one request."""
        if not requests:
            return []
        return self.ask(lambda client: client.query_batch_points(self.memories, list(requests)))

    def scroll(
        self,
        collection: str,
        where: q.Filter | None = None,
        *,
        start: str | None = None,
        limit: int | None = None,
        fields: Sequence[str] | bool = True,
        vectors: Any = False,
    ) -> Iterator[q.Record]:
        """Points by id, from the first on, as many as wanted."""
        payload = fields if isinstance(fields, bool) else list(fields)
        while limit is None or limit > 0:
            size = PAGE if limit is None else min(PAGE, limit)
            found, following = self.ask(
                lambda client, size=size, start=start: client.scroll(  # type: ignore[misc]
                    collection, where, limit=size, offset=start, with_payload=payload, with_vectors=vectors
                )
            )
            yield from found
            if following is None:
                return
            start = str(following)
            limit = None if limit is None else limit - len(found)

    def ordered(self, collection: str, where: q.Filter | None, *, by: str, limit: int) -> list[q.Record]:
        """Points by a number in their payloads, smallest first."""
        found, _ = self.ask(
            lambda client: client.scroll(collection, where, limit=limit, order_by=q.OrderBy(key=by), with_payload=True)
        )
        return found

    def count(self, collection: str, where: q.Filter | None = None) -> int:
        """How many points there are."""
        return self.ask(lambda client: client.count(collection, where, exact=True)).count

    def facet(self, collection: str, key: str, where: q.Filter | None = None) -> dict[Any, int]:
        """How many points have each value of a field."""
        found = self.ask(lambda client: client.facet(collection, key, facet_filter=where, limit=1_000_000, exact=True))
        return {hit.value: hit.count for hit in found.hits}

    # Writing

    def upsert(self, collection: str, points: Sequence[q.PointStruct], *, mode: q.UpdateMode | None = None) -> None:
        """Write these points, whole; done when the server has applied it."""
        if points:
            self.ask(lambda client: client.upsert(collection, list(points), wait=True, update_mode=mode))

    def update(self, collection: str, operations: Sequence[Any]) -> None:
        """Carry these operations out in their order, in one request."""
        if operations:
            self.ask(lambda client: client.batch_update_points(collection, list(operations), wait=True))

    def delete(self, collection: str, points: Iterable[str]) -> None:
        """Take these points out."""
        wanted = list(points)
        if wanted:
            self.ask(lambda client: client.delete(collection, q.PointIdsList(points=wanted), wait=True))

    def delete_where(self, collection: str, where: q.Filter) -> None:
        """Take out all points like this."""
        self.ask(lambda client: client.delete(collection, q.FilterSelector(filter=where), wait=True))

    def put(self, changes: Sequence[Change]) -> bool:
        """Whether every one of these notes was written; none goes over one that has changed since it was seen."""
        if not changes:
            return True
        stamp = self.clock.take()
        operations = [
            q.UpsertOperation(
                upsert=q.PointsList(
                    points=[q.PointStruct(id=change.id, vector={}, payload={**change.payload, "stamp": stamp})],
                    update_mode=q.UpdateMode.INSERT_ONLY if change.seen is None else q.UpdateMode.UPDATE_ONLY,
                    update_filter=None if change.seen is None else matching(stamp=change.seen),
                )
            )
            for change in changes
        ]
        self.update(self.notes, operations)
        found = self.retrieve(self.notes, [change.id for change in changes], fields=["stamp"])
        return all(change.id in found and (found[change.id].payload or {})["stamp"] == stamp for change in changes)


def matching(**values: str | int) -> q.Filter:
    """Points that have all of these values in their payloads."""
    return q.Filter(
        must=[q.FieldCondition(key=name, match=q.MatchValue(value=value)) for name, value in values.items()]
    )


def _passing(error: Exception) -> bool:
    """Whether the same request may well succeed in a moment."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code in (429, 500, 502, 503, 504)
    return True


def _reason(error: UnexpectedResponse) -> str:
    try:
        status = error.structured().get("status")
        reason = status.get("error") if isinstance(status, dict) else status
    except ValueError:
        reason = None
    return f"{error.status_code} {reason or error.reason_phrase}"[:300]
