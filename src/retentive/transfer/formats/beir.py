"""Evaluation sets in BEIR's layout: a folder with `corpus.jsonl`, `queries.jsonl` and `qrels/test.tsv`.

Beyond BEIR, the `metadata` of a document may hold `project`, `session`, `speaker` and `occurred_at`; that of a query
`project`, `asked_at` and `category`. `unanswerable.json` may hold a list of queries that have no relevant document, of
category `never` or `idle`. `read_corpus`, `read_queries` and `read_qrels` read a set for an evaluation, where
an invalid line is an error that names its file and line. `Beir` reads it for an import, where such a line is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from retentive.errors import Conflict, Invalid
from retentive.models import Memory
from retentive.pipeline.remember import Draft, to_memory, to_time
from retentive.stores.values import Judgement
from retentive.transfer.formats.base import ImportEntry, ImportItem, JudgementEntry, ReadWarning, Skipped, Truncated
from retentive.transfer.formats.json_lines import JsonRow, read_rows, to_name, to_object, without_none
from retentive.transfer.formats.streams import open_file, read_lines

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"
UNANSWERABLE = "unanswerable.json"
SOURCE = "beir:"
"""The prefix of a memory's source; the id in the corpus follows."""

_OWN_METADATA = ("project", "session", "speaker", "occurred_at")
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
class Qrel:
    """A line of `qrels/test.tsv`: how relevant a document is to a query. A grade of 0 or less is not relevant."""

    query: str
    document: str
    grade: int
    line: int


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query, and the relevance of each judged memory by its id."""

    query: BeirQuery
    relevance: Mapping[str, int]


def read_corpus(folder: Path) -> Iterator[Draft]:
    """Yield the memories of a set in the order of the corpus, each with its id in its source.

    A document with neither title nor text is skipped: public sets have some.
    """
    seen: set[str] = set()
    sessions: dict[str, str | None] = {}
    for where, line in _read_objects(folder / CORPUS):
        id = _id(where, line, seen)
        text = "\n".join(part for name in ("title", "text") if (part := _text(where, line, name)).strip())
        if not text:
            continue
        try:
            draft = _draft(id, text, _metadata(where, line), sessions)
            to_memory(draft, now=_ANY_TIME)  # validates it while the line is known
        except Invalid as error:
            raise _invalid(where, str(error)) from None
        yield draft


def read_queries(folder: Path) -> Iterator[BeirQuery]:
    """Yield the queries of a set, judged or not, and those that have no answer."""
    seen: set[str] = set()
    for where, line in chain(_read_objects(folder / QUERIES), _read_unanswerable(folder / UNANSWERABLE)):
        id, text, metadata = _id(where, line, seen), _text(where, line, "text"), _metadata(where, line)
        for name in ("project", "category"):
            if not isinstance(metadata.get(name), str | None):
                raise _invalid(where, f"metadata.{name}: a text, not {metadata[name]!r:.80}")
        try:
            asked_at = to_time(metadata.get("asked_at"), "metadata.asked_at")
        except Invalid as error:
            raise _invalid(where, str(error)) from None
        yield BeirQuery(id, text, metadata.get("project"), asked_at, metadata.get("category"))


def read_qrels(folder: Path) -> Iterator[Qrel]:
    """Yield the relevance judgements of a set: tab-separated, after a header."""
    path = folder / QRELS
    for number, line in _read_text_lines(path):
        cells = line.rstrip("\r\n").split("\t")
        if number == 1 and cells[0].strip().lower() in ("query-id", "query_id", "qid"):
            continue
        where = f"{path}, line {number}"
        if len(cells) != 3:
            raise _invalid(
                where, f"expected query-id, corpus-id and score with tabs between, found {len(cells)} columns"
            )
        try:
            grade = int(cells[2])
        except ValueError:
            raise _invalid(where, f"the score is a whole number, not '{cells[2]:.80}'") from None
        yield Qrel(cells[0], cells[1], grade, number)


def _draft(id: str, text: str, metadata: Mapping[str, Any], sessions: dict[str, str | None]) -> Draft:
    """Return the memory of a document; `sessions` are those read so far, with their projects."""
    project, session = metadata.get("project"), metadata.get("session")
    # A session belongs to one project; some sets number the sessions of each project from 1.
    if isinstance(session, str) and sessions.setdefault(session, project) != project:
        session = f"{project}/{session}"
    return Draft(
        text=text,
        project=project,
        session=session,
        speaker=metadata.get("speaker"),
        occurred=metadata.get("occurred_at"),
        source=f"{SOURCE}{id}",
        metadata={name: value for name, value in metadata.items() if name not in _OWN_METADATA},
    )


def _read_text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, numbered from 1."""
    try:
        with path.open("rb") as file:
            for line in read_lines(file):
                if line.text is None:
                    raise _invalid(f"{path}, line {line.number}", "it is too long")
                if line.replaced:
                    raise _invalid(f"{path}, line {line.number}", "it is not UTF-8")
                yield line.number, line.text
    except FileNotFoundError:
        layout = f"{CORPUS}, {QUERIES} and {QRELS}"
        raise Invalid(f"there is no {path}; an evaluation set is a folder with {layout}") from None
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror or error}") from None


def _read_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the JSON objects of a file, each with its location."""
    for number, line in _read_text_lines(path):
        where = f"{path}, line {number}"
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise _invalid(where, f"it is not JSON ({error})") from None
        if not isinstance(value, dict):
            raise _invalid(where, f"expected a JSON object, found {type(value).__name__}")
        yield where, value


def _read_unanswerable(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the queries that have no answer, each with its location; without a category, they are `never`."""
    if not path.is_file():
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _invalid(str(path), f"it cannot be read as JSON ({error})") from None
    if not isinstance(found, list) or not all(isinstance(query, dict) for query in found):
        raise _invalid(str(path), "expected a list of JSON objects")
    for number, query in enumerate(found, 1):
        where = f"{path}, query {number}"
        yield where, {**query, "metadata": {"category": "never", **_metadata(where, query)}}


def _id(where: str, line: Mapping[str, Any], seen: set[str]) -> str:
    id = line.get("_id")
    if type(id) is int:
        id = str(id)
    if not isinstance(id, str) or not id.strip():
        raise _invalid(where, f"_id: a text that is not empty, not {id!r:.80}")
    if id in seen:
        raise _invalid(where, f"_id: '{id}' appears twice")
    seen.add(id)
    return id


def _text(where: str, line: Mapping[str, Any], name: str) -> str:
    value = line.get(name, "" if name == "title" else None)
    if value is None and name == "title":
        return ""
    if not isinstance(value, str):
        raise _invalid(where, f"{name}: a text, not {value!r:.80}" if name in line else f"there is no {name}")
    return value


def _metadata(where: str, line: Mapping[str, Any]) -> Mapping[str, Any]:
    value = line.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _invalid(where, f"metadata: a JSON object, not {value!r:.80}")
    return value


def _invalid(where: str, problem: str) -> Invalid:
    return Invalid(f"{where}: {problem}")


class Beir:
    """An evaluation set to import: its documents as memories, its relevance judgements as judgements."""

    name = "beir"

    def recognises(self, path: Path) -> bool:
        return (path / CORPUS).is_file()

    def read(self, path: Path) -> Iterator[ImportEntry]:
        judgements, problems = _read_judgements(path)
        items: dict[str, ImportItem] = {}
        sessions: dict[str, str | None] = {}
        with open_file(path / CORPUS) as file:
            for row in read_rows(CORPUS, file):
                entry = _item(row.where, row.value, sessions) if isinstance(row, JsonRow) else row
                if isinstance(entry, ImportItem) and entry.key in judgements:
                    items[entry.key] = entry
                yield entry
        yield from problems
        for document, of_document in judgements.items():
            for where, judgement in of_document:
                if document in items:
                    yield JudgementEntry(judgement, where, items[document])
                else:
                    yield Skipped(where, "the corpus has no such document")


def _item(where: str, value: Mapping[str, Any], sessions: dict[str, str | None]) -> ImportItem | Skipped:
    id = to_name(value.get("_id"))
    texts = [value.get(name) for name in ("title", "text")]
    text = "\n".join(part for part in texts if isinstance(part, str) and part.strip())
    if id is None or not text:
        return Skipped(where, "a document without an id" if id is None else "no text")
    draft = _draft(id, text, to_object(value.get("metadata")), sessions)
    return ImportItem(
        {item.name: getattr(draft, item.name) for item in fields(draft) if item.name != "profile"}, id, where
    )


def _read_judgements(folder: Path) -> tuple[dict[str, list[tuple[str, Judgement]]], list[ImportEntry]]:
    """Return the judgements of each document, and what prevented others from being read.

    They name no memory yet: its id is known only when it is imported.
    """
    found: dict[str, list[tuple[str, Judgement]]] = {}
    if not (folder / QRELS).is_file() or not (folder / QUERIES).is_file():
        return found, [ReadWarning(str(QRELS), "this set has no judgements")]
    problems: list[ImportEntry] = []
    try:
        queries = {query.id: query for query in read_queries(folder)}
        for qrel in read_qrels(folder):
            where, query = f"{QRELS}, line {qrel.line}", queries.get(qrel.query)
            if query is None:
                problems.append(Skipped(where, "the set has no such query"))
                continue
            relevance = min(max(qrel.grade, 0), 3)
            judgement = Judgement(query.text, "", relevance, _ANY_TIME, project=query.project, asked_at=query.asked_at)
            found.setdefault(qrel.document, []).append((where, judgement))
    except Invalid as error:
        problems.append(Truncated(QRELS, str(error)))
    return found, problems


def write_set(folder: Path, memories: Iterable[Memory], queries: Sequence[JudgedQuery]) -> None:
    """Write memories and judged queries as a new set. Memories of a session are written in their order."""
    if any((folder / name).exists() for name in (CORPUS, QUERIES, QRELS)):
        raise Conflict(f"{folder} already has an evaluation set; name another folder")
    try:
        (folder / QRELS).parent.mkdir(parents=True, exist_ok=True)
        # A reader takes the order in the corpus for the order in a session.
        in_order = sorted(memories, key=lambda one: (one.project or "", one.session or "", one.position or 0, one.id))
        _write_lines(folder / CORPUS, map(_document_line, in_order))
        _write_lines(folder / QUERIES, (_query_line(judged.query) for judged in queries))
        qrels = [
            f"{judged.query.id}\t{memory}\t{grade}\n"
            for judged in queries
            for memory, grade in judged.relevance.items()
        ]
        (folder / QRELS).write_text("query-id\tcorpus-id\tscore\n" + "".join(qrels), encoding="utf-8")
    except OSError as error:
        raise Invalid(f"the set cannot be written to {folder}: {error.strerror or error}") from None


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _document_line(memory: Memory) -> dict[str, Any]:
    own = without_none(
        project=memory.project, session=memory.session, speaker=memory.speaker, occurred_at=memory.when.isoformat()
    )
    return {"_id": memory.id, "title": "", "text": memory.text, "metadata": {**memory.metadata, **own}}


def _query_line(query: BeirQuery) -> dict[str, Any]:
    asked_at = query.asked_at.isoformat() if query.asked_at else None
    metadata = without_none(project=query.project, asked_at=asked_at, category=query.category)
    return {"_id": query.id, "text": query.text, "metadata": metadata}
