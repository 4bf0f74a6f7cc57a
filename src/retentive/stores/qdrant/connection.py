"""Requests to a Qdrant server, with retries and readable errors, and conditional writes of notes.

A store has collections of memories behind the alias `prefix_memories`, and the collection `prefix_notes`, whose points
have no vector: names, key-value entries, idempotency keys and judgements.
"""

from __future__ import annotations

import json
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar
from uuid import UUID, uuid5

from qdrant_client import QdrantClient
from qdrant_client import models as q
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse
from qdrant_client.http.models import QueryResponse

from retentive.errors import Invalid, Unavailable
from retentive.stores.qdrant.address import API_KEY, Address, CollectionSettings
from retentive.stores.rules import no_store

P = ParamSpec("P")
T = TypeVar("T")

PAGE = 1000
"""How many points one request reads or deletes at most."""

FIRST_PAUSE = 0.05
"""Seconds before the first retry of a request; each further pause is twice the one before."""

TEMPORARY = frozenset((408, 429, 500, 502, 503, 504))
"""The statuses after which a request is sent again. After 408, a time-out of the server, it may have been applied."""

ORDERING = q.WriteOrdering.MEDIUM
"""All copies of a shard apply writes in the same order. Without it, of two conditional writes at the same time one copy
may apply the first and another copy the second, and both processes read that theirs was applied."""

DEFAULT_PREFIX, FORMER_PREFIX = "retentive", "recollect"
"""The prefix of collections where the address names none, and the one that was the default before."""

_NAMESPACE = UUID("8e0f2c56-6f0e-5b1f-9a35-2f1f6f4f9f01")


def connect(address: Address) -> QdrantClient:
    """Return a client for the server at an address."""
    with warnings.catch_warnings():
        # Sending a key over plain http is the caller's decision; docs/qdrant.md names the risk.
        warnings.simplefilter("ignore", UserWarning)
        return QdrantClient(
            url=address.url,
            api_key=address.api_key,
            timeout=max(1, round(address.settings.timeout)),
            check_compatibility=False,
        )


def note_id(*names: str | None) -> str:
    """Return the id of the note with these names."""
    return str(uuid5(_NAMESPACE, json.dumps(names)))


def payload_of(point: q.Record | q.ScoredPoint) -> dict[str, Any]:
    """Return the payload of a point that was read with it."""
    return point.payload or {}


class NoteWrite(NamedTuple):
    """A note to write: over the version with the stamp `replaces`, or as a new note if that is None."""

    id: str
    payload: Mapping[str, Any]
    replaces: int | None = None


class Clock:
    """Numbers that grow with time and never repeat within a process; they record the order of writes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def take(self, count: int = 1) -> int:
        """Reserve that many consecutive numbers and return the first."""
        with self._lock:
            first = max(time.time_ns(), self._last + 1)
            self._last = first + count - 1
            return first


class Connection:
    """The collections of one store on a server. `memories` is an alias for the collection that is searched."""

    def __init__(self, client: QdrantClient, *, prefix: str | None, settings: CollectionSettings, place: str) -> None:
        self.client = client
        self._place = place
        self.server = f"Qdrant at {place}"  # in errors
        self.settings = settings
        self.clock = Clock()
        self.abandoned: set[int] = set()  # the stamps of idempotency keys whose writes have failed in this process
        prefix = prefix or self._default_prefix()
        self.memories = f"{prefix}_memories"
        self.notes = f"{prefix}_notes"

    def _default_prefix(self) -> str:
        names = {one.name for one in self.call(self.client.get_collections).collections}
        former = f"{FORMER_PREFIX}_notes" in names and f"{DEFAULT_PREFIX}_notes" not in names
        return FORMER_PREFIX if former else DEFAULT_PREFIX

    def exists(self) -> bool:
        """Whether the store was created."""
        return self.call(self.client.collection_exists, self.notes)

    def check_exists(self) -> None:
        """Raise `NotFound` if the store was not created."""
        if not self.exists():
            raise no_store(self._place)

    def close(self) -> None:
        """Close the client."""
        self.client.close()

    def call(self, method: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a method of the client, and again after a temporary error: a read, or an idempotent write."""
        deadline = time.monotonic() + self.settings.timeout
        pause = FIRST_PAUSE
        while True:
            try:
                return method(*args, **options)
            except (ResponseHandlingException, UnexpectedResponse, ResourceExhaustedResponse) as error:
                if not _is_temporary(error) or time.monotonic() + pause > deadline:
                    raise self._readable(error) from error
            time.sleep(pause)
            pause *= 2

    def _readable(self, error: Exception) -> Invalid | Unavailable:
        if isinstance(error, UnexpectedResponse):
            if error.status_code in (401, 403):
                return Unavailable(f"{self.server} does not accept the API key; set {API_KEY}")
            if error.status_code is not None and error.status_code < 500 and not _is_temporary(error):
                return Invalid(f"{self.server} refused a request: {_reason(error)}")
            return Unavailable(f"{self.server} failed: {_reason(error)}; try again later")
        if isinstance(error, ResourceExhaustedResponse):
            return Unavailable(f"{self.server} is overloaded; try again later")
        source = getattr(error, "source", error)
        return Unavailable(f"{self.server} cannot be reached ({type(source).__name__}); is it running?")

    # Reads

    def retrieve(
        self, collection: str, points: Iterable[str], *, fields: list[str] | bool = True, vectors: Any = False
    ) -> dict[str, q.Record]:
        """Return the points with these ids that exist, by id."""
        wanted = list(dict.fromkeys(points))
        found: dict[str, q.Record] = {}
        for at in range(0, len(wanted), PAGE):
            page = wanted[at : at + PAGE]
            records = self.call(self.client.retrieve, collection, page, with_payload=fields, with_vectors=vectors)
            found |= {str(record.id): record for record in records}
        return found

    def query(self, requests: Sequence[q.QueryRequest]) -> list[QueryResponse]:
        """Run several queries on the memories in one request."""
        if not requests:
            return []
        return self.call(self.client.query_batch_points, self.memories, list(requests))

    def scroll(
        self,
        collection: str,
        where: q.Filter | None = None,
        *,
        start: str | None = None,
        limit: int | None = None,
        fields: list[str] | bool = True,
        vectors: Any = False,
        page: int = PAGE,
    ) -> Iterator[q.Record]:
        """Yield points in the order of their ids, read in pages."""
        while limit is None or limit > 0:
            size = page if limit is None else min(page, limit)
            found, following = self.call(
                self.client.scroll,
                collection,
                where,
                limit=size,
                offset=start,
                with_payload=fields,
                with_vectors=vectors,
            )
            yield from found
            if following is None:
                return
            start = str(following)
            limit = None if limit is None else limit - len(found)

    def count(self, collection: str, where: q.Filter | None = None) -> int:
        """Count points."""
        return self.call(self.client.count, collection, where, exact=True).count

    def facet(self, collection: str, key: str, where: q.Filter | None = None) -> dict[Any, int]:
        """Count points by the value of a field."""
        found = self.call(self.client.facet, collection, key, facet_filter=where, limit=1_000_000, exact=True)
        return {hit.value: hit.count for hit in found.hits}

    # Writes: each returns after the server has applied it

    def upsert(self, collection: str, points: Sequence[q.PointStruct], *, mode: q.UpdateMode | None = None) -> None:
        """Write whole points."""
        if points:
            self.call(self.client.upsert, collection, list(points), wait=True, ordering=ORDERING, update_mode=mode)

    def update(self, collection: str, operations: Sequence[Any]) -> None:
        """Run operations in their order, in one request."""
        if operations:
            self.call(self.client.batch_update_points, collection, list(operations), wait=True, ordering=ORDERING)

    def delete(self, collection: str, points: Iterable[str]) -> None:
        """Delete points by id."""
        wanted = list(points)
        for at in range(0, len(wanted), PAGE):
            page = q.PointIdsList(points=list(wanted[at : at + PAGE]))
            self.call(self.client.delete, collection, page, wait=True, ordering=ORDERING)

    def delete_where(self, collection: str, where: q.Filter) -> None:
        """Delete all points that a filter matches."""
        self.call(self.client.delete, collection, q.FilterSelector(filter=where), wait=True, ordering=ORDERING)

    def write_notes(
        self, writes: Sequence[NoteWrite], *, operations: Sequence[Any] = (), stamp: int | None = None
    ) -> bool:
        """Write notes over the versions they replace; return whether all were written.

        A note that another process has changed or created meanwhile is left as it is. Further operations on notes run
        in the same request. The stamp of the new versions comes from the clock if it is not given.
        """
        if not writes:
            self.update(self.notes, operations)
            return True
        stamp = self.clock.take() if stamp is None else stamp
        upserts = [
            q.UpsertOperation(
                upsert=q.PointsList(
                    points=[q.PointStruct(id=write.id, vector={}, payload={**write.payload, "stamp": stamp})],
                    update_mode=q.UpdateMode.INSERT_ONLY if write.replaces is None else q.UpdateMode.UPDATE_ONLY,
                    update_filter=None if write.replaces is None else matching(stamp=write.replaces),
                )
            )
            for write in writes
        ]
        self.update(self.notes, [*upserts, *operations])
        found = self.retrieve(self.notes, [write.id for write in writes], fields=["stamp"])
        return all(write.id in found and payload_of(found[write.id])["stamp"] == stamp for write in writes)


def matching(**values: str | int) -> q.Filter:
    """Return a filter for points with all of these payload values."""
    return q.Filter(
        must=[q.FieldCondition(key=name, match=q.MatchValue(value=value)) for name, value in values.items()]
    )


def first_by(order: q.OrderBy, where: q.Filter, *, fields: list[str] | bool = True) -> q.QueryRequest:
    """Return a query for the first point in an order."""
    return q.QueryRequest(query=q.OrderByQuery(order_by=order), filter=where, limit=1, with_payload=fields)


def any_of(field: str, values: Iterable[str] | Iterable[int]) -> q.FieldCondition:
    """Return a condition for points with one of these payload values."""
    return q.FieldCondition(key=field, match=q.MatchAny(any=list(values)))


def with_ids(points: Iterable[str]) -> q.Filter:
    """Return a filter for the points with these ids."""
    return q.Filter(must=[q.HasIdCondition(has_id=list(points))])


def _is_temporary(error: Exception) -> bool:
    if isinstance(error, UnexpectedResponse):
        return error.status_code in TEMPORARY
    return True


def _reason(error: UnexpectedResponse) -> str:
    try:
        status = error.structured().get("status")
        reason = status.get("error") if isinstance(status, dict) else status
    except ValueError:
        reason = None
    return f"{error.status_code} {reason or error.reason_phrase}"[:300]
