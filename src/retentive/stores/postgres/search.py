"""All reads of one recall, on one connection and in one snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import psycopg
from psycopg import errors

from retentive.models import Candidate, Memory
from retentive.stores.damage import Damage
from retentive.stores.external_index import ExternalIndex, NearestRequest, StoredModel
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
    IDENTITY,
    ActiveModel,
    Bm25Extension,
    ResolvedScope,
    filter_condition,
    read_search_stats,
)
from retentive.stores.postgres.type_adapters import unescape_row
from retentive.stores.postgres.validity import CURRENT_NEIGHBOUR, CURRENT_VECTOR
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, to_memories
from retentive.stores.values import Neighbours, SearchRequest, SearchResult, StageTimer, Vector


@dataclass(frozen=True, slots=True)
class _Found:
    """What one statement has read: memories by key, what is returned of them, and neighbours by their keys."""

    memories: Mapping[int, Memory]
    candidates: Mapping[str, Sequence[Candidate]]
    tails: Mapping[str, Sequence[float]]
    scores: Mapping[str, Mapping[str, float]]
    sides: Mapping[int, tuple[int | None, int | None]]

    def neighbours(self) -> dict[str, Neighbours]:
        """The neighbours of memories by their ids."""
        found = self.memories
        return {
            found[key].id: (
                None if before is None else found.get(before),
                None if after is None else found.get(after),
            )
            for key, (before, after) in self.sides.items()
            if key in found
        }


_NOTHING = _Found({}, {}, {}, {"keyword": {}, "semantic": {}}, {})


class PostgresSearch:
    """The statements of one search: one of statistics while the query is embedded, and one that reads everything.

    Another one reads what is not current, if anything is, and one reads vectors, if they are asked for.
    """

    def __init__(
        self,
        reader: Reader,
        request: SearchRequest,
        *,
        preselector: Bm25Preselector,
        maintenance: maintenance.Maintenance,
        index: ExternalIndex,
    ) -> None:
        self._reader = reader
        self._request = request
        self._query = request.query
        self._preselector = preselector
        self._maintenance = maintenance
        self._index = index
        self._note = ""
        self._stats = read_search_stats(reader.execute, request.query.scope, request.query.text)
        self._vector: Vector | None = None
        self._damaged: list[Damage] = []

    def run(self) -> SearchResult:
        """Read what is asked for."""
        request, timer = self._request, StageTimer()
        model = self._stats.active.model if self._stats.active else None
        if request.vector is not None:
            self._vector = request.vector.wait(model)
        timer.skip()
        found = self._read(request)
        timer.lap("keyword" if self._vector is None else "semantic")
        runs = {"keyword": request.keyword > 0, "semantic": request.semantic > 0 and self._vector is not None}
        candidates = {name: found.candidates.get(name, ()) for name in runs if runs[name]}
        ids = [one.id for one in found.memories.values()] if request.vectors else []
        vectors: dict[str, Vector] = dict(self._reader.execute(SQL("vectors"), {"ids": ids})) if ids else {}
        retired = self._retired(candidates)
        timer.lap("score")
        return SearchResult(
            candidates,
            {name: found.tails.get(name, ()) for name in candidates},
            found.scores if request.scores else {},
            found.neighbours(),
            vectors,
            retired,
            self._damaged,
            model,
            self._stats.profile_memories,
            timer.laps,
            self._note,
        )

    def _read(self, request: SearchRequest) -> _Found:
        """Run the statement. The BM25 extension selects memories where it applies; if it fails, we do."""
        extension = self._extension()
        if extension is None or extension.index is None:
            if extension is not None:
                self._maintenance.schedule()
            return self._execute(request)
        rows = self._reader.try_execute(*self._statement(request, extension=extension))
        if not isinstance(rows, psycopg.Error):
            return self._keep(rows, request)
        if is_lost(rows):  # it may have crashed the server, and must not do so again in the next attempt
            self._preselector.disable(rows)
        found = self._execute(request)  # if this fails too, the extension was not the cause
        if not (is_rolled_back(rows) or isinstance(rows, errors.QueryCanceled)):
            self._preselector.disable(rows)
        return found

    def _execute(self, request: SearchRequest, *, retired: bool = False) -> _Found:
        statement, parameters = self._statement(request, retired=retired)
        return self._keep(self._reader.execute(statement, parameters), request) if statement else _NOTHING

    def _extension(self) -> Bm25Extension | None:
        """Return the BM25 extension where it applies. It selects before a filter does, which could leave nothing."""
        if not self._request.keyword or self._query.filter or not self._retrieving:
            return None
        return self._preselector.applicable(self._stats)

    @property
    def _retrieving(self) -> list[str]:
        return self._stats.retrieving_terms(self._query.tuning.max_document_frequency)

    def _statement(
        self, request: SearchRequest, *, extension: Bm25Extension | None = None, retired: bool = False
    ) -> tuple[bytes, dict[str, Any]]:
        """Return the statement and its parameters; an empty one if there is nothing to read."""
        query, stats, vector = self._query, self._stats, self._vector
        scope, active = stats.scope, self._comparable_model()
        parts, parameters = {"by_keyword": SQL.text("no_keyword"), "near": SQL.text("no_near")}, dict[str, Any]()
        runs = bool(request.ids or request.around)
        if request.keyword and scope is not None and (terms := self._retrieving):
            parts["by_keyword"], parameters = keyword_part(
                query, stats, terms, request.keyword, request.kind, extension, retired=retired
            )
            runs = True
        if request.semantic and scope is not None and active is not None:
            parts["near"], values = self._nearest_part(request, scope, active, retired=retired)
            parameters |= values
            runs = True
        if not runs:
            return b"", {}
        if vector is not None:
            parameters |= {"vector": vector, "rounding": half_precision_error(vector)}
        current, at = validity(query, stats, CURRENT_NEIGHBOUR)
        scored = request.scores and active is not None
        statement = SQL(
            "search",
            **parts,
            around=SQL.text("with_ids", ids="around") if request.around else "",
            further=SQL.text("with_ids", ids="ids") if request.ids else "",
            cosine=SQL.text("cosine", model=active.id, key="wanted.key") if scored and active else "NULL::float8",
            sides=SQL.text("sides", current=current),
            columns=COLUMNS,
        )
        own = {"centres": request.centres, "semantic": request.semantic}
        return statement, {**parameters, **at, **own, "around": list(request.around), "ids": list(request.ids)}

    def _nearest_part(
        self, request: SearchRequest, scope: ResolvedScope, active: ActiveModel, *, retired: bool
    ) -> tuple[str, dict[str, Any]]:
        """Return the part of the statement that ranks by the vector, and its parameters."""
        if request.kind is not None:
            scope = replace(scope, kinds=[KIND_NUMBERS[request.kind]])
        exclude = list(self._query.exclude)
        filtered, values = filter_condition(self._query.filter)
        current, at = validity(self._query, self._stats, CURRENT_VECTOR, retired=retired)
        limit, depth = request.semantic, max(request.semantic, request.depth)
        # With a filter the scope is searched here: the index does not have what it reads.
        most, micros = depth + len(exclude), at.get("current_at")
        proposed = None if filtered else self._proposed(active, scope, most, micros, retired=retired)
        if proposed is None and not active.indexed and is_large(scope):
            self._maintenance.schedule()
        near = nearest_part(
            active,
            scope,
            limit=limit,
            depth=depth,
            excluding=bool(exclude),
            filtered=filtered,
            current=current,
            proposed=proposed is not None,
        )
        return near, {**values, **at, **scope.parameters, "exclude": exclude, "proposed": proposed}

    def _proposed(
        self, active: ActiveModel, scope: ResolvedScope, limit: int, current_at: int | None, *, retired: bool
    ) -> list[int] | None:
        """The keys among which the nearest are, by the external index; None if it has no answer."""
        request = NearestRequest(
            StoredModel(active.id, active.model),
            cast("Vector", self._vector),
            limit,
            scope.profile,
            projects=scope.projects,
            sessions=scope.sessions,
            kinds=scope.kinds,
            identity=IDENTITY if scope.shared else None,
            outside_projects=scope.outside_projects,
            current_at=current_at,
            retired=retired,
        )
        proposal = self._index.propose(request, self._waiting)
        self._note = proposal.note or self._note
        return None if proposal.keys is None else list(proposal.keys)

    def _waiting(self, limit: int) -> list[int]:
        statement = b"SELECT memory FROM vector_changes LIMIT %(limit)s"
        return [key for (key,) in self._reader.execute(statement, {"limit": limit})]

    def _comparable_model(self) -> ActiveModel | None:
        """Return the active model if its vectors can be compared with that of the query."""
        active, vector = self._stats.active, self._vector
        return active if active and vector is not None and active.model.dimension == len(vector) else None

    def _keep(self, rows: Rows, request: SearchRequest) -> _Found:
        """Return the memories of rows that are not damaged, with their scores, in the order of each retriever."""
        read = list(rows)
        memories = to_memories((unescape_row(row[9:], TEXTS) for row in read if row[9] is not None), self._damaged)
        keyword: dict[int, float] = {row[0]: row[1] for row in read if row[1] is not None}
        semantic: dict[int, float] = {row[0]: row[2] for row in read if row[2] is not None}
        best = sorted((key for key in keyword if key in memories), key=lambda key: (-keyword[key], key))
        ranked = sorted((row[3], row[0]) for row in read if row[3] is not None and row[3] <= request.semantic)
        tail: list[float] = next((row[4] for row in read if row[4] is not None), [])
        candidates = {
            "keyword": [Candidate(memories[key], keyword[key]) for key in best],
            "semantic": [Candidate(memories[key], semantic[key]) for _, key in ranked if key in memories],
        }
        tails = {"keyword": [keyword[key] for key in best], "semantic": tail[: max(request.semantic, request.depth)]}
        if request.scores:
            unscored = {row[0]: row[8] for row in read if row[0] in memories and row[0] not in keyword}
            scores = self._stats.scorer.score_texts(list(unscored.values()), extra_length=SCOPE_TOKENS)
            keyword |= dict(zip(unscored, scores, strict=True))
        scored = {
            name: {memory.id: scores[key] for key, memory in memories.items() if key in scores}
            for name, scores in (("keyword", keyword), ("semantic", semantic))
        }
        return _Found(memories, candidates, tails, scored, {row[0]: (row[6], row[7]) for row in read if row[5]})

    def _retired(self, candidates: Mapping[str, Sequence[Candidate]]) -> list[Memory]:
        """The memories that are not current, with a score that would have been among the first of a retriever."""
        limit = self._request.retired
        if not limit or not self._stats.dated or self._query.current_at is None:
            return []
        request = SearchRequest(
            self._query,
            keyword=limit if "keyword" in candidates else 0,
            semantic=limit if "semantic" in candidates else 0,
        )
        found = self._execute(request, retired=True)
        left_out: dict[str, Memory] = {}
        for name, best in candidates.items():
            least = best[limit - 1].score if len(best) >= limit else float("-inf")
            above = (one.memory for one in found.candidates.get(name, ()) if one.score >= least)
            left_out |= {memory.id: memory for memory in above}
        return list(left_out.values())
