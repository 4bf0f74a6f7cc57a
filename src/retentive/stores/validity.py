"""What every store does alike with validity: the memories of one key follow one another, and one of them is open.

A memory is open until it has a `valid_to`. Among the memories of a key in a project, each is valid until the next one
starts, by `Memory.start`, whatever the order in which they arrive; of equal starts, the one that arrives later follows.
An end that was given, when a memory was stored or by a verb, is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
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


def concerns_keys(current: Memory, memory: Memory) -> bool:
    """Whether an update of a memory may change others of a key, or must be checked against them."""
    keyed = current.key is not None or memory.key is not None
    return keyed and (memory.valid_to is None or _is_moved(current, memory))


def settle_update(
    current: Memory,
    memory: Memory,
    fields: Collection[str] | None,
    others: Sequence[Memory],
    former: Sequence[Memory] = (),
) -> tuple[Memory, list[Memory]]:
    """An updated memory as it is to be stored, and those that change with it, given the others of its key.

    `former` are those of the key and project that it had, if these are other ones; both are in the order of arrival.
    One that is restored ends where the next of its key starts. `Conflict` if it ends there already, or if another one
    that is open started before it.
    """
    if _is_moved(current, memory):
        return _settle_moved(memory, others, former)
    if fields is not None and current.valid_to is None:
        return memory, []
    [settled], changed = settle_keys([("", memory)], {"": others})
    open_one = next((one for one in others if one.valid_to is None), None)
    follows = settled.superseded_by if open_one is None or open_one.start > memory.start else open_one.id
    if fields is not None and follows is not None and settled.valid_to in (None, current.valid_to):
        raise Conflict(
            f"memory {follows} has the key '{memory.key}' now; retract it first: retentive retract {follows}"
        )
    return settled, changed


def check_no_ring(current: Memory, memory: Memory, replaced_by: Callable[[str], str | None]) -> None:
    """`Conflict` if an update names as what replaces a memory one that it has itself replaced, perhaps by others.

    `replaced_by` gives what has replaced a memory, in the transaction of the update.
    """
    if memory.superseded_by in (None, current.superseded_by):
        return
    for id in _chain(memory.superseded_by, replaced_by):
        if id == memory.id:
            new = memory.superseded_by
            raise Conflict(f"memory {id} has replaced {new}, so it cannot be replaced by it; restore {new} first")


def rings(replaced_by: Mapping[str, str]) -> list[list[str]]:
    """Memories that have replaced one another, so that none of them is current."""
    found: list[list[str]] = []
    seen: set[str] = set()
    for start in replaced_by:
        chain = [] if start in seen else list(_chain(start, replaced_by.get))
        following = replaced_by.get(chain[-1]) if chain else None
        if following in chain and following not in seen:
            found.append(chain[chain.index(following) :])
        seen |= set(chain)
    return found


def _chain(id: str | None, replaced_by: Callable[[str], str | None]) -> Iterator[str]:
    """A memory and those that replaced it, one after the other, each once."""
    seen: set[str] = set()
    while id is not None and id not in seen:
        seen.add(id)
        yield id
        id = replaced_by(id)


def settle_session(
    moved: Sequence[Memory], project: str | None, *, here: Sequence[Memory], former: Sequence[Memory]
) -> list[Memory]:
    """The memories of one key that a session brings into a project, as they are to be stored, and others that change.

    `here` are those of the key in the project, `former` the others of the key where the session was. Each is in the
    order of arrival.
    """
    before = {one.id: one for one in (*moved, *here, *former)}
    after, there, left = dict(before), [one.id for one in here], [one.id for one in (*moved, *former)]
    for id in [one.id for one in moved]:
        left.remove(id)
        others, remaining = ([after[one] for one in ids] for ids in (there, left))
        memory = after[id]
        settled, changed = settle_update(memory, memory._replace(project=project), None, others, remaining)
        after |= {one.id: one for one in (settled, *changed)}
        there.append(id)
    return [one for id, one in after.items() if one != before[id]]


def _is_moved(current: Memory, memory: Memory) -> bool:
    """Whether an update gives a memory another place among those of a key."""
    return (current.key, current.start, current.project) != (memory.key, memory.start, memory.project)


def _settle_moved(memory: Memory, others: Sequence[Memory], former: Sequence[Memory]) -> tuple[Memory, list[Memory]]:
    """A memory that has another place, and what changes: what it had ended is valid until the next one that follows."""
    if memory.reason == NEWER_OF_KEY:
        memory = _open_again(memory)
    here = [*others, memory] if memory.key is not None else []
    freed = {**_freed(memory, here), **_freed(memory, former)}
    others = [freed.get(one.id, one) for one in others]
    [settled], changed = settle_keys([("here", memory)], {"here": others})
    return settled, list({**freed, **{one.id: one for one in changed}}.values())


def _freed(memory: Memory, slot: Sequence[Memory]) -> dict[str, Memory]:
    """What a memory that has another place now had ended by its key, as it is without that, by id."""
    ended = {one.id for one in slot if one.superseded_by == memory.id and one.reason == NEWER_OF_KEY}
    chain = [one for one in slot if one.valid_to is None or one.reason == NEWER_OF_KEY or one.id == memory.id]

    def place(one: Memory) -> tuple[datetime, int]:
        """Of equal starts, first what another one of them has ended, then what the memory had ended, then the rest."""
        if one.id in ended:
            return one.start, 1
        return one.start, 2 if one.valid_to is None or one.valid_to > one.start else 0

    in_order = sorted(chain, key=place)  # otherwise in the order of arrival
    freed = {}
    for one, following in zip(in_order, [*in_order, None][1:], strict=True):
        if one.id in ended:
            opened = _open_again(one)
            freed[one.id] = opened if following is None else _ended_by(opened, following)
    return freed


def _open_again(memory: Memory) -> Memory:
    return memory._replace(valid_to=None, superseded_by=None, reason=None, actor=None)


def _ended_by(memory: Memory, following: Memory) -> Memory:
    """A memory that ends because the next one of its key starts."""
    return retired(memory, following.start, following, reason=NEWER_OF_KEY, actor=None)


def _insert(memory: Memory, others: Sequence[Memory]) -> list[Memory]:
    """What changes when an open memory joins those of its key. What was retired otherwise stays as it is."""
    by_key = [one for one in others if one.valid_to is None or one.reason == NEWER_OF_KEY]
    later = [one for one in by_key if one.start > memory.start]
    changed = [
        _ended_by(one, memory)
        for one in by_key
        if one.start <= memory.start and (one.valid_to is None or one.valid_to > memory.start)
    ]
    if later:
        following = min(later, key=lambda one: one.start)
        changed.append(_ended_by(memory, following))
    return changed
