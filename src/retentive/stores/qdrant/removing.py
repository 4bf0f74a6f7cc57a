"""Memories out for good."""

from __future__ import annotations

from collections.abc import Sequence

from retentive.models import Scope
from retentive.stores import IdempotencyKey
from retentive.stores.qdrant import idempotency, judging
from retentive.stores.qdrant.connection import PAGE, Connection
from retentive.stores.qdrant.points import points_of
from retentive.stores.qdrant.reading import by_points
from retentive.stores.qdrant.scopes import resolve
from retentive.stores.qdrant.state import Version
from retentive.stores.qdrant.versions import Versions


def remove(
    connection: Connection, versions: Versions, ids: Sequence[str], idempotency_key: IdempotencyKey | None
) -> int:
    """How many of these were there; they are gone. See `retentive.stores.Keeping.remove`."""
    earlier = idempotency.made_before(connection, idempotency_key) if idempotency_key else None
    if earlier is not None and earlier.done:
        return len(earlier.ids)
    points = points_of(ids)
    found = by_points(connection, list(points.values()), fields=False)
    there = [id for id, point in points.items() if point in found]
    if earlier is not None:
        there = earlier.ids  # cut off in the midst of them
    with idempotency.carried_out(connection, idempotency_key if there else None, there, earlier):
        remove_points(connection, versions, there)
    return len(there)


def remove_scope(connection: Connection, versions: Versions, scope: Scope) -> int:
    """How many memories this scope held; they are gone."""
    where = resolve(connection, scope)
    if where is None:
        return 0
    there = [(record.payload or {})["id"] for record in connection.scroll(connection.memories, where, fields=["id"])]
    remove_points(connection, versions, there)
    return len(there)


def remove_points(connection: Connection, versions: Versions, ids: Sequence[str]) -> None:
    """Take these memories out, with what was said of them."""
    if not ids:
        return
    judging.remove_of(connection, ids)
    points = list(points_of(ids).values())

    def delete(version: Version) -> None:
        for at in range(0, len(points), PAGE):
            connection.delete(version.collection, points[at : at + PAGE])

    versions.everywhere(delete)
    versions.recount(-len(ids))
