"""Measure relevance: does it tell what answers from what does not, and what does an agent get because of it?

Queries are asked as an agent's prompts are, with the tuning of prompts, and compared with queries without an answer in
three protocols:

never       questions about the same conversation that it does not answer: the hard case
idle        prompts that need no memory ("git push"), against prompts that do
elsewhere   answerable queries asked in another project, or without the sessions of their relevant memories
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from random import Random
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.evaluation.evaluation_set import EvaluationQuery, EvaluationSet
from retentive.evaluation.run import Progress, all_memories, no_progress
from retentive.inference.embedders import estimated_tokens
from retentive.models import Hit, Memory, Recall, Serializable
from retentive.ranking import Tuning
from retentive.ranking.fusion import count_words
from retentive.ranking.rank import threshold

Array = npt.NDArray[np.float64]

BUDGETS = (400, 1000, 2000)
"""The tokens for which is measured whether the evidence is among the notes given."""

GIVEN = 50
"""How many notes a prompt gets at most."""

FIELDS_TOKENS = 36
"""What the fields of a note take in a prompt beside its text: its time, its speaker, and the marks between them."""

SHORT = 40
"""A turn with more words is a longer one."""

BINS = 10

Protocol = Literal["never", "idle", "elsewhere"]
TITLES: Mapping[Protocol, str] = {
    "never": "never said in the same conversation",
    "idle": "idle prompts",
    "elsewhere": "another conversation",
}


@dataclass(frozen=True, slots=True)
class Separation(Serializable):
    """How relevance separates queries with an answer from those without one; shares are from 0 to 1.

    `auroc` is the probability that the answer of an answerable query has a higher relevance than that of an
    unanswerable one. `lost` is the share of answerable queries whose relevant memories were found and all left out by
    the threshold, and `abstained` the share of unanswerable queries that get nothing. `evidence` is the share of
    answerable queries that get a relevant memory within so many tokens.
    """

    protocol: Protocol
    answerable: int
    unanswerable: int
    auroc: float
    lost: float
    abstained: float
    evidence: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Given(Serializable):
    """The mean number of notes that queries of one kind get, and of the tokens of these notes, without a budget."""

    queries: int
    notes: float
    tokens: float


@dataclass(frozen=True, slots=True)
class Calibration(Serializable):
    """The mean difference between the relevance of hits and the share of them that is relevant, in ten bins.

    Most hits have a relevance near 0. So it also has the number of hits at the threshold or above, which are given,
    their mean relevance and the share of them that is relevant; None without any.
    """

    hits: int
    error: float
    given: int
    relevance: float | None
    relevant: float | None


@dataclass(frozen=True, slots=True)
class Abstention(Serializable):
    """How relevance does at one threshold. `judged` is whether the judge gives it; else it is estimated without.

    `hit_auroc` is the probability that a relevant hit has a higher relevance than another one; None without both.
    """

    judged: bool
    min_relevance: float
    elsewhere: str
    protocols: tuple[Separation, ...]
    given: Mapping[str, Given]
    calibration: Mapping[str, Calibration]
    hit_auroc: float | None


class _Asked(NamedTuple):
    """The recall of one query: the relevance of the answer, the notes given best first, and the hits that were read.

    `evidence` has, for each note given, whether it is relevant.
    """

    judged: bool
    relevance: float
    tokens: Sequence[int]
    evidence: Sequence[bool]
    hits: Sequence[tuple[str, float, bool]]

    @property
    def is_lost(self) -> bool:
        return any(relevant for _, _, relevant in self.hits) and not any(self.evidence)

    def has_evidence(self, budget: int) -> bool:
        """Whether a relevant note is among those that fit; the first one is cut if it does not."""
        left = budget
        for at, (tokens, relevant) in enumerate(zip(self.tokens, self.evidence, strict=True)):
            if tokens <= left or at == 0:
                left -= tokens
                if relevant:
                    return True
        return False


def abstain(
    engine: Engine,
    evaluation_set: EvaluationSet,
    *,
    parameters: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Abstention:
    """Ask the queries of a set, and where they have no answer, through the engine that has the set's memories.

    They are asked with the tuning of prompts, some parameters of which may be replaced.
    """
    by_words = {} if engine.embeddings.embedder() is not None else {"semantic_weight": 0.0}
    tuning = engine.tuning.for_prompt({**by_words, **(parameters or {})})
    queries = (*evaluation_set.queries, *evaluation_set.unanswerable)
    answerable = [query for query in queries if query.kind in ("answer", "prompt")]
    ask = _asker(engine, evaluation_set, tuning)
    by_kind: dict[str, list[_Asked]] = {}
    hits: list[tuple[str, float, bool]] = []
    with progress("asking for relevance", total=len(queries) + len(answerable)) as count:
        for query in queries:
            asked = ask(query)
            by_kind.setdefault(query.kind, []).append(asked)
            hits += asked.hits
            count(1)
        places = _elsewhere(engine, evaluation_set, answerable)
        for query, place in zip(answerable, places, strict=True):
            by_kind.setdefault("elsewhere", []).append(ask(query, place))
            count(1)
    answers, prompts = by_kind.get("answer", []), by_kind.get("prompt", [])
    compared: tuple[tuple[Protocol, list[_Asked]], ...] = (
        ("never", answers or prompts),
        ("idle", prompts or answers),
        ("elsewhere", answers + prompts),
    )
    separations = [_separation(one, answered, by_kind.get(one, [])) for one, answered in compared]
    return Abstention(
        judged=any(one.judged for some in by_kind.values() for one in some),
        min_relevance=threshold(tuning),
        elsewhere=" or ".join(sorted({place.name for place in places})),
        protocols=tuple(one for one in separations if one is not None),
        given={
            kind: _given(by_kind[kind])
            for kind in ("answer", "prompt", "never", "idle", "elsewhere")
            if kind in by_kind
        },
        calibration=dict(_calibrations(hits, threshold(tuning))),
        hit_auroc=_hit_auroc(hits),
    )


def _separation(protocol: Protocol, answered: Sequence[_Asked], unanswered: Sequence[_Asked]) -> Separation | None:
    if not answered or not unanswered:
        return None
    return Separation(
        protocol=protocol,
        answerable=len(answered),
        unanswerable=len(unanswered),
        auroc=auroc(*(np.array([one.relevance for one in side]) for side in (answered, unanswered))),
        lost=_share(one.is_lost for one in answered),
        abstained=_share(not one.tokens for one in unanswered),
        evidence={str(budget): _share(one.has_evidence(budget) for one in answered) for budget in BUDGETS},
    )


def _share(values: Iterator[bool]) -> float:
    return float(np.mean([*values]))


def _given(asked: Sequence[_Asked]) -> Given:
    notes, tokens = (np.mean([count(one.tokens) for one in asked]) for count in (len, sum))
    return Given(len(asked), float(notes), float(tokens))


def _calibrations(hits: Sequence[tuple[str, float, bool]], least: float) -> Iterator[tuple[str, Calibration]]:
    for kind in sorted({kind for kind, _, _ in hits}):
        values, labels = np.array([hit[1:] for hit in hits if hit[0] == kind], dtype=np.float64).T
        given = values >= least
        means = (float(side[given].mean()) if given.any() else None for side in (values, labels))
        yield kind, Calibration(len(values), calibration_error(values, labels), int(given.sum()), *means)


def _hit_auroc(hits: Sequence[tuple[str, float, bool]]) -> float | None:
    good, bad = (np.array([value for _, value, label in hits if label is side]) for side in (True, False))
    return auroc(good, bad) if len(good) and len(bad) else None


def auroc(positive: Array, negative: Array) -> float:
    """The probability that a value of the first array is larger than one of the second; a tie counts as one half."""
    order = np.sort(negative)
    below = np.searchsorted(order, positive, "left") + np.searchsorted(order, positive, "right")
    return float(below.mean() / (2 * len(negative)))


def calibration_error(values: Array, labels: Array) -> float:
    """The expected calibration error: the mean difference of value and label in ten bins, weighted by their size."""
    at = np.minimum((values * BINS).astype(int), BINS - 1)
    differences = np.bincount(at, weights=values - labels, minlength=BINS)
    return float(np.abs(differences).sum() / max(len(values), 1))


class _Place(NamedTuple):
    """Where a query is asked: a project, without some memories."""

    name: str
    project: str | None
    exclude: Sequence[str] = ()


def _asker(engine: Engine, evaluation_set: EvaluationSet, tuning: Tuning) -> Callable[..., _Asked]:
    """Return a function that asks a query in its own project, or at another place."""
    embedder = engine.embeddings.embedder()
    count = embedder.count_tokens if embedder else estimated_tokens

    def tokens(hit: Hit) -> int:
        return FIELDS_TOKENS + count(hit.memory.text)

    def ask(query: EvaluationQuery, place: _Place | None = None) -> _Asked:
        answer = engine.recall(
            query.text,
            project=place.project if place else query.project,
            profile=query.profile,
            limit=GIVEN,
            now=query.asked_at,
            exclude=place.exclude if place else (),
            tuning=tuning,
            record_use=False,
        )
        if answer.degraded:
            raise Unavailable(f"a recall was degraded, {answer.degraded}: {answer.degraded_reason}")
        given = sorted(answer.hits, key=lambda hit: -(hit.relevance or 0.0))
        evidence = [evaluation_set.identify(hit.memory) in query.relevance for hit in given]
        hits = [*_read(answer, query, evaluation_set)]
        return _Asked("judge" in answer.stages, answer.relevance, [*map(tokens, given)], evidence, hits)

    return ask


def _read(answer: Recall, query: EvaluationQuery, evaluation_set: EvaluationSet) -> Iterator[tuple[str, float, bool]]:
    """Yield the kind of text, the relevance and the label of each hit that has a relevance and a label."""
    answerable = query.kind not in ("never", "idle")
    for hit in chain(answer.hits, answer.dropped):
        document = evaluation_set.identify(hit.memory)
        relevant = answerable and document in query.relevance
        if hit.relevance is not None and (relevant or query.irrelevant is None or document in query.irrelevant):
            yield _kind_of_text(hit.memory), hit.relevance, relevant


def _kind_of_text(memory: Memory) -> str:
    if not memory.speaker:
        return "notes"
    return f"turns to {SHORT} words" if count_words(memory.text) <= SHORT else "longer turns"


def _elsewhere(engine: Engine, evaluation_set: EvaluationSet, queries: Sequence[EvaluationQuery]) -> list[_Place]:
    """Where each query has no answer: another project, or its own without the sessions of its relevant memories."""
    profiles = {query.profile for query in queries}
    memories = [memory for profile in profiles for memory in all_memories(engine, profile=profile)]
    documents = {evaluation_set.identify(memory): memory for memory in memories}
    relevant = {query.id: [documents[id] for id in query.relevance if id in documents] for query in queries}
    projects = other_projects(queries, {id: {memory.project for memory in some} for id, some in relevant.items()})
    places = []
    for query in queries:
        if query.id in projects:
            places.append(_Place("in another project", projects[query.id]))
            continue
        ids = {memory.id for memory in relevant[query.id]}
        sessions = {(memory.project, memory.session) for memory in relevant[query.id] if memory.session is not None}
        left_out = [one.id for one in memories if one.id in ids or (one.project, one.session) in sessions]
        places.append(_Place("without the sessions of its relevant memories", query.project, left_out))
    return places


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


class Table(NamedTuple):
    """Figures for people to read: a title, the heads of the columns, and lines of cells."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]


def tables(found: Abstention) -> list[Table]:
    """The figures as tables, for the terminal and the reports."""
    budgets = [f"within {budget:,} tokens" for budget in BUDGETS]
    by = "by the judge" if found.judged else "estimated without the judge"
    separation = Table(
        f"Relevance {by}, min_relevance {found.min_relevance:g}",
        ("", "n", "AUROC", "lost", "abstained", *budgets),
        [
            [
                TITLES[one.protocol],
                f"{one.answerable} + {one.unanswerable}",
                f"{one.auroc:.3f}",
                *(f"{100 * share:.1f} %" for share in (one.lost, one.abstained, *one.evidence.values())),
            ]
            for one in found.protocols
        ],
    )
    given = Table(
        "Given to a query, on average",
        ("", "n", "notes", "tokens"),
        [[kind, str(one.queries), f"{one.notes:.1f}", f"{one.tokens:.0f}"] for kind, one in found.given.items()],
    )
    area = "" if found.hit_auroc is None else f"; AUROC {found.hit_auroc:.3f}"
    calibration = Table(
        f"Relevance of a hit{area}",
        ("", "hits", "calibration error", "given", "their relevance", "relevant"),
        [
            [
                kind,
                str(one.hits),
                f"{one.error:.3f}",
                str(one.given),
                *("–" if mean is None else f"{mean:.2f}" for mean in (one.relevance, one.relevant)),
            ]
            for kind, one in found.calibration.items()
        ],
    )
    return [separation, given, calibration]
