"""Memories, vectors, queries and searches in one line each, so that a test shows only what it is about."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from retentive.models import KINDS, Candidate, Filter, Memory, Model, Query, Scope
from retentive.ranking import Tuning
from retentive.stores.base import Searchable, Store
from retentive.stores.values import KnownVector, Neighbours, Record, SearchRequest, SearchResult, Vector

NOW = datetime(2025, 6, 1, 12, tzinfo=UTC)
DIMENSION = 16
MODEL = Model("test", "1", DIMENSION, "fingerprint of test")
OTHER = Model("other", "1", DIMENSION, "fingerprint of other")
ALL = 100_000
HERE = Scope()
NO_FILTER = Filter()


def id_of(number: int) -> str:
    """Return an id that sorts as its number does, as UUIDs of version 7 sort by time."""
    return f"01900000-0000-7000-8000-{number:012d}"


def memory(number: int, text: str | None = None, **fields: Any) -> Memory:
    """A memory whose text no other number has."""
    return Memory(id_of(number), f"note number{number}" if text is None else text, fields.pop("created", NOW), **fields)


def record(number: int, text: str | None = None, *, vectors: Vector | None = None, **fields: Any) -> Record:
    return Record(memory(number, text, **fields), vectors)


def embedded(number: int, text: str | None = None, **fields: Any) -> Record:
    """A record with a vector that no other number has."""
    return record(number, text, vectors=rows(vector(number)), **fields)


def rows(*vectors: Vector) -> Vector:
    return np.stack(vectors)


def vector(seed: int) -> Vector:
    """A unit vector that no other seed gives."""
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


class Meanwhile(NamedTuple):
    """A vector that a search waits for, while something else happens."""

    vector: Vector | None
    happens: Callable[[], object] = lambda: None
    is_ready: bool = False

    def ready(self) -> bool:
        return self.is_ready

    def wait(self, model: Model | None) -> Vector | None:
        self.happens()
        return self.vector


def search(
    store: Searchable, query: Query, *, vector: Vector | Meanwhile | None = None, **request: Any
) -> SearchResult:
    """Search a store; further options are those of `SearchRequest`."""
    pending = KnownVector(vector) if isinstance(vector, np.ndarray) else vector
    return store.search(SearchRequest(query, vector=pending, **request))


def make_query(
    text: str = "",
    scope: Scope = HERE,
    *,
    limit: int = 10,
    exclude: Iterable[str] = (),
    vector: Vector | None = None,
    filter: Filter = NO_FILTER,
    **tuning: Any,
) -> Query:
    """Return a query all of whose terms retrieve candidates, unless `max_document_frequency` is given."""
    return Query(
        text, scope, Tuning(**{"max_document_frequency": 1.0, **tuning}), NOW, limit, tuple(exclude), vector, filter
    )


def find_keyword(
    store: Searchable, text: str, scope: Scope = HERE, *, limit: int = ALL, **options: Any
) -> Sequence[Candidate]:
    """Return the candidates of the keyword retriever; the options are those of `make_query`."""
    return search(store, make_query(text, scope, **options), keyword=limit).candidates["keyword"]


def find_nearest(
    store: Searchable, vector: Vector, scope: Scope = HERE, *, limit: int = ALL, **options: Any
) -> Sequence[Candidate]:
    """Return the candidates of the semantic retriever; the options are those of `make_query`."""
    found = search(store, make_query("", scope, **options), semantic=limit, vector=vector)
    return found.candidates.get("semantic", ())


def ids_of(candidates: Iterable[Candidate]) -> list[str]:
    return [candidate.memory.id for candidate in candidates]


def scores_by_id(candidates: Iterable[Candidate]) -> dict[str, float]:
    return {candidate.memory.id: candidate.score for candidate in candidates}


def keyword_ids(store: Searchable, text: str, scope: Scope = HERE, *, limit: int = ALL, **options: Any) -> list[str]:
    return ids_of(find_keyword(store, text, scope, limit=limit, **options))


def nearest_ids(
    store: Searchable, vector: Vector, scope: Scope = HERE, *, limit: int = ALL, **options: Any
) -> list[str]:
    return ids_of(find_nearest(store, vector, scope, limit=limit, **options))


def keyword_scores(store: Searchable, text: str, ids: Sequence[str], scope: Scope = HERE) -> Mapping[str, float]:
    """Return the keyword score of any memories."""
    found = search(store, make_query(text, scope), ids=ids, scores=True).scores["keyword"]
    return {id: found[id] for id in ids if id in found}


def semantic_scores(store: Searchable, vector: Vector, ids: Sequence[str]) -> Mapping[str, float]:
    """Return the semantic score of any memories."""
    found = search(store, make_query(), vector=vector, ids=ids, scores=True).scores["semantic"]
    return {id: found[id] for id in ids if id in found}


def neighbours(store: Searchable, ids: Sequence[str], **options: Any) -> Mapping[str, Neighbours]:
    """Return the memories before and after each of these; the options are those of `make_query`."""
    return search(store, make_query("tea", **options), around=ids).neighbours


def first_vectors(store: Searchable, ids: Sequence[str]) -> Mapping[str, Vector]:
    """Return the vector of each memory's first part."""
    return store.vectors(ids)


def listed(store: Store, scope: Scope = HERE) -> list[str]:
    return [memory.id for memory in store.list(scope, limit=ALL).memories]


def everything(store: Store, *profiles: str) -> list[object]:
    """All that a caller can read from a store, to tell whether a call has changed anything."""
    seen: list[object] = [store.model(), store.check()]
    for profile in profiles or ("default",):
        page = store.list(Scope(profile), limit=ALL).memories
        words = {one.id for one in page} - set(keyword_ids(store, "note", Scope(profile)))
        nearest = nearest_ids(store, vector(0), Scope(profile))
        seen += [page, words, nearest, store.sessions(profile), store.projects(profile)]
    return seen


PROJECT_OF_SESSION = {"a": "p", "b": "p", "c": "q", "d": None, "e": None}


def scoped_memories() -> list[Record]:
    """Each combination of profile, kind and container once; some sessions of ada do not exist for bob."""
    homes: list[tuple[str | None, str | None]] = [(None, None), ("p", None), ("q", None)]
    homes += [(project, session) for session, project in PROJECT_OF_SESSION.items()]
    chosen = list(product(("ada", "bob"), KINDS, homes))
    chosen = [one for one in chosen if one[:1] != ("bob",) or one[2][1] not in ("c", "e")]
    return [
        embedded(number, profile=profile, kind=kind, project=project, session=session)
        for number, (profile, kind, (project, session)) in enumerate(chosen)
    ]


def fill(store: Store) -> None:
    """Add 121 memories of few topics in five sessions, one of them without a vector."""
    texts = ["green tea", "black tea with milk", "coffee", "the deploy failed", "milk", "who drinks tea?"]
    store.add(
        [
            embedded(number, f"{texts[number % 6]} {number}", session=f"s{number % 5}", speaker="AB"[number % 2])
            for number in range(120)
        ],
        model=MODEL,
    )
    store.add([record(500, "tea without a vector", occurred=NOW - timedelta(days=1))], model=None)
