"""Memories out, by id, by key and page by page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from qdrant_client import models as q

from retentive.errors import Invalid
from retentive.models import Key, Memory
from retentive.stores.qdrant.connection import PAGE, Connection
from retentive.stores.qdrant.points import as_places, behind, memory_of, place_of, point_of, points_of


def by_points(
    connection: Connection, points: Sequence[str], *, fields: Sequence[str] | bool = True
) -> dict[str, q.Record]:
    """Those of these points that exist."""
    found: dict[str, q.Record] = {}
    for at in range(0, len(points), PAGE):
        found |= connection.retrieve(connection.memories, points[at : at + PAGE], fields=fields)
    return found


def get(connection: Connection, ids: Sequence[str]) -> list[Memory]:
    """The memories of these ids that exist, in the order asked for."""
    points = points_of(ids)
    found = by_points(connection, list(points.values()))
    return [memory_of(found[points[id]].payload or {}) for id in ids if points.get(id) in found]


def fetch(connection: Connection, keys: Iterable[Key]) -> Mapping[Key, Memory]:
    """The memories behind these keys that still exist."""
    places = as_places(keys)
    found = by_points(connection, list(places))
    return {
        places[point]: memory_of(record.payload or {})
        for point, record in found.items()
        if place_of(record) == places[point]
    }


def keys(connection: Connection, ids: Sequence[str]) -> Mapping[str, Key]:
    """The keys of these memories that exist, by their ids."""
    points = points_of(ids)
    found = by_points(connection, list(points.values()))
    return {id: place_of(found[point]) for id, point in points.items() if point in found}


def page(
    connection: Connection,
    where: q.Filter | None,
    *,
    cursor: str | None,
    limit: int,
    vectors: list[str] | bool = False,
) -> list[q.Record]:
    """The points behind a cursor, which is a memory's id; one more than wanted if there are so many."""
    start = None
    if cursor is not None:
        point = point_of(cursor)
        if point is None:
            raise Invalid("cursor: not one that this store has given")
        start = behind(point)
        if start is None:
            return []
    return list(connection.scroll(connection.memories, where, start=start, limit=limit + 1, vectors=vectors))
