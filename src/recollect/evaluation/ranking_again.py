"""Questions ranked under many tunings: what the legs found is fetched once and ranked in memory.

A recall spends its time on searching. Here the same functions run on a store that makes no search twice, so that the
result is that of a recall and takes a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import datetime
from typing import ParamSpec, TypeVar

from recollect.engine import Engine
from recollect.errors import Unavailable
from recollect.evaluation.judged import Question
from recollect.evaluation.run import LIMIT
from recollect.models import Memory
from recollect.ranking import Tuning, pick
from recollect.recall import Question as Recalled
from recollect.recall import ranked

P = ParamSpec("P")
T = TypeVar("T")

Rank = Callable[[Question, Tuning], tuple[Memory, ...]]
"""The memories that a recall of a question gives under a tuning, best first."""


def ranking_again(engine: Engine, *, now: datetime) -> Rank:
    """Ranks questions as a recall would, without reranking. `Unavailable` where one of its searches did not run."""
    gather = engine.gathering(INLINE)

    def rank(question: Question, tuning: Tuning) -> tuple[Memory, ...]:
        scope = engine.scope(project=question.project)
        asked = Recalled(question.text, scope, tuning, LIMIT, question.asked_at or now)
        found = gather(asked)
        for searched in found.searches:
            if not searched.ran and searched.weight > 0:
                raise Unavailable(f"tuning needs both searches, and one did not run: {searched.note}")
        ranking = pick(ranked(found, asked), tuning, limit=LIMIT, vectors=found.vectors)
        return tuple(hit.memory for hit in ranking.hits)

    return rank


class _Inline(Executor):
    """Runs everything at once: there is nothing to wait for, and a change of threads costs more than the search."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


INLINE = _Inline()
