"""Facts that change: retire memories, restore them, and follow what replaced what.

Each verb reads a memory and writes it back under the condition that nobody has changed it since, so that of verbs at
the same time each takes effect on what the others left.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from retentive.errors import Conflict, Invalid, VersionConflict
from retentive.models import Memory, Scope, check_name
from retentive.pipeline.embeddings import Embeddings
from retentive.pipeline.reading import get_memory
from retentive.stores.base import Store
from retentive.stores.validity import check_no_ring, retired
from retentive.stores.values import IdempotencyKey, Record

ATTEMPTS = 20
"""How often a change is tried while others change the same memory."""

VALIDITY = ("valid_to", "superseded_by", "reason", "actor")


class FactWriter:
    """Retires and restores memories of a store, those within a scope."""

    def __init__(self, store: Store, *, within: Scope | None, idempotency_key: IdempotencyKey | None = None) -> None:
        self._store = store
        self._within = within
        self._key = idempotency_key

    def supersede(self, old: str, new: str, *, now: datetime, reason: str | None, actor: str | None) -> Memory:
        """Retire a memory from the time on at which another one starts to be valid, and return it."""
        if old == new:
            raise Invalid("a memory cannot replace itself")
        if (repeated := self._repeated(old)) is not None:
            return repeated
        by = self._get(new)
        if by.profile != self._get(old).profile:
            raise Invalid("a memory can only be replaced by one of the same profile")
        _check_notes(reason, actor)

        def change(memory: Memory) -> Memory:
            if memory.superseded_by == by.id:
                return memory
            check_no_ring(memory, memory._replace(superseded_by=by.id), self._replaced_by)  # and again in the write
            if by.valid_to is not None and by.valid_to <= max(memory.start, by.start):
                raise Conflict(f"memory {new} was over before {old} started, so it cannot replace it")
            _check_not_ended(memory, by.start, now=now)
            return retired(memory, by.start, by, reason=reason, actor=actor)

        return self._write(old, change)

    def retract(self, id: str, *, at: datetime | None, now: datetime, reason: str | None, actor: str | None) -> Memory:
        """Retire a memory without another one in its place, at a time or now, and return it.

        One that has an end gets the given one in its place. Without one, it stays as it is if it has ended.
        """
        _check_notes(reason, actor)
        if (repeated := self._repeated(id)) is not None:
            return repeated

        def change(memory: Memory) -> Memory:
            if memory.valid_to is None or memory.superseded_by is not None:
                _check_not_ended(memory, at or now, now=now)
                return retired(memory, at or now, None, reason=reason, actor=actor)
            if at is None and memory.valid_to <= now:
                return memory
            return retired(memory, at or now, None, reason=reason or memory.reason, actor=actor or memory.actor)

        return self._write(id, change)

    def restore(self, id: str) -> Memory:
        """Undo that a memory was retired, and return it. One of a key ends where the next one starts."""
        return self._repeated(id) or self._write(
            id, lambda memory: memory._replace(valid_to=None, superseded_by=None, reason=None, actor=None)
        )

    def _get(self, id: str) -> Memory:
        return get_memory(self._store, id, within=self._within)

    def _replaced_by(self, id: str) -> str | None:
        memories = self._store.get([id])
        return memories[0].superseded_by if memories else None

    def _repeated(self, id: str) -> Memory | None:
        """A memory as it is now, if this request was made before under its idempotency key."""
        if self._key is None:
            return None
        record = Record(self._get(id))
        try:
            # No memory has this version, so that nothing is written if the key is new.
            return self._store.update(
                record, model=None, fields=(), if_version="", within=self._within, idempotency_key=self._key
            )
        except VersionConflict:
            return None

    def _write(self, id: str, change: Callable[[Memory], Memory]) -> Memory:
        for _ in range(ATTEMPTS):
            memory = self._get(id)
            changed = change(memory)
            if changed == memory and self._key is None:
                return memory
            try:
                return self._store.update(
                    Record(changed),
                    model=None,
                    fields=VALIDITY,
                    if_version=memory.version,
                    within=self._within,
                    idempotency_key=self._key,
                )
            except VersionConflict:
                continue
        raise Conflict(f"others keep changing memory {id}; nothing was changed, try again")


def linked_memories(store: Store, memory: Memory, *, within: Scope | None) -> list[Memory]:
    """All memories that are connected with one by replacement or by a key, in the order in which they are valid."""
    links, new = {memory.id: memory}, [memory]
    while new:
        following = [other.superseded_by for other in new if other.superseded_by is not None]
        linked = [*store.get(following, within=within), *store.superseded([other.id for other in new], within=within)]
        new = list({other.id: other for other in linked if other.id not in links}.values())
        links |= {other.id: other for other in new}
    return sorted(links.values(), key=lambda other: (other.start, other.valid_to is None, other.created, other.id))


def remove_expired(
    store: Store, embeddings: Embeddings, *, now: datetime, older_than: timedelta, profile: str | None
) -> int:
    """Delete for good what has expired for some time, and return how many memories that were."""
    try:
        before = now - older_than
    except OverflowError:
        return 0  # before the year 1
    count = 0
    while removed := store.remove_expired(before, profile=profile):
        count += len(removed)
    if count:
        embeddings.embed_missing()
    return count


def _check_notes(reason: str | None, actor: str | None) -> None:
    check_name("reason", reason)
    check_name("actor", actor)


def _check_not_ended(memory: Memory, at: datetime, *, now: datetime) -> None:
    """`Conflict` if a memory has ended by now, or would end earlier than at this time."""
    if memory.valid_to is not None and memory.valid_to <= max(at, now):
        by = f"memory {memory.superseded_by} has replaced it" if memory.superseded_by else "it was retracted"
        raise Conflict(f"memory {memory.id} is retired already, {by}; restore it first: retentive restore {memory.id}")
