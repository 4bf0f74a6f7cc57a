"""Memories that are alike: the nearest ones, exact repeats, and those that a new one may have replaced.

Nothing here changes a memory. How alike two memories are does not tell whether one replaced the other: corrections are
on average less alike than facts that are both true.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, get_args

from retentive.errors import Conflict, Invalid, VersionConflict
from retentive.models import Memory, Query, Scope, Serializable
from retentive.pipeline.remember import CHANGE
from retentive.ranking import Tuning
from retentive.stores.base import Store
from retentive.stores.values import IdempotencyKey, Record
from retentive.text.analysis import index_terms, written_words

OnDuplicate = Literal["keep", "count", "refuse"]
"""What happens to a memory whose text is stored in its project already."""

THRESHOLD = 0.75
"""From this cosine on a memory is reported as similar."""

RELATED = 0.5
"""From this cosine on a memory may be about the same subject."""

MIN_SHARED = 2
"""How many words two memories about the same subject share at least."""

MAX_READ = 50
"""How many memories with the words of a text are compared with it."""

_TOO_COMMON = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "at",
        "be",
        "been",
        "but",
        "by",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "i",
        "in",
        "is",
        "it",
        "its",
        "me",
        "my",
        "of",
        "on",
        "or",
        "our",
        "she",
        "so",
        "that",
        "the",
        "their",
        "them",
        "they",
        "this",
        "to",
        "was",
        "we",
        "were",
        "will",
        "with",
        "you",
        "your",
        "not",
        "no",
        "now",
        "just",
        "also",
        "very",
        "really",
        "user",
        "assistant",
    ]
)


@dataclass(frozen=True, slots=True)
class Similar(Serializable):
    """A memory that is like another one: the cosine of the two, if both have a vector, and the words of both."""

    id: str
    text: str
    cosine: float | None
    words: tuple[str, ...]


def find_similar(
    store: Store, memory: Memory, *, now: datetime, threshold: float = THRESHOLD, limit: int = 5
) -> list[Similar]:
    """The current memories of the same project that are nearest to a stored memory, best first.

    Without a vector, those that share at least half of their words with it.
    """
    found = []
    for other, cosine in _nearest(store, memory, now=now, limit=limit):
        shared = _terms(memory) & _terms(other)
        if cosine >= threshold if cosine is not None else 2 * len(shared) >= len(_terms(memory)) > 0:
            found.append(_to_similar(other, cosine, memory, shared))
    return found


def find_replaced(store: Store, memory: Memory, *, now: datetime, limit: int = 3) -> list[tuple[Similar, str]]:
    """The earlier memories that a stored memory may have replaced, by its words, each with the phrase that says so."""
    said = CHANGE.search(memory.text)
    if said is None:
        return []
    found = []
    for other, cosine in _nearest(store, memory, now=now, limit=20):
        shared = _terms(memory) & _terms(other)
        about_same = len(shared) >= MIN_SHARED and (cosine is None or cosine >= RELATED)
        if about_same and other.start < memory.start and other.speaker == memory.speaker:
            found.append((_to_similar(other, cosine, memory, shared), said[0]))
    found.sort(key=lambda one: -(one[0].cosine or 0.0))
    return found[:limit]


def _terms(memory: Memory) -> set[str]:
    """The terms of a memory without the most common ones."""
    return {term for term in index_terms(memory.text) if len(term) > 1} - _TOO_COMMON


def _to_similar(other: Memory, cosine: float | None, memory: Memory, shared: set[str]) -> Similar:
    """Name the shared terms by the words of the memory, as written in it."""
    written = written_words(memory.text)
    words = sorted({written[term] for term in shared if term in written} or shared, key=str.casefold)
    return Similar(other.id, other.text, None if cosine is None else round(cosine, 4), tuple(words))


def _nearest(store: Store, memory: Memory, *, now: datetime, limit: int) -> list[tuple[Memory, float | None]]:
    """The nearest other memories with their cosines; by words, without cosines, if the memory has no vector."""
    scope = Scope(memory.profile, memory.project)
    query = Query(memory.text, scope, Tuning(), now, limit, exclude=(memory.id,))
    with store.open_search(query) as reads:
        vector = reads.vectors([memory.id]).get(memory.id)
        if vector is None:
            return [(one.memory, None) for one in reads.keyword(limit).candidates]
        return [(one.memory, one.score) for one in reads.nearest(vector, limit).candidates]


def check_on_duplicate(value: str) -> None:
    """Raise `Invalid` if this is not one of the choices."""
    if value not in get_args(OnDuplicate):
        raise Invalid(f"on_duplicate: one of {', '.join(get_args(OnDuplicate))}, not '{value}'")


def find_repeat(store: Store, memory: Memory, *, now: datetime) -> Memory | None:
    """A current memory of the same project with the same text, ignoring case, white space and punctuation."""
    query = Query(memory.text, Scope(memory.profile, memory.project), Tuning(common_words=1.0), now, MAX_READ)
    limit = MAX_READ
    with store.open_search(query) as reads:
        while True:
            found = [candidate.memory for candidate in reads.keyword(limit).candidates]
            copies = [other for other in found if other.content_hash == memory.content_hash]
            for other in copies:
                if other.project == memory.project:
                    return other
            # Copies have equal scores. Without a project, those of other projects may fill the first places.
            if not copies or len(found) < limit or found[-1] is not copies[-1]:
                return None
            limit *= 4


def find_repeats(
    store: Store, memories: Sequence[Memory], on_duplicate: OnDuplicate, *, now: datetime
) -> dict[str, Memory]:
    """The memories that are stored already, by the id that each would have; `Conflict` if they are to be refused."""
    check_on_duplicate(on_duplicate)
    repeats = {memory.id: other for memory in memories if (other := find_repeat(store, memory, now=now)) is not None}
    if repeats and on_duplicate == "refuse":
        other = next(iter(repeats.values()))
        raise Conflict(f"memory {other.id} has the same text already; nothing was stored")
    return repeats


def stored_before(
    store: Store, memories: Sequence[Memory], key: IdempotencyKey | None, *, now: datetime
) -> list[Memory] | None:
    """What is left of the same request if it was sent before; None if it was not, or has stored nothing."""
    if key is None or not store.remove((), idempotency_key=key):  # it returns the ids that were written with the key
        return None
    found = (find_repeat(store, memory, now=now) for memory in memories)
    return [memory for memory in found if memory is not None]


def count_repeats(store: Store, repeats: Mapping[str, Memory], key: IdempotencyKey | None) -> dict[str, Memory]:
    """Count each repeat, with an idempotency key of its own: a request that is sent again is not counted again."""
    counted: dict[str, Memory] = {}
    latest: dict[str, Memory] = {}
    for number, (id, memory) in enumerate(repeats.items()):
        own = None if key is None else replace(key, name=f"{key.name} repeat {number}")
        counted[id] = latest[memory.id] = _count_repeat(store, latest.get(memory.id, memory), own)
    return counted


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
