"""Memories in: the order of the writes is such that one that is cut off shows nothing by halves, or is mended later.

Whoever calls these holds the store's lock, so within a process one write comes after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from qdrant_client import models as q

from retentive.errors import Conflict, NotFound, RetentiveError
from retentive.models import Memory, Model
from retentive.stores import IdempotencyKey, Record
from retentive.stores.qdrant import idempotency, names
from retentive.stores.qdrant.connection import Connection
from retentive.stores.qdrant.entries import Entry, rounded
from retentive.stores.qdrant.points import memory_of, new_point_of, point_of
from retentive.stores.qdrant.reading import by_points, get
from retentive.stores.qdrant.removing import remove_points
from retentive.stores.qdrant.scopes import in_session
from retentive.stores.qdrant.sessions import finish_moves
from retentive.stores.qdrant.state import Version
from retentive.stores.qdrant.versions import Versions

WRITTEN = 500
"""How many memories go into one request at the most."""

BYTES = 8_000_000
"""About so large may a request be; the server takes 32 MB."""


def add(
    connection: Connection,
    versions: Versions,
    records: Sequence[Record],
    model: Model | None,
    idempotency_key: IdempotencyKey | None,
) -> list[Memory]:
    """The memories as stored. See `retentive.stores.Keeping.add`."""
    ids = [record.memory.id for record in records]
    rows = [rounded(record.vectors, model) for record in records]
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    earlier = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
    if earlier is not None:
        found = get(connection, earlier.ids)
        if earlier.done or len(found) == len(earlier.ids):
            return found
        remove_points(connection, versions, [memory.id for memory in found])
    _refuse_known(connection, ids)
    placed = names.place(connection, [record.memory for record in records])
    memories = _positioned(connection, placed.memories)
    with idempotency.carried_out(connection, idempotency_key, ids, earlier):
        finish_moves(connection, versions, placed)
        names.register(connection, placed.new)
        if any(some is not None for some in rows):
            model = versions.accept(model)
        stamp = connection.clock.take(len(records))
        entries = [Entry.of(memory, stamp + at, stamp, rows[at], model) for at, memory in enumerate(memories)]
        _write_new(connection, versions, entries)
    versions.recount(len(records))
    return [entry.memory for entry in entries]


def _refuse_known(connection: Connection, ids: Sequence[str]) -> None:
    points = {new_point_of(id): id for id in ids}
    for point in by_points(connection, list(points), fields=False):
        raise Conflict(f"there is a memory with the id {points[point]} already; update it instead, nothing was stored")


def _positioned(connection: Connection, memories: Sequence[Memory]) -> list[Memory]:
    """The memories at their places in their sessions: the one given, or the next free one."""
    sessions = list(dict.fromkeys((one.profile, one.session) for one in memories if one.session is not None))
    last = q.OrderByQuery(order_by=q.OrderBy(key="position", direction=q.Direction.DESC))
    answers = connection.batch(
        [
            q.QueryRequest(query=last, filter=in_session(*session), limit=1, with_payload=["position"])
            for session in sessions
        ]
    )
    free = {
        session: max(((point.payload or {})["position"] + 1 for point in answer.points), default=0)
        for session, answer in zip(sessions, answers, strict=True)
    }
    found = []
    for memory in memories:
        if memory.session is None:
            found.append(memory)
            continue
        session = (memory.profile, memory.session)
        position = free[session] if memory.position is None else memory.position
        free[session] = max(free[session], position + 1)
        found.append(memory._replace(position=position))
    return found


def _write_new(connection: Connection, versions: Versions, entries: Sequence[Entry]) -> None:
    """Write these to every collection, never over a memory that another process has just stored under the same id."""

    def write(version: Version) -> None:
        for some in _in_requests(entries):
            points = [entry.point(version) for entry in some]
            connection.upsert(version.collection, points, mode=q.UpdateMode.INSERT_ONLY)

    by_point = {new_point_of(entry.memory.id): entry for entry in entries}
    try:
        versions.everywhere(write)
        for point, record in by_points(connection, list(by_point), fields=["born"]).items():
            if (record.payload or {})["born"] != by_point[point].born:
                id = by_point[point].memory.id
                raise Conflict(f"there is a memory with the id {id} already; nothing was stored")
    except RetentiveError:
        # All or none: what is ours goes again, if the server can still be reached.
        written = q.FieldCondition(key="written", match=q.MatchValue(value=entries[0].written))
        ours = q.Filter(must=[q.HasIdCondition(has_id=list(by_point)), written])
        versions.everywhere(lambda version: connection.delete_where(version.collection, ours))
        raise


def _in_requests(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The entries in portions that the server takes."""
    portion: list[Entry] = []
    size = 0
    for entry in entries:
        if portion and (len(portion) == WRITTEN or size + entry.size > BYTES):
            yield portion
            portion, size = [], 0
        portion.append(entry)
        size += entry.size
    yield portion


def update(
    connection: Connection,
    versions: Versions,
    record: Record,
    model: Model | None,
    idempotency_key: IdempotencyKey | None,
    *,
    keep_vectors: bool,
) -> Memory:
    """The memory with new contents. See `retentive.stores.Keeping.update`."""
    memory = record.memory
    rows = None if keep_vectors else rounded(record.vectors, model)
    point = point_of(memory.id)
    found = connection.retrieve(connection.memories, [point] if point else [])
    if point is None or point not in found:
        raise NotFound(f"there is no memory {memory.id}")
    payload = found[point].payload or {}
    earlier = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
    if earlier is not None and earlier.done:
        return memory_of(payload)
    placed = names.place(connection, [memory])
    with idempotency.carried_out(connection, idempotency_key, [memory.id], earlier):
        finish_moves(connection, versions, placed)
        names.register(connection, placed.new)
        if rows is not None:
            model = versions.accept(model)
        entry = Entry.of(placed.memories[0], payload["born"], connection.clock.take(), rows, model)
        versions.everywhere(lambda version: _rewrite(connection, version, entry, keep_vectors=keep_vectors))
    return entry.memory


def _rewrite(connection: Connection, version: Version, entry: Entry, *, keep_vectors: bool) -> None:
    """Write a point in one go, so that nobody sees new words beside old vectors."""
    point = entry.point(version)
    if keep_vectors and version.vector is not None:
        old = connection.retrieve(version.collection, [str(point.id)], fields=False, vectors=[version.vector])
        record = old.get(str(point.id))
        kept: Any = (record.vector if record else None) or {}
        if version.vector in kept:
            vector: Any = point.vector
            vector[version.vector] = kept[version.vector]
            point.payload = {**(point.payload or {}), "parts": len(kept[version.vector])}
    connection.upsert(version.collection, [point])
