"""The reads of a recall: one search of the store by both retrievers, with neighbours and scores of what they find."""

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
from retentive.models import Candidate, Kind, Memory, Model, Period, Query, RetrieverReport, current_work
from retentive.ranking.lists import TIME, Context, RankedList
from retentive.ranking.rank import SourceWeights, Texts
from retentive.ranking.relevance import FITTED_MODELS
from retentive.stores.base import Searchable
from retentive.stores.damage import Damage
from retentive.stores.values import Neighbours, SearchRequest, SearchResult, StageTimer, Vector
from retentive.text.keyword_syntax import KeywordQuery, parse_keyword_query
from retentive.text.terms import has_specific_terms, informative_terms

if TYPE_CHECKING:  # which import this module
    from retentive.pipeline.periods import TimedResult
    from retentive.pipeline.retrievers import CustomRetrievers

EMBED_SECONDS = 5.0
"""How long a recall waits for the query's embedding before it answers from the keyword retriever alone."""

MAX_FETCHED = 30_000
"""How far down a retriever is searched for other texts than those it returned first."""

MAX_EXPANDED = 50
"""How many terms a prefix in a keyword query stands for."""

OpenEmbedder = Callable[[], Embedder | None]

NOTHING = SearchResult({}, {}, {}, {}, {}, (), (), None, 0, {})


@dataclass(frozen=True, slots=True)
class RetrieverResult:
    """What one retriever found, or why it did not run. `failure` is set if it should have run and could not.

    `tail` has its best scores, which may go deeper than the candidates.
    """

    name: str
    weight: float
    candidates: Sequence[Candidate] = ()
    tail: Sequence[float] = ()
    ran: bool = True
    note: str = ""
    failure: str | None = None
    elapsed_ms: float = 0.0

    def report(self) -> RetrieverReport:
        """The part of it that the caller sees."""
        note = self.note if self.failure is None else f"unavailable: {self.failure}"
        return RetrieverReport(self.name, self.weight, self.ran, len(self.candidates), self.elapsed_ms, note)


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
        return replace(result, candidates=[one for one in result.candidates if self.matches(one.memory)])

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
    """Everything that ranking needs, and how the retrievers went. `size` is that of the profile (`SearchResult.size`).

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
    period: Period | None = None

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
    custom_retrievers: CustomRetrievers | None = None,
    timed: TimedResult | None = None,
    embed_seconds: float = EMBED_SECONDS,
) -> SearchOutcome:
    """Read everything that a recall ranks, in one search of the store, and run the custom retrievers.

    The query is embedded on another thread during the keyword search. A retriever of weight 0 does not run: no search,
    no embedding, no network call.
    """
    started = custom_retrievers.start(query) if custom_retrievers else []
    searched = _prepare(query, store)
    query = searched.query
    tuning, empty = query.tuning, not query.text.strip()
    by_words, by_vector = tuning.keyword_weight > 0 and not empty, tuning.semantic_weight > 0 and not empty
    vector = QueryVector(query, embedder, threads, embed_seconds) if by_vector else None
    others = (
        tuple(map(searched.limit, custom_retrievers.finish(started, seconds=embed_seconds)))
        if custom_retrievers
        else ()
    )
    around = [one.memory.id for result in others for one in result.candidates[: query.centres]]
    if timed is not None:
        others += (searched.limit(timed.result),)
    request = SearchRequest(
        query,
        keyword=query.pool if by_words else 0,
        semantic=query.pool if by_vector else 0,
        vector=vector,
        depth=query.depth,
        centres=query.centres,
        around=around,
        ids=[one.memory.id for result in others for one in result.candidates],
        scores=tuning.fusion == "full",
        vectors=tuning.diversity > 0,
        retired=query.limit if query.limit > 0 else query.pool,
    )
    read = _read(searched, store, request)
    laps = dict(read.stages) | (vector.laps if vector else {})
    idle = "the query is empty" if empty else "its weight is 0"
    semantic = RetrieverResult("semantic", tuning.semantic_weight, ran=False, note=idle)
    keyword = RetrieverResult("keyword", tuning.keyword_weight, ran=False, note=idle)
    if vector is not None and vector.vector is None:
        semantic = RetrieverResult("semantic", tuning.semantic_weight, ran=False, failure=vector.failure)
    elif vector is not None:
        elapsed = laps.get("semantic", 0.0) + laps.setdefault("embed", 0.0)
        semantic = replace(_result("semantic", tuning.semantic_weight, read, elapsed), note=read.note)
    if by_words:
        keyword = _result("keyword", tuning.keyword_weight, read, laps.get("keyword", 0.0))
        if semantic.candidates and not informative_terms(query.text):
            keyword = replace(keyword, weight=0.0, note="no word of the query tells what it is about")
    timer = StageTimer(laps)
    results = (semantic, keyword, *others)
    context = _neighbours(searched, read.neighbours, results)
    lists = _ranked_lists(query, read, results, context)
    if timed is not None:
        known = [*_memories(*results).values(), *context.memories]
        lists += (timed.ranked_list(known),)
    timer.lap("neighbours")
    embedding = vector.vector if vector else None
    return SearchOutcome(
        semantic,
        keyword,
        lists,
        context,
        read.vectors,
        timer.laps,
        embedding,
        others,
        tuple(read.damaged),
        tuple(memory for memory in read.retired if searched.matches(memory)),
        read.model if embedding is not None else None,
        read.size if embedding is not None else 0,
        searched,
        timed.period if timed is not None else None,
    )


def _result(name: str, weight: float, read: SearchResult, elapsed_ms: float) -> RetrieverResult:
    return RetrieverResult(name, weight, read.candidates[name], read.tails[name], elapsed_ms=elapsed_ms)


def _prepare(query: Query, store: Searchable) -> SearchedQuery:
    """Read the operators in the text of a query for the keyword retriever alone."""
    keywords = parse_keyword_query(query.text) if query.tuning.semantic_weight <= 0 else None
    if keywords is None:
        return SearchedQuery(query)
    words = [keywords.text]
    for prefix in keywords.prefixes:
        found = store.terms_with_prefix(query.scope.profile, prefix.text, limit=MAX_EXPANDED)
        words += [*prefix.stems, *found]
    return SearchedQuery(replace(query, text=" ".join(words)), keywords)


class QueryVector:
    """The vector of a query: given, or computed on another thread. `failure` is why there is none."""

    def __init__(self, query: Query, embedder: OpenEmbedder, threads: Executor, seconds: float) -> None:
        self.vector: Vector | None = query.vector
        self.failure: str | None = None
        self.laps: dict[str, float] = {}
        self._seconds, self._latest = seconds, perf_counter() + seconds
        self._embedding: Future[tuple[Vector, Model, float]] | None = None
        if query.vector is None:
            self._embedding = threads.submit(_embed, query.text, embedder)

    def ready(self) -> bool:
        """Whether `wait` returns at once."""
        return self._embedding is None or self._embedding.done()

    def wait(self, model: Model | None) -> Vector | None:
        """Return the vector; None if it cannot be computed in time, or not with the model of the store's vectors."""
        embedding, self._embedding = self._embedding, None
        if embedding is None:
            return self.vector
        try:
            seconds = max(self._latest - perf_counter(), 0.0)
            vector, own, self.laps["embed"] = embedding.result(timeout=seconds)
            if model is None or model.fingerprint == own.fingerprint:
                self.vector = vector
            else:
                self.failure = f"the store's vectors come from {model}, the embedder is {own}; run: retentive reembed"
        except TookTooLong:
            self.failure = f"the embedder did not answer within {self._seconds:g} seconds"
        except Unavailable as error:
            self.failure = str(error)
        return self.vector


def _embed(text: str, embedder: OpenEmbedder) -> tuple[Vector, Model, float]:
    """Return a query's vector, its model and the milliseconds."""
    started = perf_counter()
    opened = embedder()
    if opened is None:
        raise Unavailable("no embedder is configured")
    vector: Vector = opened.embed_queries([opened.split(text)[0]])[0]
    return vector, opened.model, (perf_counter() - started) * 1000


def _read(searched: SearchedQuery, store: Searchable, request: SearchRequest) -> SearchResult:
    """Search the store once; again, if operators of the query or the complete pools change the candidates."""
    limited = searched.keywords is not None
    alone = replace(request, centres=0, around=(), ids=(), scores=False, vectors=False)
    if not (request.keyword or request.semantic or request.ids):
        return NOTHING
    read = store.search(alone if limited else request)
    candidates = {name: _complete(searched, store, request, name, read) for name in read.candidates}
    known = set() if limited else {one.memory.id for found in read.candidates.values() for one in found}
    ids = [one.memory.id for found in candidates.values() for one in found if one.memory.id not in known]
    if not ids and not limited:
        return read
    more = SearchRequest(request.query, vector=request.vector, ids=ids, scores=request.scores, vectors=request.vectors)
    if limited:
        centres = [one.memory.id for found in candidates.values() for one in found[: request.centres]]
        more = replace(more, ids=[*ids, *request.ids], around=[*centres, *request.around])
    others = store.search(more)
    return replace(
        read,
        candidates=candidates,
        scores={name: {**read.scores.get(name, {}), **others.scores[name]} for name in others.scores},
        neighbours={**read.neighbours, **others.neighbours},
        vectors={**read.vectors, **others.vectors},
        damaged=[*read.damaged, *others.damaged],
    )


def _complete(
    searched: SearchedQuery, store: Searchable, request: SearchRequest, name: str, read: SearchResult
) -> Sequence[Candidate]:
    """The candidates of a retriever, given its pool.

    Copies of one text, or memories of sources that are left out, can fill the whole pool; then the retriever is
    searched further down for others. A kind of which the pool has few memories is searched for alone.
    """
    query, first = request.query, read.candidates[name]

    def retrieve(limit: int, kind: Kind | None = None) -> Sequence[Candidate]:
        alone = SearchRequest(query, vector=request.vector, kind=kind)
        alone = replace(alone, keyword=limit) if name == "keyword" else replace(alone, semantic=limit)
        return store.search(alone).candidates[name]

    if query.limit > 0 and len(first) >= query.pool:  # otherwise it has returned everything
        found = _by_id(first)
        found |= _other_texts(searched, first, retrieve)
        kinds = dict.fromkeys(query.scope.kinds or ())
        if len(kinds) > 1:
            count = Counter(candidate.memory.kind for candidate in found.values())
            for kind in kinds:
                if count[kind] < query.pool:
                    found |= _by_id(retrieve(query.pool, kind))
        first = list(found.values())
    return first if searched.keywords is None else [one for one in first if searched.matches(one.memory)]


def _other_texts(
    searched: SearchedQuery, first: Sequence[Candidate], retrieve: Callable[[int], Sequence[Candidate]]
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

    missing = max(query.pool // 2, query.limit) - sum(map(is_new, first))
    seen = {candidate.memory.id for candidate in first}
    others: dict[str, Candidate] = {}
    limit, last = query.pool, first
    while len(others) < missing and len(last) >= limit and limit < MAX_FETCHED:
        limit *= 4
        last = retrieve(limit)
        for candidate in last:
            if candidate.memory.id not in seen and len(others) < missing and is_new(candidate):
                others[candidate.memory.id] = candidate
            seen.add(candidate.memory.id)
    return others


def _by_id(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    return {candidate.memory.id: candidate for candidate in candidates}


def _memories(*results: RetrieverResult, limit: int | None = None) -> dict[str, Memory]:
    """The candidates of all retrievers by id, or the best of each."""
    return {candidate.memory.id: candidate.memory for result in results for candidate in result.candidates[:limit]}


def _neighbours(searched: SearchedQuery, read: Mapping[str, Neighbours], results: Sequence[RetrieverResult]) -> Context:
    """The neighbours of the candidates in their sessions, if context affects the ranking.

    Neighbours that the caller excludes, of kinds it did not ask for, or outside the filter are left out.
    """
    query = searched.query
    candidates = _memories(*results)
    if not candidates or not query.centres:
        return Context()
    pairs = {id: read[id] for id in _memories(*results, limit=query.centres) if id in read}
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
    query: Query, read: SearchResult, results: Sequence[RetrieverResult], context: Context
) -> tuple[RankedList, ...]:
    """The candidates of each retriever; in full fusion with its scores of the memories that only others found."""
    ids = [*_memories(*results), *(memory.id for memory in context.memories)]
    lists = []
    # General models are weaker on short turns than the one that `short_keyword_share` was chosen with.
    general = read.model is not None and read.model.fingerprint not in FITTED_MODELS
    specific = general or has_specific_terms(query.text)
    terms = len(informative_terms(query.text))
    for result in results:
        if not result.ran or result.name == TIME:
            continue
        candidates = sorted(result.candidates, key=_best_first)
        own = {candidate.memory.id for candidate in candidates}
        scores = read.scores.get(result.name, {})
        others = {id: scores[id] for id in ids if id in scores and id not in own}
        lists.append(
            RankedList(result.name, tuple(candidates), result.weight, tuple(result.tail), others, specific, terms)
        )
    return tuple(lists)


def _best_first(candidate: Candidate) -> tuple[float, str]:
    """Equal scores are ordered by id, on every store."""
    return -candidate.score, candidate.memory.id
