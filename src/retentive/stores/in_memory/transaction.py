"""`InMemoryTransaction`: the primitives of a write, on the dicts of a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from retentive.models import Memory, Model, Scope
from retentive.stores.duplicates import Home
from retentive.stores.in_memory.entries import (
    Containers,
    Session,
    make_entry,
    normalized,
    rounded,
    session_of,
    turns,
    without_turns,
)
from retentive.stores.rules import is_sent_again, is_within
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import IdempotencyKey, Record
from retentive.stores.writes import Slot, Stored

if TYPE_CHECKING:
    from retentive.stores.in_memory import InMemoryStore


class NamedPlace(NamedTuple):
    """The names of a memory's profile, project and session."""

    profile: str
    project: str | None
    session: str | None


class InMemoryTransaction:
    """See `retentive.stores.writes.Transaction`. Its store holds the lock, and restores its dicts if a write fails."""

    def __init__(self, store: InMemoryStore) -> None:
        self._store = store

    def earlier(self, key: IdempotencyKey) -> list[str] | None:
        if key.name not in self._store.requests:
            return None
        earlier, ids = self._store.requests[key.name]
        return list(ids) if is_sent_again(key, earlier.fingerprint, to_micros(earlier.at)) else None

    def record(self, key: IdempotencyKey, ids: Sequence[str]) -> None:
        kept = {name: one for name, one in self._store.requests.items() if one[0].at >= key.expires_before}
        self._store.requests = {**kept, key.name: (key, list(ids))}

    def read(self, ids: Sequence[str]) -> list[Memory]:
        entries = self._store.entries
        return [entries[id].memory for id in ids if id in entries]

    def find(self, ids: Sequence[str], within: Scope | None) -> Mapping[str, str]:
        return {memory.id: memory.id for memory in self.read(ids) if is_within(memory, within)}

    def load(self, id: str, within: Scope | None) -> Stored[str, NamedPlace] | None:
        return next((Stored(id, one, _place(one)) for one in self.read([id]) if is_within(one, within)), None)

    def expired(self, before: datetime, *, limit: int, profile: str | None) -> list[str]:
        memories = (one for one in self._memories() if profile in (None, one.profile))
        return [one.id for one in memories if one.expires is not None and one.expires <= before][:limit]

    def homes(self, memories: Sequence[Memory], *, exact: bool) -> list[Home]:
        places = _places(self._store.containers.copy(), memories, exact=exact)
        return [(place.profile, place.project) for place in places]

    def with_text(self, home: Home, memory: Memory) -> Iterable[Memory]:
        return (
            one
            for one in self._memories()
            if one.content_hash == memory.content_hash and (one.profile, one.project) == home
        )

    def resolve_names(self, memories: Sequence[Memory], *, exact: bool = False) -> list[NamedPlace]:
        return _places(self._store.containers, memories, exact=exact)

    def follow_session(self, stored: Stored[str, NamedPlace], memory: Memory) -> tuple[NamedPlace, str | None]:  # noqa: ARG002
        return stored.place, stored.place.project

    def next_positions(self, memories: Sequence[Memory], places: Sequence[NamedPlace]) -> list[int | None]:
        last: dict[Session, int] = {}
        for memory in self._memories():
            session = session_of(memory)
            if session is not None and memory.position is not None:
                last[session] = max(last.get(session, -1), memory.position)
        found: list[int | None] = []
        for memory, place in zip(memories, places, strict=True):
            position = None
            if place.session is not None:
                session = (place.profile, place.project, place.session)
                position = last.get(session, -1) + 1 if memory.position is None else memory.position
                last[session] = max(last.get(session, -1), position)
            found.append(position)
        return found

    def insert(
        self,
        memories: Sequence[Memory],
        places: Sequence[NamedPlace],
        terms: Sequence[list[str]],  # noqa: ARG002
    ) -> list[str]:
        for memory, place in zip(memories, places, strict=True):
            placed = normalized(memory._replace(project=place.project))
            self._store.entries[memory.id] = make_entry(placed, {})
        return [memory.id for memory in memories]

    def replace(
        self,
        stored: Stored[str, NamedPlace],
        memory: Memory,
        place: NamedPlace,
        terms: Sequence[str],  # noqa: ARG002
        *,
        keeps_vectors: bool,
    ) -> None:
        position = memory.position if place.session is not None else None
        placed = normalized(memory._replace(project=place.project, position=position))
        entry = self._store.entries[stored.key]
        if not keeps_vectors:
            self._drop_turns([stored.key])
        kept = make_entry(placed, entry.vectors, entry.previous) if keeps_vectors else make_entry(placed, {})
        self._store.entries[stored.key] = kept

    def set_metadata(self, id: str, metadata: Mapping[str, Any]) -> None:
        self._replace(self._store.entries[id].memory._replace(metadata=metadata))

    def delete(self, keys: Sequence[str]) -> None:
        gone = set(keys)
        for id in gone:
            del self._store.entries[id]
        self._drop_turns(gone)
        judgements = self._store.all_judgements
        self._store.all_judgements = {key: one for key, one in judgements.items() if one.memory not in gone}

    def forget_set_aside(self, ids: Sequence[str], within: Scope | None) -> list[str]:  # noqa: ARG002
        return []

    def add_vectors(self, entries: Sequence[tuple[str, NamedPlace, Record]], model: Model | None) -> None:
        for id, _, record in entries:
            given = self._store.with_known_turn(record)
            vectors = rounded(given.vectors, model)
            if vectors:
                entry = self._store.entries[id]
                self._store.entries[id] = make_entry(entry.memory, vectors, turns(given, model))
                self._store.set_first_model([self._store.entries[id]], model)

    def memories_of_keys(self, slots: Collection[Slot]) -> dict[Slot, list[Memory]]:
        found: dict[Slot, list[Memory]] = {slot: [] for slot in slots}
        for memory in self._memories():
            slot = (memory.key or "", memory.profile, memory.project)
            if slot in found:
                found[slot].append(memory)
        return found

    def close_memories(self, memories: Sequence[Memory]) -> None:
        """Do nothing: two open memories of a key disturb nobody until the lock is released."""

    def retire(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            self._replace(memory)

    def replaced_by(self, id: str) -> str | None:
        entry = self._store.entries.get(id)
        return entry.memory.superseded_by if entry else None

    def _memories(self) -> Iterable[Memory]:
        return (entry.memory for entry in self._store.entries.values())

    def _replace(self, memory: Memory) -> None:
        self._store.entries[memory.id] = replace(self._store.entries[memory.id], memory=memory)

    def _drop_turns(self, ids: Collection[str]) -> None:
        """Delete the vectors that contain the text of these memories."""
        self._store.entries = {id: without_turns(entry, ids) for id, entry in self._store.entries.items()}


def _place(memory: Memory) -> NamedPlace:
    return NamedPlace(memory.profile, memory.project, memory.session)


def _places(containers: Containers, memories: Sequence[Memory], *, exact: bool) -> list[NamedPlace]:
    return [_place(containers.register(memory, exact=exact)) for memory in memories]
