"""All reads of one recall, on one connection and in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

import psycopg
from psycopg import errors

from retentive.models import Candidate, Kind, Memory, Model, Query
from retentive.stores.base import PendingVector
from retentive.stores.damage import Damage
from retentive.stores.postgres import maintenance
from retentive.stores.postgres.bm25_extension import Bm25Preselector
from retentive.stores.postgres.connections import Reader, Rows
from retentive.stores.postgres.error_mapping import is_lost, is_rolled_back
from retentive.stores.postgres.search_statements import (
    COLUMNS,
    SQL,
    TEXTS,
    half_precision_error,
    is_large,
    keyword_part,
    nearest_part,
    validity,
)
from retentive.stores.postgres.search_stats import (
    ActiveModel,
    Bm25Extension,
    ResolvedScope,
    SearchStats,
    filter_condition,
    read_search_stats,
)
from retentive.stores.postgres.type_adapters import unescape_row
from retentive.stores.postgres.validity import CURRENT_NEIGHBOUR, CURRENT_VECTOR
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, to_memories
from retentive.stores.values import Retrieved, Scores, Vector
from retentive.text.analysis import LAST

NOTHING: Mapping[str, Any] = MappingProxyType({})


class PostgresSearch:
    """See `retentive.stores.base.Search`.

    Each statement reads memories with their terms and, once there is a query vector, with their cosine. All of that is
    kept, so that `scores` seldom needs a statement. After `expect`, the statement of `keyword` also reads for `nearest`
    and `neighbours` if the vector is there already; otherwise that of `nearest` also reads for `neighbours`.
    """

    def __init__(
        self,
        reader: Reader,
        query: Query,
        *,
        last_known_model: Model | None,
        on_model: Callable[[Model | None], None],
        preselector: Bm25Preselector,
        maintenance: maintenance.Maintenance,
    ) -> None:
        self._reader = reader
        self._query = query
        self._last_known_model = last_known_model
        self._on_model = on_model
        self._preselector = preselector
        self._maintenance = maintenance
        self._stats: SearchStats | None = None
        self._vector: Vector | None = None
        self.damaged: list[Damage] = []
        self._expected: PendingVector | None = None
        self._early: tuple[Vector, Retrieved] | None = None  # what `keyword` found for `nearest`
        self._memories: dict[int, Memory] = {}
        self._keys: dict[str, int] = {}
        self._sides: dict[int, tuple[int | None, int | None]] = {}  # the keys of neighbours
        self._found_by_keyword: list[str] = []
        self._keyword: dict[str, float] = {}
        self._semantic: dict[str, float] = {}
        self._best: dict[str, Sequence[float]] = {}  # the scores of the candidates of each retriever

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def model(self) -> Model | None:
        """The store's last known model until the statistics have been read, then the one of the snapshot."""
        if self._stats is None and self._last_known_model is not None:
            return self._last_known_model
        active = self._prepare().active
        return active.model if active else None

    @property
    def size(self) -> int:
        return self._prepare().profile_memories

    def expect(self, vector: PendingVector) -> None:
        self._expected = vector

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        stats = self._prepare()
        retrieving = stats.retrieving_terms(self._query.tuning.max_document_frequency)
        if stats.scope is None or not retrieving or limit <= 0:
            return Retrieved()
        both = self._both(stats, retrieving) if kind is None and limit == self._query.pool else None
        if both is None:
            rows = self._keyword_rows(stats, retrieving, limit, kind)
            both = self._candidates(self._keep_scored(rows))
        scores = [candidate.score for candidate in both]
        if kind is None:
            self._best["keyword"] = scores
            self._found_by_keyword = [candidate.memory.id for candidate in both]
        return Retrieved(both, scores)

    def _both(self, stats: SearchStats, retrieving: Sequence[str]) -> list[Candidate] | None:
        """Run both retrievers and read the neighbours of the best, if the vector is there already; else None."""
        query, expected = self._query, self._expected
        if expected is None or not expected.ready() or self._extension(stats) is not None:
            return None
        vector = expected.wait()
        active = None if vector is None else self._comparable_model(stats, vector)
        if vector is None or active is None or stats.scope is None:
            return None
        self._vector = vector
        by_keyword, parameters = keyword_part(query, stats, retrieving, query.pool, None)
        scored, nearest = self._nearest_rows(
            active,
            stats.scope,
            vector,
            limit=query.pool,
            depth=query.depth,
            centres=query.centres,
            by_keyword=by_keyword,
            parameters=parameters,
        )
        self._early, self._best["semantic"] = (vector, nearest), nearest.depth_scores
        return self._candidates((score, self._memories.get(key)) for key, score in scored.items())

    def _candidates(self, scored: Iterable[tuple[float, Memory | None]]) -> list[Candidate]:
        """Return the memories that are not damaged, best first, those of equal score in the order of their keys."""
        found = [Candidate(memory, score) for score, memory in scored if memory is not None]
        return sorted(found, key=lambda one: (-one.score, self._keys[one.memory.id]))

    def retired(self, limit: int) -> list[Memory]:
        stats = self._prepare()
        if not stats.dated or self._query.current_at is None or stats.scope is None or limit <= 0:
            return []
        left_out: list[Candidate] = []
        if "keyword" in self._best:
            retrieving = stats.retrieving_terms(self._query.tuning.max_document_frequency)
            part = keyword_part(self._query, stats, retrieving, limit, None, retired=True)
            rows = self._reader.execute(*self._keyword_statement(*part))
            found = self._candidates(self._keep_scored(rows))
            left_out += self._above("keyword", limit, found)
        active = self._prepare().active
        if "semantic" in self._best and self._vector is not None and active is not None:
            _, near = self._nearest_rows(active, stats.scope, self._vector, limit=limit, depth=limit, retired=True)
            left_out += self._above("semantic", limit, near.candidates)
        return list({one.memory.id: one.memory for one in left_out}.values())

    def _above(self, retriever: str, limit: int, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those with a score that would have been among the first of a retriever."""
        scores = self._best[retriever]
        least = scores[limit - 1] if len(scores) >= limit else float("-inf")
        return [candidate for candidate in candidates if candidate.score >= least]

    def _keyword_rows(self, stats: SearchStats, retrieving: Sequence[str], limit: int, kind: Kind | None) -> Rows:
        """Read the memories to score. The BM25 extension selects them where it applies; if it fails, we do."""
        plain = self._keyword_statement(*keyword_part(self._query, stats, retrieving, limit, kind))
        extension = self._extension(stats)
        if extension is None or extension.index is None:
            if extension is not None:
                self._maintenance.schedule()
            return self._reader.execute(*plain)
        by_extension = keyword_part(self._query, stats, retrieving, limit, kind, extension)
        result = self._reader.try_execute(*self._keyword_statement(*by_extension))
        if not isinstance(result, psycopg.Error):
            return result
        if is_lost(result):  # it may have crashed the server, and must not do so again in the next attempt
            self._preselector.disable(result)
        rows = self._reader.execute(*plain)  # if this fails too, the extension was not the cause
        if not (is_rolled_back(result) or isinstance(result, errors.QueryCanceled)):
            self._preselector.disable(result)
        return rows

    def _extension(self, stats: SearchStats) -> Bm25Extension | None:
        """Return the BM25 extension where it applies. It selects before a filter does, which could leave nothing."""
        return None if self._query.filter else self._preselector.applicable(stats)

    def _keyword_statement(self, by_keyword: str, parameters: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
        """Return the statement of the keyword retriever alone, made of its part, and its parameters."""
        cosine, vector = self._cosine("m.key")
        return SQL("keyword", by_keyword=by_keyword, cosine=cosine, columns=COLUMNS), {**parameters, **vector}

    def nearest(
        self,
        vector: Vector,
        limit: int,
        *,
        depth: int = 0,
        kind: Kind | None = None,
        approximate: bool = False,  # noqa: ARG002 - every search is as fast
    ) -> Retrieved:
        first = kind is None and (limit, depth) == (self._query.pool, self._query.depth)
        early, self._early = self._early, None
        if early is not None and early[0] is vector and first:
            return early[1]
        stats = self._prepare()
        active = self._comparable_model(stats, vector)
        self._vector, self._semantic = (vector if active else None), {}
        if active is None:
            return Retrieved()
        if stats.scope is None or limit <= 0:
            # Their cosines are not known.
            self._memories, self._keyword, self._keys, self._found_by_keyword = {}, {}, {}, []
            return Retrieved()
        scope = stats.scope if kind is None else replace(stats.scope, kinds=[KIND_NUMBERS[kind]])
        centres = self._query.centres if first and self._expected is not None else 0
        _, found = self._nearest_rows(active, scope, vector, limit=limit, depth=max(limit, depth), centres=centres)
        if kind is None:
            self._best["semantic"] = found.depth_scores
        return found

    def _nearest_rows(
        self,
        active: ActiveModel,
        scope: ResolvedScope,
        vector: Vector,
        *,
        limit: int,
        depth: int,
        centres: int = 0,
        by_keyword: str | None = None,
        parameters: Mapping[str, Any] = NOTHING,
        retired: bool = False,
    ) -> tuple[dict[int, float], Retrieved]:
        """Read the nearest memories and the scores of all known ones; with `by_keyword` also what that part ranks.

        Also read the neighbours of the first `centres` of both. Return the scores of `by_keyword`, by key.
        """
        if not active.indexed and is_large(scope):
            self._maintenance.schedule()
        exclude = list(self._query.exclude)
        filtered, values = filter_condition(self._query.filter)
        current, at = validity(self._query, self._prepare(), CURRENT_VECTOR, retired=retired)
        near = nearest_part(
            active, scope, limit=limit, depth=depth, excluding=bool(exclude), filtered=filtered, current=current
        )
        cosine, asked = self._cosine("wanted.key")
        known = dict.fromkeys([*(self._keys[id] for id in self._found_by_keyword), *self._memories])
        own = {"exclude": exclude, "known": list(known), "limit": limit, "centres": centres}
        own["rounding"] = half_precision_error(vector)
        statement = SQL(
            "nearest",
            by_keyword=by_keyword or SQL.text("known"),
            near=near,
            cosine=cosine,
            sides=SQL.text("sides", current=validity(self._query, self._prepare(), CURRENT_NEIGHBOUR)[0]),
            columns=COLUMNS,
        )
        rows = self._reader.execute(statement, {**parameters, **values, **at, **scope.parameters, **asked, **own})
        return self._keep_rows(rows, limit=limit, depth=depth)

    def _keep_rows(self, rows: Rows, *, limit: int, depth: int) -> tuple[dict[int, float], Retrieved]:
        scored: dict[int, float] = {}
        ranked: list[tuple[int, int, float]] = []
        depth_scores: list[float] = []
        read = list(rows)
        self._keep((row[9:], row[1], row[8], row[2]) for row in read if row[9] is not None)
        for key, score, cosine, rank, scores, has_sides, before, after, _, own_key, *_ in read:
            if own_key is None and key in self._memories and cosine is not None:
                self._semantic[self._memories[key].id] = cosine
            if score is not None:
                scored[key] = score
            if rank is not None and rank <= limit:
                ranked.append((rank, key, cosine))
            if scores is not None:
                depth_scores = scores[:depth]
            if has_sides:
                self._sides[key] = before, after
        ranked.sort()
        near = [Candidate(self._memories[key], cosine) for _, key, cosine in ranked if key in self._memories]
        return scored, Retrieved(near, depth_scores)

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        missing = [id for id in ids if not self._knows_neighbours(id)]
        if missing:
            self._read_neighbours(missing)
        pairs = {id: self._sides[self._keys[id]] for id in ids if self._keys.get(id) in self._sides}
        found = self._memories
        return {
            id: (None if before is None else found.get(before), None if after is None else found.get(after))
            for id, (before, after) in pairs.items()
        }

    def _knows_neighbours(self, id: str) -> bool:
        key = self._keys.get(id, 0)
        return key in self._sides or (key in self._memories and self._memories[key].session is None)

    def _read_neighbours(self, ids: Sequence[str]) -> None:
        cosine, parameters = self._cosine("m.key")
        current, at = validity(self._query, self._prepare(), CURRENT_NEIGHBOUR)
        parameters |= {**at, "ids": list(ids), "known": list(self._memories)}
        sides = SQL.text("sides", current=current)
        rows = self._reader.execute(SQL("neighbours", sides=sides, cosine=cosine, columns=COLUMNS), parameters)
        read = list(rows)
        self._keep((row[6:], None, row[5], row[4]) for row in read if row[5] is not None)
        for own_key, id, before, after, *_ in read:
            self._keys[id] = own_key
            self._sides[own_key] = before, after

    def scores(self, ids: Sequence[str]) -> Scores:
        missing = [id for id in dict.fromkeys(ids) if id not in self._keyword]
        if missing:
            cosine, parameters = self._cosine("m.key")
            statement = SQL("memories", cosine=cosine, columns=COLUMNS)
            rows = self._reader.execute(statement, {**parameters, "ids": missing})
            self._keep((row, None, terms, cosine) for cosine, terms, *row in rows)
        return Scores(
            {id: self._keyword[id] for id in ids if id in self._keyword},
            {id: self._semantic[id] for id in ids if id in self._semantic},
        )

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        active = self._prepare().active
        if active is None or not ids:
            return {}
        return dict(self._reader.execute(SQL("vectors"), {"ids": list(ids), "model": active.id}))

    def terms_with_prefix(self, prefix: str, *, limit: int) -> list[str]:
        parameters = {"profile": self._query.scope.profile, "prefix": prefix, "end": prefix + LAST, "limit": limit}
        return [term for (term,) in self._reader.execute(SQL("terms_with_prefix"), parameters)]

    def _prepare(self) -> SearchStats:
        """Return the statistics, read by the first call."""
        if self._stats is None:
            self._stats = read_search_stats(self._reader.execute, self._query.scope, self._query.text)
            self._on_model(self._stats.active.model if self._stats.active else None)
        return self._stats

    def _comparable_model(self, stats: SearchStats, vector: Vector) -> ActiveModel | None:
        """Return the active model if it made the query's vector.

        If it is not the last known one, another process has just switched models, and the vector is the previous one's.
        """
        active = stats.active
        if active is None or active.model.dimension != len(vector):
            return None
        return active if self._last_known_model in (None, active.model) else None

    def _cosine(self, key: str) -> tuple[str, dict[str, Any]]:
        """Return the SQL expression for the cosine of a memory, and its parameters; NULL without a query vector."""
        active = self._prepare().active
        if self._vector is None or active is None:
            return "NULL::float8", {}
        return SQL.text("cosine", model=active.id, key=key), {"vector": self._vector}

    def _keep_scored(self, rows: Rows) -> Iterator[tuple[float, Memory | None]]:
        """Keep the memories of rows of the keyword retriever; return their scores, with None for a damaged one."""
        read = list(rows)
        self._keep((row[2:], row[0], "", row[1]) for row in read)
        return ((row[0], self._memories.get(row[2])) for row in read)

    def _keep(self, entries: Iterable[tuple[Sequence[Any], float | None, str, float | None]]) -> None:
        """Keep the memories of rows that are not damaged, with their scores.

        Each row comes with its keyword score, or else None and its terms, and its cosine.
        """
        kept = list(entries)
        scorer = self._prepare().scorer
        texts = [terms for _, keyword, terms, _ in kept if keyword is None]
        computed = iter(scorer.score_texts(texts, extra_length=SCOPE_TOKENS))
        found = to_memories((unescape_row(row, TEXTS) for row, *_ in kept), self.damaged)
        self._memories.update(found)
        for row, keyword, _, cosine in kept:
            score = next(computed) if keyword is None else keyword
            if row[0] in found:
                id = found[row[0]].id
                self._keys[id], self._keyword[id] = row[0], score
                if cosine is not None:
                    self._semantic[id] = cosine
