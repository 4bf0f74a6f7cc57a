"""What every store does alike with validity: the memories of one key follow one another, and one of them is open.

A memory is open until it has a `valid_to`. Among the memories of a key in a project, each is valid until the next one
starts, by `Memory.start`, whatever the order in which they arrive; of equal starts, the one that arrives later follows.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from retentive.errors import Conflict
from retentive.models import Memory

Slot = TypeVar("Slot", bound=Hashable)

NEWER_OF_KEY = "a newer memory has its key"
"""The reason of a memory that was retired because of its key."""


def retired(memory: Memory, at: datetime, by: Memory | None, *, reason: str | None, actor: str | None) -> Memory:
    """A memory that is valid only until a time, and what replaced it. It does not end before it starts."""
    end = max(at, memory.start)
    return memory._replace(valid_to=end, superseded_by=by and by.id, reason=reason, actor=actor)


def settle_keys(
    new: Sequence[tuple[Slot, Memory]], stored: Mapping[Slot, Iterable[Memory]]
) -> tuple[list[Memory], list[Memory]]:
    """The memories of a write as they are to be stored, and the stored ones that it retires, given those of their keys.

    The first part of each pair, and the keys of `stored`, identify the profile, project and key of a memory.
    """
    final = {memory.id: memory for _, memory in new}
    before = {memory.id: memory for memories in stored.values() for memory in memories}
    after = dict(before)
    ids = {slot: [memory.id for memory in memories] for slot, memories in stored.items()}
    for slot, memory in new:
        if memory.key is None:
            continue
        known = ids.setdefault(slot, [])
        if memory.valid_to is None:
            others = [final.get(id) or after[id] for id in known if id != memory.id]
            for changed in _insert(memory, others):
                (final if changed.id in final else after)[changed.id] = changed
        known.append(memory.id)
    changes = [memory for id, memory in after.items() if memory is not before[id]]
    return [final[memory.id] for _, memory in new], changes


def settle_update(
    current: Memory, memory: Memory, fields: Collection[str] | None, others: Sequence[Memory]
) -> tuple[Memory, list[Memory]]:
    """An updated open memory as it is to be stored, and those that it retires, given the others of its key.

    `Conflict` if it becomes open again, as it was, and another one is open.
    """
    moved = (current.key, current.start, current.project) != (memory.key, memory.start, memory.project)
    if fields is None or moved:
        [settled], changed = settle_keys([("", memory)], {"": others})
        return settled, changed
    open_one = next((one for one in others if one.valid_to is None), None)
    if open_one is not None:
        raise Conflict(
            f"memory {open_one.id} has the key '{memory.key}' now; retract it first: retentive retract {open_one.id}"
        )
    return memory, []


def _insert(memory: Memory, others: Sequence[Memory]) -> list[Memory]:
    """What changes when an open memory joins those of its key. What was retired otherwise stays as it is."""
    by_key = [one for one in others if one.valid_to is None or one.reason == NEWER_OF_KEY]
    later = [one for one in by_key if one.start > memory.start]
    changed = [
        retired(one, memory.start, memory, reason=NEWER_OF_KEY, actor=None)
        for one in by_key
        if one.start <= memory.start and (one.valid_to is None or one.valid_to > memory.start)
    ]
    if later:
        following = min(later, key=lambda one: one.start)
        changed.append(retired(memory, following.start, following, reason=NEWER_OF_KEY, actor=None))
    return changed
