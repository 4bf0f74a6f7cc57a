"""Both searches: the scope is a filter inside each, and whatever belongs to one recall is one request to the server."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from qdrant_client import models as q
from qdrant_client.http.models import QueryResponse

from retentive.errors import Invalid
from retentive.models import Key, Scope
from retentive.stores import Found, Vector
from retentive.stores.at_once import Asked, Both, Seen
from retentive.stores.qdrant import queries
from retentive.stores.qdrant.connection import Connection
from retentive.stores.qdrant.points import PLACED, Place, as_places, memory_of, place_of, points_of
from retentive.stores.qdrant.scopes import resolve, these, without
from retentive.stores.qdrant.sparse import QueryWeights, lookups, weigh
from retentive.stores.qdrant.versions import Versions
from retentive.text.analysis import MAX_QUERY_LENGTH, query_terms

Answers = Mapping[str, QueryResponse]


class Searches:
    """The searches of a store. See `retentive.stores.Searching` for what each method promises."""

    def __init__(self, connection: Connection, versions: Versions) -> None:
        self._connection = connection
        self._versions = versions
        self._weighed = _Lately()
        self._near = queries.near_params(connection.settings)

    def forget(self) -> None:
        """Something was written, so terms may no longer be as common as they were."""
        self._weighed.clear()

    # Words

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str], common: float
    ) -> list[Found]:
        where = resolve(self._connection, scope)
        if where is None or limit < 1:
            return []
        weighed = self._weigh(query, scope, where, common=common)
        if weighed is None:
            return []
        where = without(where, points_of(exclude).values())
        [answer] = self._connection.batch([queries.by_words(weighed, where, limit=limit, payload=PLACED)])
        return _best(answer, limit)

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> dict[Key, float]:
        answers = self._look(Asked(query, None, scope, 0, 0), as_places(keys), payload=PLACED)
        scores = dict.fromkeys(_still(answers, keys), 0.0)
        _score(scores, answers, "words")
        return scores

    def _weigh(self, query: str, scope: Scope, where: q.Filter, *, common: float) -> QueryWeights | None:
        """The terms of a query, looked up in one request."""
        weighed = None
        if query_terms(query):
            answers = self._connection.batch(lookups(query, where))
            memories = self._versions.lately().memories
            weighed = weigh(query, answers, memories=memories, common=common)
        return self._weighed.put((query[:MAX_QUERY_LENGTH], scope), weighed)

    def _weighed_lately(self, query: str, scope: Scope) -> QueryWeights | None:
        """The terms of a query that was most likely just asked."""
        known, weighed = self._weighed.get((query[:MAX_QUERY_LENGTH], scope))
        if known:
            return weighed
        where = resolve(self._connection, scope)
        return None if where is None else self._weigh(query, scope, where, common=1.0)

    # Vectors

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str]) -> list[Found]:
        where = resolve(self._connection, scope)
        if where is None or limit < 1:
            return []
        where = without(where, points_of(exclude).values())
        answers = self._ask(
            lambda using: (
                {"near": queries.by_vector(vector, using, where, self._near, limit=limit, payload=PLACED)}
                if using
                else {}
            )
        )
        return _best(answers["near"], limit) if answers else []

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> dict[Key, float]:
        answers = self._look(Asked(None, vector, Scope(), 0, 0), as_places(keys), payload=PLACED)
        scores: dict[Key, float] = {}
        _score(scores, answers, "near")
        return {place: scores[place] for place in _still(answers, keys) if place in scores}

    def vectors(self, keys: Sequence[Key]) -> dict[Key, Vector]:
        places = as_places(keys)
        using = self._versions.lately().active.vector
        if using is None or not places:
            return {}
        connection = self._connection
        try:
            found = connection.retrieve(connection.memories, places, fields=PLACED, vectors=[using])
        except (Invalid, ValueError):
            if self._versions.read().active.vector == using:
                raise
            return {}
        rows: dict[Key, Vector] = {}
        for point, record in found.items():
            vector: Any = record.vector or {}
            if vector.get(using) and place_of(record) == places[point]:
                rows[places[point]] = np.asarray(vector[using][0], np.float32)
        return rows

    # Both

    def search_both(self, asked: Asked) -> Both:
        where = resolve(self._connection, asked.scope)
        if where is None or asked.limit < 1:
            return Both([], [], Seen())
        weighed = None
        if asked.query is not None:
            weighed = self._weigh(asked.query, asked.scope, where, common=asked.common)
        where = without(where, points_of(asked.exclude).values())
        answers = self._ask(lambda using: _both(asked, where, weighed, using, self._near))
        seen = Seen()
        for name in ("near", "words"):
            for point in answers[name].points if name in answers else ():
                seen.memories.setdefault(place_of(point), memory_of(point.payload or {}))
        _score(seen.by_vector, answers, "near", "words nearby")
        _score(seen.by_words, answers, "words", "near in words")
        words = _best(answers["words"], asked.limit) if "words" in answers else []
        near = _best(answers["near"], asked.depth) if "near" in answers else []
        return Both(words, near, seen)

    def look(self, asked: Asked, keys: Sequence[Key]) -> Seen:
        answers = self._look(asked, as_places(keys), payload=True)
        there = _still(answers, keys)
        seen = Seen({place: memory_of(payload) for place, payload in there.items()})
        _score(seen.by_words, answers, "words")
        _score(seen.by_vector, answers, "near")
        return seen

    def _look(self, asked: Asked, places: Mapping[str, Place], *, payload: Any) -> Answers:
        """These points, and what the searches that run score them."""
        if not places:
            return {}
        weighed = self._weighed_lately(asked.query, asked.scope) if asked.query is not None else None
        where, size = these(places), len(places)

        def requests(using: str | None) -> dict[str, q.QueryRequest]:
            found = {"points": queries.points(where, limit=size, payload=payload)}
            if weighed is not None:
                found["words"] = queries.scored_by_words(weighed, where, limit=size, payload=PLACED)
            if asked.vector is not None and using is not None:
                found["near"] = queries.by_vector(asked.vector, using, where, None, limit=size, payload=PLACED)
            return found

        return self._ask(requests)

    def _ask(self, requests: Callable[[str | None], dict[str, q.QueryRequest]]) -> Answers:
        """The answers to all of these, in one request; without vectors if their model has just changed."""
        using = self._versions.lately().active.vector
        wanted = requests(using)
        try:
            answers = self._connection.batch(list(wanted.values()))
        except (Invalid, ValueError):
            # The vectors are called after their model, so those of another one are never compared with.
            if using is None or self._versions.read().active.vector == using:
                raise
            wanted = requests(None)
            answers = self._connection.batch(list(wanted.values()))
        return dict(zip(wanted, answers, strict=True))

    # Around

    def neighbours(self, keys: Sequence[Key]) -> dict[Key, tuple[Key | None, Key | None]]:
        places = [place for place in as_places(keys).values() if place.session is not None]
        answers = self._connection.batch([request for place in places for request in queries.beside(place)])
        found = [next((place_of(point) for point in answer.points), None) for answer in answers]
        return {place: (found[2 * at], found[2 * at + 1]) for at, place in enumerate(places)}


class _Lately:
    """How common the terms of the last queries are, for whoever scores what was just found."""

    SIZE = 256
    SECONDS = 10.0

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[str, Scope], tuple[float, QueryWeights | None]] = OrderedDict()

    def get(self, asked: tuple[str, Scope]) -> tuple[bool, QueryWeights | None]:
        """Whether it is known, and what."""
        with self._lock:
            at, weighed = self._known.get(asked, (-self.SECONDS, None))
        return time.monotonic() - at < self.SECONDS, weighed

    def put(self, asked: tuple[str, Scope], weighed: QueryWeights | None) -> QueryWeights | None:
        """Keep it, and give it back."""
        with self._lock:
            self._known[asked] = (time.monotonic(), weighed)
            while len(self._known) > self.SIZE:
                self._known.popitem(last=False)
        return weighed

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._known.clear()


def _both(
    asked: Asked, where: q.Filter, weighed: QueryWeights | None, using: str | None, params: q.SearchParams
) -> dict[str, q.QueryRequest]:
    """Both retrievers with their memories, and what each thinks of the other's best."""
    requests: dict[str, q.QueryRequest] = {}
    limit, vector = asked.limit, asked.vector
    if weighed is not None:
        requests["words"] = queries.by_words(weighed, where, limit=limit, payload=True)
    if vector is not None and using is not None:
        requests["near"] = queries.by_vector(vector, using, where, params, limit=asked.depth, payload=True)
        if weighed is not None:
            nearest = queries.first(queries.by_vector(vector, using, where, params, limit=limit, payload=PLACED))
            worded = queries.first(requests["words"])
            requests["near in words"] = queries.scored_by_words(
                weighed, None, limit=limit, payload=PLACED, among=nearest
            )
            requests["words nearby"] = queries.by_vector(
                vector, using, None, None, limit=limit, payload=PLACED, among=worded
            )
    return requests


def _best(answer: QueryResponse, limit: int) -> list[Found]:
    """The best first; equal scores in the order of writing."""
    found: list[tuple[Place, float]] = [(place_of(point), point.score) for point in answer.points]
    found.sort(key=lambda one: (-one[1], one[0].born))
    return [Found(*one) for one in found[:limit]]


def _still(answers: Answers, keys: Sequence[Key]) -> dict[Key, dict[str, Any]]:
    """The payloads of those that are still the memories for which their keys were given out."""
    places = as_places(keys)
    found = answers["points"].points if answers else []
    return {place: point.payload or {} for point in found if (place := place_of(point)) == places[str(point.id)]}


def _score(scores: dict[Key, float], answers: Answers, *names: str) -> None:
    for name in names:
        for point in answers[name].points if name in answers else ():
            scores[place_of(point)] = point.score
