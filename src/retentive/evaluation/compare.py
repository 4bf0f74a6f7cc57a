"""Two tunings on one's own judged queries: what each finds of what was judged good, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retentive.engine import Engine
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.metrics import Values, library, measure
from retentive.evaluation.run import recalled
from retentive.ranking import Tuning

SHOWN = ("nDCG@10", "any@5", "MRR")


@dataclass(frozen=True, slots=True)
class Figures:
    """Metrics of one tuning: a value for each query."""

    values: dict[str, Values]

    def at(self, place: int) -> dict[str, float]:
        """The metrics of one query."""
        return {name: float(self.values[name][place]) for name in SHOWN}

    def means(self) -> dict[str, float]:
        """The mean of each metric."""
        return {name: float(self.values[name].mean()) for name in SHOWN}


@dataclass(frozen=True, slots=True)
class Compared:
    """Both tunings on the same queries, and what the recalls lacked, if they lacked anything."""

    a: Figures
    b: Figures
    degraded: str | None
    degraded_reason: str | None


def compare(engine: Engine, queries: Sequence[EvaluationQuery], a: Tuning, b: Tuning) -> Compared:
    """What each tuning finds for these queries, as a user of the engine would get it now, leaving no trace.

    Unlike an evaluation it also measures recalls that lack something, and says so: it is this user's engine, as it is.
    """
    library()
    lacking: tuple[str, str | None] | None = None
    figures = []
    for tuning in (a,) if a == b else (a, b):
        found = {}
        for query in queries:
            answer = recalled(engine, query, tuning)
            found[query.id] = [hit.id for hit in answer.hits]
            if answer.degraded:
                lacking = (answer.degraded, answer.degraded_reason)
        figures.append(Figures(measure(queries, found)))
    return Compared(figures[0], figures[-1], *(lacking or (None, None)))
