"""The read path: the retrievers search at the same time, their candidates are fetched once, and `ranking` ranks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter
from typing import cast

from retentive.errors import Unavailable
from retentive.inference.embedders import Embedder
from retentive.inference.rerankers import Reranker, rerank_best
from retentive.models import (
    Candidate,
    Context,
    Key,
    Memory,
    Period,
    RankedList,
    Ranking,
    Recall,
    RetrieverReport,
    Scope,
)
from retentive.pipeline.neighbours import fetch_neighbours
from retentive.ranking import Tuning, order, pick
from retentive.stores import Found, Searching, Store, Vector
from retentive.stores.at_once import Asked, AtOnce, InOneGo
from retentive.text.temporal import period

EMBED_SECONDS = 5.0
"""How long a recall waits for its query's vector before it answers from words alone."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked, of which memories, and how the answer is to be ranked."""

    text: str
    scope: Scope
    tuning: Tuning
    limit: int
    now: datetime
    exclude: Sequence[str] = ()
    vector: Vector | None = None

    @property
    def pool(self) -> int:
        """How many candidates each retriever brings."""
        return self.tuning.pool(self.limit)

    @property
    def depth(self) -> int:
        """How many the retriever by meaning looks at."""
        return self.tuning.depth(self.limit)

    @property
    def period(self) -> Period | None:
        """The time that the query is about, where that counts."""
        return period(self.text, now=self.now) if self.tuning.time_weight > 0 else None


@dataclass(frozen=True, slots=True)
class RetrieverResult:
    """How one retriever's search went."""

    name: str
    weight: float
    found: Sequence[Found] = ()
    ran: bool = True
    note: str = ""
    vector: Vector | None = None
    stages: Mapping[str, float] = field(default_factory=dict)

    def report(self, candidates: int) -> RetrieverReport:
        """The part of it that the caller sees."""
        return RetrieverReport(self.name, self.weight, self.ran, candidates, sum(self.stages.values()), self.note)


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Everything that ranking looks at, and how the searches went."""

    searches: tuple[RetrieverResult, ...]
    retrievers: tuple[RankedList, ...]
    context: Context
    vectors: Mapping[str, Vector]
    stages: Mapping[str, float]


def gather(
    query: Query,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    *,
    embed_seconds: float = EMBED_SECONDS,
) -> SearchOutcome:
    """What the retrievers found for a query, with what stands around it; nothing is ranked yet."""
    source: Searching = store
    if isinstance(store, AtOnce):
        searches, source = _search_at_once(query, store, embedder, threads, embed_seconds)
    else:
        searches = _search(query, store, embedder, threads, embed_seconds)
    watch = _Watch()
    memories, context = _fetch(searches, query, source)
    watch.lap("fetch")
    retrievers = tuple(_retriever(searched, query, source, memories) for searched in searches if searched.ran)
    vectors = {}
    if query.tuning.diversity > 0:
        vectors = {memories[key].id: row for key, row in source.vectors(list(memories)).items()}
    watch.lap("score")
    searching = {name: ms for searched in searches for name, ms in searched.stages.items()}
    return SearchOutcome(searches, retrievers, context, vectors, searching | watch.laps)


def ranked(found: SearchOutcome, query: Query) -> Ranking:
    """What was gathered for a query, best first; what is left to do is to rerank the best and to pick."""
    return order(found.retrievers, query.tuning, now=query.now, context=found.context, period=query.period)


def recall(
    query: Query,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    *,
    reranker: Reranker | None = None,
    embed_seconds: float = EMBED_SECONDS,
) -> Recall:
    """The hits for a query, with how each retriever went and whether anything was missing."""
    started = perf_counter()
    found = gather(query, store, embedder, threads, embed_seconds=embed_seconds)
    return answer(found, query, threads, reranker=reranker, started=started)


def answer(
    found: SearchOutcome, query: Query, threads: Executor, *, reranker: Reranker | None, started: float
) -> Recall:
    """What was gathered for a query as the answer to it. Whoever wants to look behind a recall keeps both."""
    watch = _Watch()
    ranking = ranked(found, query)
    watch.lap("rank")
    ranking, not_reranked = rerank_best(ranking, query.text, query.tuning, reranker, threads, text_of=_text_to_read)
    watch.lap("rerank" if query.tuning.rerank else "rank")
    ranking = pick(ranking, query.tuning, limit=query.limit, vectors=found.vectors)
    watch.lap("rank")
    missing = _missing(found.searches, not_reranked)
    return Recall(
        query=query.text,
        hits=ranking.hits,
        retrievers=tuple(searched.report(min(len(searched.found), query.pool)) for searched in found.searches),
        degraded=", ".join(missing) or None,
        degraded_reason="; ".join(missing.values()) or None,
        elapsed_ms=(perf_counter() - started) * 1000,
        stages={**found.stages, **watch.laps},
        dropped=ranking.dropped,
    )


def _search(
    query: Query,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    embed_seconds: float,
) -> tuple[RetrieverResult, RetrieverResult]:
    """Both retrievers, at the same time. A retriever of weight 0 is not run: no query, no embedding, no network call."""
    tuning = query.tuning
    meaning: Future[RetrieverResult] | None = None
    if tuning.semantic_weight > 0 and query.text.strip():
        meaning = threads.submit(_by_meaning, query, store, embedder)
    words = _not_run("keyword", query, tuning.keyword_weight)
    if tuning.keyword_weight > 0 and query.text.strip():
        words = _by_words(query, store)
    if meaning is None:
        return _not_run("semantic", query, tuning.semantic_weight), words
    try:
        return meaning.result(timeout=embed_seconds), words
    except TookTooLong:
        meaning.cancel()
        return _too_slow(query, embed_seconds), words


def _search_at_once(
    query: Query,
    store: AtOnce,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    embed_seconds: float,
) -> tuple[tuple[RetrieverResult, RetrieverResult], Searching]:
    """Both retrievers in one request, which the query's vector has to be there for; and what answers all further ones."""
    tuning, asks = query.tuning, bool(query.text.strip())
    words = _not_run("keyword", query, tuning.keyword_weight)
    meaning = _not_run("semantic", query, tuning.semantic_weight)
    if tuning.semantic_weight > 0 and asks:
        embedding = threads.submit(_embedded, query, cast("Store", store), embedder)
        try:
            meaning = embedding.result(timeout=embed_seconds)
        except TookTooLong:
            embedding.cancel()
            meaning = _too_slow(query, embed_seconds)
    watch = _Watch()
    asked = Asked(
        query.text if tuning.keyword_weight > 0 and asks else None,
        meaning.vector,
        query.scope,
        query.pool,
        query.depth,
        query.exclude,
        tuning.common_words,
    )
    if asked.query is None and asked.vector is None:
        return (meaning, words), store
    source = InOneGo(store, asked)
    watch.lap("search")
    if asked.vector is not None:
        found = source.search_vectors(asked.vector, asked.scope, limit=asked.depth)
        meaning = replace(meaning, found=found, stages={**meaning.stages, "semantic": watch.laps["search"]})
    if asked.query is not None:
        found = source.search_words(asked.query, asked.scope, limit=asked.limit)
        words = RetrieverResult("keyword", tuning.keyword_weight, found, stages={"keyword": watch.laps["search"]})
    return (meaning, words), source


def _not_run(name: str, query: Query, weight: float) -> RetrieverResult:
    return RetrieverResult(name, weight, ran=False, note=_why_not_run(query, weight))


def _too_slow(query: Query, seconds: float) -> RetrieverResult:
    note = f"unavailable: the embedder did not answer within {seconds:g} seconds"
    return RetrieverResult("semantic", query.tuning.semantic_weight, ran=False, note=note)


def _why_not_run(query: Query, weight: float) -> str:
    return "the query is empty" if weight > 0 and not query.text.strip() else "its weight is 0"


def _by_words(query: Query, store: Store) -> RetrieverResult:
    watch = _Watch()
    found = store.search_words(
        query.text,
        query.scope,
        limit=query.pool,
        exclude=query.exclude,
        common=query.tuning.common_words,
    )
    watch.lap("keyword")
    return RetrieverResult("keyword", query.tuning.keyword_weight, found, stages=watch.laps)


def _by_meaning(query: Query, store: Store, embedder: Callable[[], Embedder | None]) -> RetrieverResult:
    embedded = _embedded(query, store, embedder)
    if embedded.vector is None:
        return embedded
    watch = _Watch()
    found = store.search_vectors(embedded.vector, query.scope, limit=query.depth, exclude=query.exclude)
    watch.lap("semantic")
    return replace(embedded, found=found, stages={**embedded.stages, **watch.laps})


def _embedded(query: Query, store: Store, embedder: Callable[[], Embedder | None]) -> RetrieverResult:
    """The search by meaning with its query's vector, still to be made; or why there is none."""
    weight = query.tuning.semantic_weight
    watch = _Watch()
    try:
        vector = query.vector if query.vector is not None else _embed(query.text, store, embedder())
    except Unavailable as error:
        return RetrieverResult("semantic", weight, ran=False, note=f"unavailable: {error}")
    watch.lap("embed")
    return RetrieverResult("semantic", weight, vector=vector, stages=watch.laps)


def _embed(text: str, store: Store, embedder: Embedder | None) -> Vector:
    """The query's vector. `Unavailable` if it could not be compared with the vectors in the store."""
    if embedder is None:
        raise Unavailable("no embedder is configured")
    stored = store.model()
    if stored is not None and stored.fingerprint != embedder.model.fingerprint:
        raise Unavailable(
            f"the store's vectors come from {stored}, the embedder is {embedder.model}; run: retentive reembed"
        )
    vector: Vector = embedder.embed([embedder.split(text)[0]])[0]
    return vector


def _text_to_read(memory: Memory) -> str:
    """What the reranker sees of a memory."""
    return memory.indexed_text


def _missing(searches: Sequence[RetrieverResult], not_reranked: str | None) -> dict[str, str]:
    """What did not take part though it should have, and why."""
    prefix = "unavailable: "
    notes = (searched.note for searched in searches if searched.note.startswith(prefix))
    by_meaning = next((note.removeprefix(prefix) for note in notes), None)
    lacks = {"keyword-only": by_meaning, "not-reranked": not_reranked}
    return {what: why for what, why in lacks.items() if why}


def _fetch(searches: Sequence[RetrieverResult], query: Query, store: Searching) -> tuple[Mapping[Key, Memory], Context]:
    """The candidates of all retrievers, with their neighbours where those count."""
    found = _keys(searches, query.pool)
    memories = store.fetch(found) if found else {}
    tuning = query.tuning
    if not memories or not (tuning.neighbour_weight or tuning.session_weight):
        return memories, Context()
    # Around the best of each retriever: neighbours of the others seldom rise into the result, and cost as much.
    nearest = max(2 * query.limit, 10) if query.limit > 0 else query.pool
    return fetch_neighbours(
        store,
        memories,
        around=_keys(searches, nearest),
        exclude=query.exclude,
        kinds=query.scope.kinds,
    )


def _keys(searches: Sequence[RetrieverResult], pool: int) -> list[Key]:
    """Every candidate once."""
    return list(dict.fromkeys(found.key for searched in searches for found in searched.found[:pool]))


def _retriever(searched: RetrieverResult, query: Query, store: Searching, memories: Mapping[Key, Memory]) -> RankedList:
    """What a search brought, as ranking takes it: full memories, equal scores by id on every store."""
    own = {found.key: found.score for found in searched.found[: query.pool]}
    candidates = [Candidate(memories[key], score) for key, score in own.items() if key in memories]
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.memory.id))
    elsewhere: Mapping[Key, float] = {}
    others = [key for key in memories if key not in own]
    if query.tuning.fusion == "full" and others:
        if searched.vector is None:
            elsewhere = store.score_words(query.text, query.scope, others)
        else:
            elsewhere = store.score_vectors(searched.vector, others)
    return RankedList(
        searched.name,
        tuple(candidates),
        searched.weight,
        tuple(found.score for found in searched.found),
        {memories[key].id: score for key, score in elsewhere.items()},
    )


class _Watch:
    """Milliseconds of each stage."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = perf_counter()

    def lap(self, name: str) -> None:
        now = perf_counter()
        self.laps[name] = self.laps.get(name, 0.0) + (now - self._last) * 1000
        self._last = now
