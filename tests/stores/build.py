"""Memories, vectors and queries to a store in one line each, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np

from retentive.models import Memory, Model, Scope
from retentive.stores import Found, Record, Store, Vector

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
DIMENSION = 16
MODEL = Model("test", "1", DIMENSION, "fingerprint of test")
OTHER = Model("other", "1", DIMENSION, "fingerprint of other")
ALL = 100_000
HERE = Scope()


def id_of(number: int) -> str:
    """Ids that grow with their numbers, as UUIDs of version 7 grow with time."""
    return f"01900000-0000-7000-8000-{number:012d}"


def memory(number: int, text: str | None = None, **fields: Any) -> Memory:
    """A memory that says something no other one says."""
    return Memory(id_of(number), f"note number{number}" if text is None else text, fields.pop("created", NOW), **fields)


def record(number: int, text: str | None = None, *, vectors: Vector | None = None, **fields: Any) -> Record:
    return Record(memory(number, text, **fields), vectors)


def embedded(number: int, text: str | None = None, **fields: Any) -> Record:
    """A memory with a vector of its own."""
    return record(number, text, vectors=rows(vector(number)), **fields)


def rows(*vectors: Vector) -> Vector:
    return np.stack(vectors)


def vector(seed: int) -> Vector:
    """A unit vector like no other."""
    return unit(np.random.default_rng(seed).standard_normal(DIMENSION))


def axis(number: int, *, lean: int | None = None, by: float = 0.0) -> Vector:
    """A unit vector along one axis, leaning towards another."""
    numbers = np.zeros(DIMENSION)
    numbers[number] = 1.0
    if lean is not None:
        numbers[lean] = by
    return unit(numbers)


def unit(numbers: Any) -> Vector:
    row = np.asarray(numbers, np.float32)
    return row / np.linalg.norm(row)


def ids(store: Store, found: Iterable[Found]) -> list[str]:
    """The ids of what a search found, in its order."""
    keys = [one.key for one in found]
    memories = store.fetch(keys)
    return [memories[key].id for key in keys]


def by_words(store: Store, query: str, scope: Scope = HERE, *, limit: int = ALL, **options: Any) -> list[str]:
    return ids(store, store.search_words(query, scope, limit=limit, **options))


def by_vector(store: Store, asked: Vector, scope: Scope = HERE, *, limit: int = ALL, **options: Any) -> list[str]:
    return ids(store, store.search_vectors(asked, scope, limit=limit, **options))


def listed(store: Store, scope: Scope = HERE) -> list[str]:
    return [memory.id for memory in store.list(scope, limit=ALL).memories]


def everything(store: Store, *profiles: str) -> list[object]:
    """All that can be seen of a store from outside, to tell whether a call has changed anything."""
    seen: list[object] = [store.model(), store.check()]
    for profile in profiles or ("default",):
        page = store.list(Scope(profile), limit=ALL).memories
        words = {one.id for one in page} - set(by_words(store, "note", Scope(profile)))
        nearest = by_vector(store, vector(0), Scope(profile))
        seen += [page, words, nearest, store.sessions(profile), store.projects(profile)]
    return seen
