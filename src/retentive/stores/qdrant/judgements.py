"""Relevance judgements, as notes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from qdrant_client import models as q

from retentive.errors import NotFound
from retentive.models import Judgement
from retentive.stores.qdrant.connection import PAGE, Connection, any_of, matching, note_id, payload_of
from retentive.stores.qdrant.points import encodable, points_of
from retentive.stores.qdrant.sessions import NameRegistry


class QdrantJudgements:
    """See `retentive.stores.base.Judgements`."""

    _connection: Connection
    _names: NameRegistry
    _lock: threading.RLock

    def judge(self, judgements: Sequence[Judgement]) -> None:
        connection = self._connection
        points = points_of(one.memory for one in judgements)
        with self._lock:
            found = connection.retrieve(connection.memories, points.values(), fields=["profile"])
            for one in judgements:
                record = found.get(points.get(one.memory, ""))
                if record is None or payload_of(record)["profile"] != one.profile:
                    raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
            earlier = connection.retrieve(connection.notes, map(_id, judgements), fields=["given"])
            self._names.register_projects((one.profile, one.project) for one in judgements if one.project is not None)
            given = {id: payload_of(record)["given"] for id, record in earlier.items()}
            written: dict[str, q.PointStruct] = {}
            for at, one in enumerate(judgements, connection.clock.take(len(judgements) or 1)):
                id = _id(one)
                payload = {**_payload(one), "given": given.setdefault(id, at)}
                written[id] = q.PointStruct(id=id, vector={}, payload=payload)
            connection.upsert(connection.notes, list(written.values()))

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        payloads = self._names.list("judgement", profile, project)
        return [_judgement(payload) for payload in sorted(payloads, key=lambda payload: payload["given"])]

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        connection = self._connection
        ids = [_id(one) for one in judgements if encodable(one.query, one.memory, one.profile, one.project)]
        with self._lock:
            found = connection.retrieve(connection.notes, ids, fields=False)
            connection.delete(connection.notes, found)
        return len(found)


def remove_judgements(connection: Connection, ids: Sequence[str]) -> None:
    """Delete all judgements of these memories."""
    for at in range(0, len(ids), PAGE):
        of_these = q.Filter(must=[matching(type="judgement"), any_of("memory", ids[at : at + PAGE])])
        connection.delete_where(connection.notes, of_these)


def _id(one: Judgement) -> str:
    return note_id("judgement", one.profile, one.project, one.query, one.memory)


def _payload(one: Judgement) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "type": "judgement",
        "profile": one.profile,
        "question": one.query,
        "memory": one.memory,
        "relevance": one.relevance,
        "created": one.created.astimezone(UTC).isoformat(),
    }
    if one.project is not None:
        payload["project"] = one.project
    if one.asked_at is not None:
        payload["asked_at"] = one.asked_at.astimezone(UTC).isoformat()
    return payload


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
