"""The read path: the legs search at the same time, their candidates are fetched once, and `ranking` ranks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import perf_counter
from typing import cast

from recollect.embedders import Embedder
from recollect.errors import Unavailable
from recollect.models import Candidate, Context, Key, Leg, LegReport, Memory, Period, Ranking, Recall, Scope
from recollect.neighbours import fetch_neighbours
from recollect.ranking import Tuning, order, pick
from recollect.rerankers import Reranker, rerank_best
from recollect.stores import Found, Searching, Store, Vector
from recollect.stores.at_once import Asked, AtOnce, InOneGo
from recollect.when import period

EMBED_SECONDS = 5.0
"""How long a recall waits for its question's vector before it answers from words alone."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, of which memories, and how the answer is to be ranked."""

    text: str
    scope: Scope
    tuning: Tuning
    limit: int
    now: datetime
    recent_ids: Sequence[str] = ()
    vector: Vector | None = None

    @property
    def pool(self) -> int:
        """How many candidates each leg brings."""
        return self.tuning.pool(self.limit)

    @property
    def depth(self) -> int:
        """How many the leg by meaning looks at."""
        return self.tuning.depth(self.limit)

    @property
    def period(self) -> Period | None:
        """The time that the question is about, where that counts."""
        return period(self.text, now=self.now) if self.tuning.time_weight > 0 else None


@dataclass(frozen=True, slots=True)
class Searched:
    """How one leg's search went."""

    name: str
    weight: float
    found: Sequence[Found] = ()
    ran: bool = True
    note: str = ""
    vector: Vector | None = None
    stages: Mapping[str, float] = field(default_factory=dict)

    def report(self, candidates: int) -> LegReport:
        """The part of it that the caller sees."""
        return LegReport(self.name, self.weight, self.ran, candidates, sum(self.stages.values()), self.note)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Everything that ranking looks at, and how the searches went."""

    searches: tuple[Searched, ...]
    legs: tuple[Leg, ...]
    context: Context
    vectors: Mapping[str, Vector]
    stages: Mapping[str, float]


def gather(
    question: Question,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    *,
    embed_seconds: float = EMBED_SECONDS,
) -> Gathered:
    """What the legs found for a question, with what stands around it; nothing is ranked yet."""
    source: Searching = store
    if isinstance(store, AtOnce):
        searches, source = _search_at_once(question, store, embedder, threads, embed_seconds)
    else:
        searches = _search(question, store, embedder, threads, embed_seconds)
    watch = _Watch()
    memories, context = _fetch(searches, question, source)
    watch.lap("fetch")
    legs = tuple(_leg(searched, question, source, memories) for searched in searches if searched.ran)
    vectors = {}
    if question.tuning.diversity > 0:
        vectors = {memories[key].id: row for key, row in source.vectors(list(memories)).items()}
    watch.lap("score")
    searching = {name: ms for searched in searches for name, ms in searched.stages.items()}
    return Gathered(searches, legs, context, vectors, searching | watch.laps)


def ranked(found: Gathered, question: Question) -> Ranking:
    """What was gathered for a question, best first; what is left to do is to rerank the best and to pick."""
    return order(found.legs, question.tuning, now=question.now, context=found.context, period=question.period)


def recall(
    question: Question,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    *,
    reranker: Reranker | None = None,
    embed_seconds: float = EMBED_SECONDS,
) -> Recall:
    """The hits for a question, with how each leg went and whether anything was missing."""
    started = perf_counter()
    found = gather(question, store, embedder, threads, embed_seconds=embed_seconds)
    return answer(found, question, threads, reranker=reranker, started=started)


def answer(
    found: Gathered, question: Question, threads: Executor, *, reranker: Reranker | None, started: float
) -> Recall:
    """What was gathered for a question as the answer to it. Whoever wants to look behind a recall keeps both."""
    watch = _Watch()
    ranking = ranked(found, question)
    watch.lap("rank")
    ranking, not_reranked = rerank_best(
        ranking, question.text, question.tuning, reranker, threads, text_of=_text_to_read
    )
    watch.lap("rerank" if question.tuning.rerank else "rank")
    ranking = pick(ranking, question.tuning, limit=question.limit, vectors=found.vectors)
    watch.lap("rank")
    missing = _missing(found.searches, not_reranked)
    return Recall(
        question=question.text,
        hits=ranking.hits,
        legs=tuple(searched.report(min(len(searched.found), question.pool)) for searched in found.searches),
        degraded=", ".join(missing) or None,
        degraded_reason="; ".join(missing.values()) or None,
        elapsed_ms=(perf_counter() - started) * 1000,
        stages={**found.stages, **watch.laps},
        dropped=ranking.dropped,
    )


def _search(
    question: Question,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    embed_seconds: float,
) -> tuple[Searched, Searched]:
    """Both legs, at the same time. A leg of weight 0 is not run: no query, no embedding, no network call."""
    tuning = question.tuning
    meaning: Future[Searched] | None = None
    if tuning.semantic_weight > 0 and question.text.strip():
        meaning = threads.submit(_by_meaning, question, store, embedder)
    words = _not_run("keyword", question, tuning.keyword_weight)
    if tuning.keyword_weight > 0 and question.text.strip():
        words = _by_words(question, store)
    if meaning is None:
        return _not_run("semantic", question, tuning.semantic_weight), words
    try:
        return meaning.result(timeout=embed_seconds), words
    except TookTooLong:
        meaning.cancel()
        return _too_slow(question, embed_seconds), words


def _search_at_once(
    question: Question,
    store: AtOnce,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    embed_seconds: float,
) -> tuple[tuple[Searched, Searched], Searching]:
    """Both legs in one request, which the question's vector has to be there for; and what answers all further ones."""
    tuning, asks = question.tuning, bool(question.text.strip())
    words = _not_run("keyword", question, tuning.keyword_weight)
    meaning = _not_run("semantic", question, tuning.semantic_weight)
    if tuning.semantic_weight > 0 and asks:
        embedding = threads.submit(_embedded, question, cast("Store", store), embedder)
        try:
            meaning = embedding.result(timeout=embed_seconds)
        except TookTooLong:
            embedding.cancel()
            meaning = _too_slow(question, embed_seconds)
    watch = _Watch()
    asked = Asked(
        question.text if tuning.keyword_weight > 0 and asks else None,
        meaning.vector,
        question.scope,
        question.pool,
        question.depth,
        question.recent_ids,
        tuning.common_words,
    )
    if asked.question is None and asked.vector is None:
        return (meaning, words), store
    source = InOneGo(store, asked)
    watch.lap("search")
    if asked.vector is not None:
        found = source.search_vectors(asked.vector, asked.scope, limit=asked.depth)
        meaning = replace(meaning, found=found, stages={**meaning.stages, "semantic": watch.laps["search"]})
    if asked.question is not None:
        found = source.search_words(asked.question, asked.scope, limit=asked.limit)
        words = Searched("keyword", tuning.keyword_weight, found, stages={"keyword": watch.laps["search"]})
    return (meaning, words), source


def _not_run(name: str, question: Question, weight: float) -> Searched:
    return Searched(name, weight, ran=False, note=_why_not_run(question, weight))


def _too_slow(question: Question, seconds: float) -> Searched:
    note = f"unavailable: the embedder did not answer within {seconds:g} seconds"
    return Searched("semantic", question.tuning.semantic_weight, ran=False, note=note)


def _why_not_run(question: Question, weight: float) -> str:
    return "the question is empty" if weight > 0 and not question.text.strip() else "its weight is 0"


def _by_words(question: Question, store: Store) -> Searched:
    watch = _Watch()
    found = store.search_words(
        question.text,
        question.scope,
        limit=question.pool,
        exclude=question.recent_ids,
        common=question.tuning.common_words,
    )
    watch.lap("keyword")
    return Searched("keyword", question.tuning.keyword_weight, found, stages=watch.laps)


def _by_meaning(question: Question, store: Store, embedder: Callable[[], Embedder | None]) -> Searched:
    embedded = _embedded(question, store, embedder)
    if embedded.vector is None:
        return embedded
    watch = _Watch()
    found = store.search_vectors(embedded.vector, question.scope, limit=question.depth, exclude=question.recent_ids)
    watch.lap("semantic")
    return replace(embedded, found=found, stages={**embedded.stages, **watch.laps})


def _embedded(question: Question, store: Store, embedder: Callable[[], Embedder | None]) -> Searched:
    """The search by meaning with its question's vector, still to be made; or why there is none."""
    weight = question.tuning.semantic_weight
    watch = _Watch()
    try:
        vector = question.vector if question.vector is not None else _embed(question.text, store, embedder())
    except Unavailable as error:
        return Searched("semantic", weight, ran=False, note=f"unavailable: {error}")
    watch.lap("embed")
    return Searched("semantic", weight, vector=vector, stages=watch.laps)


def _embed(text: str, store: Store, embedder: Embedder | None) -> Vector:
    """The question's vector. `Unavailable` if it could not be compared with the vectors in the store."""
    if embedder is None:
        raise Unavailable("no embedder is configured")
    stored = store.model()
    if stored is not None and stored.fingerprint != embedder.model.fingerprint:
        raise Unavailable(
            f"the store's vectors come from {stored}, the embedder is {embedder.model}; run: recollect reembed"
        )
    vector: Vector = embedder.embed([embedder.split(text)[0]])[0]
    return vector


def _text_to_read(memory: Memory) -> str:
    """What the reranker sees of a memory."""
    return memory.indexed_text


def _missing(searches: Sequence[Searched], not_reranked: str | None) -> dict[str, str]:
    """What did not take part though it should have, and why."""
    prefix = "unavailable: "
    notes = (searched.note for searched in searches if searched.note.startswith(prefix))
    by_meaning = next((note.removeprefix(prefix) for note in notes), None)
    lacks = {"keyword-only": by_meaning, "not-reranked": not_reranked}
    return {what: why for what, why in lacks.items() if why}


def _fetch(searches: Sequence[Searched], question: Question, store: Searching) -> tuple[Mapping[Key, Memory], Context]:
    """The candidates of all legs, with their neighbours where those count."""
    found = _keys(searches, question.pool)
    memories = store.fetch(found) if found else {}
    tuning = question.tuning
    if not memories or not (tuning.neighbour_weight or tuning.session_weight):
        return memories, Context()
    # Around the best of each leg: neighbours of the others seldom rise into the result, and cost as much.
    nearest = max(2 * question.limit, 10) if question.limit > 0 else question.pool
    return fetch_neighbours(
        store,
        memories,
        around=_keys(searches, nearest),
        exclude=question.recent_ids,
        kinds=question.scope.kinds,
    )


def _keys(searches: Sequence[Searched], pool: int) -> list[Key]:
    """Every candidate once."""
    return list(dict.fromkeys(found.key for searched in searches for found in searched.found[:pool]))


def _leg(searched: Searched, question: Question, store: Searching, memories: Mapping[Key, Memory]) -> Leg:
    """What a search brought, as ranking takes it: full memories, equal scores by id on every store."""
    own = {found.key: found.score for found in searched.found[: question.pool]}
    candidates = [Candidate(memories[key], score) for key, score in own.items() if key in memories]
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.memory.id))
    elsewhere: Mapping[Key, float] = {}
    others = [key for key in memories if key not in own]
    if question.tuning.fusion == "full" and others:
        if searched.vector is None:
            elsewhere = store.score_words(question.text, question.scope, others)
        else:
            elsewhere = store.score_vectors(searched.vector, others)
    return Leg(
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
