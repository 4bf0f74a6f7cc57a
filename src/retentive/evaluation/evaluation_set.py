"""Judged sets: memories, queries, and which memories answer which query."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median

from retentive.errors import Invalid
from retentive.models import Memory, Serializable
from retentive.pipeline.remember import Draft
from retentive.transfer.formats.beir import QRELS, SOURCE, BeirQuery, Qrel, read_corpus, read_qrels, read_queries


@dataclass(frozen=True, slots=True)
class EvaluationQuery:
    """Something asked, and how relevant each document is that answers it. What is not named is not relevant.

    It is asked in a profile; None is the engine's own.
    """

    id: str
    text: str
    relevance: Mapping[str, int]
    project: str | None = None
    asked_at: datetime | None = None
    category: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Pool(Serializable):
    """What is searched. `searched` is how many memories a query sees, at the median."""

    memories: int
    projects: int
    sessions: int
    median_words: float
    searched: float


def document_of(source: str | None) -> str | None:
    """The document's id in its set, from the source of its memory; None for a memory of other origin."""
    return source.removeprefix(SOURCE) if source and source.startswith(SOURCE) else None


def by_source(memory: Memory) -> str | None:
    """The document's id in its set, of a memory that was loaded from one."""
    return document_of(memory.source)


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """Queries with their answers among some memories. `drafts` gives the memories anew each time.

    `notes` say what is odd about the set and what was made of it. `identify` gives the id that judgements have for a
    memory.
    """

    name: str
    queries: tuple[EvaluationQuery, ...]
    pool: Pool
    drafts: Callable[[], Iterator[Draft]]
    notes: tuple[str, ...] = ()
    identify: Callable[[Memory], str | None] = by_source

    def first(self, count: int) -> JudgedSet:
        """This set with its first queries only, and all its memories."""
        if count < 1:
            raise Invalid(f"limit_queries: a number from 1, not {count}")
        return replace(self, queries=self.queries[:count])


def read_judged_set(folder: str | Path) -> JudgedSet:
    """The set in a folder of BEIR's layout. All of it is checked, and nothing but the queries is kept in memory."""
    path = Path(folder)
    if not path.is_dir():
        raise Invalid(f"there is no folder {folder}; a judged set is one, in BEIR's layout")
    corpus = _survey(read_corpus(path))
    if not corpus.projects:
        raise Invalid(f"{path}: the corpus is empty")
    listed = {query.id: query for query in read_queries(path)}
    judged = _Judged(listed, corpus.projects)
    for judgement in read_qrels(path):
        judged.add(judgement)
    queries = tuple(_query(query, judged.relevance[query.id]) for query in listed.values() if judged.has(query))
    if not queries or not judged.reachable:
        raise Invalid(f"{path / QRELS}: no query of the set has a relevant memory in the corpus")
    pool = corpus.pool(queries)
    return JudgedSet(path.resolve().name, queries, pool, partial(read_corpus, path), judged.notes(len(queries)))


def _query(query: BeirQuery, relevance: Mapping[str, int]) -> EvaluationQuery:
    return EvaluationQuery(query.id, query.text, relevance, query.project, query.asked_at, query.category)


@dataclass(frozen=True, slots=True)
class _Survey:
    """What there is to find: the project of each document, and how long the documents are."""

    projects: dict[str, str | None]
    sessions: int
    words: array[int]

    def pool(self, queries: tuple[EvaluationQuery, ...]) -> Pool:
        sizes = Counter(self.projects.values())
        total = len(self.projects)
        searched = median(total if query.project is None else sizes[query.project] for query in queries)
        projects = len({project for project in sizes if project is not None})
        return Pool(total, projects, self.sessions, float(median(self.words)), float(searched))


def _survey(drafts: Iterator[Draft]) -> _Survey:
    projects: dict[str, str | None] = {}
    sessions: set[str] = set()
    words = array("L")
    for draft in drafts:
        projects[document_of(draft.source) or ""] = draft.project
        words.append(len(draft.text.split()))
        if draft.session is not None:
            sessions.add(draft.session)
    return _Survey(projects, len(sessions), words)


@dataclass(slots=True)
class _Judged:
    """Judgements by query, and those that cannot be met."""

    queries: Mapping[str, BeirQuery]
    projects: Mapping[str, str | None]
    relevance: dict[str, dict[str, int]] = field(default_factory=dict)
    reachable: int = 0
    astray: list[int] = field(default_factory=list)
    unasked: list[int] = field(default_factory=list)

    def add(self, judgement: Qrel) -> None:
        query = self.queries.get(judgement.query)
        if query is None:
            self.unasked.append(judgement.line)
            return
        if judgement.grade <= 0:
            return
        self.relevance.setdefault(query.id, {})[judgement.document] = judgement.grade
        there = judgement.document in self.projects
        if there and query.project in (None, self.projects[judgement.document]):
            self.reachable += 1
        else:
            self.astray.append(judgement.line)

    def has(self, query: BeirQuery) -> bool:
        """Whether this query can be asked and something is judged relevant to it, if only something that is missing."""
        return query.id in self.relevance and bool(query.text.strip())

    def notes(self, asked: int) -> tuple[str, ...]:
        notes = []
        if self.astray:
            notes.append(
                f"{len(self.astray)} judgements name a memory that is not in the corpus or not in the query's "
                f"project (first: {QRELS}, line {self.astray[0]}); they count as not found"
            )
        if self.unasked:
            notes.append(
                f"{len(self.unasked)} judgements name a query that is not in the set "
                f"(first: {QRELS}, line {self.unasked[0]}); they are left out"
            )
        if asked < len(self.queries):
            notes.append(f"{len(self.queries) - asked} queries have nothing judged relevant and are not asked")
        return tuple(notes)
