"""Evaluate how well relevance separates queries that have an answer from those that have none.

Each query is asked in its own project, and in another project of the set, where none of its relevant memories is. A
query without such a project is asked a second time without the sessions of its relevant memories.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random

import numpy as np
import numpy.typing as npt

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery, EvaluationSet
from retentive.evaluation.run import LIMIT, Progress, all_memories, no_progress
from retentive.models import DEFAULT_MIN_RELEVANCE, Memory, Recall, Serializable
from retentive.ranking import Tuning

Array = npt.NDArray[np.float64]

BINS = 10


@dataclass(frozen=True, slots=True)
class Bin(Serializable):
    """The answers whose relevance is in one range: their number, mean relevance, and the share that is answerable."""

    count: int
    relevance: float
    answerable: float


@dataclass(frozen=True, slots=True)
class Abstention(Serializable):
    """How relevance does at one threshold, with shares from 0 to 1.

    `auroc` is the probability that the answer of an answerable query has a higher relevance than that of an
    unanswerable one. `lost` is the share of answerable queries whose relevant memories among the ten are all below the
    threshold, and `abstained` the share of unanswerable queries with no memory above it. `calibration_error` is the
    mean difference between relevance and the share that is answerable, in ten bins; `hit_calibration_error` compares
    the relevance of hits with the judgements, which leave out much that helps. `elsewhere` is where queries were asked
    that have no answer: in another project, or where they belong without the relevant sessions.
    """

    min_relevance: float
    queries: int
    elsewhere: str
    auroc: float
    lost: float
    abstained: float
    calibration_error: float
    hit_calibration_error: float
    bins: tuple[Bin, ...]


def abstain(
    engine: Engine,
    evaluation_set: EvaluationSet,
    *,
    tuning: Tuning | None = None,
    progress: Progress = no_progress,
) -> Abstention:
    """Ask every query of a set where its answer is and where none is, through the engine that has the set's memories.

    The threshold is the tuning's, or the default of chat and MCP if it has none.
    """
    chosen = tuning or Tuning()
    least = chosen.min_relevance or DEFAULT_MIN_RELEVANCE
    everything = chosen.with_parameters(min_relevance=0.0)
    queries, identify = evaluation_set.queries, evaluation_set.identify
    memories = _Memories(engine, evaluation_set)
    projects = other_projects(queries, memories.relevant_projects())
    left_out = memories.relevant_sessions([query for query in queries if query.id not in projects])
    answers: list[tuple[float, bool]] = []
    hits: list[tuple[float, float]] = []
    lost = abstained = 0
    with progress("asking where no answer is", total=len(queries)) as asked:
        for query in queries:
            own = _recall(engine, query, everything, project=query.project)
            there = projects.get(query.id, query.project)
            other = _recall(engine, query, everything, project=there, exclude=left_out.get(query.id, ()))
            answers += [(own.relevance, True), (other.relevance, False)]
            rated = [(hit.relevance or 0.0, float(identify(hit.memory) in query.relevance)) for hit in own]
            hits += [*rated, *((hit.relevance or 0.0, 0.0) for hit in other)]
            relevant = [relevance for relevance, judged in rated if judged]
            lost += bool(relevant) and max(relevant) < least
            abstained += all((hit.relevance or 0.0) < least for hit in other)
            asked(1)
    relevance = np.array([value for value, _ in answers])
    labels = np.array([float(answerable) for _, answerable in answers])
    return Abstention(
        min_relevance=least,
        queries=len(queries),
        elsewhere=_elsewhere(len(projects), len(queries)),
        auroc=auroc(relevance[labels == 1], relevance[labels == 0]),
        lost=lost / len(queries),
        abstained=abstained / len(queries),
        calibration_error=calibration_error(relevance, labels),
        hit_calibration_error=calibration_error(*np.array(hits, dtype=np.float64).reshape(-1, 2).T),
        bins=tuple(bins(relevance, labels)),
    )


def other_projects(
    queries: Sequence[EvaluationQuery], relevant: Mapping[str, Collection[str | None]] | None = None, *, seed: int = 1
) -> dict[str, str]:
    """Return another project for each query, by its id: a random one, without those of its relevant memories.

    `relevant` are the projects of each query's relevant memories. A query for which no project is left is left out.
    """
    projects = sorted({query.project for query in queries if query.project is not None})
    random = Random(seed)  # noqa: S311 - nothing secret
    chosen: dict[str, str] = {}
    for query in queries:
        own = {query.project, *(relevant or {}).get(query.id, ())}
        if others := [one for one in projects if one not in own]:
            chosen[query.id] = random.choice(others)
    return chosen


def _elsewhere(in_other_projects: int, queries: int) -> str:
    """Where queries were asked that have no answer there, given how many of them were asked in another project."""
    places = {
        "in another project": in_other_projects,
        "without the sessions of its relevant memories": queries - in_other_projects,
    }
    return " or ".join(place for place, count in places.items() if count)


def auroc(positive: Array, negative: Array) -> float:
    """The probability that a value of the first array is larger than one of the second; a tie counts as one half."""
    order = np.sort(negative)
    below = np.searchsorted(order, positive, "left") + np.searchsorted(order, positive, "right")
    return float(below.mean() / (2 * len(negative)))


def bins(values: Array, labels: Array) -> Iterator[Bin]:
    """Yield the mean value and the mean label in each of ten bins of equal width."""
    at = np.minimum((values * BINS).astype(int), BINS - 1)
    for one in range(BINS):
        inside = at == one
        count = int(inside.sum())
        means = (float(values[inside].mean()), float(labels[inside].mean())) if count else (0.0, 0.0)
        yield Bin(count, *means)


def calibration_error(values: Array, labels: Array) -> float:
    """The expected calibration error: the mean difference of value and label over the bins, weighted by their size."""
    found = list(bins(values, labels))
    return sum(one.count * abs(one.relevance - one.answerable) for one in found) / max(len(values), 1)


def _recall(
    engine: Engine, query: EvaluationQuery, tuning: Tuning, *, project: str | None, exclude: Sequence[str] = ()
) -> Recall:
    answer = engine.recall(
        query.text,
        project=project,
        profile=query.profile,
        limit=LIMIT,
        now=query.asked_at,
        exclude=exclude,
        tuning=tuning,
        record_use=False,
    )
    if answer.degraded:
        raise Unavailable(f"a recall was degraded, {answer.degraded}: {answer.degraded_reason}")
    return answer


class _Memories:
    """The relevant memories of a set's queries, and those around them."""

    def __init__(self, engine: Engine, evaluation_set: EvaluationSet) -> None:
        self._queries = evaluation_set.queries
        self._by_document: dict[str | None, Memory] = {}
        self._by_session: dict[tuple[str | None, str | None], list[str]] = {}
        for profile in {query.profile for query in self._queries}:
            for memory in all_memories(engine, profile=profile):
                self._by_document[evaluation_set.identify(memory)] = memory
                if memory.session is not None:
                    self._by_session.setdefault((memory.project, memory.session), []).append(memory.id)

    def relevant_projects(self) -> Mapping[str, Collection[str | None]]:
        """The projects of each query's relevant memories."""
        return {query.id: {memory.project for memory in self._relevant(query)} for query in self._queries}

    def relevant_sessions(self, queries: Sequence[EvaluationQuery]) -> Mapping[str, Sequence[str]]:
        """The ids of each query's relevant memories, and of all others in their sessions."""
        return {query.id: sorted(set(chain(*map(self._session, self._relevant(query))))) for query in queries}

    def _relevant(self, query: EvaluationQuery) -> Sequence[Memory]:
        return [self._by_document[id] for id in query.relevance if id in self._by_document]

    def _session(self, memory: Memory) -> Sequence[str]:
        return self._by_session.get((memory.project, memory.session), [memory.id])
