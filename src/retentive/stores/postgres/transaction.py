"""`PostgresTransaction`: the primitives of a write, on the connection that writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from retentive.models import Memory, Model, Scope
from retentive.stores.duplicates import Home
from retentive.stores.postgres import memories as table
from retentive.stores.postgres import validity
from retentive.stores.postgres.placement import find_homes, place, positions
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.side_tables import find_request, record_request
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds, to_micros
from retentive.stores.values import IdempotencyKey, Record
from retentive.stores.writes import Slot, Stored


class PostgresTransaction:
    """See `retentive.stores.writes.Transaction`. `inserted` are the keys of new memories."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rings_locked = False
        self.inserted: list[int] = []
        self.embedded = False

    def earlier(self, key: IdempotencyKey) -> list[str] | None:
        return find_request(self._connection, key)

    def record(self, key: IdempotencyKey, ids: Sequence[str]) -> None:
        record_request(self._connection, key, ids)

    def read(self, ids: Sequence[str]) -> list[Memory]:
        return table.by_ids(self._connection, ids)

    def find(self, ids: Sequence[str], within: Scope | None) -> Mapping[str, int]:
        return table.lock_all(self._connection, ids, within)

    def load(self, id: str, within: Scope | None) -> Stored[int, ScopeIds] | None:
        return table.lock(self._connection, id, within=within)

    def expired(self, before: datetime, *, limit: int, profile: str | None) -> list[str]:
        return validity.expired_ids(self._connection, before, limit=limit, profile=profile)

    def homes(self, memories: Sequence[Memory], *, exact: bool) -> list[Home]:
        table.lock_texts(self._connection, memories)
        return list(find_homes(self._connection, memories, exact=exact))

    def with_text(self, home: Home, memory: Memory) -> list[Memory]:
        return table.with_text(self._connection, home, memory)

    def resolve_names(self, memories: Sequence[Memory], *, exact: bool = False) -> list[ScopeIds]:
        return place(self._connection, memories, exact=exact)

    def follow_session(self, stored: Stored[int, ScopeIds], memory: Memory) -> tuple[ScopeIds, str | None]:
        return replace(stored.place, kind=KIND_NUMBERS[memory.kind]), stored.memory.project

    def next_positions(self, memories: Sequence[Memory], places: Sequence[ScopeIds]) -> list[int | None]:
        return positions(self._connection, memories, places)

    def insert(self, memories: Sequence[Memory], places: Sequence[ScopeIds], terms: Sequence[list[str]]) -> list[int]:
        self.inserted = table.insert(self._connection, memories, list(zip(places, terms, strict=True)))
        return self.inserted

    def replace(
        self,
        stored: Stored[int, ScopeIds],
        memory: Memory,
        place: ScopeIds,
        terms: Sequence[str],
        *,
        keeps_vectors: bool,
    ) -> None:
        table.replace(self._connection, stored.key, memory, (stored.place, stored.terms), (place, terms))
        if not keeps_vectors:
            table.remove_vectors(self._connection, [stored.key])
            return
        table.move_vectors(self._connection, stored.key, place)
        if validity.is_dated(memory) or validity.is_dated(stored.memory):
            validity.date_vectors(self._connection, [memory.id])

    def set_metadata(self, id: str, metadata: Mapping[str, Any]) -> None:
        text = json.dumps(metadata, ensure_ascii=False)
        self._connection.execute("UPDATE memories SET metadata = %s WHERE id = %s", (text, id))

    def delete(self, keys: Sequence[int]) -> None:
        table.delete(self._connection, keys)

    def forget_set_aside(self, ids: Sequence[str], within: Scope | None) -> list[str]:  # noqa: ARG002
        return []  # the server stores no text that cannot be read

    def add_vectors(self, entries: Sequence[tuple[int, ScopeIds, Record]], model: Model | None) -> None:
        table.check_vectors([record.vectors for _, _, record in entries], model)
        table.add_vectors(self._connection, entries, model)
        self.embedded = model is not None

    def memories_of_keys(self, slots: Collection[Slot]) -> dict[Slot, list[Memory]]:
        return validity.memories_of_keys(self._connection, slots)

    def close_memories(self, memories: Sequence[Memory]) -> None:
        for memory in memories:
            values = (to_micros(memory.start), memory.id)
            self._connection.execute("UPDATE memories SET valid_to = %s WHERE id = %s", values)

    def retire(self, memories: Sequence[Memory]) -> None:
        validity.retire(self._connection, memories)

    def replaced_by(self, id: str) -> str | None:
        if not self._rings_locked:  # other transactions that ask for it wait for this one
            validity.lock_replacements(self._connection)
            self._rings_locked = True
        return validity.replaced_by(self._connection, id)
