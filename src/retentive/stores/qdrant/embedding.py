"""Vectors for memories that are there already, and which memories still wait for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qdrant_client import models as q

from retentive.models import Key, Memory, Model
from retentive.stores import Vector
from retentive.stores.qdrant.connection import Connection, matching
from retentive.stores.qdrant.entries import Rows, rounded
from retentive.stores.qdrant.points import Place, as_places, memory_of, place_of
from retentive.stores.qdrant.versions import Versions

ATTACHED = 100
"""How many memories get their vectors in one request."""


def unembedded(connection: Connection, versions: Versions, model: Model, *, limit: int) -> Mapping[Key, Memory]:
    """Memories without a vector of this model, in the order of writing."""
    found = connection.ordered(*_waiting(versions, model), by="born", limit=limit) if limit > 0 else []
    return {place_of(record): memory_of(record.payload or {}) for record in found}


def count_unembedded(connection: Connection, versions: Versions, model: Model) -> int:
    """How many memories have no vector of this model."""
    return connection.count(*_waiting(versions, model))


def _waiting(versions: Versions, model: Model) -> tuple[str, q.Filter | None]:
    """Where those without a vector are found: in the model's own collection, or, while it has none, all of them."""
    state = versions.read()
    version = state.of(model)
    return (state.active.collection, None) if version is None else (version.collection, matching(parts=0))


def attach(connection: Connection, versions: Versions, vectors: Mapping[Key, Vector], model: Model) -> None:
    """Give these memories their vectors. See `retentive.stores.Modelling.attach`."""
    rows = {place: rounded(some, model) for place, some in vectors.items()}
    places = as_places(vectors)
    if not _current(connection.retrieve(connection.memories, places, fields=["born"]), places):
        return
    version = versions.register(model)
    found = connection.retrieve(version.collection, places, fields=["born", "parts"])
    # Gone meanwhile, or embedded by another process meanwhile: nothing to attach.
    waiting = [place for place in _current(found, places) if (found[place.point].payload or {})["parts"] == 0]
    for at in range(0, len(waiting), ATTACHED):
        some = waiting[at : at + ATTACHED]
        connection.update(
            version.collection,
            [one for place in some for one in _operations(place, version.vector, rows[place] or [])],
        )


def _operations(place: Place, name: str | None, rows: Rows) -> list[Any]:
    # The count comes behind the vector: cut off between the two, the memory still waits and gets it again.
    vector: Any = {name: rows}
    points = [q.PointVectors(id=place.point, vector=vector)]
    return [
        q.UpdateVectorsOperation(update_vectors=q.UpdateVectors(points=points)),
        q.SetPayloadOperation(set_payload=q.SetPayload(payload={"parts": len(rows)}, points=[place.point])),
    ]


def _current(found: Mapping[str, q.Record], places: Mapping[str, Place]) -> list[Place]:
    """Those keys that still lead to the memory for which they were given out."""
    return [
        place
        for point, place in places.items()
        if point in found and (found[point].payload or {})["born"] == place.born
    ]
