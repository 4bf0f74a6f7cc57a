"""Questions ranked under many tunings: what the legs found is fetched once and ranked in memory.

A recall spends its time on searching. Here the same functions run on a store that makes no search twice, so that the
result is that of a recall and takes a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from recollect.engine import Engine
from recollect.errors import Unavailable
from recollect.evaluation.judged import Question
from recollect.evaluation.run import LIMIT
from recollect.models import Memory
from recollect.ranking import Tuning, pick
from recollect.recall import Question as Recalled
from recollect.recall import ranked
from recollect.turns import AT_ONCE

Rank = Callable[[Question, Tuning], tuple[Memory, ...]]
"""The memories that a recall of a question gives under a tuning, best first."""


def ranking_again(engine: Engine, *, now: datetime) -> Rank:
    """Ranks questions as a recall would, without reranking. `Unavailable` where one of its searches did not run."""
    gather = engine.gathering(AT_ONCE)

    def rank(question: Question, tuning: Tuning) -> tuple[Memory, ...]:
        scope = engine.scope(project=question.project, profile=question.profile)
        asked = Recalled(question.text, scope, tuning, LIMIT, question.asked_at or now)
        found = gather(asked)
        for searched in found.searches:
            if not searched.ran and searched.weight > 0:
                raise Unavailable(f"tuning needs both searches, and one did not run: {searched.note}")
        ranking = pick(ranked(found, asked), tuning, limit=LIMIT, vectors=found.vectors)
        return tuple(hit.memory for hit in ranking.hits)

    return rank
