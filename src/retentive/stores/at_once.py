"""A recall's searches in one request, for stores to which every request is a journey.

Such a store answers both searches, with the memories they found and what each search thinks of the other's, in one go.
`InOneGo` hands that out piece by piece as the rest of a recall asks for it, so that nothing behind it need know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

from retentive.models import Key, Memory, Scope
from retentive.stores import Found, Searching, Vector


@dataclass(frozen=True, slots=True)
class Seen:
    """Memories with what each search scores them, as `Searching.score_words` and `score_vectors` promise it."""

    memories: dict[Key, Memory] = field(default_factory=dict)
    by_words: dict[Key, float] = field(default_factory=dict)
    by_vector: dict[Key, float] = field(default_factory=dict)


class Both(NamedTuple):
    """What the two searches found, and everything about it."""

    words: Sequence[Found]
    vectors: Sequence[Found]
    seen: Seen


class Asked(NamedTuple):
    """What a recall asks. A search that is not to run has no query, or no vector."""

    query: str | None
    vector: Vector | None
    scope: Scope
    limit: int
    depth: int
    exclude: Sequence[str] = ()
    common: float = 1.0


@runtime_checkable
class AtOnce(Searching, Protocol):
    """A store that can take both searches in one request."""

    def search_both(self, asked: Asked) -> Both:
        """`search_words` to `limit` and `search_vectors` to `depth`; the memories of the best `limit` of each."""
        ...

    def look(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        """The memories behind these keys that still exist, scored by the searches that run."""
        ...


class InOneGo:
    """The searches of one recall, already made. See `retentive.stores.Searching` for what each method promises."""

    def __init__(self, store: AtOnce, asked: Asked) -> None:
        self._store, self._asked = store, asked
        self._both = store.search_both(asked)

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        return list(self._both.words[:limit])

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        return list(self._both.vectors[:limit])

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        """These memories, scored in the same request: whoever fetches them asks for that next."""
        self._look(keys)
        memories = self._both.seen.memories
        return {key: memories[key] for key in keys if key in memories}

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        self._look(keys)
        seen = self._both.seen
        return {key: seen.by_words.get(key, 0.0) for key in keys if key in seen.memories}

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        self._look(keys)
        by_vector = self._both.seen.by_vector
        return {key: by_vector[key] for key in keys if key in by_vector}

    def keys(self, ids: Sequence[str]) -> Mapping[str, Key]:
        return self._store.keys(ids)

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        return self._store.neighbours(keys)

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        return self._store.vectors(keys)

    def _look(self, keys: Sequence[Key]) -> None:
        """See to it that everything is known of these; one that is gone is asked for again."""
        seen = self._both.seen
        missing = [key for key in keys if key not in seen.memories]
        if missing:
            more = self._store.look(self._asked, missing)
            seen.memories.update(more.memories)
            seen.by_words.update(more.by_words)
            seen.by_vector.update(more.by_vector)
