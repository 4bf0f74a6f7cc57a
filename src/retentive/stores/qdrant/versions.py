"""Collections of memories, one for each model that has vectors here, and the alias under which one of them is searched.

A memory is written to all of them, with a vector where that is of the collection's model. To change over to another
model its collection is filled beside the one in use; when every memory has its vector the alias is turned to it, in one
step for every process, and the old one is dropped.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

from qdrant_client import models as q

from retentive.errors import Invalid, Unavailable
from retentive.models import Model
from retentive.stores.qdrant.connection import PAGE, Change, Connection, matching
from retentive.stores.qdrant.key_value import note_id
from retentive.stores.qdrant.layout import check_server, create_memories, create_notes, wait_until_indexed
from retentive.stores.qdrant.sparse import WORDS
from retentive.stores.qdrant.state import State, Version, to_payload, to_version

LATELY = 30.0
"""For so many seconds a read trusts what it knows about the collections; writes always look."""

COPIED = 256
"""How many memories are copied at once into a new collection."""

TRIES, PAUSE = 40, 0.05
"""How often, and seconds between, a collection is made again while another process is making one."""

_STATE = note_id("state")
_log = logging.getLogger(__name__)


class ChangedMeanwhileError(Unavailable):
    """Another process is changing the collections of this store; try again."""


class Versions:
    """The collections of memories of a store."""

    def __init__(self, connection: Connection, *, wait_seconds: float) -> None:
        self._connection = connection
        self._wait_seconds = wait_seconds
        self._known: tuple[float, State] | None = None
        self._counted = -LATELY
        self._open()

    def _open(self) -> None:
        """See to it that there is everything; other processes may be doing the same."""
        connection = self._connection
        check_server(connection)
        create_notes(connection)
        if not connection.retrieve(connection.notes, [_STATE]):
            first = Version(self._new_name())
            create_memories(connection, first.collection)
            if not connection.put([Change(_STATE, to_payload(State(first)))]):
                self._drop(first)
        state = self.read()
        aliases = connection.ask(lambda client: client.get_aliases()).aliases
        if connection.memories not in [alias.alias_name for alias in aliases]:
            self._point_alias(state.active.collection, replacing=False)

    def _new_name(self) -> str:
        return f"{self._connection.memories}_{uuid4().hex[:12]}"

    # Knowing

    def lately(self) -> State:
        """The collections as they were a moment ago."""
        known = self._known
        return known[1] if known and time.monotonic() - known[0] < LATELY else self.read()

    def read(self) -> State:
        """The collections as they are now."""
        connection = self._connection
        found = connection.retrieve(connection.notes, [_STATE])
        if not found:
            raise Unavailable(f"the collection {connection.notes} has been emptied by somebody; restore a snapshot")
        payload = found[_STATE].payload or {}
        versions = {one["collection"]: to_version(one) for one in payload["versions"]}
        active = payload["active"]
        if payload["turning"]:
            # Whoever turned the alias may have been cut off before saying so: the alias knows.
            target = self._target()
            active = target if target in versions else active
        others = tuple(version for name, version in versions.items() if name != active)
        return self._keep(State(versions[active], others, payload["stamp"], self._count(active)))

    def _count(self, active: str) -> int:
        """How many memories there are, or were a moment ago."""
        if self._known and time.monotonic() - self._counted < LATELY:
            return self._known[1].memories
        self._counted = time.monotonic()
        return self._connection.count(active)

    def recount(self, change: int) -> None:
        """Take note that there are so many memories more."""
        if self._known:
            at, state = self._known
            self._known = at, replace(state, memories=max(state.memories + change, 0))

    def _keep(self, state: State) -> State:
        self._known = (time.monotonic(), state)
        return state

    def _target(self) -> str | None:
        aliases = self._connection.ask(lambda client: client.get_aliases()).aliases
        return next((one.collection_name for one in aliases if one.alias_name == self._connection.memories), None)

    def _write(self, state: State, *, turning: bool = False) -> State:
        if not self._connection.put([Change(_STATE, to_payload(state, turning=turning), state.stamp)]):
            raise ChangedMeanwhileError
        return self.read()

    # Writing to all

    def everywhere(self, act: Callable[[Version], None]) -> None:
        """Do this to every collection of memories, those that come into being meanwhile among them."""
        done: set[str] = set()
        state = self.read()
        while rest := [version for version in state.versions if version.collection not in done]:
            for version in rest:
                try:
                    act(version)
                except (Invalid, ValueError):
                    if version.collection in [one.collection for one in self.read().versions]:
                        raise
                done.add(version.collection)
            state = self.read()

    # Another model

    def accept(self, model: Model | None) -> Model | None:
        """The model, ready for its vectors; None if the store has just changed over from it to another one."""
        before = self._known[1].active if self._known else None
        if model is None or (before and before.is_of(model) and self.read().of(model) is None):
            return None
        self.register(model)
        return model

    def register(self, model: Model) -> Version:
        """The collection for this model's vectors, made if need be; the first model's is searched at once."""
        for _ in range(TRIES):
            try:
                return self._register(model)
            except ChangedMeanwhileError:
                time.sleep(PAUSE)
        raise ChangedMeanwhileError

    def _register(self, model: Model) -> Version:
        state = self.read()
        version = state.of(model)
        if version is None:
            version, state = self._begin(model, state)
            self._copy_missing(state.active, version)
        elif state.active.model is None:
            # Whoever made it was cut off before it could be searched, or is about to let it.
            self._copy_missing(state.active, version)
        if state.active.model is None:
            self._turn(state, version, dropping=(state.active,))
        return version

    def _begin(self, model: Model, state: State) -> tuple[Version, State]:
        """A new collection, still empty, that every write goes to from now on."""
        version = Version(self._new_name(), model)
        create_memories(self._connection, version.collection, vector=version.vector, size=model.dimension)
        try:
            return version, self._write(replace(state, others=(*state.others, version)))
        except ChangedMeanwhileError:
            self._drop(version)
            raise

    def switch(self, model: Model) -> bool:
        """Whether every memory has a vector of this model; if so it is searched and all other collections are gone."""
        connection = self._connection
        state = self.read()
        version = state.of(model)
        if version is None:
            if connection.count(state.active.collection):
                return False
            version = self.register(model)
            state = self.read()
        if version != state.active:
            self._reconcile(state.active, version)
        if connection.count(version.collection, matching(parts=0)):
            return False
        wait_until_indexed(connection, version.collection, self._wait_seconds)
        self._turn(state, version, dropping=tuple(one for one in state.versions if one != version))
        return True

    def _turn(self, state: State, version: Version, *, dropping: tuple[Version, ...]) -> None:
        """Let a collection be the one that is searched. Cut off at any point, it is either the old one or the new."""
        if version != state.active:
            state = self._write(state, turning=True)
            self._point_alias(version.collection, replacing=True)
        others = tuple(one for one in state.versions if one != version and one not in dropping)
        self._write(replace(state, active=version, others=others))
        for one in dropping:
            self._drop(one)

    def _drop(self, version: Version) -> None:
        self._connection.ask(lambda client: client.delete_collection(version.collection))

    def _point_alias(self, collection: str, *, replacing: bool) -> None:
        alias = self._connection.memories
        operations: list[Any] = []
        if replacing:
            operations.append(q.DeleteAliasOperation(delete_alias=q.DeleteAlias(alias_name=alias)))
        operations.append(
            q.CreateAliasOperation(create_alias=q.CreateAlias(collection_name=collection, alias_name=alias))
        )
        self._connection.ask(lambda client: client.update_collection_aliases(operations))

    def _copy_missing(self, old: Version, new: Version) -> None:
        """Give a new collection every memory, still without a vector; what is written meanwhile stays as it is."""
        page: list[q.PointStruct] = []
        for record in self._connection.scroll(old.collection, vectors=[WORDS]):
            page.append(_without_vector(record))
            if len(page) == COPIED:
                self._connection.upsert(new.collection, page, mode=q.UpdateMode.INSERT_ONLY)
                page = []
        self._connection.upsert(new.collection, page, mode=q.UpdateMode.INSERT_ONLY)

    def _reconcile(self, old: Version, new: Version) -> None:
        """Make a new collection hold just what the old one holds, whatever other processes did while it was filled."""
        connection = self._connection
        there, here = (
            {
                str(record.id): (record.payload or {})["written"]
                for record in connection.scroll(name, fields=["written"])
            }
            for name in (old.collection, new.collection)
        )
        connection.delete(new.collection, [id for id in here if id not in there])
        stale = [id for id, written in there.items() if here.get(id) != written]
        for at in range(0, len(stale), PAGE):
            records = connection.retrieve(old.collection, stale[at : at + PAGE], vectors=[WORDS])
            connection.upsert(new.collection, [_without_vector(record) for record in records.values()])
        if stale:
            _log.info("%d memories were brought up to date in %s", len(stale), new.collection)


def _without_vector(record: q.Record) -> q.PointStruct:
    vector: Any = record.vector or {}
    return q.PointStruct(id=record.id, vector=dict(vector), payload={**(record.payload or {}), "parts": 0})
