"""Let the judge read the best hits of a recall."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import replace
from time import monotonic
from typing import NamedTuple

from retentive.errors import Unavailable
from retentive.inference.judge import Judge, Reading
from retentive.models import Hit, Memory, Period, Query, current_work
from retentive.ranking.judged import CALIBRATION, JudgeCalibration, Judged, order_by_judge
from retentive.ranking.lists import Context, Ranking, closeness

JUDGE_SECONDS = 5.0
"""How long a recall waits for the judge, if its caller has no earlier deadline; it uses what was read by then."""

LOAD_SECONDS = 10.0
"""How long it waits besides, at most, while the model is loaded for the first time; unless there is a deadline."""

LAST_SECONDS = 0.05
"""How long a caller with a deadline waits for what the judge reads at that moment."""

INSIDE = 0.5
"""A memory with this closeness to the period of the query counts as one of that time."""


class JudgedRanking(NamedTuple):
    """The ranking in the order of the judge, with its verdicts; or unchanged, and why."""

    ranking: Ranking
    judged: Judged | None = None
    missing: str | None = None


def judge_best(
    ranking: Ranking,
    query: Query,
    judge: Judge,
    threads: Executor,
    context: Context,
    period: Period | None,
    calibration: JudgeCalibration = CALIBRATION,
) -> JudgedRanking:
    """Let the judge read the best hits with the turns before them."""
    best = ranking.hits[: query.tuning.judge_depth]
    if not best:
        return JudgedRanking(ranking)
    texts = {memory.id: memory for memory in context.memories} | {hit.id: hit.memory for hit in ranking.hits}
    before = {id: texts[pair[0]] for id, pair in context.neighbours.items() if pair[0] in texts}
    readings = [reading(hit.memory, before.get(hit.id), period) for hit in best]
    try:
        scores = _scores(query.text, readings, judge, threads)
    except Unavailable as error:
        return JudgedRanking(ranking, missing=str(error))
    logits = {hit.id: score for hit, score in zip(best, scores, strict=True) if score is not None}
    missing = None
    if len(logits) < len(best):
        missing = f"the judge has read {len(logits)} of {len(best)} memories in time"
    if not logits and query.tuning.judge != "filter":
        return JudgedRanking(ranking, missing=missing)
    judged = Judged(logits, query.text, best, calibration)
    hits = order_by_judge(ranking.hits, logits, weight=query.tuning.judge_weight)
    return JudgedRanking(replace(ranking, hits=tuple(hits)), judged, missing)


class Judging:
    """`engine.judging`: lets the judge read memories that no search found."""

    def __init__(
        self, judge: Judge | None, threads: Executor, calibration: Callable[[], JudgeCalibration] = lambda: CALIBRATION
    ) -> None:
        self._judge = judge
        self._threads = threads
        self._calibration = calibration

    def read(self, memories: Sequence[Memory], query: Query) -> list[Hit]:
        """The memories that the judge has read, in order, with their relevance to the query.

        None without a judge, if it cannot be loaded, or if the tuning of the query turns it off.
        """
        if self._judge is None or query.tuning.judge == "off" or not memories or not query.text.strip():
            return []
        try:
            scores = _scores(query.text, [reading(memory, None) for memory in memories], self._judge, self._threads)
        except Unavailable:
            return []
        scored = zip(memories, scores, strict=True)
        logits = {memory.id: score for memory, score in scored if score is not None}
        hits = [Hit(memory, 0.0) for memory in memories if memory.id in logits]
        judged = Judged(logits, query.text, hits, self._calibration())
        return [judged.of(hit) for hit in hits]


def _scores(text: str, readings: Sequence[Reading], judge: Judge, threads: Executor) -> list[float | None]:
    """The logits, None where the time did not suffice. `Unavailable` if the judge cannot be loaded."""
    needed = current_work().deadline
    seconds = JUDGE_SECONDS if needed is None else max(0.0, min(needed - monotonic(), JUDGE_SECONDS))
    # The judge stops at the deadline by itself. It runs on a thread because loading it may take longer.
    scoring = threads.submit(judge.score, text, readings, deadline=monotonic() + seconds)
    try:
        return scoring.result(timeout=seconds + (LOAD_SECONDS if needed is None else LAST_SECONDS))
    except TookTooLong:
        scoring.cancel()
        return [None] * len(readings)


def reading(memory: Memory, before: Memory | None, period: Period | None = None) -> Reading:
    """What the judge reads of a memory."""
    inside = None if period is None else closeness(memory.when, period) >= INSIDE
    if before is None:
        return Reading(memory.text, memory.speaker or "", inside=inside)
    return Reading(memory.text, memory.speaker or "", before.text, before.speaker or "", inside)
