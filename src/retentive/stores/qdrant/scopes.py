"""A scope as the filter that goes into every search."""

from __future__ import annotations

from collections.abc import Iterable

from qdrant_client import models as q

from retentive.models import Scope
from retentive.stores.qdrant.connection import Connection, matching
from retentive.stores.qdrant.names import homes
from retentive.stores.qdrant.points import encodable


def resolve(connection: Connection, scope: Scope) -> q.Filter | None:
    """The filter of a scope, None for one that matches nothing. Named sessions cost a request: they may have moved."""
    if not encodable(scope.profile, scope.project) or scope.kinds == () or scope.sessions == ():
        return None
    must: list[q.Condition] = [q.FieldCondition(key="profile", match=q.MatchValue(value=scope.profile))]
    if scope.kinds is not None:
        must.append(any_of("kind", scope.kinds))
    if scope.sessions is not None:
        inside = _homes(connection, scope)
        if inside is None:
            return None
        must.append(inside)
    elif scope.project is not None:
        must.append(q.FieldCondition(key="project", match=q.MatchValue(value=scope.project)))
    return q.Filter(must=must)


def _homes(connection: Connection, scope: Scope) -> q.Filter | None:
    """Named sessions, each standing for its project if it has one; None if none of them exists."""
    projects: dict[str, None] = {}
    sessions: dict[str, None] = {}
    for name, home in homes(connection, scope.profile, scope.sessions or ()).items():
        if scope.project not in (None, home.project):
            continue
        if home.project is None or scope.only_sessions:
            sessions[name] = None
        else:
            projects[home.project] = None
    ways = [any_of(field, names) for field, names in (("project", projects), ("session", sessions)) if names]
    return q.Filter(should=list(ways)) if ways else None


def any_of(field: str, values: Iterable[str]) -> q.FieldCondition:
    """Points that have one of these values."""
    return q.FieldCondition(key=field, match=q.MatchAny(any=list(values)))


def without(where: q.Filter, points: Iterable[str]) -> q.Filter:
    """The same, but for these points."""
    left_out = list(points)
    return q.Filter(must=[where], must_not=[q.HasIdCondition(has_id=left_out)]) if left_out else where


def these(points: Iterable[str]) -> q.Filter:
    """Just these points."""
    return q.Filter(must=[q.HasIdCondition(has_id=list(points))])


def in_session(profile: str, session: str) -> q.Filter:
    """The memories of a session."""
    return matching(profile=profile, session=session)
