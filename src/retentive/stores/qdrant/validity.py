"""Which memories are current: conditions of a search, and keys with one open memory each.

Qdrant has no transactions, so two processes can store a memory under the same key at the same moment, and both are open
until each of them has read the key again, which it does before it returns. Both then retire the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from qdrant_client import models as q

from retentive.models import Memory
from retentive.stores.qdrant.connection import Connection, any_of, payload_of
from retentive.stores.qdrant.points import memory_of
from retentive.stores.sql_codec import to_micros
from retentive.stores.validity import NEWER_OF_KEY, retired

FACTS = ("valid_to", "superseded_by", "reason", "actor")

Slot = tuple[str, str | None, str]
"""The profile, project and key of memories of which one is open."""


def slot_of(memory: Memory) -> Slot | None:
    """Return the slot of a memory that has a key."""
    return None if memory.key is None else (memory.profile, memory.project, memory.key)


def not_current(at: datetime) -> list[q.Condition]:
    """Return the conditions of which a memory meets one if it is not current at a time."""
    micros = to_micros(at)
    return [
        q.FieldCondition(key="valid_until", range=q.Range(lte=micros)),
        q.FieldCondition(key="valid_since", range=q.Range(gt=micros)),
    ]


def started_by(at: datetime) -> q.Filter:
    """Return the condition that the `start` of a memory is not after a time."""
    range = q.Range(lte=to_micros(at))
    no_start = q.IsEmptyCondition(is_empty=q.PayloadField(key="valid_since"))
    happened = q.Filter(must=[no_start, q.FieldCondition(key="when", range=range)])
    return q.Filter(should=[q.FieldCondition(key="valid_since", range=range), happened])


def listed(scope: q.Filter, *, current_at: datetime | None, started: datetime | None) -> q.Filter:
    """Return a scope with the conditions of a list."""
    must: list[q.Condition] = [scope, *([started_by(started)] if started else [])]
    if current_at is None and len(must) == 1:
        return scope
    return q.Filter(must=must, must_not=not_current(current_at) if current_at else None)


def of_slots(connection: Connection, slots: Iterable[Slot]) -> Iterator[tuple[Slot, list[tuple[int, Memory]]]]:
    """Yield for each slot its memories, each after the number that orders them by their first write."""
    for profile, project, key in dict.fromkeys(slots):
        in_project: Any = (
            q.IsEmptyCondition(is_empty=q.PayloadField(key="project"))
            if project is None
            else q.FieldCondition(key="project", match=q.MatchValue(value=project))
        )
        values = {"key": key, "profile": profile}
        must = [q.FieldCondition(key=name, match=q.MatchValue(value=value)) for name, value in values.items()]
        payloads = map(payload_of, connection.scroll(connection.memories, q.Filter(must=[*must, in_project])))
        found = ((one["born"], memory_of(one)) for one in payloads)
        yield (profile, project, key), sorted(found, key=lambda one: one[0])


def superseded(connection: Connection, memories: Sequence[Memory], ids: Sequence[str]) -> list[Memory]:
    """Return the memories that these have replaced, and those with the same key."""
    found: dict[str, Memory] = {}
    if ids:
        where = q.Filter(must=[any_of("superseded_by", list(ids))])
        for record in connection.scroll(connection.memories, where):
            memory = memory_of(payload_of(record))
            found[memory.id] = memory
    slots = [slot for memory in memories if (slot := slot_of(memory)) is not None]
    for _, of_slot in of_slots(connection, slots):
        found |= {memory.id: memory for _, memory in of_slot}
    return list(found.values())


def expired_ids(connection: Connection, before: datetime, *, limit: int, profile: str | None) -> list[str]:
    """Return the ids of memories that expired before a time."""
    must: list[q.Condition] = [q.FieldCondition(key="expiry", range=q.Range(lte=to_micros(before)))]
    if profile is not None:
        must.append(q.FieldCondition(key="profile", match=q.MatchValue(value=profile)))
    records = connection.scroll(connection.memories, q.Filter(must=must), limit=limit, fields=["id"])
    return [payload_of(record)["id"] for record in records]


def close_others(connection: Connection, slots: Iterable[Slot], write: Callable[[Memory], object]) -> None:
    """Retire all open memories of each slot but the one that starts last; of equal starts, the one stored last."""
    for _, of_slot in of_slots(connection, slots):
        open_ones = [(memory.start, born, memory) for born, memory in of_slot if memory.valid_to is None]
        open_ones.sort(key=lambda one: one[:2])
        for (_, _, memory), (_, _, following) in pairwise(open_ones):
            write(retired(memory, following.start, following, reason=NEWER_OF_KEY, actor=None))
