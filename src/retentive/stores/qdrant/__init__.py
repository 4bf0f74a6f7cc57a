"""The store on a Qdrant server: each memory is a point with a sparse vector of its terms and dense vectors."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient
from qdrant_client import models as q

from retentive.errors import Invalid
from retentive.models import Memory, Model, Query, hash_text, indexed_text
from retentive.stores.damage import Repair, Undamaged
from retentive.stores.qdrant.address import CollectionSettings, parse_address
from retentive.stores.qdrant.catalogue import QdrantCatalogue
from retentive.stores.qdrant.connection import Connection, connect, matching, payload_of
from retentive.stores.qdrant.integrity import find_problems, remove_stale_vectors, repair
from retentive.stores.qdrant.memories import QdrantMemories
from retentive.stores.qdrant.model_collections import ModelCollection, ModelCollections
from retentive.stores.qdrant.notes import QdrantNotes
from retentive.stores.qdrant.points import Rows, memory_of, points_of, to_rows
from retentive.stores.qdrant.search import QdrantSearch
from retentive.stores.qdrant.sessions import NameRegistry
from retentive.stores.values import Backup, Compaction, Progress, Record, no_progress

ATTACH_BATCH = 100
"""How many memories get their vectors in one request."""


def open_qdrant(address: str, busy_seconds: float, *, create: bool = True) -> QdrantStore:
    """Open the store at an address."""
    parsed = parse_address(address, os.environ)
    return QdrantStore(
        connect(parsed),
        prefix=parsed.prefix,
        settings=parsed.settings,
        busy_seconds=busy_seconds,
        place=parsed.url,
        create=create,
    )


class QdrantStore(QdrantMemories, QdrantCatalogue, QdrantNotes, Undamaged):
    """See `retentive.stores.base.Store` for what each method does.

    `busy_seconds` is how long a change of the model waits for the index. `place` names the server in errors until the
    store is open.
    """

    keeps_turns = False  # without transactions, a vector of two turns could outlive one of them

    def __init__(
        self,
        client: QdrantClient,
        *,
        prefix: str | None = None,
        settings: CollectionSettings | None = None,
        busy_seconds: float = 60,
        place: str = "this client",
        create: bool = True,
    ) -> None:
        self._lock = threading.RLock()
        try:
            self._connection = Connection(client, prefix=prefix, settings=settings or CollectionSettings(), place=place)
            if not create:
                self._connection.check_exists()
            self._collections = ModelCollections(self._connection, wait_seconds=busy_seconds)
        except BaseException:
            client.close()
            raise
        self._connection.server = "Qdrant"  # the clients of a service do not learn where it is
        self._names = NameRegistry(self._connection, self._collections)

    def open_search(self, query: Query) -> QdrantSearch:
        return QdrantSearch(self._connection, self._collections, self._names, query)

    def check(self) -> list[str]:
        with self._lock:
            return find_problems(self._connection, self._names, self._collections.read())

    def repair(self, *, at: datetime) -> Repair:
        with self._lock:
            return repair(self._connection, self._collections.read())

    def compact(self, *, progress: Progress = no_progress) -> Compaction:
        return Compaction(0, 0, "Qdrant's optimizer removes deleted points by itself; there is nothing to do")

    def backup(
        self, folder: Path | None = None, *, at: datetime, keep: int | None = None, progress: Progress = no_progress
    ) -> Backup:
        raise Invalid(
            "back up a Qdrant store with snapshots of all its collections: POST /collections/NAME/snapshots, or "
            "POST /snapshots for the whole server"
        )

    def close(self) -> None:
        self._connection.close()

    # Models of vectors

    def model(self) -> Model | None:
        return self._collections.recent().active.model

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        collection, where = self._without_vector(model)
        if limit < 1:
            return []
        scroll, order = self._connection.client.scroll, q.OrderBy(key="born")
        records, _ = self._connection.call(scroll, collection, where, limit=limit, order_by=order)
        return [memory_of(payload_of(record)) for record in records]

    def count_unembedded(self, model: Model) -> int:
        return self._connection.count(*self._without_vector(model))

    def _without_vector(self, model: Model) -> tuple[str, q.Filter | None]:
        """Return a collection, and the filter for its memories without a vector of this model."""
        state = self._collections.read()
        collection = state.of(model)
        return (state.active.name, None) if collection is None else (collection.name, matching(parts=0))

    def previous(self, memories: Sequence[Memory]) -> list[Memory | None]:
        return [None] * len(memories)

    def following(self, memories: Sequence[Memory]) -> list[Memory | None]:
        return [None] * len(memories)

    def attach(self, records: Sequence[Record], *, model: Model) -> int:
        connection = self._connection
        given = {one.memory.id: (one.memory.text_hash, to_rows(one.alone().vectors, model) or []) for one in records}
        points = points_of(given)
        with self._lock:
            if not connection.retrieve(connection.memories, points.values(), fields=False):
                return 0
            collection = self._collections.ensure(model)
            found = connection.retrieve(
                collection.name, points.values(), fields=["parts", "written", "text", "speaker"]
            )
            payloads = {id: payload_of(found[point]) for id, point in points.items() if point in found}
            # Others were deleted or changed meanwhile, or embedded by another process.
            waiting = [
                id
                for id, payload in payloads.items()
                if payload["parts"] == 0
                and hash_text(indexed_text(payload["text"], payload.get("speaker"))) == given[id][0]
            ]
            for at in range(0, len(waiting), ATTACH_BATCH):
                operations: list[Any] = []
                for id in waiting[at : at + ATTACH_BATCH]:
                    operations += _attaching(collection, points[id], payloads[id]["written"], *given[id])
                connection.update(collection.name, operations)
            return len(waiting)

    def remove_stale_vectors(self) -> int:
        removed: set[str] = set()
        with self._lock:
            for collection in self._collections.read().all:
                removed |= remove_stale_vectors(self._connection, collection)
        return len(removed)

    def switch_model(self, model: Model, *, without: Collection[str] = ()) -> bool:
        with self._lock:
            return self._collections.switch(model, without=list(points_of(without).values()))


def _attaching(collection: ModelCollection, point: str, written: int, text_hash: str, rows: Rows) -> list[Any]:
    """Return the operations that give a point its vectors, unless it is written after it was read."""
    vector: Any = {collection.vector: rows}
    unchanged = matching(written=written)
    this = q.Filter(must=[q.HasIdCondition(has_id=[point]), unchanged])
    update = q.UpdateVectors(points=[q.PointVectors(id=point, vector=vector)], update_filter=unchanged)
    # The count is written last: without it the memory is embedded again.
    count = q.SetPayload(payload={"parts": len(rows), "text_hash": text_hash}, filter=this)
    return [q.UpdateVectorsOperation(update_vectors=update), q.SetPayloadOperation(set_payload=count)]
