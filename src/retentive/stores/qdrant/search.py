"""The reads of one recall. Each call of `QdrantSearch` is one request, and remembers everything that came with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import TracebackType
from typing import Any, Self

import numpy as np
from qdrant_client import models as q
from qdrant_client.http.models import QueryResponse

from retentive.errors import Invalid
from retentive.models import Candidate, Memory, Model, Query
from retentive.stores.base import Retrieved, Scores, Vector
from retentive.stores.qdrant.connection import Connection, any_of, matching, payload_of, with_ids
from retentive.stores.qdrant.model_collections import ModelCollections
from retentive.stores.qdrant.points import id_of_point, memory_of, points_of
from retentive.stores.qdrant.sessions import NameRegistry
from retentive.stores.qdrant.sparse import WORDS, QueryWeights, query_weights, term_lookups
from retentive.text.analysis import query_terms

SPARE = 16
"""How many more results than the limit are requested, so that ties at the end are resolved by the order of writing."""

REACH = 3
"""How many positions away a neighbour is at most; further away after more memories of a session were deleted."""

Answers = Mapping[str, QueryResponse]


class QdrantSearch:
    """See `retentive.stores.base.Search`.

    `keyword` takes two requests: for the document frequencies of the terms, and for the candidates. `nearest` and
    `neighbours` take one each, which also returns the scores that the other retriever gives to what they find.
    `scores` takes one only for memories that no call has returned so far. A scope with sessions takes one more.
    """

    def __init__(
        self, connection: Connection, collections: ModelCollections, names: NameRegistry, query: Query
    ) -> None:
        self._connection = connection
        self._collections = collections
        self._names = names
        self._query = query
        self._vector: Vector | None = None
        self._keyword_used = query.tuning.keyword_weight > 0
        self._memories: dict[str, Memory] = {}
        self._keyword_scores: dict[str, float] = {}
        self._semantic_scores: dict[str, float | None] = {}

    @property
    def model(self) -> Model | None:
        return self._collections.recent().active.model

    def close(self) -> None:
        """Do nothing: a search holds no connection of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @cached_property
    def _scope(self) -> q.Filter | None:
        """The scope as a filter; None if it matches nothing."""
        return self._names.scope_filter(self._query.scope)

    @cached_property
    def _weights(self) -> QueryWeights | None:
        """The weights of the query's terms; None if none of them occurs in the scope."""
        text = self._query.text
        if self._scope is None or not query_terms(text):
            return None
        lookups = self._connection.query(term_lookups(text, self._scope))
        memories = self._collections.memory_count()
        return query_weights(text, lookups, memories=memories, common=self._query.tuning.common_words)

    # Retrievers

    def keyword(self, limit: int) -> Retrieved:
        self._keyword_used = True
        scope = self._scope
        if scope is None or limit < 1 or self._weights is None:
            return Retrieved()
        [answer] = self._connection.query([_keyword_query(self._weights, self._without_excluded(scope), limit)])
        candidates = self._candidates(answer)[:limit]
        self._keyword_scores |= {candidate.memory.id: candidate.score for candidate in candidates}
        return Retrieved(candidates, [candidate.score for candidate in candidates])

    def nearest(self, vector: Vector, limit: int, *, depth: int = 0) -> Retrieved:
        self._vector, self._semantic_scores = vector, {}
        if self._scope is None or limit < 1:
            return Retrieved()
        scope = self._without_excluded(self._scope)
        found_by_keyword = points_of(self._keyword_scores)
        weights = self._weights if self._keyword_used else None

        def requests(name: str | None) -> dict[str, q.QueryRequest]:
            if name is None:
                return {}
            params = _ann_params(self._connection)
            found = {"nearest": _vector_query(vector, name, max(limit, depth), scope, params=params, payload=True)}
            if weights is not None:
                best = _prefetch(_vector_query(vector, name, limit, scope, params=params))
                found["keyword"] = _scoring_query(weights, limit, among=[best])
            if found_by_keyword:
                where = with_ids(found_by_keyword.values())
                found["semantic"] = _vector_query(vector, name, len(found_by_keyword), where)
            return found

        answers = self._run(requests)
        if "nearest" not in answers:
            self._vector = None
            return Retrieved()
        ranked = self._candidates(answers["nearest"])
        scores = [candidate.score for candidate in ranked]
        ids = [candidate.memory.id for candidate in ranked[:limit]]
        self._learn(answers, keyword=ids, semantic=found_by_keyword)
        self._semantic_scores |= {candidate.memory.id: candidate.score for candidate in ranked}
        return Retrieved(ranked[:limit], scores[: max(limit, depth)])

    def _without_excluded(self, scope: q.Filter) -> q.Filter:
        excluded = list(points_of(self._query.exclude).values())
        return q.Filter(must=[scope], must_not=[q.HasIdCondition(has_id=excluded)]) if excluded else scope

    def _candidates(self, answer: QueryResponse) -> list[Candidate]:
        """Decode the points of a response, best first; equal scores in the order of writing."""
        points = sorted(answer.points, key=lambda point: (-point.score, payload_of(point)["born"]))
        candidates = []
        for point in points:
            memory = memory_of(payload_of(point))
            candidates.append(Candidate(self._memories.setdefault(memory.id, memory), point.score))
        return candidates

    # Other reads

    def neighbours(self, ids: Sequence[str]) -> dict[str, tuple[Memory | None, Memory | None]]:
        self._fetch([id for id in ids if id not in self._memories])
        memories = [self._memories[id] for id in dict.fromkeys(ids) if id in self._memories]
        memories = [memory for memory in memories if memory.session is not None]
        known = {(one.profile, one.session, one.position): one for one in self._memories.values()}
        pairs: dict[str, dict[int, Memory | None]] = {memory.id: {-1: None, 1: None} for memory in memories}
        missing = []
        for memory in memories:
            for side in (-1, 1) if memory.position is not None else ():
                # A memory that was found already and is next by position needs no query.
                pairs[memory.id][side] = known.get((memory.profile, memory.session, (memory.position or 0) + side))
                if pairs[memory.id][side] is None:
                    missing.append((memory, side))
        queries = [_neighbour_query(memory, side) for memory, side in missing]
        # Neighbours are nearly always within REACH, so their scores need not wait for their ids.
        adjacent = _around(missing)

        def requests(name: str | None) -> dict[str, q.QueryRequest]:
            found = {str(at): request for at, request in enumerate(queries)}
            if self._keyword_used and self._weights is not None:
                found["keyword"] = _scoring_query(self._weights, REACH * len(queries), where=adjacent)
            if self._vector is not None and name is not None:
                found["semantic"] = _vector_query(self._vector, name, REACH * len(queries), adjacent)
            return found

        answers = self._run(requests) if queries else {}
        scored = []
        for at, (memory, side) in enumerate(missing):
            for point in answers[str(at)].points:
                neighbour = memory_of(payload_of(point))
                pairs[memory.id][side] = self._memories.setdefault(neighbour.id, neighbour)
                if abs((neighbour.position or 0) - (memory.position or 0)) <= REACH:
                    scored.append(neighbour.id)
        self._learn(answers, keyword=scored, semantic=scored)
        return {id: (pair[-1], pair[1]) for id, pair in pairs.items()}

    def scores(self, ids: Sequence[str]) -> Scores:
        self._fetch(ids)
        known = [id for id in dict.fromkeys(ids) if id in self._memories]
        semantic = {id: self._semantic_scores.get(id) for id in known}
        return Scores(
            {id: self._keyword_scores.get(id, 0.0) for id in known},
            {id: score for id, score in semantic.items() if score is not None},
        )

    def vectors(self, ids: Sequence[str]) -> dict[str, Vector]:
        points = points_of(ids)
        name = self._collections.recent().active.vector
        if name is None or not points:
            return {}
        connection = self._connection
        try:
            found = connection.retrieve(connection.memories, points.values(), fields=False, vectors=[name])
        except (Invalid, ValueError):
            if self._collections.read().active.vector == name:
                raise
            return {}
        rows: dict[str, Vector] = {}
        for id, point in points.items():
            vectors: Any = (found[point].vector if point in found else None) or {}
            if vectors.get(name):
                rows[id] = np.asarray(vectors[name][0], np.float32)
        return rows

    def _fetch(self, ids: Sequence[str]) -> None:
        """Fetch what is not known of these memories: themselves and their scores."""
        new = points_of(id for id in ids if id not in self._memories)
        keyword = points_of(id for id in ids if self._keyword_used and id not in self._keyword_scores)
        semantic = points_of(id for id in ids if self._vector is not None and id not in self._semantic_scores)
        if not new and not keyword and not semantic:
            return
        weights = self._weights if keyword else None

        def requests(name: str | None) -> dict[str, q.QueryRequest]:
            found = {}
            if new:
                found["new"] = q.QueryRequest(filter=with_ids(new.values()), limit=len(new), with_payload=True)
            if weights is not None:
                found["keyword"] = _scoring_query(weights, len(keyword), where=with_ids(keyword.values()))
            if self._vector is not None and name is not None and semantic:
                found["semantic"] = _vector_query(self._vector, name, len(semantic), with_ids(semantic.values()))
            return found

        answers = self._run(requests)
        if "new" in answers:
            for point in answers["new"].points:
                memory = memory_of(payload_of(point))
                self._memories[memory.id] = memory
        self._learn(answers, keyword=keyword, semantic=semantic)

    # Requests

    def _run(self, requests: Callable[[str | None], dict[str, q.QueryRequest]]) -> Answers:
        """Run queries in one request, given the name of the vector; without it if the model has just changed."""
        name = self._collections.recent().active.vector
        wanted = requests(name)
        try:
            answers = self._connection.query(list(wanted.values()))
        except (Invalid, ValueError):
            # The name of the vector contains its model, so vectors of another model are never compared.
            if name is None or self._collections.read().active.vector == name:
                raise
            wanted = requests(None)
            answers = self._connection.query(list(wanted.values()))
        return dict(zip(wanted, answers, strict=True))

    def _learn(self, answers: Answers, *, keyword: Iterable[str], semantic: Iterable[str]) -> None:
        """Remember scores. A memory that a response lacks has the score 0, or no vector."""
        self._keyword_scores = {**dict.fromkeys(keyword, 0.0), **self._keyword_scores}
        self._semantic_scores = {**dict.fromkeys(semantic), **self._semantic_scores}
        if "keyword" in answers:
            self._keyword_scores |= {id_of_point(point.id): point.score for point in answers["keyword"].points}
        if "semantic" in answers:
            self._semantic_scores |= {id_of_point(point.id): point.score for point in answers["semantic"].points}


def _keyword_query(weights: QueryWeights, where: q.Filter, limit: int) -> q.QueryRequest:
    """Find the best memories by BM25. Terms that do not retrieve score what the others have found."""
    if weights.all_retrieve:
        return _scoring_query(weights, limit, where=where, payload=True)
    retrieving = q.NearestQuery(nearest=weights.retrieving)
    found = q.Prefetch(query=retrieving, using=WORDS, filter=where, limit=limit + limit // 2 + SPARE)
    return _scoring_query(weights, limit, among=[found], payload=True)


def _scoring_query(
    weights: QueryWeights,
    limit: int,
    *,
    where: q.Filter | None = None,
    among: Sequence[q.Prefetch] = (),
    payload: bool = False,
) -> q.QueryRequest:
    """Score memories by BM25; those without any of the terms are not in the result."""
    return q.QueryRequest(
        query=q.NearestQuery(nearest=weights.scoring),
        using=WORDS,
        filter=where,
        limit=limit + SPARE,
        with_payload=payload,
        prefetch=list(among) or None,
    )


def _vector_query(
    vector: Vector,
    name: str,
    limit: int,
    where: q.Filter | None,
    *,
    params: q.SearchParams | None = None,
    payload: bool = False,
    among: Sequence[q.Prefetch] = (),
) -> q.QueryRequest:
    """Find the nearest memories, each by its nearest part."""
    return q.QueryRequest(
        query=q.NearestQuery(nearest=[vector.tolist()]),
        using=name,
        filter=where,
        limit=limit + SPARE,
        with_payload=payload,
        prefetch=list(among) or None,
        params=params,
    )


def _ann_params(connection: Connection) -> q.SearchParams:
    """Return the parameters of a search in the HNSW graph; quantized scores are computed again from the vectors."""
    quantized = connection.settings.quantization != "none"
    rescoring = q.QuantizationSearchParams(rescore=True, oversampling=2.0) if quantized else None
    return q.SearchParams(hnsw_ef=connection.settings.ef, quantization=rescoring)


def _neighbour_query(memory: Memory, side: int) -> q.QueryRequest:
    """Find the memory before (-1) or after (1) another one in its session."""
    direction, beyond = (
        (q.Direction.DESC, q.Range(lt=memory.position)) if side < 0 else (q.Direction.ASC, q.Range(gt=memory.position))
    )
    session = matching(profile=memory.profile, session=memory.session or "")
    return q.QueryRequest(
        query=q.OrderByQuery(order_by=q.OrderBy(key="position", direction=direction)),
        filter=q.Filter(must=[session, q.FieldCondition(key="position", range=beyond)]),
        limit=1,
        with_payload=True,
    )


def _around(places: Sequence[tuple[Memory, int]]) -> q.Filter:
    """Return a filter for the memories up to `REACH` positions before or after others in their sessions."""
    sessions: dict[tuple[str, str], set[int]] = {}
    for memory, side in places:
        positions = sessions.setdefault((memory.profile, memory.session or ""), set())
        positions.update((memory.position or 0) + side * step for step in range(1, REACH + 1))
    return q.Filter(
        should=[
            q.Filter(must=[matching(profile=profile, session=session), any_of("position", sorted(positions))])
            for (profile, session), positions in sessions.items()
        ]
    )


def _prefetch(request: q.QueryRequest) -> q.Prefetch:
    """Return a query as the first stage of another one."""
    return q.Prefetch(
        query=request.query, using=request.using, filter=request.filter, params=request.params, limit=request.limit
    )
