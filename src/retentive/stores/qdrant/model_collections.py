"""The collections of memories, one for each model with vectors, and the alias of the one that is searched.

A memory is written to all of them, with its vectors where those are of the collection's model. To change the model, the
collection of the new one is filled beside the one in use. When every memory has its vector, the alias is moved to it,
which is one step for every process, and the old collection is deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any
from uuid import uuid4

from qdrant_client import models as q

from retentive.errors import Invalid, Unavailable
from retentive.models import Model
from retentive.stores.qdrant.connection import PAGE, Connection, NoteWrite, matching, note_id, payload_of
from retentive.stores.qdrant.layout import (
    check_server_version,
    create_memories,
    create_missing_indexes,
    create_notes,
    wait_until_indexed,
)
from retentive.stores.qdrant.sparse import WORDS

MAX_AGE = 30.0
"""Seconds for which reads use the last known state and count."""

COPY_BATCH = 256
"""How many memories are copied into a new collection in one request."""

ATTEMPTS, PAUSE = 40, 0.05
"""How often a new collection is attempted while other processes change the collections, and the seconds between."""

_STATE = note_id("state")
_log = logging.getLogger(__name__)


class ConcurrentChange(Unavailable):
    """Another process is changing the collections of this store; try again."""


@dataclass(frozen=True, slots=True)
class ModelCollection:
    """A collection of all memories with the vectors of one model; the first collection of a store has no model."""

    name: str
    model: Model | None = None

    @property
    def vector(self) -> str | None:
        """The name of its dense vector. It contains the model, so a search can never use vectors of another model."""
        if self.model is None:
            return None
        return f"dense_{blake2b(self.model.fingerprint.encode(), digest_size=8).hexdigest()}"

    def is_of(self, model: Model) -> bool:
        """Whether its vectors are of this model."""
        return self.model is not None and self.model.fingerprint == model.fingerprint


@dataclass(frozen=True, slots=True)
class CollectionState:
    """All collections of memories. `active` is the one that is searched, `stamp` identifies the version of the note."""

    active: ModelCollection
    others: tuple[ModelCollection, ...] = ()
    stamp: int = 0

    @property
    def all(self) -> tuple[ModelCollection, ...]:
        """The collections that every write goes to."""
        return (self.active, *self.others)

    def of(self, model: Model) -> ModelCollection | None:
        """Return the collection with the vectors of this model."""
        return next((one for one in self.all if one.is_of(model)), None)

    def encode(self, *, moving_alias: bool = False) -> dict[str, Any]:
        """Return the payload of the note that records this state."""
        collections = [
            {"collection": one.name, "model": None if one.model is None else asdict(one.model)} for one in self.all
        ]
        return {"type": "state", "active": self.active.name, "turning": moving_alias, "versions": collections}


class ModelCollections:
    """The collections of memories of a store. Methods that write are called with the store's lock held."""

    def __init__(self, connection: Connection, *, wait_seconds: float) -> None:
        self._connection = connection
        self._wait_seconds = wait_seconds
        self._known = self._open()
        self._count = (time.monotonic(), connection.count(connection.memories))

    def _open(self) -> tuple[float, CollectionState]:
        """Create what does not exist yet; other processes may do the same at the same time."""
        connection = self._connection
        check_server_version(connection)
        create_notes(connection)
        if not connection.retrieve(connection.notes, [_STATE]):
            first = ModelCollection(self._new_name())
            create_memories(connection, first.name)
            if not connection.write_notes([NoteWrite(_STATE, CollectionState(first).encode())]):
                self._delete(first)
        state = self.read()
        for collection in state.all:
            create_missing_indexes(connection, collection.name)
        if self._alias_target() is None:
            self._move_alias(state.active.name, exists=False)
        return self._known

    def _new_name(self) -> str:
        return f"{self._connection.memories}_{uuid4().hex[:12]}"

    # State

    @property
    def known(self) -> CollectionState:
        """The last known state, however old."""
        return self._known[1]

    def recent(self) -> CollectionState:
        """Return the last known state, read again if it is older than `MAX_AGE`."""
        at, state = self._known
        return state if time.monotonic() - at < MAX_AGE else self.read()

    def read(self) -> CollectionState:
        """Read the present state."""
        return self._read(())[0]

    def _read(self, notes: Iterable[str]) -> tuple[CollectionState, dict[str, q.Record]]:
        """Read the present state, and other notes in the same request."""
        connection = self._connection
        found = connection.retrieve(connection.notes, [_STATE, *notes])
        if _STATE not in found:
            raise Unavailable(f"the collection {connection.notes} has lost its state; restore a snapshot of it")
        payload = payload_of(found[_STATE])
        collections = {
            one["collection"]: ModelCollection(
                one["collection"], None if one["model"] is None else Model(**one["model"])
            )
            for one in payload["versions"]
        }
        active = payload["active"]
        if payload["turning"]:
            # A process that moved the alias may have ended before it recorded that, so the alias decides.
            target = self._alias_target()
            active = target if target in collections else active
        others = tuple(collection for name, collection in collections.items() if name != active)
        self._known = (time.monotonic(), CollectionState(collections[active], others, payload["stamp"]))
        return self._known[1], found

    def _write(self, state: CollectionState, *, moving_alias: bool = False) -> CollectionState:
        payload = state.encode(moving_alias=moving_alias)
        if not self._connection.write_notes([NoteWrite(_STATE, payload, state.stamp)]):
            raise ConcurrentChange
        return self.read()

    def memory_count(self) -> int:
        """Return how many memories there are, counted at most `MAX_AGE` seconds ago."""
        if time.monotonic() - self._count[0] >= MAX_AGE:
            self._count = (time.monotonic(), self._connection.count(self._connection.memories))
        return self._count[1]

    def change_count(self, change: int) -> None:
        """Adjust the last count after a write of this process."""
        at, count = self._count
        self._count = (at, max(count + change, 0))

    # Writes

    def for_each_collection(
        self, write: Callable[[ModelCollection], None], *, then_read: Iterable[str] = ()
    ) -> dict[str, q.Record]:
        """Apply a write to every collection, including those created meanwhile.

        It starts with the last known collections. The state is read after the write, so it does not matter how old
        that knowledge is. Notes to read then as well are returned.
        """
        notes = list(then_read)
        done: set[str] = set()
        found: dict[str, q.Record] = {}
        state = self.known
        while remaining := [one for one in state.all if one.name not in done]:
            for collection in remaining:
                try:
                    write(collection)
                except (Invalid, ValueError):
                    # The collection may have been deleted since the state was read.
                    if collection.name in [one.name for one in self.read().all]:
                        raise
                done.add(collection.name)
            state, found = self._read(notes)
        return found

    # Models

    def prepare(self, model: Model) -> None:
        """Make sure that there is a collection for a model's vectors; without a request if one is known."""
        if self.known.of(model) is None or self.known.active.model is None:
            self.ensure(model)

    def ensure(self, model: Model) -> ModelCollection:
        """Return the collection for a model, created if necessary. The first model's is searched at once."""
        for _ in range(ATTEMPTS):
            try:
                return self._ensure(model)
            except ConcurrentChange:
                time.sleep(PAUSE)
        raise ConcurrentChange

    def _ensure(self, model: Model) -> ModelCollection:
        state = self.read()
        collection = state.of(model)
        if collection is None:
            collection, state = self._create(model, state)
            self._copy_missing(state.active, collection)
        elif state.active.model is None:
            # The process that created it ended before it was activated, or is about to activate it.
            self._copy_missing(state.active, collection)
        if state.active.model is None:
            self._activate(state, collection, delete=(state.active,))
        return collection

    def _create(self, model: Model, state: CollectionState) -> tuple[ModelCollection, CollectionState]:
        """Create an empty collection that every write goes to from now on."""
        collection = ModelCollection(self._new_name(), model)
        create_memories(self._connection, collection.name, vector=collection.vector, size=model.dimension)
        try:
            return collection, self._write(replace(state, others=(*state.others, collection)))
        except ConcurrentChange:
            self._delete(collection)
            raise

    def switch(self, model: Model, *, without: Sequence[str] = ()) -> bool:
        """Search the vectors of this model and delete all other collections; False if a memory still lacks one.

        The memories at the points `without` may lack one.
        """
        connection = self._connection
        state = self.read()
        collection = state.of(model)
        if collection is None:
            if connection.count(state.active.name):
                return False
            collection = self.ensure(model)
            state = self.read()
        if collection != state.active:
            self._reconcile(state.active, collection)
        missing = matching(parts=0)
        if without:
            missing.must_not = [q.HasIdCondition(has_id=list(without))]
        if connection.count(collection.name, missing):
            return False
        wait_until_indexed(connection, collection.name, self._wait_seconds)
        self._activate(state, collection, delete=tuple(one for one in state.all if one != collection))
        return True

    def _activate(
        self, state: CollectionState, collection: ModelCollection, *, delete: tuple[ModelCollection, ...]
    ) -> None:
        """Search this collection from now on. If the process ends in between, the old or the new one is active."""
        if collection != state.active:
            state = self._write(state, moving_alias=True)
            self._move_alias(collection.name, exists=True)
        others = tuple(one for one in state.all if one != collection and one not in delete)
        self._write(replace(state, active=collection, others=others))
        for one in delete:
            self._delete(one)
        # A request for an alias that timed out for another process may have been carried out late. The collection that
        # it named may just have been deleted, with the alias.
        if (target := self._alias_target()) != collection.name:
            self._move_alias(collection.name, exists=target is not None)

    def _delete(self, collection: ModelCollection) -> None:
        self._connection.call(self._connection.client.delete_collection, collection.name)

    def _alias_target(self) -> str | None:
        aliases = self._connection.call(self._connection.client.get_aliases).aliases
        return next((one.collection_name for one in aliases if one.alias_name == self._connection.memories), None)

    def _move_alias(self, collection: str, *, exists: bool) -> None:
        alias = self._connection.memories
        operations: list[Any] = []
        if exists:
            operations.append(q.DeleteAliasOperation(delete_alias=q.DeleteAlias(alias_name=alias)))
        operations.append(
            q.CreateAliasOperation(create_alias=q.CreateAlias(collection_name=collection, alias_name=alias))
        )
        self._connection.call(self._connection.client.update_collection_aliases, operations)

    def _copy_missing(self, old: ModelCollection, new: ModelCollection) -> None:
        """Copy all memories to a new collection, without vectors; a memory that is already there is left as it is."""
        batch: list[q.PointStruct] = []
        for record in self._connection.scroll(old.name, vectors=[WORDS]):
            batch.append(without_dense_vector(record))
            if len(batch) == COPY_BATCH:
                self._connection.upsert(new.name, batch, mode=q.UpdateMode.INSERT_ONLY)
                batch = []
        self._connection.upsert(new.name, batch, mode=q.UpdateMode.INSERT_ONLY)

    def _reconcile(self, old: ModelCollection, new: ModelCollection) -> None:
        """Make a new collection equal to the old one, whatever other processes wrote while it was filled."""
        connection = self._connection
        source, copy = (
            {str(record.id): payload_of(record)["written"] for record in connection.scroll(name, fields=["written"])}
            for name in (old.name, new.name)
        )
        connection.delete(new.name, [id for id in copy if id not in source])
        stale = [id for id, written in source.items() if copy.get(id) != written]
        for at in range(0, len(stale), PAGE):
            records = connection.retrieve(old.name, stale[at : at + PAGE], vectors=[WORDS])
            connection.upsert(new.name, [without_dense_vector(record) for record in records.values()])
        if stale:
            _log.info("%d memories were copied again to %s", len(stale), new.name)


def without_dense_vector(record: q.Record) -> q.PointStruct:
    """Return a point that was read with its terms, as one that waits to be embedded."""
    vector: Any = record.vector or {}
    return q.PointStruct(id=record.id, vector=dict(vector), payload={**payload_of(record), "parts": 0})
