"""The read path: limit how many recalls run at once, rank what `search` has read, and record the use of memories."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import chain
from time import monotonic, perf_counter
from typing import Any, ClassVar

from retentive.errors import Cancelled, RetentiveError, Unavailable, describe_error
from retentive.inference.judge import Judge
from retentive.models import Hit, LazyTuple, Memory, NamedPeriod, Query, Reason, Recall, current_work
from retentive.pipeline.judging import judge_best
from retentive.pipeline.search import EMBED_SECONDS, OpenEmbedder, SearchOutcome, search
from retentive.ranking import order, pick
from retentive.ranking.judged import CALIBRATION, JudgeCalibration
from retentive.ranking.rank import is_about_asker
from retentive.ranking.relevance import Calibration, Relevance
from retentive.stores.base import Searchable, Store
from retentive.stores.damage import left_out
from retentive.stores.values import StageTimer
from retentive.text.keyword_syntax import KeywordQuery
from retentive.text.terms import informative_terms, is_keywords

log = logging.getLogger(__name__)
degraded_log = logging.getLogger(f"{__name__}.degraded")

UNCALIBRATED = Calibration()
"""Relevance by the terms of the query alone."""


ORDER_SECONDS = 10.0
"""How long a recall orders its candidates before it fails. Thousands take milliseconds; patterns of sources can take
much longer."""


def recall(
    query: Query,
    store: Searchable,
    embedder: OpenEmbedder,
    threads: Executor,
    *,
    judge: Judge | None = None,
    embed_seconds: float = EMBED_SECONDS,
) -> Recall:
    """Search and rank: the hits of a query, how each retriever went, and whether anything was missing."""
    started = perf_counter()
    outcome = search(query, store, embedder, threads, embed_seconds=embed_seconds)
    return rank_outcome(outcome, query, threads, judge=judge, started=started)


def rank_outcome(
    outcome: SearchOutcome,
    query: Query,
    threads: Executor,
    calibration: Calibration = UNCALIBRATED,
    *,
    judge: Judge | None,
    judge_calibration: JudgeCalibration = CALIBRATION,
    started: float,
) -> Recall:
    """Rank what a search found. `explain` needs both the outcome and the recall made of it.

    `Cancelled` if the caller no longer waits, and `Unavailable` if the order of the hits takes too long.
    """
    work, latest = current_work(), monotonic() + ORDER_SECONDS

    def check() -> None:
        work.check()
        if monotonic() > latest:
            raise Unavailable(f"ranking took longer than {ORDER_SECONDS:g} seconds; use fewer patterns of sources")

    timer = StageTimer(outcome.stages)
    stripped = _without_operators(query, outcome.keywords)
    about_asker = is_about_asker(stripped.text)
    context, period = outcome.context, outcome.period
    ranking = order(outcome.lists, query.tuning, now=query.now, context=context, about_asker=about_asker, check=check)
    timer.lap("rank")
    judged, not_judged = None, None
    if judge is not None and not (period and period.alone) and _is_judged(stripped):
        ranking, judged, not_judged = judge_best(ranking, stripped, judge, threads, context, period, judge_calibration)
        timer.lap("judge")
        work.check()
    kinds = query.scope.kinds or ()
    terms = outcome.keywords.informative_terms if outcome.keywords else informative_terms(query.text)
    relevance = judged or Relevance(terms, ranking.hits, outcome.cosines, calibration, period)
    ranking = pick(
        ranking,
        query.tuning,
        limit=query.limit,
        vectors=outcome.vectors,
        kinds=kinds,
        relevance=relevance,
        period=period,
    )
    timer.lap("rank")
    missing = {
        "keyword-only": outcome.semantic.failure,
        "not-judged": not_judged,
        "incomplete": left_out(outcome.damaged) if outcome.damaged else None,
    }
    missing |= {f"without-{result.name}": result.failure for result in outcome.others}
    reasons = {what: why for what, why in missing.items() if why}
    return Recall(
        query=query.text,
        hits=tuple(ranking.hits),
        retrievers=tuple(result.report() for result in (outcome.semantic, outcome.keyword, *outcome.others)),
        relevance=relevance.answer,
        degraded=", ".join(reasons) or None,
        degraded_reason="; ".join(reasons.values()) or None,
        elapsed_ms=(perf_counter() - started) * 1000,
        stages=timer.laps,
        dropped=LazyTuple(chain, ranking.dropped, map(retired_hit, outcome.retired)),
        period=NamedPeriod(period.text, period.start, period.end) if period else None,
        profile=query.scope.profile,
    )


def _is_judged(query: Query) -> bool:
    """Whether the judge reads the hits. It was trained on questions and prompts; keywords alone are neither."""
    if query.tuning.judge == "order" and is_keywords(query.text):
        return False
    return query.tuning.judge != "off" and bool(query.text.strip())


def _without_operators(query: Query, keywords: KeywordQuery | None) -> Query:
    """The query with the words that it asks for, without those that it excludes."""
    return replace(query, text=keywords.text) if keywords and keywords.text else query


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


USES_PER_WRITE = 64
"""The use of memories is recorded in one write for this many recalls."""

USE_SECONDS = 30.0
"""With fewer recalls, their use is recorded after this time."""


class RecallLog:
    """What follows a recall: the use of its hits is recorded, and callbacks are called."""

    def __init__(self, store: Store, threads: Executor, *, use_seconds: float = USE_SECONDS) -> None:
        self._store = store
        self._threads = threads
        self._use_seconds = use_seconds
        self._unrecorded: list[tuple[datetime, tuple[str, ...]]] = []
        self._timer: threading.Timer | None = None
        self._degraded: str | None = None
        self._callbacks: tuple[Callable[[Recall], None], ...] = ()

    def add(self, answer: Recall, used_at: datetime | None) -> None:
        """Log a change of the degraded state, record use, and run the callbacks."""
        if answer.degraded != self._degraded:
            self._degraded = answer.degraded
            if answer.degraded:
                degraded_log.warning("recall is %s: %s", answer.degraded, answer.degraded_reason)
        if answer.hits and used_at is not None:
            self._unrecorded.append((used_at, tuple(hit.id for hit in answer.hits)))
            if len(self._unrecorded) >= USES_PER_WRITE:
                self._threads.submit(self.record_use)
            elif self._timer is None:
                self._timer = threading.Timer(self._use_seconds, self.record_use)
                self._timer.daemon = True
                self._timer.start()
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
            self._callbacks = tuple(other for other in self._callbacks if other is not callback)

        return remove

    def record_use(self) -> None:
        """Record which memories recalls returned. A failure is logged and nothing else."""
        timer, self._timer = self._timer, None  # first, so that a recall from now on starts another one
        if timer is not None:
            timer.cancel()
        used, self._unrecorded = self._unrecorded, []
        if not used:
            return
        try:
            # One write for all of them, at the time of the last: the difference does not matter.
            self._store.touch([id for _, ids in used for id in ids], at=max(used_at for used_at, _ in used))
        except RetentiveError as error:
            log.warning("the use of memories was not recorded: %s", error)


@contextmanager
def degraded_unlogged() -> Iterator[None]:
    """Do not log that a recall is degraded, where its caller shows it."""
    degraded_log.disabled = True
    try:
        yield
    finally:
        degraded_log.disabled = False


CANCELLED_SECONDS = 0.25
"""How often a thread that waits for a slot looks whether its caller still waits."""


class FairLimiter:
    """Lets a limited number of threads work at once. Callers take turns, and the threads of one wait in order.

    The default is one more than there are cores: one thread is always starting or ending. Beyond that, threads compete
    for the cores and the interpreter's lock: sixteen concurrent recalls were slower than the same recalls in sequence.
    One caller with a token leaves a slot to the others, if there are several.
    """

    default: ClassVar[int] = (os.cpu_count() or 1) + 1
    """A process that shares the cores with others sets it before it opens an engine."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit or self.default
        self._guard = threading.Lock()
        self._working: Counter[str | None] = Counter()
        self._waiting: list[_Turn] = []
        self._last: dict[str | None, int] = {}
        self._turns = 0

    @contextmanager
    def slot(self) -> Iterator[bool]:
        """Wait for a slot; yields whether another thread is working or waiting.

        `Cancelled` if the caller no longer waits.
        """
        turn = _Turn(current_work().caller)
        shared = self._acquire(turn)
        try:
            yield shared
        finally:
            with self._guard:
                self._working -= Counter([turn.caller])
                self._start_next()

    def _acquire(self, turn: _Turn) -> bool:
        with self._guard:
            self._waiting.append(turn)
            self._start_next()
            shared = self._working.total() > 1 or bool(self._waiting)
        while not turn.begins.wait(CANCELLED_SECONDS):
            with self._guard:
                if current_work().cancelled and turn in self._waiting:
                    self._waiting.remove(turn)
                    raise Cancelled
        return shared

    def _start_next(self) -> None:
        """Let those work who had their last turn the longest time ago, while there are slots."""
        while self._working.total() < self._limit:
            able = [turn for turn in self._waiting if self._working[turn.caller] < self._most(turn.caller)]
            if not able:
                break
            turn = min(able, key=lambda waiting: self._last.get(waiting.caller, 0))
            self._waiting.remove(turn)
            self._turns += 1
            self._last[turn.caller] = self._turns
            self._working[turn.caller] += 1
            turn.begins.set()
        if not self._waiting:
            self._last.clear()

    def _most(self, caller: str | None) -> int:
        return self._limit if caller is None else max(1, self._limit - 1)


class _Turn:
    """One thread that waits for a slot."""

    def __init__(self, caller: str | None) -> None:
        self.caller = caller
        self.begins = threading.Event()


class InlineExecutor(Executor):
    """Runs work on the calling thread: with every core busy, another thread brings nothing."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Run the work now and return its result or exception as a future."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future


INLINE = InlineExecutor()
