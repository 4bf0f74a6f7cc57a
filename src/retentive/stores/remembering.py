"""A store's searches, each made once: for ranking the same queries in many ways.

It answers as the store did when it was first asked, for as long as it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from retentive.models import Key, Memory, Model, Scope
from retentive.stores import Found, Store, Vector

V = TypeVar("V")


class RememberingStore:
    """What a recall asks of a store. See `retentive.stores.Searching` for what each method promises."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._searches: dict[Hashable, list[Found]] = {}
        self._by_key: dict[Hashable, dict[Key, Any]] = {}

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        return self._search(
            (query, scope, limit, tuple(exclude), common),
            lambda: self._store.search_words(query, scope, limit=limit, exclude=exclude, common=common),
        )

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        return self._search(
            (vector.tobytes(), scope, limit, tuple(exclude)),
            lambda: self._store.search_vectors(vector, scope, limit=limit, exclude=exclude),
        )

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        return self._of_keys("fetch", keys, self._store.fetch)

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        ask = self._store.score_words
        return self._of_keys(("words", query, scope), keys, lambda missing: ask(query, scope, missing))

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        ask = self._store.score_vectors
        return self._of_keys(("vectors", vector.tobytes()), keys, lambda missing: ask(vector, missing))

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        return self._of_keys("neighbours", keys, self._store.neighbours)

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        return self._of_keys("rows", keys, self._store.vectors)

    def model(self) -> Model | None:
        """The model whose vectors are searched."""
        return self._model

    @cached_property
    def _model(self) -> Model | None:
        return self._store.model()

    def _search(self, asked: Hashable, search: Callable[[], list[Found]]) -> list[Found]:
        if asked not in self._searches:
            self._searches[asked] = search()
        return self._searches[asked]

    def _of_keys(
        self, asked: Hashable, keys: Iterable[Key], ask: Callable[[Sequence[Key]], Mapping[Key, V]]
    ) -> dict[Key, V]:
        """What there is for each of these keys; one for which there is nothing is asked for once, too."""
        known: dict[Key, V | None] = self._by_key.setdefault(asked, {})
        wanted = list(keys)
        missing = [key for key in wanted if key not in known]
        if missing:
            known.update(dict.fromkeys(missing))
            known.update(ask(missing))
        return {key: value for key in wanted if (value := known[key]) is not None}
