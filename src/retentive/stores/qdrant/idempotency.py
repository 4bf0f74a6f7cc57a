"""Writes that named themselves: carried out once, however often they are sent.

The name is written down before the write and marked when it is done. One that is not marked was cut off, or is still
under way elsewhere: after a minute whoever sends it again carries it out anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from qdrant_client import models as q

from retentive.errors import RetentiveError, Unavailable
from retentive.stores import IdempotencyKey, check_same
from retentive.stores.qdrant.connection import Change, Connection, matching
from retentive.stores.qdrant.key_value import note_id
from retentive.stores.qdrant.points import micros

PATIENCE = 60_000_000_000
"""For so many nanoseconds a write that is not done is taken to be under way."""


class Earlier(NamedTuple):
    """A write that was made before under the same name, or at least begun."""

    ids: list[str]
    done: bool
    stamp: int


def made_before(connection: Connection, idempotency_key: IdempotencyKey) -> Earlier | None:
    """The write of this name, None if it is new. `Conflict` if it was another request."""
    id = note_id("request", idempotency_key.name)
    found = connection.retrieve(connection.notes, [id])
    if not found:
        return None
    payload = found[id].payload or {}
    check_same(idempotency_key, payload["fingerprint"])
    earlier = Earlier(list(payload["ids"]), payload["done"], payload["stamp"])
    if not earlier.done and connection.clock.take() - earlier.stamp < PATIENCE:
        raise Unavailable("the same request is being carried out already; try again in a minute")
    return earlier


@contextmanager
def carried_out(
    connection: Connection, idempotency_key: IdempotencyKey | None, ids: Sequence[str], earlier: Earlier | None
) -> Iterator[None]:
    """Around a write: its name is noted before it and marked behind it. A write that fails has not used its name."""
    if idempotency_key is None:
        yield
        return
    _forget_old(connection, idempotency_key)
    if not connection.put([_change(idempotency_key, ids, done=False, seen=earlier.stamp if earlier else None)]):
        raise Unavailable("the same request is being carried out already; try again in a minute")
    try:
        yield
    except RetentiveError:
        connection.delete(connection.notes, [note_id("request", idempotency_key.name)])
        raise
    change = _change(idempotency_key, ids, done=True, seen=None)
    point = q.PointStruct(id=change.id, vector={}, payload={**change.payload, "stamp": connection.clock.take()})
    connection.upsert(connection.notes, [point])


def _forget_old(connection: Connection, idempotency_key: IdempotencyKey) -> None:
    """Drop what nobody will send again."""
    old = q.FieldCondition(key="at", range=q.Range(lt=micros(idempotency_key.forget_before)))
    connection.delete_where(connection.notes, q.Filter(must=[matching(type="request"), old]))


def _change(idempotency_key: IdempotencyKey, ids: Sequence[str], *, done: bool, seen: int | None) -> Change:
    payload = {
        "type": "request",
        "fingerprint": idempotency_key.fingerprint,
        "ids": list(ids),
        "at": micros(idempotency_key.at),
        "done": done,
    }
    return Change(note_id("request", idempotency_key.name), payload, seen)
