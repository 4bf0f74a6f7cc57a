"""What people said of memories, as points without vectors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from qdrant_client import models as q

from retentive.errors import NotFound
from retentive.models import Judgement
from retentive.stores.qdrant import names
from retentive.stores.qdrant.connection import PAGE, Connection, matching
from retentive.stores.qdrant.key_value import note_id
from retentive.stores.qdrant.points import encodable, points_of
from retentive.stores.qdrant.scopes import any_of


def add(connection: Connection, judgements: Sequence[Judgement]) -> None:
    """Keep these, each over an earlier one of the same query and memory."""
    points = points_of(one.memory for one in judgements)
    found = connection.retrieve(connection.memories, points.values(), fields=["profile"])
    for one in judgements:
        record = found.get(points.get(one.memory, ""))
        if record is None or (record.payload or {})["profile"] != one.profile:
            raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
    earlier = connection.retrieve(connection.notes, map(_id, judgements), fields=["given"])
    given = connection.clock.take(len(judgements) or 1)
    projects = [names.project(one.profile, one.project) for one in judgements if one.project is not None]
    names.register(connection, projects)
    written: dict[str, q.PointStruct] = {}
    for at, one in enumerate(judgements):
        id = _id(one)
        known = earlier[id].payload if id in earlier else written[id].payload if id in written else None
        first = known["given"] if known else given + at
        written[id] = q.PointStruct(id=id, vector={}, payload={**_payload(one), "given": first})
    connection.upsert(connection.notes, list(written.values()))


def listed(connection: Connection, profile: str, project: str | None) -> list[Judgement]:
    """The judgements of a profile, or those asked of one project, in the order in which they were first given."""
    payloads: list[dict[str, Any]] = list(names.listed(connection, "judgement", profile, project))
    return [_judgement(payload) for payload in sorted(payloads, key=lambda payload: payload["given"])]


def remove(connection: Connection, judgements: Sequence[Judgement]) -> int:
    """How many of these there were."""
    wanted = [_id(one) for one in judgements if encodable(one.query, one.memory, one.profile, one.project)]
    found = connection.retrieve(connection.notes, wanted, fields=False)
    connection.delete(connection.notes, found)
    return len(found)


def remove_of(connection: Connection, ids: Sequence[str]) -> None:
    """Take out all judgements of these memories."""
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
