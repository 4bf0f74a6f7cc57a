"""Evaluation sets: memories, queries, and the relevance of memories to each query."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal

from retentive.errors import Invalid, NotFound
from retentive.evaluation.benchmarks import NAMES, Benchmark, read_benchmark
from retentive.models import Memory, Serializable, counted
from retentive.pipeline.remember import Draft
from retentive.ranking.fusion import count_words
from retentive.transfer.formats.beir import (
    CORPUS,
    QRELS,
    SOURCE,
    BeirQuery,
    Qrel,
    read_corpus,
    read_qrels,
    read_queries,
)

Kind = Literal["answer", "prompt", "never", "idle", "unknown"]
NEVER, ABSTENTION = ("never", "adversarial"), "abstention"
"""Categories of questions without an answer; `ABSTENTION` is how others end."""


@dataclass(frozen=True, slots=True)
class EvaluationQuery:
    """A query, and the relevance of each document that answers it. Other documents are not relevant.

    `irrelevant` are those that were judged not to be relevant, if others were not judged. A profile of None is the
    engine's own.
    """

    id: str
    text: str
    relevance: Mapping[str, int]
    project: str | None = None
    asked_at: datetime | None = None
    category: str | None = None
    profile: str | None = None
    irrelevant: Collection[str] | None = None

    @property
    def kind(self) -> Kind:
        """Whether it has an answer; by its category it may be a prompt, a question about what was never said, or idle.

        A trap (`adversarial`) asks about the wrong person: its relevant memories do not answer it.
        """
        category = self.category or ""
        if category == "idle":
            return "idle"
        if category in NEVER or category.endswith(ABSTENTION):
            return "never"
        if not self.relevance:
            return "unknown"
        return "prompt" if category == "prompt" else "answer"


@dataclass(frozen=True, slots=True)
class CorpusStats(Serializable):
    """The size of a corpus. `searched` is the median number of memories in the scope of a query."""

    memories: int
    projects: int
    sessions: int
    median_words: float
    searched: float


def document_id(memory: Memory) -> str | None:
    """The id that a memory's document has in its evaluation set; None for a memory of other origin."""
    return _document_id(memory.source)


def _document_id(source: str | None) -> str | None:
    return source.removeprefix(SOURCE) if source and source.startswith(SOURCE) else None


@dataclass(frozen=True, slots=True)
class EvaluationSet:
    """Queries, and the memories they are searched in. `drafts` returns a new iterator over the memories at each call.

    `notes` describe irregularities of the set and how they are handled. `identify` returns the id that a memory has in
    the relevance of queries. `unanswerable` are queries without a relevant memory; only abstention is measured with
    them.
    """

    name: str
    queries: tuple[EvaluationQuery, ...]
    corpus: CorpusStats
    drafts: Callable[[], Iterator[Draft]]
    notes: tuple[str, ...] = ()
    identify: Callable[[Memory], str | None] = document_id
    unanswerable: tuple[EvaluationQuery, ...] = ()

    def first(self, count: int) -> EvaluationSet:
        """This set with its first queries only, and all its memories."""
        if count < 1:
            raise Invalid(f"limit_queries: a number from 1, not {count}")
        return replace(self, queries=self.queries[:count], unanswerable=self.unanswerable[:count])


def read_evaluation_set(path: str | Path) -> EvaluationSet:
    """Read and check a set: a folder of BEIR's layout, of which only the queries are held in memory, or a benchmark.

    A benchmark is given as one of its original files, or as a folder of them.
    """
    path = Path(path)
    if not path.exists():
        raise NotFound(f"there is no {path}; an evaluation set is a folder in BEIR's layout, or a benchmark's own file")
    benchmark = None if (path / CORPUS).is_file() else read_benchmark(path)
    if benchmark is not None:
        return from_benchmark(benchmark)
    if path.is_file():
        known = ", ".join(NAMES)
        raise Invalid(f"{path} is not a file of {known}; other evaluation sets are folders in BEIR's layout")
    corpus = partial(read_corpus, path)
    return _checked(path.resolve().name, str(path), corpus, read_queries(path), read_qrels(path))


def from_benchmark(benchmark: Benchmark) -> EvaluationSet:
    """Check a benchmark as a set."""
    name = benchmark.name.lower()
    drafts = benchmark.drafts.__iter__
    read = _checked(name, name, drafts, benchmark.queries, benchmark.qrels, where=lambda one: f"query {one.query}")
    return replace(read, notes=(*benchmark.notes, *read.notes))


def _checked(
    name: str,
    place: str,
    drafts: Callable[[], Iterator[Draft]],
    queries: Iterable[BeirQuery],
    qrels: Iterable[Qrel],
    *,
    where: Callable[[Qrel], str] = lambda one: f"{QRELS}, line {one.line}",
) -> EvaluationSet:
    corpus = _survey(drafts())
    if not corpus.projects:
        raise Invalid(f"{place}: the corpus is empty")
    listed = {query.id: query for query in queries}
    judgements = _Judgements(listed, corpus.projects, where)
    for judgement in qrels:
        judgements.add(judgement)
    asked = [
        EvaluationQuery(
            query.id, query.text, judgements.relevance.get(query.id, {}), query.project, query.asked_at, query.category
        )
        for query in listed.values()
        if query.text.strip()
    ]
    judged = tuple(query for query in asked if query.relevance)
    if not judged or not judgements.reachable:
        raise Invalid(f"{place}: no query of the set has a relevant memory in the corpus")
    unanswerable = tuple(query for query in asked if not query.relevance and query.kind != "unknown")
    notes = judgements.notes(len(judged) + len(unanswerable))
    return EvaluationSet(name, judged, corpus.stats(judged), drafts, notes, unanswerable=unanswerable)


@dataclass(frozen=True, slots=True)
class _Corpus:
    """The project of each document, and the lengths of the documents in words."""

    projects: dict[str, str | None]
    sessions: int
    words: array[int]

    def stats(self, queries: tuple[EvaluationQuery, ...]) -> CorpusStats:
        sizes = Counter(self.projects.values())
        total = len(self.projects)
        searched = median(total if query.project is None else sizes[query.project] for query in queries)
        projects = len({project for project in sizes if project is not None})
        return CorpusStats(total, projects, self.sessions, float(median(self.words)), float(searched))


def _survey(drafts: Iterator[Draft]) -> _Corpus:
    projects: dict[str, str | None] = {}
    sessions: set[str] = set()
    words = array("L")
    for draft in drafts:
        projects[_document_id(draft.source) or ""] = draft.project
        words.append(round(count_words(draft.text)))
        if draft.session is not None:
            sessions.add(draft.session)
    return _Corpus(projects, len(sessions), words)


@dataclass(slots=True)
class _Judgements:
    """Relevance by query, and the lines of judgements that cannot be satisfied."""

    queries: Mapping[str, BeirQuery]
    projects: Mapping[str, str | None]
    where: Callable[[Qrel], str]
    relevance: dict[str, dict[str, int]] = field(default_factory=dict)
    reachable: int = 0
    unreachable: list[Qrel] = field(default_factory=list)
    without_query: list[Qrel] = field(default_factory=list)

    def add(self, judgement: Qrel) -> None:
        query = self.queries.get(judgement.query)
        if query is None:
            self.without_query.append(judgement)
            return
        if judgement.grade <= 0:
            return
        self.relevance.setdefault(query.id, {})[judgement.document] = judgement.grade
        exists = judgement.document in self.projects
        if exists and query.project in (None, self.projects[judgement.document]):
            self.reachable += 1
        else:
            self.unreachable.append(judgement)

    def notes(self, evaluated: int) -> tuple[str, ...]:
        notes = []
        if self.unreachable:
            notes.append(
                f"{counted(len(self.unreachable), 'judgement names', 'judgements name')} a memory that is "
                f"not in the corpus or not in the query's project "
                f"(first: {self.where(self.unreachable[0])}), which counts as not found"
            )
        if self.without_query:
            notes.append(
                f"{counted(len(self.without_query), 'judgement names', 'judgements name')} a query that is "
                f"not in the set (first: {self.where(self.without_query[0])}), and will not be used"
            )
        if evaluated < len(self.queries):
            notes.append(
                f"{counted(len(self.queries) - evaluated, 'query has', 'queries have')} no relevant memory "
                "and will not be used"
            )
        return tuple(notes)
