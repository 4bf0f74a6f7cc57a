"""The writes of memories, the same in every store: transaction scripts over the primitives of a `Transaction`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from retentive.errors import Conflict, NotFound
from retentive.models import Memory, Model, Scope
from retentive.stores.duplicates import Home, counted_repeats, find_repeated
from retentive.stores.rules import check_version, check_versions, merge_fields, stays_in_session
from retentive.stores.validity import check_no_ring, concerns_keys, settle_keys, settle_session, settle_update
from retentive.stores.values import Duplicates, IdempotencyKey, Record
from retentive.text.terms import index_terms

T = TypeVar("T")


class Place(Protocol):
    """Where a memory is: its profile and project, by their ids or names, and its session."""

    @property
    def profile(self) -> Hashable: ...

    @property
    def project(self) -> Hashable: ...


K = TypeVar("K", bound=Any)
P = TypeVar("P", bound=Place)

Slot = tuple[str, Any, Any]
"""The key, the profile and the project of memories of which one is open."""


@dataclass(frozen=True, slots=True)
class Stored(Generic[K, P]):
    """A stored memory with its row: the key, the place, and the terms that are indexed of it."""

    key: K
    memory: Memory
    place: P
    terms: Sequence[str] = ()


class Transaction(Protocol[K, P]):
    """The primitives of a store, in one transaction. What is read for a change is locked until it ends."""

    def earlier(self, key: IdempotencyKey) -> list[str] | None:
        """Return the ids that the request with this key changed; None if the key is new. `Conflict` if it differs."""
        ...

    def record(self, key: IdempotencyKey, ids: Sequence[str]) -> None:
        """Record what a request changed, and delete expired keys."""
        ...

    def read(self, ids: Sequence[str]) -> list[Memory]:
        """Return the memories with these ids that exist, in the order of the ids. Damaged ones are left out."""
        ...

    def find(self, ids: Sequence[str], within: Scope | None) -> Mapping[str, K]:
        """Return the keys of the memories with these ids that exist in a scope."""
        ...

    def load(self, id: str, within: Scope | None) -> Stored[K, P] | None:
        """Return the memory with this id in a scope. `Damaged` if it cannot be read."""
        ...

    def expired(self, before: datetime, *, limit: int, profile: str | None) -> list[str]:
        """Return the ids of memories that expired before a time."""
        ...

    def homes(self, memories: Sequence[Memory], *, exact: bool) -> list[Home]:
        """Return the profile and project into which each memory would go. Others that ask for these texts wait."""
        ...

    def with_text(self, home: Home, memory: Memory) -> Iterable[Memory]:
        """Return the memories of a home with the content hash of a memory."""
        ...

    def resolve_names(self, memories: Sequence[Memory], *, exact: bool = False) -> list[P]:
        """Return the place of each memory, created where its names are new. See `Memories.add`."""
        ...

    def follow_session(self, stored: Stored[K, P], memory: Memory) -> tuple[P, str | None]:
        """Return the place of a memory that stays in its session, and the name of the session's project."""
        ...

    def next_positions(self, memories: Sequence[Memory], places: Sequence[P]) -> list[int | None]:
        """Return the position of each memory in its session: its own, or the next one; None without a session."""
        ...

    def insert(self, memories: Sequence[Memory], places: Sequence[P], terms: Sequence[list[str]]) -> Sequence[K]:
        """Insert memories with their terms and without vectors; return their keys."""
        ...

    def replace(
        self, stored: Stored[K, P], memory: Memory, place: P, terms: Sequence[str], *, keeps_vectors: bool
    ) -> None:
        """Replace a memory and its terms. Its vectors move with it, or are deleted, also those of the next turn."""
        ...

    def set_metadata(self, id: str, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of a memory."""
        ...

    def delete(self, keys: Sequence[K]) -> None:
        """Delete memories with their terms, vectors and judgements."""
        ...

    def forget_set_aside(self, ids: Sequence[str], within: Scope | None) -> list[str]:
        """Delete what repairs have set aside of these memories; return the ids of those that existed."""
        ...

    def add_vectors(self, entries: Sequence[tuple[K, P, Record]], model: Model | None) -> None:
        """Store the vectors of memories, where they have some; without that of a previous turn that has changed."""
        ...

    def memories_of_keys(self, slots: Collection[Slot]) -> dict[Slot, list[Memory]]:
        """Return the memories of each key, in the order of arrival. Others that write these keys wait."""
        ...

    def close_memories(self, memories: Sequence[Memory]) -> None:
        """End open memories that are written later in the transaction: a key never has two."""
        ...

    def retire(self, memories: Sequence[Memory]) -> None:
        """Store when memories end and what replaces them; first those that are not open."""
        ...

    def replaced_by(self, id: str) -> str | None:
        """Return what has replaced a memory."""
        ...


class Writes(Generic[K, P]):
    """The methods of `retentive.stores.base.Memories` that write, for a store that runs transactions."""

    def _transaction(self, work: Callable[[Transaction[K, P]], T]) -> T:
        """Return the result of `work` when its changes are durable. It may run again, on another transaction."""
        raise NotImplementedError

    def add(
        self,
        records: Sequence[Record],
        *,
        model: Model | None,
        idempotency_key: IdempotencyKey | None = None,
        exact: bool = False,
        duplicates: Duplicates | None = None,
    ) -> list[Memory]:
        if not records:
            return []
        # Computing the terms is the slowest part and needs no lock.
        terms = [index_terms(record.memory.indexed_text) for record in records]

        def work(transaction: Transaction[K, P]) -> list[Memory]:
            ids = None if idempotency_key is None else transaction.earlier(idempotency_key)
            if ids is None:
                ids = _add(transaction, records, terms, model, duplicates, exact=exact)
                if idempotency_key is not None:
                    transaction.record(idempotency_key, ids)
            return transaction.read(ids)

        return self._transaction(work)

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        fields: Collection[str] | None = None,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        id = record.memory.id
        terms = index_terms(record.memory.indexed_text)

        def work(transaction: Transaction[K, P]) -> Memory:
            stored = transaction.load(id, within)
            if stored is None:
                raise NotFound(f"there is no memory {id}")
            if idempotency_key is not None and transaction.earlier(idempotency_key) is not None:
                return stored.memory
            check_version(stored.memory, if_version)
            _update(transaction, stored, record, terms, model, fields)
            if idempotency_key is not None:
                transaction.record(idempotency_key, [id])
            return transaction.read([id])[0]

        return self._transaction(work)

    def remove(
        self,
        ids: Sequence[str],
        *,
        within: Scope | None = None,
        if_version: str | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> list[str]:
        def work(transaction: Transaction[K, P]) -> list[str]:
            removed = None if idempotency_key is None else transaction.earlier(idempotency_key)
            if removed is None:
                found = transaction.find(ids, within)
                if if_version is not None:
                    check_versions(found, transaction.read(list(found)), if_version)
                removed = [id for id in dict.fromkeys(ids) if id in found]
                removed += transaction.forget_set_aside(ids, within)
                if idempotency_key is not None and removed:
                    transaction.record(idempotency_key, removed)
                transaction.delete(sorted(found.values()))
            return removed

        return self._transaction(work)

    def remove_expired(self, before: datetime, *, limit: int = 1000, profile: str | None = None) -> list[str]:
        def work(transaction: Transaction[K, P]) -> list[str]:
            ids = transaction.expired(before, limit=limit, profile=profile)
            if ids:
                transaction.delete(sorted(transaction.find(ids, None).values()))
            return ids

        return self._transaction(work)


def _add(
    transaction: Transaction[K, P],
    records: Sequence[Record],
    terms: Sequence[list[str]],
    model: Model | None,
    duplicates: Duplicates | None,
    *,
    exact: bool,
) -> list[str]:
    """Store memories; return the id of each, or that of the memory that it repeats."""
    memories = [record.memory for record in records]
    repeated: list[str | None] = [None] * len(records)
    if duplicates is not None:
        homes = transaction.homes(memories, exact=exact)
        repeated = find_repeated(memories, homes, transaction.with_text, duplicates)
    new = [at for at, original in enumerate(repeated) if original is None]
    if new:
        _insert(transaction, [records[at] for at in new], [terms[at] for at in new], model, exact=exact)
    times = Counter(id for id in repeated if id is not None)
    if times:
        transaction.find(list(times), None)  # locks them
        for memory in transaction.read(list(times)):
            transaction.set_metadata(memory.id, counted_repeats(memory, times[memory.id]))
    return [original or memory.id for original, memory in zip(repeated, memories, strict=True)]


def _insert(
    transaction: Transaction[K, P],
    records: Sequence[Record],
    terms: Sequence[list[str]],
    model: Model | None,
    *,
    exact: bool,
) -> None:
    memories = [record.memory for record in records]
    ids = [memory.id for memory in memories]
    if len(set(ids)) < len(ids):
        raise Conflict("two of these memories have the same id; nothing was stored")
    known = transaction.find(ids, None)
    if known:
        raise Conflict(f"there is a memory with the id {min(known)} already; update it instead, nothing was stored")
    places = transaction.resolve_names(memories, exact=exact)
    positions = transaction.next_positions(memories, places)
    memories = [memory._replace(position=at) for memory, at in zip(memories, positions, strict=True)]
    settled = _settle(transaction, memories, places)
    keys = transaction.insert(settled, places, terms)
    final = [replace(record, memory=memory) for memory, record in zip(settled, records, strict=True)]
    transaction.add_vectors(list(zip(keys, places, final, strict=True)), model)


def _settle(transaction: Transaction[K, P], memories: Sequence[Memory], places: Sequence[P]) -> Sequence[Memory]:
    """Return new memories as they are to be stored. Stored ones that they replace by their keys are retired."""
    slots = [(memory.key or "", place.profile, place.project) for memory, place in zip(memories, places, strict=True)]
    keyed = {slot for slot, memory in zip(slots, memories, strict=True) if memory.key is not None}
    if not keyed:
        return memories
    final, changed = settle_keys(list(zip(slots, memories, strict=True)), transaction.memories_of_keys(keyed))
    transaction.retire(changed)
    return final


def _update(
    transaction: Transaction[K, P],
    stored: Stored[K, P],
    record: Record,
    terms: Sequence[str],
    model: Model | None,
    fields: Collection[str] | None,
) -> None:
    """Replace some fields of a stored memory by those of a record, whose terms are given."""
    current = stored.memory
    memory = merge_fields(current, record, fields)
    check_no_ring(current, memory, transaction.replaced_by)
    if stays_in_session(memory, current):
        place, project = transaction.follow_session(stored, memory)
        memory = memory._replace(project=project)
    else:
        [place] = transaction.resolve_names([memory])
    memory = _settle_updated(transaction, stored, memory, place, fields)
    # Another field of its text may have been changed meanwhile.
    as_given = memory.indexed_text == record.memory.indexed_text
    same_text = memory.indexed_text == current.indexed_text
    final = terms if as_given else index_terms(memory.indexed_text)
    transaction.replace(stored, memory, place, final, keeps_vectors=same_text)
    if as_given and not same_text:
        transaction.add_vectors([(stored.key, place, replace(record, memory=memory))], model)


def _settle_updated(
    transaction: Transaction[K, P], stored: Stored[K, P], memory: Memory, place: P, fields: Collection[str] | None
) -> Memory:
    """Return an updated memory as it is to be stored. Others of its key, and of the one that it had, change with it."""
    current = stored.memory
    if not concerns_keys(current, memory):
        return memory
    slot: Slot = (memory.key or "", place.profile, place.project)
    before: Slot = (current.key or "", stored.place.profile, stored.place.project)
    found = transaction.memories_of_keys({one for one in (slot, before) if one[0]})
    others, former = ([one for one in found.get(of, ()) if one.id != memory.id] for of in (slot, before))
    settled, changed = settle_update(current, memory, fields, others, former if before != slot else ())
    if changed:  # until its own row is written, its key is free
        transaction.close_memories([memory])
    transaction.retire(changed)
    return settled


def settle_moved(
    transaction: Transaction[K, P], moved: Mapping[Slot, Sequence[Memory]], target: Hashable, project: str | None
) -> list[Memory]:
    """Return the memories with keys that change when a session brings some of each key into a project.

    They are closed until they are written. `target` is the project as a place has it, and `project` its name.
    """
    there = {slot: (slot[0], slot[1], target) for slot in moved}
    found = transaction.memories_of_keys({*moved, *there.values()})
    changed: list[Memory] = []
    for slot, memories in moved.items():
        ids = {memory.id for memory in memories}
        former = [one for one in found.get(slot, ()) if one.id not in ids]
        changed += settle_session(memories, project, here=found.get(there[slot], ()), former=former)
    transaction.close_memories(changed)
    return changed
