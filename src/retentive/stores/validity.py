"""What every store does alike with validity: the memories of one key follow one another, and one of them is open.

A memory is open until it has a `valid_to`. Among the memories of a key in a project, each is valid until the next one
starts, by `Memory.start`, whatever the order in which they arrive; of equal starts, the one that arrives later follows.
An end that a key gives is its own kind: it is taken back when the memory that starts there is moved. An end that was
given otherwise stays, but not beyond the start of a memory that arrives later; what was superseded by a call stays.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TypeVar

from retentive.errors import Conflict
from retentive.models import Memory

Slot = TypeVar("Slot", bound=Hashable)

NEWER_OF_KEY = "a newer memory has its key"
"""The reason of a memory that was retired because of its key."""

_OWN_END = f"{NEWER_OF_KEY}; its own end was "
"""How that reason starts if the memory had an end before, which follows."""


def retired(memory: Memory, at: datetime, by: Memory | None, *, reason: str | None, actor: str | None) -> Memory:
    """A memory that is valid only until a time, and what replaced it. It does not end before it starts."""
    end = max(at, memory.start)
    return memory._replace(valid_to=end, superseded_by=by and by.id, reason=reason, actor=actor)


def concerns_keys(current: Memory, memory: Memory) -> bool:
    """Whether an update of a memory may change other memories of a key, or must be checked against them."""
    keyed = current.key is not None or memory.key is not None
    return keyed and (memory.valid_to is None or _is_moved(current, memory))


def settle_keys(
    new: Sequence[tuple[Slot, Memory]], stored: Mapping[Slot, Iterable[Memory]], *, moved: bool = False
) -> tuple[list[Memory], list[Memory]]:
    """The memories of a write as they are to be stored, and the stored ones that it changes, given those of their keys.

    The first part of each pair, and the keys of `stored`, identify the profile, project and key of a memory. A memory
    that is given with an end ends no other one; if they are `moved`, one whose end is due to its key does.
    """
    final = {memory.id: memory for _, memory in new}
    before = {memory.id: memory for memories in stored.values() for memory in memories}
    after = dict(before)
    ids = {slot: [memory.id for memory in memories] for slot, memories in stored.items()}
    for slot, memory in new:
        if memory.key is None:
            continue
        known = ids.setdefault(slot, [])
        others = [final.get(id) or after[id] for id in known if id != memory.id]
        joins = memory.valid_to is None or (moved and _ended_by_key(memory))
        for changed in [*(_ended_by(memory, others) if joins else []), *_end_of(memory, others, joins=joins)]:
            (final if changed.id in final else after)[changed.id] = changed
        known.append(memory.id)
    changes = [memory for id, memory in after.items() if memory is not before[id]]
    return [final[memory.id] for _, memory in new], changes


def settle_update(
    current: Memory,
    memory: Memory,
    fields: Collection[str] | None,
    others: Sequence[Memory],
    former: Sequence[Memory] = (),
) -> tuple[Memory, list[Memory]]:
    """An updated memory as it is to be stored, and those that change with it, given the others of its key.

    `former` are those of the key and project that it had, if these are other ones. `Conflict` if it becomes open again,
    as it was, and another one is open.
    """
    opened = memory.valid_to is None and current.valid_to is not None
    if _is_moved(current, memory) or (fields is None and opened):
        return _insert_anew(memory, others, former)
    open_one = next((one for one in others if one.valid_to is None), None)
    if opened and open_one is not None:
        raise Conflict(
            f"memory {open_one.id} has the key '{memory.key}' now; retract it first: retentive retract {open_one.id}"
        )
    return memory, []


def _is_moved(current: Memory, memory: Memory) -> bool:
    """Whether an update gives a memory another place among those of a key."""
    return (current.key, current.start, current.project) != (memory.key, memory.start, memory.project)


def _insert_anew(memory: Memory, others: Sequence[Memory], former: Sequence[Memory]) -> tuple[Memory, list[Memory]]:
    """A memory that has another place, and what changes: first, what it had ended by its key is as it was before."""
    stored = {"here": others, "before": former}
    own = _without_key_end(memory) if _ended_by_key(memory) else memory
    ended = [
        (slot, one)
        for slot, some in stored.items()
        for one in sorted(some, key=lambda one: one.start)
        if one.superseded_by == memory.id and _ended_by_key(one)
    ]
    freed = [(slot, _without_key_end(one)) for slot, one in ended]
    ids = {one.id for _, one in ended}
    rest = {slot: [one for one in some if one.id not in ids] for slot, some in stored.items()}
    # The last one follows those of the same start. One with an end ends others only if they come after it.
    new = [*freed, ("here", own)] if own.valid_to is None else [("here", own), *freed]
    settled, changed = settle_keys(new, rest)
    final = {one.id: one for one in settled}
    changed += [final[one.id] for _, one in ended if final[one.id] != one]
    return final[memory.id], changed


def _ended_by(memory: Memory, others: Sequence[Memory]) -> list[Memory]:
    """Those that end because a memory of their key starts."""
    return [_cut(one, memory) for one in others if one.start <= memory.start and _lasts(one, memory.start)]


def _end_of(memory: Memory, others: Sequence[Memory], *, joins: bool) -> list[Memory]:
    """The memory itself if it ends because the next one of its key starts.

    For one that has an end of its own, those count that are open or were ended by their key.
    """
    later = [one for one in others if one.start > memory.start]
    if not joins:
        later = [one for one in later if one.valid_to is None or _ended_by_key(one)]
    following = min(later, key=lambda one: one.start, default=None)
    return [_cut(memory, following)] if following is not None and _lasts(memory, following.start) else []


def _lasts(memory: Memory, at: datetime) -> bool:
    """Whether a memory is valid after a time, and its key may end it: nothing else has superseded it."""
    replaced = memory.superseded_by is not None and not _ended_by_key(memory)
    return memory.valid_to is None or (memory.valid_to > at and not replaced)


def _cut(memory: Memory, by: Memory) -> Memory:
    """A memory that ends because another one of its key starts. An end of its own is kept in the reason."""
    reason = memory.reason if _ended_by_key(memory) else NEWER_OF_KEY
    if memory.valid_to is not None and not _ended_by_key(memory):
        reason = f"{_OWN_END}{memory.valid_to.isoformat()}"
    return retired(memory, by.start, by, reason=reason, actor=None)


def _without_key_end(memory: Memory) -> Memory:
    """A memory that was ended by its key, as it was before."""
    return memory._replace(valid_to=_own_end(memory), superseded_by=None, reason=None, actor=None)


def _ended_by_key(memory: Memory) -> bool:
    return memory.valid_to is not None and (memory.reason == NEWER_OF_KEY or _own_end(memory) is not None)


def _own_end(memory: Memory) -> datetime | None:
    """The end that a memory had before its key ended it."""
    if memory.reason is not None and memory.reason.startswith(_OWN_END):
        with suppress(ValueError):  # a reason can be any text
            end = datetime.fromisoformat(memory.reason.removeprefix(_OWN_END))
            return end if end.tzinfo is not None else None
    return None
