"""All reads of one recall, on one connection and in one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import psycopg
from psycopg import errors

from retentive.models import Candidate, Kind, Memory, Model, Query
from retentive.stores.damage import Damage
from retentive.stores.postgres import maintenance
from retentive.stores.postgres.bm25_extension import Bm25Preselector
from retentive.stores.postgres.connections import Reader, Rows
from retentive.stores.postgres.error_mapping import is_lost, is_rolled_back
from retentive.stores.postgres.search_stats import (
    ActiveModel,
    Bm25Extension,
    ResolvedScope,
    SearchStats,
    filter_condition,
    read_search_stats,
)
from retentive.stores.postgres.sql import Statements
from retentive.stores.postgres.validity import COLUMNS, CURRENT, CURRENT_NEIGHBOUR, CURRENT_VECTOR
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, to_memories, to_micros
from retentive.stores.values import Retrieved, Scores, Vector
from retentive.text.analysis import LAST
from retentive.text.bm25 import K1, B

ORDERING_TERMS = 12
"""How many of the query's terms, the rarest, decide which memories are scored where many match."""

MULTIPLE_PARTS = 1.02
"""From this many vectors per memory on, some of the nearest are parts of the same memory, so that more are read."""

_SQL = Statements("search")


class PostgresSearch:
    """See `retentive.stores.base.Search`.

    Each statement reads memories with their terms and, once there is a query vector, with their cosine. All of that is
    kept, so that `scores` seldom needs a statement.
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
        self._memories: dict[int, Memory] = {}
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

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        stats = self._prepare()
        retrieving = stats.retrieving_terms(self._query.tuning.common_words)
        if stats.scope is None or not retrieving or limit <= 0:
            return Retrieved()
        candidates = self._scored(self._keyword_rows(stats, retrieving, limit, kind), limit)
        scores = [candidate.score for candidate in candidates]
        if kind is None:
            self._best["keyword"] = scores
        return Retrieved(candidates, scores)

    def _scored(self, rows: Rows, limit: int) -> list[Candidate]:
        scored = [(self._bm25(terms), cosine, row) for cosine, terms, *row in rows]
        scored.sort(key=lambda one: (-one[0], one[2][0]))
        kept = [(self._keep(row, score, cosine), score) for score, cosine, row in scored[:limit]]
        return [Candidate(memory, score) for memory, score in kept if memory is not None]

    def retired(self, limit: int) -> list[Memory]:
        stats = self._prepare()
        if not stats.dated or self._query.current_at is None or stats.scope is None or limit <= 0:
            return []
        left_out: list[Candidate] = []
        if "keyword" in self._best:
            retrieving = stats.retrieving_terms(self._query.tuning.common_words)
            rows = self._reader.execute(*self._keyword_statement(stats, retrieving, limit, None, retired=True))
            left_out += self._above("keyword", limit, self._scored(rows, limit))
        active = self._prepare().active
        if "semantic" in self._best and self._vector is not None and active is not None:
            found = self._nearest_rows(active, stats.scope, limit=limit, depth=limit, retired=True)
            near = [Candidate(self._memories[key], score) for score, key in found[:limit] if key in self._memories]
            left_out += self._above("semantic", limit, near)
        return list({one.memory.id: one.memory for one in left_out}.values())

    def _above(self, retriever: str, limit: int, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return those with a score that would have been among the first of a retriever."""
        scores = self._best[retriever]
        least = scores[limit - 1] if len(scores) >= limit else float("-inf")
        return [candidate for candidate in candidates if candidate.score >= least]

    def _keyword_rows(self, stats: SearchStats, retrieving: Sequence[str], limit: int, kind: Kind | None) -> Rows:
        """Read the memories to score. The BM25 extension selects them where it applies; if it fails, we do."""
        plain = self._keyword_statement(stats, retrieving, limit, kind)
        # The extension selects before a filter applies, which could leave nothing.
        extension = None if self._query.filter else self._preselector.applicable(stats)
        if extension is None or extension.index is None:
            if extension is not None:
                self._maintenance.schedule()
            return self._reader.execute(*plain)
        result = self._reader.try_execute(*self._keyword_statement(stats, retrieving, limit, kind, extension))
        if not isinstance(result, psycopg.Error):
            return result
        if is_lost(result):  # it may have crashed the server, and must not do so again in the next attempt
            self._preselector.disable(result)
        rows = self._reader.execute(*plain)  # if this fails too, the extension was not the cause
        if not (is_rolled_back(result) or isinstance(result, errors.QueryCanceled)):
            self._preselector.disable(result)
        return rows

    def _keyword_statement(
        self,
        stats: SearchStats,
        retrieving: Sequence[str],
        limit: int,
        kind: Kind | None,
        extension: Bm25Extension | None = None,
        *,
        retired: bool = False,
    ) -> tuple[bytes, dict[str, Any]]:
        """Read about twice as many memories as wanted, those with the best approximate scores."""
        of_kind = None if kind is None else f"'=k{KIND_NUMBERS[kind]}'"
        any_term, of_scope = " | ".join(map(_quoted, retrieving)), stats.scope.query if stats.scope else None
        cosine, parameters = self._cosine()
        parameters |= {
            "searched": " & ".join(filter(None, (f"({any_term})", of_scope, of_kind))),
            "per_memory": K1 * (1 - B),
            "per_term": K1 * B / max(stats.mean_length, 1e-9),
            "exclude": list(self._query.exclude),
            "limit": limit,
        }
        weights = []
        for number, term in enumerate(list(stats.frequencies)[:ORDERING_TERMS]):
            parameters[f"term{number}"] = _quoted(term)
            parameters[f"weight{number}"] = stats.scorer([term])  # the score of a memory that consists of this term
            weights.append(f"CASE WHEN words @@ %(term{number})s::tsquery THEN %(weight{number})s::float8 ELSE 0 END")
        filtered, values = filter_condition(self._query.filter)
        parameters |= values
        current, at = self._validity(CURRENT, retired=retired)
        parameters |= at
        parts = {
            "weights": " + ".join(weights),
            "exclusion": ("AND id <> ALL (%(exclude)s)" if self._query.exclude else "") + filtered + current,
        }
        name = "by_terms" if extension else "selected"
        selected = _SQL.text("select_by_terms", name=name, most=round_up(2 * limit), **parts)
        if extension is not None:
            parameters |= {"extension_query": " ".join(extension_terms(stats)), "index": extension.index}
            schema, most = extension.schema.replace("%", "%%"), round_up(2 * limit + len(self._query.exclude))
            selected = _SQL.text("select_by_extension", schema=schema, most=most, by_terms=selected, **parts)
        return _SQL("keyword", selected=selected, cosine=cosine, columns=COLUMNS), parameters

    def nearest(self, vector: Vector, limit: int, *, depth: int = 0, kind: Kind | None = None) -> Retrieved:
        stats = self._prepare()
        active = self._comparable_model(stats, vector)
        self._vector, self._semantic = (vector if active else None), {}
        if active is None:
            return Retrieved()
        if stats.scope is None or limit <= 0:
            self._memories, self._keyword = {}, {}  # their cosines are not known
            return Retrieved()
        if stats.scope.memories > maintenance.EXACT_SEARCH_LIMIT and not active.indexed:
            self._maintenance.schedule()
        depth = max(limit, depth)
        scope = stats.scope if kind is None else replace(stats.scope, kinds=[KIND_NUMBERS[kind]])
        found = self._nearest_rows(active, scope, limit=limit, depth=depth)
        if kind is None:
            self._best["semantic"] = [score for score, _ in found[:depth]]
        candidates = [Candidate(self._memories[key], score) for score, key in found[:limit] if key in self._memories]
        return Retrieved(candidates, [score for score, _ in found[:depth]])

    def _nearest_rows(
        self, active: ActiveModel, scope: ResolvedScope, *, limit: int, depth: int, retired: bool = False
    ) -> list[tuple[float, int]]:
        """Return the cosines and keys of the nearest memories; the first `limit` are read and kept."""
        exclude = list(self._query.exclude)
        filtered, values = filter_condition(self._query.filter)
        current, at = self._validity(CURRENT_VECTOR, retired=retired)
        near = nearest_part(
            active, scope, limit=limit, depth=depth, excluding=bool(exclude), filtered=filtered, current=current
        )
        cosine_part, parameters = self._cosine()
        parameters |= {**values, **at, **scope.parameters}
        parameters |= {"exclude": exclude, "known": list(self._memories), "limit": limit}
        found: list[tuple[float, int]] = []
        for key, rank, cosine, terms, *row in self._reader.execute(
            _SQL("nearest", near=near, cosine=cosine_part, columns=COLUMNS), parameters
        ):
            if rank is not None:
                found.append((cosine, key))
            if terms is not None:
                self._keep(row, self._bm25(terms), cosine)
            elif key in self._memories and cosine is not None:
                self._semantic[self._memories[key].id] = cosine
        found.sort(key=lambda one: (-one[0], one[1]))
        return found

    def _validity(self, condition: str, *, retired: bool = False) -> tuple[str, dict[str, Any]]:
        """Return the condition that a memory is current, or is not, with AND before it, and its parameter."""
        if self._query.current_at is None or not self._prepare().dated:
            return "", {}
        parameters = {"current_at": to_micros(self._query.current_at)}
        return f" AND {'NOT' if retired else ''} ({condition})", parameters

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        if not ids:
            return {}
        cosine, parameters = self._cosine()
        current, at = self._validity(CURRENT_NEIGHBOUR)
        parameters |= at
        statement = _SQL("neighbours", cosine=cosine, columns=COLUMNS, current=current)
        rows = self._reader.execute(statement, {**parameters, "ids": list(ids), "known": list(self._memories)})
        found: dict[str, dict[bool, Memory | None]] = {}
        for id, is_after, key, score, terms, *row in rows:
            if terms is not None:
                self._keep(row, self._bm25(terms), score)
            found.setdefault(id, {})[is_after] = self._memories.get(key)
        return {id: (sides[False], sides[True]) for id, sides in found.items()}

    def scores(self, ids: Sequence[str]) -> Scores:
        missing = [id for id in dict.fromkeys(ids) if id not in self._keyword]
        if missing:
            cosine, parameters = self._cosine()
            statement = _SQL("memories", cosine=cosine, columns=COLUMNS)
            for score, terms, *row in self._reader.execute(statement, {**parameters, "ids": missing}):
                self._keep(row, self._bm25(terms), score)
        return Scores(
            {id: self._keyword[id] for id in ids if id in self._keyword},
            {id: self._semantic[id] for id in ids if id in self._semantic},
        )

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        active = self._prepare().active
        if active is None or not ids:
            return {}
        return dict(self._reader.execute(_SQL("vectors"), {"ids": list(ids), "model": active.id}))

    def terms_with_prefix(self, prefix: str, *, limit: int) -> list[str]:
        parameters = {"profile": self._query.scope.profile, "prefix": prefix, "end": prefix + LAST, "limit": limit}
        return [term for (term,) in self._reader.execute(_SQL("terms_with_prefix"), parameters)]

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

    def _cosine(self) -> tuple[str, dict[str, Any]]:
        """Return the SQL expression for the cosine of the memory m, and its parameters; NULL without a query vector."""
        active = self._prepare().active
        if self._vector is None or active is None:
            return "NULL::float8", {}
        return _SQL.text("cosine", model=active.id), {"vector": self._vector}

    def _bm25(self, terms: str) -> float:
        return self._prepare().scorer.score_text(terms, extra_length=SCOPE_TOKENS)

    def _keep(self, row: Sequence[Any], keyword: float, cosine: float | None) -> Memory | None:
        """Keep a memory with its scores; None if it is damaged."""
        memory = to_memories([row], self.damaged).get(row[0])
        if memory is None:
            return None
        self._memories[row[0]] = memory
        self._keyword[memory.id] = keyword
        if cosine is not None:
            self._semantic[memory.id] = cosine
        return memory


def extension_terms(stats: SearchStats) -> list[str]:
    """Return the terms for the extension. It weights terms of more than a third of all memories higher than we do."""
    terms = list(stats.frequencies)
    return [term for term in terms if 3 * stats.frequencies[term] <= stats.memories] or terms[:1]


def nearest_part(
    active: ActiveModel,
    scope: ResolvedScope,
    *,
    limit: int,
    depth: int,
    excluding: bool,
    filtered: str = "",
    current: str = "",
) -> str:
    """Return the part of a statement that selects the nearest memories with their scores.

    With a filter the scope is searched exactly: a scan of the index could end before it finds a memory that matches.
    """
    depth, least = round_up(depth), min(round_up(limit), round_up(depth))
    excluded = "ARRAY(SELECT key FROM memories WHERE id = ANY (%(exclude)s))"
    exclusion = (f"AND memory <> ALL ({excluded})" if excluding else "") + current
    if filtered:
        exclusion += f" AND EXISTS (SELECT 1 FROM memories AS m WHERE m.key = memory{filtered})"  # noqa: S608 - our text
    parts = {"model": active.id, "condition": scope.condition, "exclusion": exclusion, "depth": depth}
    if filtered or scope.memories <= maintenance.EXACT_SEARCH_LIMIT or not active.indexed:
        return _SQL.text("nearest_exact", **parts)
    per_memory = min(max(active.vectors_per_memory, 1.0), 20.0)
    scanned = min(round_up(int(depth * per_memory * (1.1 if per_memory > MULTIPLE_PARTS else 1.0))), 20_000)
    return _SQL.text("nearest_indexed", dimension=active.model.dimension, scanned=scanned, least=least, **parts)


def _quoted(term: str) -> str:
    # Terms contain neither quotes nor backslashes (see retentive.text.analysis), so that any text is a safe query.
    return f"'{term}'"


def round_up(number: int) -> int:
    """Round up to one of few numbers, so that a statement is prepared for few limits and not for each."""
    step = 1 << max(number.bit_length() - 3, 4)
    return -(-number // step) * step
