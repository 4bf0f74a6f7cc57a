"""The read path: both retrievers search, their candidates get neighbours and scores, and `ranking` ranks them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, replace
from datetime import datetime
from time import perf_counter
from typing import TypedDict

from retentive.errors import RetentiveError, Unavailable, describe_error
from retentive.inference.embedders import Embedder, embed_queries
from retentive.inference.rerankers import Reranker, rerank_best
from retentive.models import Candidate, Hit, Memory, Model, Period, Query, Reason, Recall
from retentive.pipeline.candidates import RetrieverResult, SearchedQuery, complete, prepare
from retentive.pipeline.retrievers import FurtherRetrievers, finished
from retentive.ranking import order, pick
from retentive.ranking.lists import Context, RankedList
from retentive.ranking.relevance import FITTED_MODELS, Calibration, Relevance
from retentive.stores.base import BothAtOnce, Search, Searchable, Store
from retentive.stores.damage import Damage, left_out
from retentive.stores.values import Vector
from retentive.text.analysis import has_telling_terms, informative_terms, is_about_asker
from retentive.text.temporal import period

log = logging.getLogger(__name__)

EMBED_SECONDS = 5.0
"""How long a recall waits for the query's embedding before it answers from the keyword retriever alone."""

UNCALIBRATED = Calibration()
"""Relevance by the terms of the query alone."""

OpenEmbedder = Callable[[], Embedder | None]


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Everything that ranking needs, and how the retrievers went."""

    semantic: RetrieverResult
    keyword: RetrieverResult
    lists: tuple[RankedList, ...]
    context: Context
    vectors: Mapping[str, Vector]
    stages: Mapping[str, float]
    embedding: Vector | None = None
    others: tuple[RetrieverResult, ...] = ()
    damaged: tuple[Damage, ...] = ()
    retired: tuple[Memory, ...] = ()
    model: Model | None = None

    @property
    def cosines(self) -> tuple[float, ...]:
        """The best scores of the semantic retriever, largest first."""
        return next((one.depth_scores for one in self.lists if one.name == "semantic"), ())


def recall(
    query: Query,
    store: Searchable,
    embedder: OpenEmbedder,
    threads: Executor,
    *,
    reranker: Reranker | None = None,
    embed_seconds: float = EMBED_SECONDS,
) -> Recall:
    """Search and rank: the hits of a query, how each retriever went, and whether anything was missing."""
    started = perf_counter()
    outcome = search(query, store, embedder, threads, embed_seconds=embed_seconds)
    return rank_outcome(outcome, query, threads, reranker=reranker, started=started)


def search(
    query: Query,
    store: Searchable,
    embedder: OpenEmbedder,
    threads: Executor,
    *,
    further: FurtherRetrievers | None = None,
    embed_seconds: float = EMBED_SECONDS,
) -> SearchOutcome:
    """Read everything that a recall ranks, in one search of the store, and run the further retrievers."""
    timer = StageTimer()
    started = further.start(query, threads) if further else []
    searched = prepare(query, store)
    query = searched.query
    with store.open_search(query) as reads:
        semantic, keyword, embedding = _retrieve(searched, reads, embedder, threads, timer, embed_seconds)
        others = finished(started, seconds=embed_seconds) if started else ()
        results = (semantic, keyword, *others)
        timer.skip()
        context = _neighbours(searched, reads, results)
        timer.lap("neighbours")
        lists = _ranked_lists(query, reads, results, context)
        vectors: Mapping[str, Vector] = {}
        if query.tuning.diversity > 0:
            vectors = reads.vectors([*_memories(*results), *(memory.id for memory in context.memories)])
        most = query.limit if query.limit > 0 else query.pool
        ran = semantic.ran or keyword.ran
        retired = tuple(memory for memory in reads.retired(most) if searched.matches(memory)) if ran else ()
        damaged = tuple(reads.damaged)
        timer.lap("score")
        model = reads.model if embedding is not None else None
    laps = timer.laps
    return SearchOutcome(semantic, keyword, lists, context, vectors, laps, embedding, others, damaged, retired, model)


def rank_outcome(
    outcome: SearchOutcome,
    query: Query,
    threads: Executor,
    *,
    reranker: Reranker | None,
    started: float,
    calibration: Calibration = UNCALIBRATED,
) -> Recall:
    """Rank what a search found. `explain` needs both the outcome and the recall made of it."""
    timer = StageTimer(outcome.stages)
    ranking = order(outcome.lists, query.tuning, now=query.now, context=outcome.context, **signals(query))
    timer.lap("rank")
    not_reranked = None
    if query.tuning.rerank:
        ranking, not_reranked = rerank_best(
            ranking, query.text, query.tuning, reranker, threads, text_of=lambda memory: memory.indexed_text
        )
        timer.lap("rerank")
    kinds = query.scope.kinds or ()
    relevance = Relevance(informative_terms(query.text), ranking.hits, outcome.cosines, calibration)
    ranking = pick(ranking, query.tuning, limit=query.limit, vectors=outcome.vectors, kinds=kinds, relevance=relevance)
    timer.lap("rank")
    missing = {
        "keyword-only": outcome.semantic.failure,
        "not-reranked": not_reranked,
        "incomplete": left_out(outcome.damaged) if outcome.damaged else None,
    }
    missing |= {f"without-{one.name}": one.failure for one in outcome.others}
    reasons = {what: why for what, why in missing.items() if why}
    return Recall(
        query=query.text,
        hits=ranking.hits,
        retrievers=tuple(one.report() for one in (outcome.semantic, outcome.keyword, *outcome.others)),
        relevance=relevance.answer,
        degraded=", ".join(reasons) or None,
        degraded_reason="; ".join(reasons.values()) or None,
        elapsed_ms=(perf_counter() - started) * 1000,
        stages=timer.laps,
        dropped=(*ranking.dropped, *(retired_hit(memory) for memory in outcome.retired)),
        profile=query.scope.profile,
    )


class Signals(TypedDict):
    """What the text of a query tells the ranking: the time and the person that it is about."""

    period: Period | None
    about_asker: bool


def signals(query: Query) -> Signals:
    """Return what the text of a query tells the ranking; no period if time does not affect it."""
    named = period(query.text, now=query.now) if query.tuning.time_weight > 0 else None
    return {"period": named, "about_asker": is_about_asker(query.text)}


def retired_hit(memory: Memory) -> Hit:
    """A memory that was left out because it is not current, with what replaced it."""
    if memory.superseded_by is not None:
        note, figures = "it is retired: memory {} has replaced it", (memory.superseded_by,)
    elif memory.valid_to is not None:
        note, figures = "it is retired since {}", (memory.valid_to.isoformat(),)
    elif memory.expires is not None:
        note, figures = "it has expired at {}", (memory.expires.isoformat(),)
    else:
        note, figures = "it is valid from {} on", (memory.start.isoformat(),)
    return Hit(memory, 0.0, (Reason("retired", 0.0, 0.0, None, None, note, figures),))


def _retrieve(
    searched: SearchedQuery,
    reads: Search,
    embedder: OpenEmbedder,
    threads: Executor,
    timer: StageTimer,
    embed_seconds: float,
) -> tuple[RetrieverResult, RetrieverResult, Vector | None]:
    """Run both retrievers; the query is embedded on another thread during the keyword search.

    A retriever of weight 0 does not run: no search, no embedding, no network call.
    """
    query = searched.query
    tuning = query.tuning
    empty = not query.text.strip()
    idle = "the query is empty" if empty else "its weight is 0"
    keyword = RetrieverResult("keyword", tuning.keyword_weight, ran=False, note=idle)
    semantic = RetrieverResult("semantic", tuning.semantic_weight, ran=False, note=idle)
    embedding = None
    if tuning.semantic_weight > 0 and not empty and query.vector is None:
        embedding = threads.submit(_embed, query.text, reads.model, embedder)
    pending = QueryVector(query.vector, embedding, embed_seconds)
    if tuning.keyword_weight > 0 and not empty:
        timer.skip()
        if tuning.semantic_weight > 0 and isinstance(reads, BothAtOnce):
            reads.expect(pending)
        found = reads.keyword(query.pool)
        found = complete(searched, found, lambda limit, kind: reads.keyword(limit, kind=kind))
        keyword = RetrieverResult("keyword", tuning.keyword_weight, found, elapsed_ms=timer.lap("keyword"))
    if tuning.semantic_weight <= 0 or empty:
        return semantic, keyword, None
    vector = pending.wait()
    timer.laps |= pending.laps
    if vector is None:
        failed = RetrieverResult("semantic", tuning.semantic_weight, ran=False, failure=pending.failure)
        return failed, keyword, None
    timer.skip()
    found = reads.nearest(vector, query.pool, depth=query.depth)
    asked = vector
    found = complete(
        SearchedQuery(query), found, lambda limit, kind: reads.nearest(asked, limit, depth=query.depth, kind=kind)
    )
    elapsed = timer.lap("semantic") + timer.laps.setdefault("embed", 0.0)
    if found.candidates and keyword.ran and not informative_terms(query.text):
        keyword = replace(keyword, weight=0.0, note="no word of the query tells what it is about")
    return RetrieverResult("semantic", tuning.semantic_weight, found, elapsed_ms=elapsed), keyword, vector


class QueryVector:
    """The vector of a query: given, or computed on another thread. `failure` is why there is none."""

    def __init__(self, vector: Vector | None, embedding: Future[tuple[Vector, float]] | None, seconds: float) -> None:
        self._vector = vector
        self._embedding = embedding
        self._seconds = seconds
        self.failure: str | None = None
        self.laps: dict[str, float] = {}

    def ready(self) -> bool:
        """Whether `wait` returns at once."""
        return self._embedding is None or self._embedding.done()

    def wait(self) -> Vector | None:
        """Return the vector; None if it cannot be computed, or not in time."""
        embedding, self._embedding = self._embedding, None
        try:
            if embedding is not None:
                self._vector, self.laps["embed"] = embedding.result(timeout=self._seconds)
        except TookTooLong:
            self.failure = f"the embedder did not answer within {self._seconds:g} seconds"
        except Unavailable as error:
            self.failure = str(error)
        return self._vector


def _embed(text: str, stored: Model | None, embedder: OpenEmbedder) -> tuple[Vector, float]:
    """Return a query's vector and the milliseconds. `Unavailable` if the store's vectors are of another model."""
    started = perf_counter()
    opened = embedder()
    if opened is None:
        raise Unavailable("no embedder is configured")
    if stored is not None and stored.fingerprint != opened.model.fingerprint:
        raise Unavailable(
            f"the store's vectors come from {stored}, the embedder is {opened.model}; run: retentive reembed"
        )
    vector: Vector = embed_queries(opened, [opened.split(text)[0]])[0]
    return vector, (perf_counter() - started) * 1000


def _memories(*results: RetrieverResult, limit: int | None = None) -> dict[str, Memory]:
    """The candidates of all retrievers by id, or the best of each."""
    return {
        candidate.memory.id: candidate.memory for result in results for candidate in result.retrieved.candidates[:limit]
    }


def _neighbours(searched: SearchedQuery, reads: Search, results: Sequence[RetrieverResult]) -> Context:
    """The neighbours of the candidates in their sessions, if context affects the ranking.

    Neighbours that the caller excludes, of kinds it did not ask for, or outside the filter are left out.
    """
    query = searched.query
    candidates = _memories(*results)
    if not candidates or not query.centres:
        return Context()
    pairs = reads.neighbours(list(_memories(*results, limit=query.centres)))
    kinds = query.scope.kinds
    added = {
        memory.id: memory
        for pair in pairs.values()
        for memory in pair
        if memory is not None
        and memory.id not in candidates
        and memory.id not in query.exclude
        and (kinds is None or memory.kind in kinds)
        and query.filter.unmet_by(memory) is None
        and searched.matches(memory)
    }
    known = {**candidates, **added}
    at = {(memory.project, memory.session, memory.position): memory.id for memory in known.values()}
    neighbours: dict[str, tuple[str | None, str | None]] = {}
    for id, memory in known.items():
        if memory.session is None:
            continue
        if id in pairs:
            before, after = ((one.id if one and one.id in known else None) for one in pairs[id])
        else:
            session, position = (memory.project, memory.session), memory.position or 0
            before, after = at.get((*session, position - 1)), at.get((*session, position + 1))
        neighbours[id] = before, after
    return Context(tuple(added[id] for id in sorted(added)), neighbours)


def _ranked_lists(
    query: Query, reads: Search, results: Sequence[RetrieverResult], context: Context
) -> tuple[RankedList, ...]:
    """The candidates of each retriever; in full fusion with its scores of the memories that only others found."""
    ran = [result for result in results if result.ran]
    elsewhere: dict[str, Mapping[str, float]] = {}
    if query.tuning.fusion == "full" and ran:
        ids = [*_memories(*results), *(memory.id for memory in context.memories)]
        if ids:
            scores = reads.scores(ids)
            elsewhere = {"semantic": scores.semantic, "keyword": scores.keyword}
    lists = []
    # General models are weaker on short turns than the one that `short_keyword_share` was chosen with.
    general = reads.model is not None and reads.model.fingerprint not in FITTED_MODELS
    telling = general or has_telling_terms(query.text)
    for result in ran:
        candidates = sorted(result.retrieved.candidates, key=_best_first)
        own = {candidate.memory.id for candidate in candidates}
        others = {id: score for id, score in elsewhere.get(result.name, {}).items() if id not in own}
        depth_scores = tuple(result.retrieved.depth_scores)
        lists.append(RankedList(result.name, tuple(candidates), result.weight, depth_scores, others, telling))
    return tuple(lists)


def _best_first(candidate: Candidate) -> tuple[float, str]:
    """Equal scores are ordered by id, on every store."""
    return -candidate.score, candidate.memory.id


class StageTimer:
    """Milliseconds of each stage of a recall."""

    def __init__(self, laps: Mapping[str, float] | None = None) -> None:
        self.laps: dict[str, float] = dict(laps or {})
        self._last = perf_counter()

    def lap(self, name: str) -> float:
        """Add the time since the last lap to a stage, and return it."""
        now = perf_counter()
        elapsed = (now - self._last) * 1000
        self.laps[name] = self.laps.get(name, 0.0) + elapsed
        self._last = now
        return elapsed

    def skip(self) -> None:
        """Start the next lap now."""
        self._last = perf_counter()


USES_PER_WRITE = 64
"""The use of memories is recorded in one write for this many recalls."""


class RecallLog:
    """What follows a recall: the use of its hits is recorded, and callbacks are called."""

    def __init__(self, store: Store, threads: Executor) -> None:
        self._store = store
        self._threads = threads
        self._unrecorded: list[tuple[datetime, tuple[str, ...]]] = []
        self._degraded: str | None = None
        self._callbacks: tuple[Callable[[Recall], None], ...] = ()

    def add(self, answer: Recall, used_at: datetime | None) -> None:
        """Log a change of the degraded state, record use, and run the callbacks."""
        if answer.degraded != self._degraded:
            self._degraded = answer.degraded
            if answer.degraded:
                log.warning("recall is %s: %s", answer.degraded, answer.degraded_reason)
        if answer.hits and used_at is not None:
            self._unrecorded.append((used_at, tuple(hit.id for hit in answer.hits)))
            if len(self._unrecorded) >= USES_PER_WRITE:
                self._threads.submit(self.record_use)
        for callback in self._callbacks:
            try:
                callback(answer)
            except Exception as error:
                what = describe_error(error)
                log.error("a callback of recalls failed, the recall itself did not: %s", what)

    def subscribe(self, callback: Callable[[Recall], None]) -> Callable[[], None]:
        """Call a function with every recall; return a function that removes it."""
        self._callbacks = (*self._callbacks, callback)

        def remove() -> None:
            self._callbacks = tuple(one for one in self._callbacks if one is not callback)

        return remove

    def record_use(self) -> None:
        """Record which memories recalls returned. A failure is logged and nothing else."""
        used, self._unrecorded = self._unrecorded, []
        if not used:
            return
        try:
            # One write for all of them, at the time of the last: the difference does not matter.
            self._store.touch([id for _, ids in used for id in ids], at=max(at for at, _ in used))
        except RetentiveError as error:
            log.warning("the use of memories was not recorded: %s", error)
