"""Key-value entries, relevance judgements and idempotency keys, as points without a vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from qdrant_client import models as q

from retentive.errors import NotFound, RetentiveError, Unavailable
from retentive.stores.qdrant.connection import PAGE, Connection, NoteWrite, any_of, matching, note_id, payload_of
from retentive.stores.qdrant.points import encodable, points_of
from retentive.stores.qdrant.sessions import StoreParts
from retentive.stores.rules import is_sent_again
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import IdempotencyKey, Judgement

ATTEMPTS = 20
"""How often an entry is written without an expected value, while other processes write it too."""

PENDING_SECONDS = 60
"""For how long a request that has started and not finished blocks its idempotency key."""


class QdrantNotes(StoreParts):
    """See `retentive.stores.base.KeyValue` and `Judgements`."""

    # Key-value entries: each is written only over the version that was read

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
                if self._write_entries(changes, entries):
                    return True
                if wanted:
                    return False
        raise Unavailable("other processes keep changing the same entries; try again")

    def _entries(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        ids = [note_id("note", name) for name in names if encodable(name)]
        payloads = [payload_of(note) for note in self._connection.retrieve(self._connection.notes, ids).values()]
        return {payload["name"]: payload for payload in payloads}

    def _write_entries(self, changes: Mapping[str, str | None], entries: Mapping[str, Mapping[str, Any]]) -> bool:
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

    # Relevance judgements

    def judge(self, judgements: Sequence[Judgement]) -> None:
        connection = self._connection
        points = points_of(one.memory for one in judgements)
        with self._lock:
            found = connection.retrieve(connection.memories, points.values(), fields=["profile"])
            for one in judgements:
                record = found.get(points.get(one.memory, ""))
                if record is None or payload_of(record)["profile"] != one.profile:
                    raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
            earlier = connection.retrieve(connection.notes, map(_judgement_id, judgements), fields=["given"])
            self._names.register_projects((one.profile, one.project) for one in judgements if one.project is not None)
            given = {id: payload_of(record)["given"] for id, record in earlier.items()}
            written: dict[str, q.PointStruct] = {}
            for at, one in enumerate(judgements, connection.clock.take(len(judgements) or 1)):
                id = _judgement_id(one)
                payload = {**_payload(one), "given": given.setdefault(id, at)}
                written[id] = q.PointStruct(id=id, vector={}, payload=payload)
            connection.upsert(connection.notes, list(written.values()))

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        payloads = self._names.notes("judgement", profile, project)
        return [_judgement(payload) for payload in sorted(payloads, key=lambda payload: payload["given"])]

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        connection = self._connection
        ids = [_judgement_id(one) for one in judgements if encodable(one.query, one.memory, one.profile, one.project)]
        with self._lock:
            found = connection.retrieve(connection.notes, ids, fields=False)
            connection.delete(connection.notes, found)
        return len(found)


def remove_judgements(connection: Connection, ids: Sequence[str]) -> None:
    """Delete all judgements of these memories."""
    for at in range(0, len(ids), PAGE):
        of_these = q.Filter(must=[matching(type="judgement"), any_of("memory", ids[at : at + PAGE])])
        connection.delete_where(connection.notes, of_these)


def _judgement_id(one: Judgement) -> str:
    return note_id("judgement", one.profile, one.project, one.query, one.memory)


def _payload(one: Judgement) -> dict[str, Any]:
    payload = {
        "type": "judgement",
        "profile": one.profile,
        "question": one.query,
        "memory": one.memory,
        "relevance": one.relevance,
        "created": one.created.astimezone(UTC).isoformat(),
        "project": one.project,
        "asked_at": None if one.asked_at is None else one.asked_at.astimezone(UTC).isoformat(),
    }
    return {name: value for name, value in payload.items() if value is not None}


def _judgement(payload: dict[str, Any]) -> Judgement:
    asked_at = payload.get("asked_at")
    return Judgement(
        payload["question"],
        payload["memory"],
        payload["relevance"],
        datetime.fromisoformat(payload["created"]),
        payload["profile"],
        payload.get("project"),
        None if asked_at is None else datetime.fromisoformat(asked_at),
    )


# Idempotency keys


class EarlierRequest(NamedTuple):
    """A write with the same idempotency key. One that is not `done` was started by a process that has ended.

    Of its ids, those of memories that it repeats were `stored` before.
    """

    ids: list[str]
    done: bool
    stamp: int
    stored: list[str]


def request_notes(key: IdempotencyKey | None) -> list[str]:
    """Return the id of the note of an idempotency key."""
    return [] if key is None else [note_id("request", key.name)]


def find_earlier(
    connection: Connection, key: IdempotencyKey | None, notes: Mapping[str, Mapping[str, Any]]
) -> EarlierRequest | None:
    """Return the write with this key, from notes that were read; None if the key is new.

    `Conflict` if it was another request, `Unavailable` while another process is working on it. This process knows which
    of its own writes have failed.
    """
    payload = notes.get(request_notes(key)[0]) if key else None
    if key is None or payload is None:
        return None
    if not is_sent_again(key, payload["fingerprint"], payload["at"]):
        connection.delete(connection.notes, request_notes(key))
        return None
    earlier = EarlierRequest(list(payload["ids"]), payload["done"], payload["stamp"], payload.get("stored", []))
    is_recent = connection.clock.take() - earlier.stamp < PENDING_SECONDS * 1_000_000_000
    if not earlier.done and is_recent and earlier.stamp not in connection.abandoned:
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
    stored: Sequence[str] = (),
) -> Iterator[None]:
    """Record an idempotency key before a write and mark it as done afterwards; a write that fails releases its key.

    If the server was lost, nobody knows how much was written. Then the key stays, so that the write can be completed
    when it is sent again. Further operations on notes run in the same request as the first record.
    """
    if key is None:
        connection.update(connection.notes, operations)
        yield
        return
    payload = {
        "type": "request",
        "fingerprint": key.fingerprint,
        "ids": list(ids),
        "stored": list(stored),
        "at": to_micros(key.at),
    }
    [id] = request_notes(key)
    start = NoteWrite(id, {**payload, "done": False}, earlier.stamp if earlier else None)
    stamp = connection.clock.take()
    try:
        if not connection.write_notes([start], operations=operations, stamp=stamp):
            raise _in_progress()
        yield
    except Unavailable:
        connection.abandoned.add(stamp)
        raise
    except RetentiveError:
        connection.delete(connection.notes, [id])
        raise
    done = q.PointStruct(id=id, vector={}, payload={**payload, "done": True, "stamp": connection.clock.take()})
    old = q.FieldCondition(key="at", range=q.Range(lt=to_micros(key.expires_before)))
    expired = q.FilterSelector(filter=q.Filter(must=[matching(type="request"), old]))
    upsert = q.UpsertOperation(upsert=q.PointsList(points=[done]))
    try:
        connection.update(connection.notes, [upsert, q.DeleteOperation(delete=expired)])
    except Unavailable:  # the write was made; sent again by this process, it must not wait
        connection.abandoned.add(stamp)
        raise


def _in_progress() -> Unavailable:
    return Unavailable("the same request is in progress; try again in a minute")
