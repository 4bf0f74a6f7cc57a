"""Memories as points, and points as memories.

A point's id is the complement of its memory's: Qdrant pages through points by id, smallest first, and memories are
listed newest first.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID

from qdrant_client import models as q

from retentive.errors import Invalid
from retentive.models import Memory

_EVERY_BIT = (1 << 128) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES = ("created", "occurred", "accessed")


@dataclass(frozen=True, slots=True)
class Place:
    """The key of a memory: its point, and when it was born, because a removed id may come again.

    Where it stood when the key was given out tells its neighbours in one request.
    """

    point: str
    born: int
    session: tuple[str, str] | None = field(default=None, compare=False)
    position: int | None = field(default=None, compare=False)


class Clock:
    """Numbers that grow with time and never come twice in a process: the order of writing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def take(self, count: int = 1) -> int:
        """The first of so many new numbers in a row."""
        with self._lock:
            first = max(time.time_ns(), self._last + 1)
            self._last = first + count - 1
            return first


def point_of(id: str) -> str | None:
    """The point of a memory's id; None if nothing here can have this id."""
    try:
        number = UUID(id)
    except ValueError:
        return None
    return str(UUID(int=_EVERY_BIT ^ number.int)) if str(number) == id else None


def points_of(ids: Iterable[str]) -> dict[str, str]:
    """The points of those ids that can be here, each once, by id."""
    found = {id: point_of(id) for id in ids}
    return {id: point for id, point in found.items() if point is not None}


def new_point_of(id: str) -> str:
    """The point of a memory that is to be stored."""
    point = point_of(id)
    if point is None:
        raise Invalid(f"id: {id!r:.80} is not a UUID; this store takes no other ids")
    return point


def behind(point: str) -> str | None:
    """Where to go on behind a point; None if nothing can be there."""
    number = UUID(point).int
    return None if number == _EVERY_BIT else str(UUID(int=number + 1))


def encodable(*texts: str | None) -> bool:
    """Whether these can be in the store at all; half of a surrogate pair cannot even be asked for."""
    return all(text is None or text.isascii() or text == text.encode(errors="ignore").decode() for text in texts)


def micros(time: datetime) -> int:
    """A time as a whole number, exactly."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def from_micros(number: int) -> datetime:
    """A whole number as a time."""
    return _EPOCH + timedelta(microseconds=number)


def as_kept(memory: Memory) -> Memory:
    """The memory as it comes back: a copy, its times in UTC."""
    times = {name: time.astimezone(UTC) for name in _TIMES if (time := getattr(memory, name)) is not None}
    return memory._replace(metadata=json.loads(json.dumps(dict(memory.metadata))), **times)


def payload_of(memory: Memory, *, born: int, written: int, parts: int) -> dict[str, Any]:
    """A memory, as kept, as a point's payload, with what the store searches and sorts by beside it."""
    payload: dict[str, Any] = {name: value for name, value in memory._asdict().items() if value is not None}
    for name in _TIMES:
        if name in payload:
            payload[name] = payload[name].isoformat()
    # As text, because a number of more than 64 bits would come back as another one.
    payload["metadata"] = json.dumps(dict(memory.metadata), ensure_ascii=False)
    payload["when"] = micros(memory.when)
    payload["day"] = memory.when.toordinal()
    return {**payload, "born": born, "written": written, "parts": parts}


def memory_of(payload: Mapping[str, Any]) -> Memory:
    """The memory in a point's payload."""
    given = {name: payload[name] for name in Memory._fields if payload.get(name) is not None}
    for name in _TIMES:
        if name in given:
            given[name] = datetime.fromisoformat(given[name])
    given["metadata"] = json.loads(given.get("metadata", "{}"))
    return Memory(**given)


def place_of(point: q.Record | q.ScoredPoint) -> Place:
    """The key of a point that came with its payload, or at least with the fields in `PLACED`."""
    payload = point.payload or {}
    session = payload.get("session")
    at = None if session is None else (payload["profile"], session)
    return Place(str(point.id), payload["born"], at, payload.get("position"))


PLACED = ["born", "profile", "session", "position"]
"""The part of a payload that a key is made of."""


def as_places(keys: Iterable[object]) -> dict[str, Place]:
    """The keys that this store gave out, by point."""
    return {place.point: place for place in cast("Iterable[Place]", keys)}
