"""Memories and judgements written as a judged set in BEIR's layout, which `formats.beir` reads back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retentive.errors import Conflict, Invalid
from retentive.models import Memory
from retentive.transfer.formats.beir import CORPUS, QRELS, QUERIES, BeirQuery


@dataclass(frozen=True, slots=True)
class JudgedQuery:
    """A query, and how relevant each memory is that was judged, by its id."""

    query: BeirQuery
    relevance: Mapping[str, int]


def write_set(folder: Path, memories: Iterable[Memory], queries: Sequence[JudgedQuery]) -> None:
    """Write a set into a folder that has none yet. Memories of a session are given in their order."""
    if any((folder / name).exists() for name in (CORPUS, QUERIES, QRELS)):
        raise Conflict(f"{folder} holds a judged set already; name another folder")
    try:
        (folder / QRELS).parent.mkdir(parents=True, exist_ok=True)
        _write_lines(folder / CORPUS, map(_document, sorted(memories, key=_place)))
        _write_lines(folder / QUERIES, (_query(judged.query) for judged in queries))
        lines = [
            f"{judged.query.id}\t{memory}\t{grade}\n"
            for judged in queries
            for memory, grade in judged.relevance.items()
        ]
        (folder / QRELS).write_text("query-id\tcorpus-id\tscore\n" + "".join(lines), encoding="utf-8")
    except OSError as error:
        raise Invalid(f"the set cannot be written to {folder}: {error.strerror or error}") from None


def _write_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _place(memory: Memory) -> tuple[str, str, int, str]:
    """A reader takes the order of the corpus for the order in a session."""
    return memory.project or "", memory.session or "", memory.position or 0, memory.id


def _document(memory: Memory) -> dict[str, Any]:
    ours = {
        "project": memory.project,
        "session": memory.session,
        "speaker": memory.speaker,
        "occurred_at": memory.when.isoformat(),
    }
    return {"_id": memory.id, "title": "", "text": memory.text, "metadata": {**memory.metadata, **_given(ours)}}


def _query(query: BeirQuery) -> dict[str, Any]:
    asked_at = query.asked_at.isoformat() if query.asked_at else None
    ours = {"project": query.project, "asked_at": asked_at, "category": query.category}
    return {"_id": query.id, "text": query.text, "metadata": _given(ours)}


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
