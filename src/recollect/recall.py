"""The read path: the legs search at the same time, their candidates are fetched once, and `ranking` ranks them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass, field
from datetime import datetime
from time import perf_counter

from recollect.embedders import Embedder
from recollect.errors import Unavailable
from recollect.models import Candidate, Key, Leg, LegReport, Memory, Recall, Scope
from recollect.ranking import Tuning, rank
from recollect.stores import Found, Store, Vector

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


def recall(
    question: Question,
    store: Store,
    embedder: Callable[[], Embedder | None],
    threads: Executor,
    *,
    embed_seconds: float = EMBED_SECONDS,
) -> Recall:
    """The hits for a question, with how each leg went and whether anything was missing."""
    started = perf_counter()
    searches = _search(question, store, embedder, threads, embed_seconds)
    watch = _Watch()
    memories = store.fetch(_keys(searches, question.pool))
    watch.lap("fetch")
    legs = [_leg(searched, question, store, memories) for searched in searches if searched.ran]
    vectors = {}
    if question.tuning.diversity > 0:
        vectors = {memories[key].id: row for key, row in store.vectors(list(memories)).items()}
    watch.lap("score")
    ranking = rank(legs, question.tuning, limit=question.limit, now=question.now, vectors=vectors)
    watch.lap("rank")
    reason = _missing(searches)
    return Recall(
        question=question.text,
        hits=ranking.hits,
        legs=tuple(searched.report(min(len(searched.found), question.pool)) for searched in searches),
        degraded="keyword-only" if reason else None,
        degraded_reason=reason,
        elapsed_ms=(perf_counter() - started) * 1000,
        stages={name: ms for searched in searches for name, ms in searched.stages.items()} | watch.laps,
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
    words = Searched("keyword", tuning.keyword_weight, ran=False, note=_why_not_run(question, tuning.keyword_weight))
    if tuning.keyword_weight > 0 and question.text.strip():
        words = _by_words(question, store)
    if meaning is None:
        note = _why_not_run(question, tuning.semantic_weight)
        return Searched("semantic", tuning.semantic_weight, ran=False, note=note), words
    try:
        return meaning.result(timeout=embed_seconds), words
    except TookTooLong:
        meaning.cancel()
        note = f"the embedder did not answer within {embed_seconds:g} seconds"
        return Searched("semantic", tuning.semantic_weight, ran=False, note=f"unavailable: {note}"), words


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
    weight = question.tuning.semantic_weight
    watch = _Watch()
    try:
        vector = question.vector if question.vector is not None else _embed(question.text, store, embedder())
    except Unavailable as error:
        return Searched("semantic", weight, ran=False, note=f"unavailable: {error}")
    watch.lap("embed")
    # Deeper than the pool, because spread scaling looks at how the best stand out from the crowd.
    depth = max(question.pool, question.tuning.spread_depth)
    found = store.search_vectors(vector, question.scope, limit=depth, exclude=question.recent_ids)
    watch.lap("semantic")
    return Searched("semantic", weight, found, vector=vector, stages=watch.laps)


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


def _missing(searches: Sequence[Searched]) -> str | None:
    """Why the search by meaning did not take part, if it should have."""
    prefix = "unavailable: "
    notes = (searched.note for searched in searches if searched.note.startswith(prefix))
    return next((note.removeprefix(prefix) for note in notes), None)


def _keys(searches: Sequence[Searched], pool: int) -> list[Key]:
    """Every candidate once."""
    return list(dict.fromkeys(found.key for searched in searches for found in searched.found[:pool]))


def _leg(searched: Searched, question: Question, store: Store, memories: Mapping[Key, Memory]) -> Leg:
    """What a search brought, as ranking takes it: full memories, equal scores by id on every store."""
    own = {found.key: found.score for found in searched.found[: question.pool]}
    candidates = [Candidate(memories[key], score) for key, score in own.items() if key in memories]
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.memory.id))
    elsewhere: Mapping[Key, float] = {}
    others = [key for key in memories if key not in own]
    if question.tuning.fusion == "full" and others:
        if searched.vector is None:
            elsewhere = store.score_words(question.text, others)
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
        self.laps[name] = (now - self._last) * 1000
        self._last = now
