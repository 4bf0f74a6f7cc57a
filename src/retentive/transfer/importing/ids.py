"""Ids of imported memories: the same each time the same thing is imported, and in the order in which things happened.

They look like UUIDs of version 7, whose first bits are a time, because memories are listed by them, newest first. The
rest is a hash of where the memory goes and what it says, so that a second import finds it there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = 2**48 - 1


def imported_id(profile: str, format: str, key: str, text: str, *, when: datetime | None) -> str:
    """The id of an item in a profile. One without a time counts as older than all that have one."""
    return _id(_milliseconds(when), (profile, format, key, text))


def moved_id(profile: str, id: str) -> str:
    """The id of a memory of another profile in this one, at the same time."""
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
