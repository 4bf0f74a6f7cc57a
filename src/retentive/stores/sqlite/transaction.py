"""`SqliteTransaction`: the primitives of a write, on the connection that writes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import apsw

from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Damage, damaged_error
from retentive.stores.duplicates import Home
from retentive.stores.sql_codec import KIND_NUMBERS, ScopeIds, to_micros
from retentive.stores.sqlite import memory_table, repair, row_changes, side_tables, validity, vector_blocks
from retentive.stores.sqlite.block_reclaim import reclaim
from retentive.stores.sqlite.row_changes import NameRegistry
from retentive.stores.values import IdempotencyKey, Record
from retentive.stores.writes import Slot, Stored

_SAME_TEXT = "SELECT key FROM memories WHERE content_hash = ? AND profile = ? AND coalesce(project, 0) = ? ORDER BY key"
_OF_KEY = "SELECT key FROM memories WHERE fact_key = ? AND profile = ? AND coalesce(project, 0) = ? ORDER BY key"
_SESSION = """
    SELECT s.profile, coalesce(s.project, 0), s.id, r.name
    FROM sessions AS s LEFT JOIN projects AS r ON r.id = s.project WHERE s.id = ?
"""


class SqliteTransaction:
    """See `retentive.stores.writes.Transaction`. `removed` and `replaced` tell whether memories or texts were."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.removed = False
        self.replaced = False

    def earlier(self, key: IdempotencyKey) -> list[str] | None:
        return side_tables.written_before(self._connection, key)

    def record(self, key: IdempotencyKey, ids: Sequence[str]) -> None:
        side_tables.record_write(self._connection, key, ids)

    def read(self, ids: Sequence[str]) -> list[Memory]:
        found = memory_table.by_ids(self._connection, ids)
        return [found[id][1] for id in ids if id in found]

    def find(self, ids: Sequence[str], within: Scope | None) -> Mapping[str, int]:
        return memory_table.keys_within(self._connection, ids, within)

    def load(self, id: str, within: Scope | None) -> Stored[int, ScopeIds] | None:
        key = self.find([id], within).get(id)
        if key is None:
            return None
        damaged: list[Damage] = []
        memory = memory_table.by_keys(self._connection, [key], damaged).get(key)
        if memory is None:
            raise damaged_error(damaged[0])
        [(_, terms, place)] = row_changes.keyword_entries(self._connection, [key])
        return Stored(key, memory, place, terms)

    def expired(self, before: datetime, *, limit: int, profile: str | None) -> list[str]:
        return validity.expired_ids(self._connection, to_micros(before) or 0, limit=limit, profile=profile)

    def homes(self, memories: Sequence[Memory], *, exact: bool) -> list[Home]:
        self._connection.execute("SAVEPOINT homes")  # a memory that is not stored creates no session
        placed = self.resolve_names(memories, exact=exact)
        self._connection.execute("ROLLBACK TO homes")
        self._connection.execute("RELEASE homes")
        return [(ids.profile, ids.project) for ids in placed]

    def with_text(self, home: Home, memory: Memory) -> Iterable[Memory]:
        keys = [key for (key,) in self._connection.execute(_SAME_TEXT, (memory.content_hash, *home))]
        return memory_table.by_keys(self._connection, keys).values()

    def resolve_names(self, memories: Sequence[Memory], *, exact: bool = False) -> list[ScopeIds]:
        names = NameRegistry(self._connection)
        return [names.scope_ids(memory, exact=exact) for memory in memories]

    def follow_session(self, stored: Stored[int, ScopeIds], memory: Memory) -> tuple[ScopeIds, str | None]:
        # If the session is being moved, its project is not that of the row.
        profile, project, session, name = self._connection.execute(_SESSION, (stored.place.session,)).get
        return ScopeIds(profile, project, session, KIND_NUMBERS[memory.kind]), name

    def next_positions(self, memories: Sequence[Memory], places: Sequence[ScopeIds]) -> list[int | None]:
        names = NameRegistry(self._connection)
        return [names.position(memory, ids.session) for memory, ids in zip(memories, places, strict=True)]

    def insert(self, memories: Sequence[Memory], places: Sequence[ScopeIds], terms: Sequence[list[str]]) -> range:
        return row_changes.insert_rows(self._connection, memories, places, terms)

    def replace(
        self,
        stored: Stored[int, ScopeIds],
        memory: Memory,
        place: ScopeIds,
        terms: Sequence[str],
        *,
        keeps_vectors: bool,
    ) -> None:
        replaced = (stored.key, list(stored.terms), stored.place)
        row_changes.replace_row(self._connection, replaced, memory, place, list(terms))
        if keeps_vectors:
            vector_blocks.move_vectors(self._connection, {stored.key: place})
        else:
            self.replaced = True
            emptied = vector_blocks.remove_vectors(self._connection, [stored.key])
            reclaim(self._connection, emptied + vector_blocks.remove_turns(self._connection, [stored.key]))

    def set_metadata(self, id: str, metadata: Mapping[str, Any]) -> None:
        text = json.dumps(metadata, ensure_ascii=False)
        self._connection.execute("UPDATE memories SET metadata = ? WHERE id = ?", (text, id))

    def delete(self, keys: Sequence[int]) -> None:
        self.removed = True
        row_changes.remove_rows(self._connection, keys)

    def forget_set_aside(self, ids: Sequence[str], within: Scope | None) -> list[str]:
        return repair.forget_set_aside(self._connection, ids, within)

    def add_vectors(self, entries: Sequence[tuple[int, ScopeIds, Record]], model: Model | None) -> None:
        if model is not None and any(record.vectors is not None for _, _, record in entries):
            id = vector_blocks.register(self._connection, model)
            full = vector_blocks.add_vectors(self._connection, entries, model=id, dimension=model.dimension)
            if full:  # much of a block may have been forgotten while it was filled
                reclaim(self._connection, full)

    def memories_of_keys(self, slots: Collection[Slot]) -> dict[Slot, list[Memory]]:
        found: dict[Slot, list[Memory]] = {}
        for slot in slots:
            keys = [key for (key,) in self._connection.execute(_OF_KEY, slot)]
            found[slot] = list(memory_table.by_keys(self._connection, keys).values())
        return found

    def close_memories(self, memories: Sequence[Memory]) -> None:
        closed = ((to_micros(memory.start), memory.id) for memory in memories)
        self._connection.executemany("UPDATE memories SET valid_to = ? WHERE id = ?", closed)

    def retire(self, memories: Sequence[Memory]) -> None:
        validity.retire(self._connection, memories)

    def replaced_by(self, id: str) -> str | None:
        return validity.replaced_by(self._connection, id)
