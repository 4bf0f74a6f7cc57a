"""Ids of imported memories: the same at each import of the same item, and ordered by the time of the item.

They look like UUIDs of version 7, which start with a time: memories of the same time are listed by id. The rest is a
hash of the item and its target, so that a second import finds the memory of the first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from uuid import UUID

import apsw

from retentive.stores.base import Memories

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 2**48 - 1


def imported_id(profile: str, format: str, key: str, text: str, *, when: datetime | None) -> str:
    """Return the id of an item in a profile. Items without a time are ordered before all others."""
    return _id(_milliseconds(when), (profile, format, key, text))


def moved_id(profile: str, id: str) -> str:
    """Return the id that a memory of another profile gets in this profile, at the same time."""
    return _id(UUID(id).int >> 80, (profile, id))


def _id(milliseconds: int, parts: Iterable[str]) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode(errors="surrogatepass")
        hashed.update(len(data).to_bytes(8))
        hashed.update(data)
    bits = int.from_bytes(hashed.digest())
    number = milliseconds << 80 | (bits & (2**80 - 1))
    number = number & ~(0xF << 76) | 7 << 76
    return str(UUID(int=number & ~(0b11 << 62) | 0b10 << 62))


def _milliseconds(when: datetime | None) -> int:
    if when is None:
        return 0
    return min(max(int((when - _EPOCH).total_seconds() * 1000), 0), _LATEST)


def existing_ids(store: Memories, ids: Sequence[str]) -> set[str]:
    """Return the ids of which the store has a memory."""
    return {memory.id for memory in store.get(ids)} if ids else set()


class IdSet:
    """A set of ids in a temporary file, so that memory use does not grow with the imported file."""

    def __init__(self) -> None:
        self._database = apsw.Connection("")  # SQLite deletes it when it is closed
        self._database.execute("CREATE TABLE ids (id TEXT PRIMARY KEY) WITHOUT ROWID; BEGIN").fetchall()

    def add(self, id: str) -> bool:
        """Add an id; return whether it is new."""
        self._database.execute("INSERT OR IGNORE INTO ids VALUES (?)", (id,))
        return bool(self._database.changes())
