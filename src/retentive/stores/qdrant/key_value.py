"""Key-value entries and idempotency keys, as notes that are written only over the version that was read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from qdrant_client import models as q

from retentive.errors import RetentiveError, Unavailable
from retentive.stores.base import IdempotencyKey, check_same_request
from retentive.stores.qdrant.connection import Connection, NoteWrite, matching, note_id, payload_of
from retentive.stores.qdrant.points import encodable, micros

ATTEMPTS = 20
"""How often an entry is written without an expected value, while other processes write it too."""

PENDING_SECONDS = 60
"""For how long a request that has started and not finished blocks its idempotency key."""


class QdrantKeyValue:
    """See `retentive.stores.base.KeyValue`."""

    _connection: Connection
    _lock: threading.RLock

    def get_value(self, name: str) -> str | None:
        entry = self._entries([name]).get(name)
        return None if entry is None else entry["text"]

    def list_values(self, prefix: str) -> dict[str, str]:
        notes = self._connection.scroll(self._connection.notes, matching(type="note"))
        entries = [payload_of(note) for note in notes]
        return dict(sorted((one["name"], one["text"]) for one in entries if one["name"].startswith(prefix)))

    def compare_and_set(
        self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None
    ) -> bool:
        wanted = expected or {}
        with self._lock:
            for _ in range(ATTEMPTS):
                entries = self._entries([*changes, *wanted])
                values = {name: entry["text"] for name, entry in entries.items()}
                if any(values.get(name) != value for name, value in wanted.items()):
                    return False
                if self._write(changes, entries):
                    return True
                if wanted:
                    return False
        raise Unavailable("other processes keep changing the same entries; try again")

    def _entries(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        ids = [note_id("note", name) for name in names if encodable(name)]
        payloads = [payload_of(note) for note in self._connection.retrieve(self._connection.notes, ids).values()]
        return {payload["name"]: payload for payload in payloads}

    def _write(self, changes: Mapping[str, str | None], entries: Mapping[str, Mapping[str, Any]]) -> bool:
        stamps = {name: entry["stamp"] for name, entry in entries.items()}
        writes = [
            NoteWrite(note_id("note", name), {"type": "note", "name": name, "text": text}, stamps.get(name))
            for name, text in changes.items()
            if text is not None
        ]
        if not self._connection.write_notes(writes):
            return False
        for name, text in changes.items():
            if text is None and name in stamps:
                same = q.HasIdCondition(has_id=[note_id("note", name)])
                unchanged = q.FieldCondition(key="stamp", match=q.MatchValue(value=stamps[name]))
                self._connection.delete_where(self._connection.notes, q.Filter(must=[same, unchanged]))
        return True


# Idempotency keys


class EarlierRequest(NamedTuple):
    """A write with the same idempotency key. One that is not `done` was started by a process that has ended."""

    ids: list[str]
    done: bool
    stamp: int


def request_notes(key: IdempotencyKey | None) -> list[str]:
    """Return the id of the note of an idempotency key."""
    return [] if key is None else [note_id("request", key.name)]


def find_earlier(
    connection: Connection, key: IdempotencyKey | None, notes: Mapping[str, Mapping[str, Any]]
) -> EarlierRequest | None:
    """Return the write with this key, from notes that were read; None if the key is new.

    `Conflict` if it was another request, `Unavailable` while another process is working on it.
    """
    payload = notes.get(request_notes(key)[0]) if key else None
    if key is None or payload is None:
        return None
    check_same_request(key, payload["fingerprint"])
    earlier = EarlierRequest(list(payload["ids"]), payload["done"], payload["stamp"])
    if not earlier.done and connection.clock.take() - earlier.stamp < PENDING_SECONDS * 1_000_000_000:
        raise _in_progress()
    return earlier


@contextmanager
def record_request(
    connection: Connection,
    key: IdempotencyKey | None,
    ids: Sequence[str],
    earlier: EarlierRequest | None,
    *,
    operations: Sequence[Any] = (),
) -> Iterator[None]:
    """Record an idempotency key before a write and mark it as done afterwards; a write that fails releases its key.

    Further operations on notes run in the same request as the first record.
    """
    if key is None:
        connection.update(connection.notes, operations)
        yield
        return
    payload = {"type": "request", "fingerprint": key.fingerprint, "ids": list(ids), "at": micros(key.at)}
    [id] = request_notes(key)
    start = NoteWrite(id, {**payload, "done": False}, earlier.stamp if earlier else None)
    if not connection.write_notes([start], operations=operations):
        raise _in_progress()
    try:
        yield
    except RetentiveError:
        connection.delete(connection.notes, [id])
        raise
    done = q.PointStruct(id=id, vector={}, payload={**payload, "done": True, "stamp": connection.clock.take()})
    old = q.FieldCondition(key="at", range=q.Range(lt=micros(key.expires_before)))
    expired = q.FilterSelector(filter=q.Filter(must=[matching(type="request"), old]))
    upsert = q.UpsertOperation(upsert=q.PointsList(points=[done]))
    connection.update(connection.notes, [upsert, q.DeleteOperation(delete=expired)])


def _in_progress() -> Unavailable:
    return Unavailable("the same request is in progress; try again in a minute")
