"""Judged sets in BEIR's layout: a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`.

Beyond BEIR, the `metadata` of a memory may hold `project`, `session`, `speaker` and `occurred_at`; that of a query
`project`, `asked_at` and `category`. Files are read a line at a time, and what is wrong is named by file and line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retentive.errors import Invalid
from retentive.pipeline.remember import Draft, to_memory, to_time
from retentive.transfer.formats.reading import lines

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
SOURCE = "beir:"
"""What the source of a memory begins with; its id in the corpus follows."""

_OURS = ("project", "session", "speaker", "occurred_at")
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class BeirQuery:
    """A line of `queries.jsonl`."""

    id: str
    text: str
    project: str | None = None
    asked_at: datetime | None = None
    category: str | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """A line of `qrels/test.tsv`: how relevant a document is to a query. 0 and less is not relevant."""

    query: str
    document: str
    grade: int
    line: int


def read_corpus(folder: Path) -> Iterator[Draft]:
    """The memories of a set, in the order of the corpus, each with its id in its source.

    A document of neither title nor text is passed over: there is nothing to remember (public sets have some).
    """
    seen: set[str] = set()
    sessions: dict[str, str | None] = {}
    for where, line in _objects(folder / CORPUS):
        id = _id(where, line, seen)
        text = "\n".join(part for name in ("title", "text") if (part := _text(where, line, name)).strip())
        if not text:
            continue
        try:
            draft = to_draft(id, text, _metadata(where, line), sessions)
            to_memory(draft, now=_ANY_TIME)  # what cannot be stored is named here, while its line is known
        except Invalid as error:
            raise _at(where, str(error)) from None
        yield draft


def to_draft(id: str, text: str, metadata: Mapping[str, Any], sessions: dict[str, str | None]) -> Draft:
    """The memory of a document; `sessions` are those met so far, with their projects."""
    project, session = metadata.get("project"), metadata.get("session")
    # A session of ours is in one project; sets exist that count sessions from 1 in each.
    if isinstance(session, str) and sessions.setdefault(session, project) != project:
        session = f"{project}/{session}"
    return Draft(
        text=text,
        project=project,
        session=session,
        speaker=metadata.get("speaker"),
        occurred=metadata.get("occurred_at"),
        source=f"{SOURCE}{id}",
        metadata={name: value for name, value in metadata.items() if name not in _OURS},
    )


def read_queries(folder: Path) -> Iterator[BeirQuery]:
    """The queries of a set, judged or not."""
    seen: set[str] = set()
    for where, line in _objects(folder / QUERIES):
        id, text, metadata = _id(where, line, seen), _text(where, line, "text"), _metadata(where, line)
        for name in ("project", "category"):
            if not isinstance(metadata.get(name), str | None):
                raise _at(where, f"metadata.{name}: a text, not {metadata[name]!r:.80}")
        try:
            asked_at = to_time(metadata.get("asked_at"), "metadata.asked_at")
        except Invalid as error:
            raise _at(where, str(error)) from None
        yield BeirQuery(id, text, metadata.get("project"), asked_at, metadata.get("category"))


def read_qrels(folder: Path) -> Iterator[Judgement]:
    """The judgements of a set: tab-separated, behind a header."""
    path = folder / QRELS
    for number, line in _lines(path):
        cells = line.rstrip("\r\n").split("\t")
        if number == 1 and cells[0].strip().lower() in ("query-id", "query_id", "qid"):
            continue
        where = f"{path}, line {number}"
        if len(cells) != 3:
            raise _at(where, f"expected query-id, corpus-id and score with tabs between, found {len(cells)} columns")
        try:
            grade = int(cells[2])
        except ValueError:
            raise _at(where, f"the score is a whole number, not '{cells[2]:.80}'") from None
        yield Judgement(cells[0], cells[1], grade, number)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, numbered from 1."""
    try:
        with path.open("rb") as file:
            for line in lines(file):
                if line.text is None:
                    raise _at(f"{path}, line {line.number}", "it is too long")
                if line.replaced:
                    raise _at(f"{path}, line {line.number}", "this is not UTF-8")
                yield line.number, line.text
    except FileNotFoundError:
        layout = f"{CORPUS}, {QUERIES} and {QRELS}"
        raise Invalid(f"there is no {path}; a judged set is a folder with {layout}") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None


def _objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, each with its place."""
    for number, line in _lines(path):
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _at(where, f"this is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise _at(where, f"expected a JSON object, found {type(value).__name__}")
        yield where, value


def _id(where: str, line: Mapping[str, Any], seen: set[str]) -> str:
    id = line.get("_id")
    if type(id) is int:
        id = str(id)
    if not isinstance(id, str) or not id.strip():
        raise _at(where, f"_id: a text that is not empty, not {id!r:.80}")
    if id in seen:
        raise _at(where, f"_id: '{id}' is there twice")
    seen.add(id)
    return id


def _text(where: str, line: Mapping[str, Any], name: str) -> str:
    value = line.get(name, "" if name == "title" else None)
    if value is None and name == "title":
        return ""
    if not isinstance(value, str):
        raise _at(where, f"{name}: a text, not {value!r:.80}" if name in line else f"there is no {name}")
    return value


def _metadata(where: str, line: Mapping[str, Any]) -> Mapping[str, Any]:
    value = line.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _at(where, f"metadata: a JSON object, not {value!r:.80}")
    return value


def _at(where: str, what: str) -> Invalid:
    return Invalid(f"{where}: {what}")
