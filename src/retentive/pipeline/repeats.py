"""Texts that are stored already: what `on_duplicate` does.

With an idempotency key, what is decided about each memory of a request is stored before anything else, so that the
request does the same when it is sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, get_args

from retentive.errors import Conflict, Invalid, VersionConflict
from retentive.models import Memory, Query, Scope, hash_text
from retentive.ranking import Tuning
from retentive.stores.base import Store
from retentive.stores.json_entries import JsonEntries, Transaction, transact
from retentive.stores.rules import check_same_request, home_of
from retentive.stores.values import IdempotencyKey, Record
from retentive.text.analysis import index_terms

OnDuplicate = Literal["keep", "count", "refuse"]
"""What happens to a memory whose text is stored in its project already."""

FEW_TERMS = 3
"""Texts that repeat the words of a text rank before it, which matters for texts of few words."""

MAX_READ, MAX_SEARCHED = 50, 3200
"""How many memories with the words of a text are compared with it, first and at most."""

Original = str | int | None
"""What a memory repeats: the id of a stored one, the place of an earlier one in the request, or nothing."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What each memory of a request with an idempotency key repeats."""

    at: datetime
    fingerprint: str
    originals: list[Original]


_DECISIONS: JsonEntries[Decision] = JsonEntries("repeats/", Decision)


def check_on_duplicate(value: str) -> None:
    """Raise `Invalid` if this is not one of the choices."""
    if value not in get_args(OnDuplicate):
        raise Invalid(f"on_duplicate: one of {', '.join(get_args(OnDuplicate))}, not '{value}'")


def find_originals(
    store: Store, memories: Sequence[Memory], on_duplicate: OnDuplicate, key: IdempotencyKey | None, *, now: datetime
) -> Sequence[Original]:
    """What each memory repeats; as decided before if the request is sent again. `Conflict` if repeats are refused."""
    check_on_duplicate(on_duplicate)
    if key is None:
        return _decide(store, memories, on_duplicate, now)
    name = hash_text(key.name)

    def change(transaction: Transaction) -> Sequence[Original]:
        known = transaction.get(_DECISIONS, name)
        if known is not None and known.at >= key.expires_before:
            check_same_request(key, known.fingerprint)
            return known.originals
        found = _decide(store, memories, on_duplicate, now)
        transaction.set(_DECISIONS, Decision(key.at, key.fingerprint, found), name)
        return found

    originals = transact(store, change)
    _drop_expired(store, key)
    return originals


def _drop_expired(store: Store, key: IdempotencyKey) -> None:
    gone = [name for name, one in _DECISIONS.list(store).items() if one.at < key.expires_before]
    if gone:
        store.compare_and_set({_DECISIONS.prefix + name: None for name in gone})


def _decide(store: Store, memories: Sequence[Memory], on_duplicate: OnDuplicate, now: datetime) -> list[Original]:
    found: list[Original] = []
    first: dict[tuple[str | None, str], int] = {}
    for place, memory in enumerate(memories):
        project = _project(store, memory)
        stored = find_repeat(store, memory, project, now=now)
        earlier = first.setdefault((project, memory.content_hash), place)
        found.append(stored.id if stored is not None else earlier if earlier != place else None)
    if on_duplicate == "refuse":
        for original in found:
            if isinstance(original, str):
                raise Conflict(f"memory {original} has the same text already; nothing was stored")
            if original is not None:
                raise Conflict(f"memory {original + 1} of the request has the text of a later one; nothing was stored")
    return found


def _project(store: Store, memory: Memory) -> str | None:
    """The project into which a new memory goes: its own, or that of its session."""
    if memory.project is not None or memory.session is None:
        return memory.project
    known = [one.project for one in store.sessions(memory.profile) if one.name == memory.session]
    return home_of(memory.session, None, known)


def find_repeat(store: Store, memory: Memory, project: str | None, *, now: datetime) -> Memory | None:
    """A current memory of a project with the same text, ignoring case, white space and punctuation."""
    scope = Scope(memory.profile, project, outside_projects=project is None)
    query = Query(memory.text, scope, Tuning(common_words=1.0), now, MAX_READ)
    most = MAX_SEARCHED if len(set(index_terms(memory.text))) <= FEW_TERMS else MAX_READ
    limit = MAX_READ
    with store.open_search(query) as reads:
        while True:
            found = [candidate.memory for candidate in reads.keyword(limit).candidates]
            copies = (one for one in found if one.content_hash == memory.content_hash and one.project == project)
            copy = next(copies, None)
            if copy is not None or len(found) < limit or limit >= most:
                return copy
            limit *= 4


def in_order(
    store: Store, originals: Sequence[Original], new: Sequence[Memory], key: IdempotencyKey | None
) -> list[Memory]:
    """The memories of a request: the new ones, and those that are repeated, with each repeat counted.

    Each count has an idempotency key of its own: a request that is sent again is not counted again. Of a request that
    is sent again, memories that have been deleted since are left out.
    """
    if len(new) < sum(original is None for original in originals):
        return [*new, *store.get([original for original in originals if isinstance(original, str)])]
    written = iter(new)
    found: dict[int, Memory] = {}
    for place, original in enumerate(originals):
        if original is None:
            found[place] = next(written)
            continue
        id = found[original].id if isinstance(original, int) else original
        for memory in store.get([id]):
            own = None if key is None else replace(key, name=f"{key.name} repeat {place}")
            found[place] = _count_repeat(store, memory, own)
    return list(found.values())


def _count_repeat(store: Store, memory: Memory, idempotency_key: IdempotencyKey | None) -> Memory:
    """Count a repeat of a memory in its metadata, under `repeats`."""
    for _ in range(20):
        count = memory.metadata.get("repeats", 0)
        repeats = count + 1 if isinstance(count, int) else 1
        changed = memory._replace(metadata={**memory.metadata, "repeats": repeats})
        try:
            return store.update(
                Record(changed),
                model=None,
                fields=("metadata",),
                if_version=memory.version,
                idempotency_key=idempotency_key,
            )
        except VersionConflict:
            memory = next(iter(store.get([memory.id])), memory)
    raise Conflict(f"others keep changing memory {memory.id}; try again")
