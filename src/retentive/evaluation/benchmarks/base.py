"""What is the same for all benchmarks: memories, queries and judgements, added one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from retentive.pipeline.remember import Draft
from retentive.transfer.formats.beir import SOURCE, BeirQuery, Qrel


def parse_time(text: str, form: str) -> datetime:
    """Return the time that a text gives in this form. Benchmarks give no time zone; UTC is taken."""
    return datetime.strptime(text, form).replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Contents:
    """The name of a file without its ending, and its JSON value."""

    name: str
    value: Any


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark. `answers` are the expected answers of its questions, for those that have one.

    `queries` are all questions, also those that have no relevant memory because they cannot be answered.
    """

    name: str
    drafts: tuple[Draft, ...]
    queries: tuple[BeirQuery, ...]
    qrels: tuple[Qrel, ...]
    answers: Mapping[str, str]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Builder:
    """Collects the parts of a benchmark."""

    name: str
    notes: list[str] = field(default_factory=list)
    _drafts: dict[str, Draft] = field(default_factory=dict)
    _queries: dict[str, BeirQuery] = field(default_factory=dict)
    _qrels: list[Qrel] = field(default_factory=list)
    _answers: dict[str, str] = field(default_factory=dict)

    def add_memory(
        self,
        id: str,
        text: str,
        *,
        project: str,
        session: str | None = None,
        speaker: str | None = None,
        occurred: datetime | None = None,
    ) -> None:
        """Add a memory; one without text is left out."""
        if id in self._drafts:
            raise ValueError(f"two memories have the id '{id}'")
        if not text.strip():
            return
        source = f"{SOURCE}{id}"
        self._drafts[id] = Draft(
            text, project=project, session=session, speaker=speaker, occurred=occurred, source=source
        )

    def has_memory(self, id: str) -> bool:
        """Whether a memory with this id was added."""
        return id in self._drafts

    def add_query(
        self,
        query: BeirQuery,
        relevant: Iterable[str],
        *,
        answer: object = None,
    ) -> None:
        """Add a question with the ids of the memories that answer it."""
        if query.id in self._queries:
            raise ValueError(f"two questions have the id '{query.id}'")
        self._queries[query.id] = query
        for document in dict.fromkeys(relevant):
            self._qrels.append(Qrel(query.id, document, 1, len(self._qrels) + 1))
        if answer is not None:
            self._answers[query.id] = str(answer)

    def build(self) -> Benchmark:
        """Return the benchmark."""
        drafts, queries = tuple(self._drafts.values()), tuple(self._queries.values())
        return Benchmark(self.name, drafts, queries, tuple(self._qrels), self._answers, tuple(self.notes))
