"""What changes about memories without their text: their session's project, and how often they were used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from qdrant_client import models as q

from retentive.errors import NotFound
from retentive.models import Session
from retentive.stores.qdrant import names
from retentive.stores.qdrant.catalogue import sessions_named
from retentive.stores.qdrant.connection import Connection
from retentive.stores.qdrant.points import points_of
from retentive.stores.qdrant.scopes import in_session
from retentive.stores.qdrant.versions import Versions


def move_session(
    connection: Connection, versions: Versions, profile: str, session: str, project: str | None
) -> Session:
    """The session in its new project. It is marked until its memories have followed; whoever writes next mends that."""
    home = names.homes(connection, profile, [session]).get(session)
    if home is None:
        raise NotFound(f"there is no session '{session}' in profile '{profile}'")
    if project is not None:
        names.register(connection, [names.project(profile, project)])
    home = names.set_home(connection, profile, session, home, to=project, moving=True)
    _relabel(connection, versions, profile, session, project)
    names.set_home(connection, profile, session, home, to=project, moving=False)
    return sessions_named(connection, profile, {session: project})[0]


def finish_moves(connection: Connection, versions: Versions, placed: names.Placed) -> None:
    """Let the memories of sessions follow whose move was cut off."""
    for (profile, session), project in placed.unmoved.items():
        _relabel(connection, versions, profile, session, project)
        home = names.homes(connection, profile, [session])[session]
        names.set_home(connection, profile, session, home, to=project, moving=False)


def _relabel(connection: Connection, versions: Versions, profile: str, session: str, project: str | None) -> None:
    payload = {"project": project, "written": connection.clock.take()}
    label = q.SetPayloadOperation(set_payload=q.SetPayload(payload=payload, filter=in_session(profile, session)))
    versions.everywhere(lambda version: connection.update(version.collection, [label]))


def touch(connection: Connection, versions: Versions, ids: Sequence[str], at: datetime) -> None:
    """Note that these memories were used. A memory that is gone meanwhile stays gone."""
    used = at.astimezone(UTC)
    found = connection.retrieve(connection.memories, points_of(ids).values(), fields=["access_count", "accessed"])
    operations = []
    for id, record in found.items():
        payload = record.payload or {}
        before = payload.get("accessed")
        latest = used if before is None else max(used, datetime.fromisoformat(before))
        counted = {"access_count": payload.get("access_count", 0) + 1, "accessed": latest.isoformat()}
        operations.append(q.SetPayloadOperation(set_payload=q.SetPayload(payload=counted, points=[id])))
    if operations:
        versions.everywhere(lambda version: connection.update(version.collection, operations))
