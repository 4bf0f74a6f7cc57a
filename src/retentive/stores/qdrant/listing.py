"""Lists memories by time: an order by a field cannot continue among equal values, so those are read by their points."""

from __future__ import annotations

from collections.abc import Iterator

from qdrant_client import models as q

from retentive.models import Memory, Scope
from retentive.stores.qdrant.connection import Connection, payload_of
from retentive.stores.qdrant.points import following_point, memory_of, point_of
from retentive.stores.rules import PAGE_BYTES, ListCursor, cursor_of, is_within
from retentive.stores.sql_codec import EPOCH

_FIRST_ID, _LAST_ID = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
_NEVER = EPOCH.isoformat()
_SCOPE_FIELDS = ["id", "profile", "project", "session", "kind"]

FEW = 32
"""How many memories one request of a list or scan reads: each may have a million characters and hundreds of vectors."""


def newest(connection: Connection, where: q.Filter, start: ListCursor, limit: int) -> Iterator[Memory]:
    """Yield memories that a filter matches by time, then id, newest first, from the one after the cursor on."""
    end, point = start.time, point_of(start.id)
    after = None if point is None else following_point(point)
    if after is not None:
        for memory in _of_one_time(connection, where, end, limit, start=after):
            limit -= 1
            yield memory
    while limit > 0:
        page = min(limit, FEW)
        order = q.OrderBy(key="when", direction=q.Direction.DESC)
        earlier = _with_time(where, q.Range(lt=end))
        records, _ = connection.call(
            connection.client.scroll, connection.memories, earlier, limit=page, order_by=order, with_payload=True
        )
        memories = sorted((memory_of(payload_of(record)) for record in records), key=cursor_of, reverse=True)
        complete = memories
        if len(records) == page:  # there may be more memories of the last time
            end = cursor_of(memories[-1]).time
            complete = [memory for memory in memories if cursor_of(memory).time > end]
        limit -= len(complete)
        yield from complete
        if len(records) < page:
            return
        for memory in _of_one_time(connection, where, end, limit):
            limit -= 1
            yield memory


def ids_with_prefix(connection: Connection, prefix: str, within: Scope | None, limit: int) -> list[str]:
    """Return ids in a scope that start with a prefix, in ascending order; if there are many, the last `limit`."""
    first, last = (prefix + end[len(prefix) :] for end in (_FIRST_ID, _LAST_ID))
    start, end = point_of(last), point_of(first)  # points are in descending order of the ids of memories
    if start is None or end is None:
        return []
    found: list[str] = []
    for record in connection.scroll(connection.memories, start=start, fields=_SCOPE_FIELDS):
        if str(record.id) > end or len(found) == limit:
            break
        payload = payload_of(record)
        memory = memory_of({**payload, "text": "", "created": _NEVER})
        if is_within(memory, within):
            found.append(memory.id)
    return sorted(found)


def _of_one_time(
    connection: Connection, where: q.Filter, time: int, limit: int, *, start: str | None = None
) -> Iterator[Memory]:
    same = _with_time(where, q.Range(gte=time, lte=time))
    for record in connection.scroll(connection.memories, same, start=start, limit=limit, page=FEW):
        yield memory_of(payload_of(record))


def _with_time(where: q.Filter, range: q.Range) -> q.Filter:
    return q.Filter(must=[where, q.FieldCondition(key="when", range=range)])


def until_full(memories: Iterator[Memory], limit: int) -> tuple[list[Memory], bool]:
    """Return one page of memories, and whether there are more. No more are read than one after the page."""
    found: list[Memory] = []
    size = 0
    for memory in memories:
        size += len(memory.text)
        if len(found) == limit or (found and size > PAGE_BYTES):
            return found, True
        found.append(memory)
    return found, False
