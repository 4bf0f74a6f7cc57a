"""The reads of a recall: both retrievers search, and their candidates get neighbours and scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

from retentive.errors import Unavailable
from retentive.inference.embedders import Embedder
from retentive.models import Candidate, Kind, Memory, Model, Query, RetrieverReport, current_work
from retentive.ranking.lists import Context, RankedList
from retentive.ranking.rank import SourceWeights, Texts
from retentive.ranking.relevance import FITTED_MODELS
from retentive.stores.base import AwaitsVector, Search, Searchable
from retentive.stores.damage import Damage
from retentive.stores.values import Retrieved, Vector
from retentive.text.analysis import has_telling_terms, informative_terms
from retentive.text.keyword_syntax import KeywordQuery, parse_keyword_query

if TYPE_CHECKING:  # which imports this module
    from retentive.pipeline.retrievers import FurtherRetrievers

EMBED_SECONDS = 5.0
"""How long a recall waits for the query's embedding before it answers from the keyword retriever alone."""

MAX_FETCHED = 30_000
"""How far down a retriever is searched for other texts than those it returned first."""

MAX_EXPANDED = 50
"""How many terms a prefix in a keyword query stands for."""

NOTHING = Retrieved()

OpenEmbedder = Callable[[], Embedder | None]


@dataclass(frozen=True, slots=True)
class RetrieverResult:
    """What one retriever found, or why it did not run. `failure` is set if it should have run and could not."""

    name: str
    weight: float
    retrieved: Retrieved = NOTHING
    ran: bool = True
    note: str = ""
    failure: str | None = None
    elapsed_ms: float = 0.0

    def report(self) -> RetrieverReport:
        """The part of it that the caller sees."""
        note = self.note if self.failure is None else f"unavailable: {self.failure}"
        return RetrieverReport(self.name, self.weight, self.ran, len(self.retrieved.candidates), self.elapsed_ms, note)


@dataclass(frozen=True, slots=True)
class SearchedQuery:
    """A query as the retrievers see it. `keywords` are the operators in its text, if there are any.

    They apply where the keyword retriever runs alone: the semantic retriever would find what they exclude.
    """

    query: Query
    keywords: KeywordQuery | None = None

    def matches(self, memory: Memory) -> bool:
        """Whether a memory has what the operators demand."""
        return self.keywords is None or self.keywords.matches(memory.indexed_text)

    def limit(self, result: RetrieverResult) -> RetrieverResult:
        """The result of a retriever without the candidates that do not have what the operators demand."""
        if self.keywords is None:
            return result
        found = result.retrieved
        kept = [one for one in found.candidates if self.matches(one.memory)]
        return replace(result, retrieved=Retrieved(kept, found.depth_scores))

    @property
    def is_limited(self) -> bool:
        """Whether some memories of the session of a candidate may not be its neighbours."""
        query, scope = self.query, self.query.scope
        # The session of a shared identity memory may be outside the scope.
        in_project = scope.project is not None or scope.sessions is not None
        return bool(
            query.exclude
            or query.filter
            or scope.kinds is not None
            or self.keywords is not None
            or (in_project and not scope.only_sessions)
        )

    def admits(self, memory: Memory) -> bool:
        """Whether a memory of the session of a candidate may be a neighbour: in the scope, and matching the query."""
        query, scope = self.query, self.query.scope
        return (
            memory.id not in query.exclude
            and (scope.kinds is None or memory.kind in scope.kinds)
            and (memory.project is not None or memory.kind == "identity" or self._has_session(memory))
            and query.filter.unmet_by(memory) is None
            and self.matches(memory)
        )

    def _has_session(self, memory: Memory) -> bool:
        """Whether a memory in no project is in the scope by its session, and not only shared with a project."""
        scope = self.query.scope
        return scope.project is None and (scope.sessions is None or memory.session in scope.sessions)


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """Everything that ranking needs, and how the retrievers went. `size` is that of the profile (`Search.size`).

    `searched` is the query as the retrievers saw it.
    """

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
    size: int = 0
    searched: SearchedQuery | None = None

    @property
    def keywords(self) -> KeywordQuery | None:
        """The operators in the text of the query, if there are any and they apply."""
        return self.searched.keywords if self.searched else None

    @property
    def cosines(self) -> tuple[float, ...]:
        """The best scores of the semantic retriever, largest first."""
        return next((one.depth_scores for one in self.lists if one.name == "semantic"), ())


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
    started = further.start(query) if further else []
    searched = _prepare(query, store)
    query = searched.query
    with store.open_search(query) as reads:
        semantic, keyword, embedding = _retrieve(searched, reads, embedder, threads, timer, embed_seconds)
        others = tuple(map(searched.limit, further.finish(started, seconds=embed_seconds))) if further else ()
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
        model, size = (reads.model, reads.size) if embedding is not None else (None, 0)
    return SearchOutcome(
        semantic,
        keyword,
        lists,
        context,
        vectors,
        timer.laps,
        embedding,
        others,
        damaged,
        retired,
        model,
        size,
        searched,
    )


def _prepare(query: Query, store: Searchable) -> SearchedQuery:
    """Read the operators in the text of a query for the keyword retriever alone."""
    keywords = parse_keyword_query(query.text) if query.tuning.semantic_weight <= 0 else None
    if keywords is None:
        return SearchedQuery(query)
    words = [keywords.text]
    if keywords.prefixes:
        with store.open_search(query) as reads:
            for prefix in keywords.prefixes:
                words += [*prefix.stems, *reads.terms_with_prefix(prefix.text, limit=MAX_EXPANDED)]
    return SearchedQuery(replace(query, text=" ".join(words)), keywords)


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
        if tuning.semantic_weight > 0 and isinstance(reads, AwaitsVector):
            reads.expect(pending)
        found = reads.keyword(query.pool)
        found = _complete(searched, found, lambda limit, kind: reads.keyword(limit, kind=kind))
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
    found = _complete(
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
    vector: Vector = opened.embed_queries([opened.split(text)[0]])[0]
    return vector, (perf_counter() - started) * 1000


def _complete(
    searched: SearchedQuery, first: Retrieved, retrieve: Callable[[int, Kind | None], Retrieved]
) -> Retrieved:
    """The candidates of a retriever, given its pool and a function that fetches more, or more of one kind.

    Copies of one text, or memories of sources that are left out, can fill the whole pool; then the retriever is
    searched further down for others. A kind of which the pool has few memories is searched for alone.
    """
    query = searched.query
    if query.limit > 0 and len(first.candidates) >= query.pool:  # otherwise it has returned everything
        found = _by_id(first.candidates)
        found |= _other_texts(searched, first, lambda limit: retrieve(limit, None))
        kinds = dict.fromkeys(query.scope.kinds or ())
        if len(kinds) > 1:
            count = Counter(candidate.memory.kind for candidate in found.values())
            for kind in kinds:
                if count[kind] < query.pool:
                    found |= _by_id(retrieve(query.pool, kind).candidates)
        if len(found) > len(first.candidates):
            first = Retrieved(list(found.values()), first.depth_scores)
    if searched.keywords is None:
        return first
    return Retrieved([one for one in first.candidates if searched.matches(one.memory)], first.depth_scores)


def _other_texts(
    searched: SearchedQuery, first: Retrieved, retrieve: Callable[[int], Retrieved]
) -> dict[str, Candidate]:
    """Candidates after the pool with texts that it does not have, if it has few different ones."""
    query = searched.query
    texts, tuning = Texts(), query.tuning
    sources = SourceWeights(tuning.source_weights, current_work().check)

    def is_new(candidate: Candidate) -> bool:
        memory = candidate.memory
        if sources.remove(memory) or not searched.matches(memory):
            return False
        return not tuning.dedup or texts.first(memory) is memory

    missing = max(query.pool // 2, query.limit) - sum(map(is_new, first.candidates))
    seen = {candidate.memory.id for candidate in first.candidates}
    others: dict[str, Candidate] = {}
    limit, last = query.pool, first
    while len(others) < missing and len(last.candidates) >= limit and limit < MAX_FETCHED:
        limit *= 4
        last = retrieve(limit)
        for candidate in last.candidates:
            if candidate.memory.id not in seen and len(others) < missing and is_new(candidate):
                others[candidate.memory.id] = candidate
            seen.add(candidate.memory.id)
    return others


def _by_id(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    return {candidate.memory.id: candidate for candidate in candidates}


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
    found = {one.id: one for pair in pairs.values() for one in pair if one is not None and one.id not in candidates}
    added = {id: memory for id, memory in found.items() if searched.admits(memory)} if searched.is_limited else found
    known = {**candidates, **added}
    at = {(memory.project, memory.session, memory.position): id for id, memory in known.items()}
    neighbours: dict[str, tuple[str | None, str | None]] = {}
    for id, memory in known.items():
        if id in pairs:
            before, after = pairs[id]
            neighbours[id] = (
                before.id if before is not None and before.id in known else None,
                after.id if after is not None and after.id in known else None,
            )
        elif memory.session is not None:
            project, session, position = memory.project, memory.session, memory.position or 0
            neighbours[id] = at.get((project, session, position - 1)), at.get((project, session, position + 1))
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
    terms = len(informative_terms(query.text))
    for result in ran:
        candidates = sorted(result.retrieved.candidates, key=_best_first)
        own = {candidate.memory.id for candidate in candidates}
        others = {id: score for id, score in elsewhere.get(result.name, {}).items() if id not in own}
        depth_scores = tuple(result.retrieved.depth_scores)
        lists.append(RankedList(result.name, tuple(candidates), result.weight, depth_scores, others, telling, terms))
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
