"""A judged set in BEIR's layout as something to import: its documents as memories, its judgements as judgements.

`formats.beir` reads the same layout for measuring, where a wrong line is an error; here it is passed over and said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from retentive.errors import Invalid
from retentive.models import Judgement
from retentive.transfer.formats import Broken, Entry, Item, Judged, Noticed, Skipped
from retentive.transfer.formats.beir import CORPUS, QRELS, QUERIES, BeirQuery, read_qrels, read_queries, to_draft
from retentive.transfer.formats.json_lines import Row, rows
from retentive.transfer.formats.reading import opened
from retentive.transfer.formats.values import to_name, to_object

_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class BeirSet:
    """A judged set."""

    name = "beir"

    def recognises(self, path: Path) -> bool:
        return (path / CORPUS).is_file()

    def read(self, path: Path) -> Iterator[Entry]:
        wanted, problem = _judged(path)
        items: dict[str, Item] = {}
        sessions: dict[str, str | None] = {}
        with opened(path / CORPUS) as file:
            for row in rows(CORPUS, file):
                entry = _document(row.where, row.value, sessions) if isinstance(row, Row) else row
                if isinstance(entry, Item) and entry.key in wanted:
                    items[entry.key] = entry
                yield entry
        yield from problem
        for document, judgements in wanted.items():
            for where, judgement in judgements:
                if document in items:
                    yield Judged(judgement, where, items[document])
                else:
                    yield Skipped(where, "the corpus has no such document")


def _document(where: str, value: Mapping[str, Any], sessions: dict[str, str | None]) -> Item | Skipped:
    id = to_name(value.get("_id"))
    texts = [value.get(name) for name in ("title", "text")]
    text = "\n".join(part for part in texts if isinstance(part, str) and part.strip())
    if id is None or not text:
        return Skipped(where, "a document without an id" if id is None else "it has no text")
    draft = to_draft(id, text, to_object(value.get("metadata")), sessions)
    return Item({item.name: getattr(draft, item.name) for item in fields(draft) if item.name != "profile"}, id, where)


def _judged(folder: Path) -> tuple[dict[str, list[tuple[str, Judgement]]], list[Entry]]:
    """The judgements of each document, and what kept some from being read."""
    found: dict[str, list[tuple[str, Judgement]]] = {}
    if not (folder / QRELS).is_file() or not (folder / QUERIES).is_file():
        return found, [Noticed(str(QRELS), "there are no judgements in this set")]
    problems: list[Entry] = []
    try:
        queries = {query.id: query for query in read_queries(folder)}
        for one in read_qrels(folder):
            where = f"{QRELS}, line {one.line}"
            if one.query not in queries:
                problems.append(Skipped(where, "the set has no such query"))
            else:
                judgement = _judgement(queries[one.query], one.grade)
                found.setdefault(one.document, []).append((where, judgement))
    except Invalid as error:
        problems.append(Broken(QRELS, str(error)))
    return found, problems


def _judgement(query: BeirQuery, grade: int) -> Judgement:
    """Without a memory yet, whose id is known only when it is imported."""
    relevance = min(max(grade, 0), 3)
    return Judgement(query.text, "", relevance, _ANY_TIME, project=query.project, asked_at=query.asked_at)
