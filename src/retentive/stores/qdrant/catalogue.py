"""Sessions, projects, profiles, days and totals, each counted by the server in a fixed number of requests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

from qdrant_client import models as q

from retentive.models import KINDS, Day, Kind, Model, Profile, Project, Session, Stats
from retentive.stores.qdrant import names
from retentive.stores.qdrant.connection import Connection, matching
from retentive.stores.qdrant.points import encodable, from_micros

INLINE = 250
"""Of how many sessions the first and last time are asked for in one request."""


def sessions(connection: Connection, profile: str, project: str | None) -> list[Session]:
    """The sessions of a profile or of one of its projects, by name."""
    homes = {one["name"]: one.get("project") for one in names.listed(connection, "session", profile, project)}
    return sessions_named(connection, profile, homes)


def sessions_named(connection: Connection, profile: str, homes: Mapping[str, str | None]) -> list[Session]:
    """These sessions, with what each holds."""
    if not homes:
        return []
    counts = _counts(connection, "session", matching(profile=profile), homes)
    times = _times(connection, profile, [name for name in homes if counts[name]])
    return [Session(name, profile, homes[name], counts[name], *times.get(name, (None, None))) for name in sorted(homes)]


def _times(connection: Connection, profile: str, sessions: list[str]) -> dict[str, tuple[datetime, datetime]]:
    """The first and last time of each session."""
    found: dict[str, tuple[datetime, datetime]] = {}
    ends = [
        q.OrderByQuery(order_by=q.OrderBy(key="when", direction=way)) for way in (q.Direction.ASC, q.Direction.DESC)
    ]
    for at in range(0, len(sessions), INLINE):
        some = sessions[at : at + INLINE]
        answers = connection.batch(
            [
                q.QueryRequest(
                    query=end, filter=matching(profile=profile, session=name), limit=1, with_payload=["when"]
                )
                for name in some
                for end in ends
            ]
        )
        times = [from_micros((point.payload or {})["when"]) for answer in answers for point in answer.points]
        found |= {name: (times[2 * at], times[2 * at + 1]) for at, name in enumerate(some)}
    return found


def projects(connection: Connection, profile: str) -> list[Project]:
    """The projects of a profile, by name."""
    found = sorted(one["name"] for one in names.listed(connection, "project", profile))
    if not found:
        return []
    homes = [one.get("project") for one in names.listed(connection, "session", profile)]
    counts = _counts(connection, "project", matching(profile=profile), found)
    return [Project(name, profile, homes.count(name), counts[name]) for name in found]


def profiles(connection: Connection) -> list[Profile]:
    """Everybody who has memories, by name."""
    everybody = [one["name"] for one in names.listed(connection, "profile")]
    counts = _counts(connection, "profile", None, everybody)
    of = {type: [one["profile"] for one in names.listed(connection, type)] for type in ("project", "session")}
    return [
        Profile(name, of["project"].count(name), of["session"].count(name), counts[name])
        for name in sorted(everybody)
        if counts[name]
    ]


def days(connection: Connection, profile: str, project: str | None) -> list[Day]:
    """How much there is of each day, oldest first."""
    if not encodable(profile, project):
        return []
    scope = {"profile": profile} if project is None else {"profile": profile, "project": project}
    found: dict[int, dict[Kind, int]] = {}
    for kind in KINDS:
        for day, count in connection.facet(connection.memories, "day", matching(kind=kind, **scope)).items():
            found.setdefault(day, {})[kind] = count
    return [Day(date.fromordinal(day), found[day]) for day in sorted(found)]


def stats(connection: Connection, model: Model | None) -> Stats:
    """What the store holds; how many bytes that takes only the server's own pages tell."""
    by_kind = connection.facet(connection.memories, "kind")
    parts = connection.facet(connection.memories, "parts")
    types = connection.facet(connection.notes, "type")
    return Stats(
        memories=sum(by_kind.values()),
        by_kind={kind: by_kind.get(kind, 0) for kind in KINDS},
        profiles=types.get("profile", 0),
        projects=types.get("project", 0),
        sessions=types.get("session", 0),
        vectors=sum(int(count) * points for count, points in parts.items()),
        unembedded=parts.get(0, 0),
        model=model,
        bytes=0,
    )


def _counts(connection: Connection, field: str, where: q.Filter | None, wanted: Any) -> dict[str, int]:
    """How many memories each of these names has. A name that is a UUID is counted under its usual spelling."""
    counted = connection.facet(connection.memories, field, where)
    return {name: counted.get(name) or counted.get(_spelled(name), 0) for name in wanted}


def _spelled(name: str) -> str:
    try:
        return str(UUID(name))
    except ValueError:
        return name
