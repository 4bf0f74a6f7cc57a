"""The reads of one recall. The search keeps everything that a request returned, so that later calls need none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Self

import numpy as np
from qdrant_client import models as q
from qdrant_client.http.models import QueryResponse

from retentive.errors import Invalid
from retentive.models import ALL, Candidate, Kind, Memory, Model, Query
from retentive.stores.base import PendingVector
from retentive.stores.damage import NOT_ITS_TEXT, Damage
from retentive.stores.qdrant.connection import Connection, any_of, payload_of, with_ids
from retentive.stores.qdrant.model_collections import ModelCollections
from retentive.stores.qdrant.points import has_changed_text, id_of_point, memory_of, metadata_text, points_of
from retentive.stores.qdrant.queries import (
    REACH,
    ann_params,
    around,
    nearest_query,
    neighbour_query,
    prefetch,
    uses,
)
from retentive.stores.qdrant.sessions import NameRegistry
from retentive.stores.qdrant.sparse import WORDS, QueryWeights, query_weights, term_lookups
from retentive.stores.qdrant.validity import not_current, started_by
from retentive.stores.sql_codec import to_micros
from retentive.stores.values import Retrieved, Scores, Vector
from retentive.text.analysis import index_terms, query_terms

MAX_READ = 20_000
"""How many memories are read at most to find the terms with a prefix."""

Requests = dict[str, q.QueryRequest]


class QdrantSearch:
    """See `retentive.stores.base.Search`.

    `keyword` takes two requests: for the document frequencies of the terms, and for the candidates. The second one has
    the query of `nearest` too if its vector is expected; otherwise `nearest` takes one. `neighbours` takes one. Each
    also returns the scores that the other retriever gives to what it finds, so that `scores` takes one only for
    memories that no call has returned so far. A scope with sessions takes one more.
    """

    def __init__(
        self, connection: Connection, collections: ModelCollections, names: NameRegistry, query: Query
    ) -> None:
        self._connection = connection
        self._collections = collections
        self._names = names
        self._query = query
        self.damaged: list[Damage] = []
        self._vector: Vector | None = None
        self._keyword_used = query.tuning.keyword_weight > 0
        self._memories: dict[str, Memory] = {}
        self._keyword_scores: dict[str, float] = {}
        self._semantic_scores: dict[str, float | None] = {}
        self._points_with_metadata: list[Any] | None = None
        self._expected: PendingVector | None = None
        self._early: tuple[Vector, Retrieved] | None = None  # what `keyword` found for `nearest`
        self._best: dict[str, list[float]] = {}  # the scores of the candidates of each retriever
        self._left_out: dict[str, list[q.ScoredPoint]] = {}  # what each left out because it is not current

    @property
    def model(self) -> Model | None:
        return self._collections.recent().active.model

    @property
    def size(self) -> int:
        return self._collections.memory_count()

    @cached_property
    def _vector_name(self) -> str | None:
        return self._collections.recent().active.vector

    @cached_property
    def _scope(self) -> q.Filter | None:
        """The scope as a filter; None if it matches nothing."""
        return self._names.scope_filter(self._query.scope, searching=True)

    @cached_property
    def _weights(self) -> QueryWeights | None:
        """The weights of the query's terms; None if none of them occurs in the scope."""
        text = self._query.text
        if self._scope is None or not query_terms(text):
            return None
        lookups = self._connection.query(term_lookups(text, self._scope))
        return query_weights(text, lookups, common=self._query.tuning.common_words)

    # Retrievers

    def expect(self, vector: PendingVector) -> None:
        self._expected = vector

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        self._keyword_used = True
        weights = self._weights
        if self._scope is None or limit < 1 or weights is None or not weights.retrieving.indices:
            return Retrieved()
        requests = self._keyword_requests(weights, self._scope, limit, kind)
        vector = self._expected.wait() if self._expected and kind is None and limit == self._query.pool else None
        self._expected = None
        if vector is not None:
            self._vector, depth = vector, self._query.depth
            found = prefetch(requests["keyword"])
            requests |= self._nearest_requests(vector, self._scope, limit, depth, found=found)
        answers = self._run(requests)
        ranked = self._candidates(answers["keyword"])
        self._keep_best("keyword", ranked, answers, kind)
        self._keyword_scores |= {candidate.memory.id: candidate.score for candidate in ranked}
        if vector is not None:
            scored = [candidate.memory.id for candidate in ranked]
            self._early = vector, self._keep_nearest(answers, limit, depth, scored=scored)
        return Retrieved(ranked[:limit], [candidate.score for candidate in ranked[:limit]])

    def _keyword_requests(self, weights: QueryWeights, scope: q.Filter, limit: int, kind: Kind | None) -> Requests:
        where, limit = self._condition(scope, kind), self._at_most(limit)
        if len(weights.retrieving.indices) == len(weights.scoring.indices):
            request = nearest_query(weights.scoring, WORDS, limit, where=where, payload=True)
        else:  # terms that do not retrieve score what the others have found
            found = prefetch(nearest_query(weights.retrieving, WORDS, limit + limit // 2, where=where))
            request = nearest_query(weights.scoring, WORDS, limit, among=found, payload=True)
        requests, outdated = {"keyword": request}, self._retired_condition(kind)
        if outdated is not None:
            found = prefetch(nearest_query(weights.retrieving, WORDS, 2 * self._query.limit, where=outdated))
            best = nearest_query(weights.scoring, WORDS, self._query.limit, among=found, payload=True)
            requests["keyword retired"] = best
        return requests

    def nearest(
        self,
        vector: Vector,
        limit: int,
        *,
        depth: int = 0,
        kind: Kind | None = None,
        approximate: bool = False,  # noqa: ARG002 - every search is as fast
    ) -> Retrieved:
        early, self._early = self._early, None
        if early and early[0] is vector and kind is None and (limit, depth) == (self._query.pool, self._query.depth):
            return early[1]
        self._vector, self._semantic_scores = vector, {}
        if self._scope is None or self._vector_name is None or limit < 1:
            return Retrieved()
        scored = list(self._keyword_scores)
        answers = self._run(self._nearest_requests(vector, self._scope, limit, depth, kind))
        return self._keep_nearest(answers, limit, depth, kind, scored=scored)

    def _nearest_requests(
        self,
        vector: Vector,
        scope: q.Filter,
        limit: int,
        depth: int,
        kind: Kind | None = None,
        *,
        found: q.Prefetch | None = None,
    ) -> Requests:
        """Return the queries for the nearest memories, and for the semantic scores of what `keyword` finds or found."""
        name = self._vector_name
        if name is None:
            return {}
        numbers, where, params = [vector.tolist()], self._condition(scope, kind), ann_params(self._connection.settings)
        size = self._at_most(max(limit, depth))
        nearest = nearest_query(numbers, name, size, where=where, params=params, payload=True)
        requests = {"nearest": nearest}
        if self._keyword_used and self._weights is not None:
            requests["keyword scores"] = nearest_query(self._weights.scoring, WORDS, size, among=prefetch(nearest))
        known = points_of(self._keyword_scores)
        if found is not None:
            requests["semantic scores"] = nearest_query(numbers, name, limit, among=found)
        elif known:
            where = with_ids(known.values())
            requests["semantic scores"] = nearest_query(numbers, name, len(known), where=where)
        outdated = self._retired_condition(kind)
        if outdated is not None:
            best = nearest_query(numbers, name, self._query.limit, where=outdated, payload=True)
            requests["semantic retired"] = best
        return requests

    def _keep_nearest(
        self,
        answers: Mapping[str, QueryResponse],
        limit: int,
        depth: int,
        kind: Kind | None = None,
        *,
        scored: Iterable[str],
    ) -> Retrieved:
        """Return the nearest memories, and keep their scores and the semantic ones of the memories `scored`."""
        if "nearest" not in answers:
            return Retrieved()
        ranked = self._candidates(answers["nearest"])
        self._keep_best("semantic", ranked, answers, kind)
        self._keep_scores(answers, keyword=[one.memory.id for one in ranked], semantic=scored)
        scores = [candidate.score for candidate in ranked]
        self._semantic_scores |= {candidate.memory.id: candidate.score for candidate in ranked}
        return Retrieved(ranked[:limit], scores[: self._at_most(max(limit, depth))])

    def retired(self, limit: int) -> list[Memory]:
        left_out: dict[str, Memory] = {}
        for name, found in self._left_out.items():
            scores = self._best[name]
            least = scores[limit - 1] if len(scores) >= limit else float("-inf")
            points = sorted(found, key=lambda point: -point.score)[:limit]
            memories = [memory_of(payload_of(point)) for point in points if point.score >= least]
            left_out |= {memory.id: memory for memory in memories}
        return list(left_out.values())

    def _keep_best(
        self, name: str, ranked: Sequence[Candidate], answers: Mapping[str, QueryResponse], kind: Kind | None
    ) -> None:
        """Keep the scores of a retriever, and what it left out because it is not current, for `retired`."""
        if kind is None:
            self._best[name] = [candidate.score for candidate in ranked]
            if f"{name} retired" in answers:
                self._left_out[name] = answers[f"{name} retired"].points

    def _retired_condition(self, kind: Kind | None) -> q.Filter | None:
        """Return the condition of what is left out because it is not current; None if nothing is."""
        if self._query.current_at is None or self._query.limit < 1 or kind is not None or self._scope is None:
            return None
        return self._condition(self._scope, None, retired=True)

    def _condition(self, scope: q.Filter, kind: Kind | None, *, retired: bool = False) -> q.Filter:
        """Return the scope with the filter and without what the caller excludes, or what of it is of one kind.

        What is not current is left out, or with `retired` nothing else is found.
        """
        must: list[q.Condition] = [scope]
        at = self._query.current_at
        outdated = [] if at is None else not_current(at)
        if retired:
            must.append(q.Filter(should=outdated))
            outdated = []
        wanted = self._query.filter
        if wanted.since or wanted.until:
            bounds = q.Range(gte=to_micros(wanted.since), lt=to_micros(wanted.until))
            must.append(q.FieldCondition(key="when", range=bounds))
        if wanted.started_by:
            must.append(started_by(wanted.started_by))
        if wanted.metadata:
            must.append(q.HasIdCondition(has_id=self._with_metadata(q.Filter(must=must))))
        if kind is not None:
            must.append(any_of("kind", [kind]))
        excluded = list(points_of(self._query.exclude).values())
        must_not = [*([q.HasIdCondition(has_id=excluded)] if excluded else []), *outdated]
        if not must_not and len(must) == 1:
            return scope
        return q.Filter(must=must, must_not=must_not or None)

    def _with_metadata(self, where: q.Filter) -> list[Any]:
        """Return the points with the metadata of the filter. The server finds its text, which occurs in few others."""
        if self._points_with_metadata is None:
            texts = [metadata_text(key, value) for key, value in self._query.filter.metadata]
            parts = [q.FieldCondition(key="metadata", match=q.MatchText(text=text)) for text in texts]
            records = self._connection.scroll(self._connection.memories, q.Filter(must=[where, *parts]))
            self._points_with_metadata = [
                record.id for record in records if not self._query.filter.unmet_by(memory_of(payload_of(record)))
            ]
        return self._points_with_metadata

    def _at_most(self, limit: int) -> int:
        """Return a limit that the server can allocate: for a large one, not more than the number of memories."""
        return limit if limit < ALL else self._collections.memory_count() + 1000  # some may be new

    def _candidates(self, answer: QueryResponse) -> list[Candidate]:
        """Decode the points of a response, best first; equal scores in the order of writing."""
        points = sorted(answer.points, key=lambda point: (-point.score, payload_of(point)["born"]))
        return [Candidate(memory, point.score) for point in points if (memory := self._keep(point))]

    # Other reads

    def neighbours(self, ids: Sequence[str]) -> dict[str, tuple[Memory | None, Memory | None]]:
        self._fetch([id for id in ids if id not in self._memories])
        found = [self._memories[id] for id in dict.fromkeys(ids) if id in self._memories]
        memories = [memory for memory in found if memory.session is not None]
        current_at = self._query.current_at
        known = {
            (one.profile, one.project, one.session, one.position): one
            for one in self._memories.values()
            if current_at is None or one.is_current(current_at)
        }
        pairs: dict[str, dict[int, Memory | None]] = {memory.id: {-1: None, 1: None} for memory in memories}
        missing: list[tuple[Memory, int, int]] = []
        for memory in memories:
            for side in (-1, 1):
                if memory.position is not None and memory.position + side >= 0:
                    # A memory that was found already and is next by position needs no query.
                    next_one = known.get((memory.profile, memory.project, memory.session, memory.position + side))
                    pairs[memory.id][side] = next_one
                    missing += [] if next_one else [(memory, memory.position, side)]
        if missing:
            requests = {str(at): neighbour_query(*place, current_at) for at, place in enumerate(missing)}
            # Nearly all neighbours are within REACH, so that their scores need not wait for their ids.
            answers = self._run(requests | self._scoring(around(missing), REACH * len(missing)))
            scored = []
            for at, (memory, position, side) in enumerate(missing):
                for neighbour in filter(None, map(self._keep, answers[str(at)].points)):
                    pairs[memory.id][side] = neighbour
                    scored += [neighbour.id] if abs((neighbour.position or 0) - position) <= REACH else []
            self._keep_scores(answers, keyword=scored, semantic=scored)
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
        points, name = list(points_of(ids).values()), self._vector_name
        if not points or name is None:
            return {}
        request = q.QueryRequest(filter=with_ids(points), limit=len(points), with_payload=False, with_vector=[name])
        answers = self._run({"vectors": request})
        rows: dict[str, Vector] = {}
        for point in answers["vectors"].points if answers else ():
            vectors: Any = point.vector or {}
            if vectors.get(name):
                rows[id_of_point(point.id)] = np.asarray(vectors[name][0], np.float32)
        return rows

    def terms_with_prefix(self, prefix: str, *, limit: int) -> list[str]:
        """Read the terms of memories in the scope: the server has hashes of terms, which have no prefixes."""
        if self._scope is None:
            return []
        records = self._connection.scroll(self._connection.memories, self._scope)
        texts = (memory_of(payload_of(record)).indexed_text for record in islice(records, MAX_READ))
        counts = Counter(term for text in texts for term in set(index_terms(text)) if term.startswith(prefix))
        return [term for term, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:limit]]

    def close(self) -> None:
        """Do nothing: a search holds no connection of its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Requests

    def _fetch(self, ids: Sequence[str]) -> None:
        """Fetch what is not known of these memories: themselves and their scores."""
        new = points_of(id for id in ids if id not in self._memories)
        unscored = points_of(
            id
            for id in ids
            if (self._keyword_used and id not in self._keyword_scores)
            or (self._vector is not None and id not in self._semantic_scores)
        )
        requests = self._scoring(with_ids(unscored.values()), len(unscored)) if unscored else {}
        if new:
            requests["new"] = q.QueryRequest(filter=with_ids(new.values()), limit=len(new), with_payload=True)
        answers = self._run(requests)
        for point in answers["new"].points if new else ():
            self._keep(point)
        self._keep_scores(answers, keyword=unscored, semantic=unscored)

    def _scoring(self, where: q.Filter, count: int) -> Requests:
        """Return the queries for the scores that the retrievers of this recall give to some memories."""
        requests = {}
        if self._keyword_used and self._weights is not None:
            requests["keyword scores"] = nearest_query(self._weights.scoring, WORDS, count, where=where)
        if self._vector is not None and self._vector_name is not None:
            requests["semantic scores"] = nearest_query([self._vector.tolist()], self._vector_name, count, where=where)
        return requests

    def _run(self, requests: Requests) -> Mapping[str, QueryResponse]:
        """Run queries in one request; if the model has just changed, without those that use its vectors."""
        try:
            answers = self._connection.query(list(requests.values()))
        except (Invalid, ValueError):
            # The name of the vector contains its model, so vectors of another model are never compared.
            name = self._vector_name
            if name is None or self._collections.read().active.vector == name:
                raise
            self._vector = None
            requests = {key: one for key, one in requests.items() if not uses(one, name)}
            answers = self._connection.query(list(requests.values()))
        return dict(zip(requests, answers, strict=True))

    def _keep(self, point: q.ScoredPoint) -> Memory | None:
        """Decode a point and keep its memory; None, and it is reported, if its text is not the one that was stored."""
        payload = payload_of(point)
        if has_changed_text(payload):
            self.damaged.append(Damage(payload["id"], NOT_ITS_TEXT))
            return None
        memory = memory_of(payload)
        return self._memories.setdefault(memory.id, memory)

    def _keep_scores(
        self, answers: Mapping[str, QueryResponse], *, keyword: Iterable[str], semantic: Iterable[str]
    ) -> None:
        """Keep the scores of these memories. One that a response lacks has the score 0, or no vector."""
        if self._keyword_used:
            found = answers["keyword scores"].points if "keyword scores" in answers else ()
            scores = {id_of_point(point.id): point.score for point in found}
            self._keyword_scores = {**dict.fromkeys(keyword, 0.0), **self._keyword_scores, **scores}
        if self._vector is not None:
            found = answers["semantic scores"].points if "semantic scores" in answers else ()
            scores = {id_of_point(point.id): point.score for point in found}
            self._semantic_scores = {**dict.fromkeys(semantic), **self._semantic_scores, **scores}
