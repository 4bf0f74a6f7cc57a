"""Memories that are alike: the nearest ones, and those that a new one may have replaced.

Nothing here changes a memory. How alike two memories are does not tell whether one replaced the other: corrections are
on average less alike than facts that are both true.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from retentive.models import Memory, Query, Scope, Serializable
from retentive.pipeline.remember import CHANGE
from retentive.ranking import Tuning
from retentive.stores.base import Store
from retentive.stores.values import KnownVector, SearchRequest
from retentive.text.terms import index_terms, written_words

THRESHOLD = 0.75
"""From this cosine on a memory is reported as similar."""

RELATED = 0.5
"""From this cosine on a memory may be about the same subject."""

MIN_SHARED = 2
"""How many words two memories about the same subject share at least."""

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
    store: Store,
    memory: Memory,
    *,
    now: datetime,
    threshold: float = THRESHOLD,
    limit: int = 5,
    within: Scope | None = None,
) -> list[Similar]:
    """The current memories of the same project that are nearest to a stored memory, best first.

    Without a vector, those that share at least half of their words with it. If `within` is limited to a project or to
    sessions, those in it.
    """
    similar = []
    for other, cosine in _nearest(store, memory, now=now, limit=limit, within=within):
        shared = _terms(memory) & _terms(other)
        if cosine >= threshold if cosine is not None else 2 * len(shared) >= len(_terms(memory)) > 0:
            similar.append(_to_similar(other, cosine, memory, shared))
    return similar


def find_replaced(store: Store, memory: Memory, *, now: datetime, limit: int = 3) -> list[tuple[Similar, str]]:
    """The earlier memories that a stored memory may have replaced, by its words, each with the phrase that says so."""
    said = CHANGE.search(memory.text)
    if said is None:
        return []
    replaced = []
    for other, cosine in _nearest(store, memory, now=now, limit=20):
        shared = _terms(memory) & _terms(other)
        about_same = len(shared) >= MIN_SHARED and (cosine is None or cosine >= RELATED)
        if about_same and other.start < memory.start and other.speaker == memory.speaker:
            replaced.append((_to_similar(other, cosine, memory, shared), said[0]))
    replaced.sort(key=lambda pair: -(pair[0].cosine or 0.0))
    return replaced[:limit]


def _terms(memory: Memory) -> set[str]:
    """The terms of a memory without the most common ones."""
    return {term for term in index_terms(memory.text) if len(term) > 1} - _TOO_COMMON


def _to_similar(other: Memory, cosine: float | None, memory: Memory, shared: set[str]) -> Similar:
    """Name the shared terms by the words of the memory, as written in it."""
    written = written_words(memory.text)
    words = sorted({written[term] for term in shared if term in written} or shared, key=str.casefold)
    return Similar(other.id, other.text, None if cosine is None else round(cosine, 4), tuple(words))


def _nearest(
    store: Store, memory: Memory, *, now: datetime, limit: int, within: Scope | None = None
) -> list[tuple[Memory, float | None]]:
    """The nearest other memories with their cosines; by words, without cosines, if the memory has no vector."""
    scope = Scope(memory.profile, memory.project, outside_projects=memory.project is None)
    if within is not None and (within.sessions is not None or within.project is not None):
        scope = within
    elif within is not None:
        scope = replace(scope, kinds=within.kinds)
    query = Query(memory.text, scope, Tuning(), now, limit, exclude=(memory.id,))
    vector = store.vectors([memory.id]).get(memory.id)
    if vector is None:
        result = store.search(SearchRequest(query, keyword=limit))
        return [(candidate.memory, None) for candidate in result.candidates["keyword"]]
    result = store.search(SearchRequest(query, semantic=limit, vector=KnownVector(vector)))
    return [(candidate.memory, candidate.score) for candidate in result.candidates["semantic"]]
