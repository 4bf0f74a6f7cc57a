"""Queries ranked under many tunings: what the retrievers found is fetched once and ranked in memory.

A recall spends its time on searching. Here the same functions run on a store that makes no search twice, so that the
result is that of a recall and takes a millisecond or two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.run import LIMIT
from retentive.models import Memory
from retentive.pipeline.concurrency import INLINE
from retentive.pipeline.recall import Query, ranked
from retentive.ranking import Tuning, pick

Rank = Callable[[EvaluationQuery, Tuning], tuple[Memory, ...]]
"""The memories that a recall of a query gives under a tuning, best first."""


def ranking_again(engine: Engine, *, now: datetime) -> Rank:
    """Ranks queries as a recall would, without reranking. `Unavailable` where one of its searches did not run."""
    gather = engine.gathering(INLINE)

    def rank(query: EvaluationQuery, tuning: Tuning) -> tuple[Memory, ...]:
        scope = engine.scope(project=query.project, profile=query.profile)
        asked = Query(query.text, scope, tuning, LIMIT, query.asked_at or now)
        found = gather(asked)
        for searched in found.searches:
            if not searched.ran and searched.weight > 0:
                raise Unavailable(f"tuning needs both searches, and one did not run: {searched.note}")
        ranking = pick(ranked(found, asked), tuning, limit=LIMIT, vectors=found.vectors)
        return tuple(hit.memory for hit in ranking.hits)

    return rank
