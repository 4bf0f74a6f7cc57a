"""Retentive's own export format: JSON Lines with a header, one line for each memory, and a last line with the counts.

    {"retentive": "memories", "version": 1, "profile": null, "vectors": true, "model": {…}}
    {"memory": {"id": "…", "text": "…", …}, "vectors": "base64 of float16, a row for each part"}
    {"judgement": {…}}
    {"kept": {"name": "tuning", "value": "…"}}
    {"end": {"memories": 1, "judgements": 1, "kept": 1}}

A file without a header is read too, like the input of `retentive remember --jsonl`: each line is a memory, of which
only the text is required. Lines and fields that are unknown, perhaps of a later version, are skipped with their name.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from retentive.errors import Invalid, RetentiveError
from retentive.models import Memory, Model, check_name
from retentive.pipeline.remember import Draft, to_memory, to_time
from retentive.stores.values import Judgement, Vector
from retentive.text.normal_form import content_hash
from retentive.transfer.formats.base import (
    ImportEntry,
    ImportIssue,
    ImportItem,
    JudgementEntry,
    SettingEntry,
    Skipped,
    StoredMemory,
    Truncated,
)
from retentive.transfer.formats.json_lines import JsonRow, read_rows
from retentive.transfer.formats.streams import open_file

VERSION = 1
_HEADERS = ("retentive", "recollect")
"""The first key of a header; files written before the project was renamed have the second."""

_DRAFT_FIELDS = frozenset(item.name for item in fields(Draft)) - {"profile"}
_OTHER_FIELDS = frozenset(("profile", "accessed", "access_count", "content_hash"))
_LENGTH_TOLERANCE = 0.01
_NO_END = "the file has no last line with the counts: it is incomplete"
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Jsonl:
    """Memories exported from a store of Retentive, or drafts of memories without a header."""

    name = "jsonl"

    def recognises(self, path: Path) -> bool:
        if not path.is_file() or path.suffix.lower() == ".json":
            return False
        try:
            with open_file(path) as file:
                first = next(read_rows(path.name, file), None)
        except RetentiveError:
            return False
        keys = first.value.keys() if isinstance(first, JsonRow) else ()
        return any(key in keys for key in _HEADERS) or ("text" in keys and "_id" not in keys)

    def read(self, path: Path) -> Iterator[ImportEntry]:
        with open_file(path) as file:
            yield from _read_entries(path.name, read_rows(path.name, file))


def _read_entries(name: str, rows: Iterator[JsonRow | ImportIssue]) -> Iterator[ImportEntry]:
    header: Mapping[str, Any] | None = None
    counts = {"memories": 0, "judgements": 0, "kept": 0}
    last, ended, first = name, False, True
    for row in rows:
        last, before = row.where, last
        if not isinstance(row, JsonRow):
            ended = ended or isinstance(row, Truncated)
            yield row
            continue
        if any(key in row.value for key in _HEADERS) and (first or header is not None):
            if not (first or ended):
                yield Truncated(before, _NO_END)
            try:
                header = _check_header(row.value)
            except Invalid as error:
                if first:
                    raise
                yield Truncated(row.where, str(error))  # the header of a file that was appended to another
                return
            counts, ended = dict.fromkeys(counts, 0), False
        elif header is None:
            yield draft_item(row.where, row.value)
        elif "end" in row.value:
            ended = True
            yield from _check_counts(row.where, counts, row.value["end"])
        else:
            yield _entry(row.where, row.value, header, counts)
        first = False
    if header is not None and not ended:
        yield Truncated(last, _NO_END)


def _check_header(header: Mapping[str, Any]) -> Mapping[str, Any]:
    version = header.get("version")
    if not any(header.get(key) == "memories" for key in _HEADERS) or type(version) is not int:
        raise Invalid(f"this is not an export of memories: its header is {dict(header)!r:.200}")
    if version > VERSION:
        raise Invalid(f"this file has version {version} of a newer Retentive; this one reads up to {VERSION}")
    return {**header, "model": _model(header.get("model"))}


def _model(value: Any) -> Model | None:
    if value is None:
        return None
    try:
        model = Model(**value)
        (model.name + model.revision + model.fingerprint).encode()
        usable = type(model.dimension) is int and model.dimension > 0
    except (TypeError, ValueError, AttributeError):
        usable = False
    if not usable:
        raise Invalid(f"the model in the header is not valid: {value!r:.200}")
    return model


def draft_item(where: str, value: Mapping[str, Any]) -> ImportItem | Skipped:
    """Return the memory of a line without a header. Its profile is that of the import."""
    unknown = sorted(value.keys() - _DRAFT_FIELDS - {"profile"})
    if unknown:
        return Skipped(where, f"unknown field '{unknown[0]:.80}'")
    draft = {name: given for name, given in value.items() if name != "profile" and given is not None}
    replaced = draft.pop("superseded_by", None)
    id = draft.pop("id", None)
    if id is not None:
        return ImportItem(draft, str(id), where, superseded_by=str(replaced or ""))
    # The same text may stand in several places ("ok").
    places = {name: draft[name] for name in ("project", "session", "position", "speaker") if name in draft}
    key = str(draft.get("source") or "")
    return ImportItem(draft, json.dumps([key, places], sort_keys=True) if places else key, where)


def _entry(where: str, value: Mapping[str, Any], header: Mapping[str, Any], counts: dict[str, int]) -> ImportEntry:
    try:
        if "memory" in value:
            counts["memories"] += 1
            model = header["model"]
            return StoredMemory(_memory(value["memory"]), where, _vectors(value.get("vectors"), model), model)
        if "judgement" in value:
            counts["judgements"] += 1
            return JudgementEntry(_judgement(value["judgement"]), where)
        if "kept" in value:
            counts["kept"] += 1
            name, text = str(value["kept"]["name"]), str(value["kept"]["value"])
            (name + text).encode()
            return SettingEntry(name, text, where)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        return Skipped(where, f"not a valid line of this version ({error!r:.200})")
    except Invalid as error:
        return Skipped(where, str(error))
    return Skipped(where, f"a line of the unknown kind '{next(iter(value), '')!s:.40}'")


def _memory(value: Mapping[str, Any]) -> Memory:
    """Return the memory as it was exported, checked like one from a caller."""
    required = {name: value[name] for name in ("id", "created", "profile")}  # else each import would choose others
    given = {name: field for name, field in value.items() if name in _DRAFT_FIELDS and field is not None}
    unknown = sorted(value.keys() - _DRAFT_FIELDS - _OTHER_FIELDS)
    if unknown:
        raise Invalid(f"unknown field '{unknown[0]:.80}'")
    memory = to_memory(Draft(**{**given, **required}), now=_ANY_TIME)
    count = value.get("access_count", 0)
    if type(count) is not int or not 0 <= count < 2**53:
        raise Invalid(f"access_count: a whole number from 0, not {count!r:.80}")
    return memory._replace(
        accessed=to_time(value.get("accessed"), "accessed"),
        access_count=count,
        content_hash=content_hash(memory.text),
    )


def _vectors(value: Any, model: Model | None) -> Vector | None:
    if value is None or model is None:
        return None
    try:
        rows = np.frombuffer(base64.b64decode(value, validate=True), "<f2").reshape(-1, model.dimension)
    except (binascii.Error, ValueError, TypeError):
        raise Invalid(f"vectors: not rows of {model.dimension} numbers in base64") from None
    if not len(rows) or not np.isfinite(rows).all():
        raise Invalid("vectors: some numbers are not finite, or there are none")
    # Scores are inner products: a vector ten times as long would rank before all others. Half floats are off by 1 in
    # 2,000.
    if (np.abs(np.linalg.norm(rows.astype(np.float32), axis=1) - 1) > _LENGTH_TOLERANCE).any():
        raise Invalid("vectors: some are not of length 1")
    return rows.astype(np.float32)


def _judgement(value: Mapping[str, Any]) -> Judgement:
    relevance = value["relevance"]
    if type(relevance) is not int or relevance not in range(4):
        raise Invalid(f"relevance: a whole number from 0 to 3, not {relevance!r:.80}")
    created = to_time(value["created"], "created")
    query = value["query"] if "query" in value else value["question"]  # the name before the project was renamed
    if created is None or not isinstance(query, str) or not query.strip():
        raise Invalid("a judgement needs a query and a time")
    query.encode()
    check_name("profile", value["profile"])
    check_name("project", value.get("project"))
    return Judgement(
        query=query,
        memory=str(UUID(value["memory"])),
        relevance=relevance,
        created=created,
        profile=value["profile"],
        project=value.get("project"),
        asked_at=to_time(value.get("asked_at"), "asked_at"),
    )


def _check_counts(where: str, counts: Mapping[str, int], end: Any) -> Iterator[Truncated]:
    for name, count in counts.items():
        written = end.get(name) if isinstance(end, dict) else None
        if written != count:
            yield Truncated(where, f"{written!s:.20} {name} were written, {count} were read: lines are missing")


def header_line(*, profile: str | None, model: Model | None, vectors: bool, at: datetime) -> dict[str, Any]:
    """Return the first line of a file; a profile of None means the whole store."""
    return {
        "retentive": "memories",
        "version": VERSION,
        "exported": at.isoformat(),
        "profile": profile,
        "vectors": vectors,
        "model": model.to_dict() if model and vectors else None,
    }


def memory_line(memory: Memory, vectors: Vector | None) -> dict[str, Any]:
    """Return the line of a memory, with every field that has a value."""
    whole = {name: value for name, value in memory.to_dict().items() if value not in (None, {})}
    del whole["content_hash"]  # computed from the text
    if vectors is None:
        return {"memory": whole}
    return {"memory": whole, "vectors": base64.b64encode(vectors.astype("<f2").tobytes()).decode()}


def judgement_line(judgement: Judgement) -> dict[str, Any]:
    """Return the line of a relevance judgement."""
    return {"judgement": {name: value for name, value in judgement.to_dict().items() if value is not None}}


def setting_line(name: str, value: str) -> dict[str, Any]:
    """Return the line of a key-value entry."""
    return {"kept": {"name": name, "value": value}}


def end_line(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return the last line, whose counts show whether a file is complete."""
    return {"end": dict(counts)}
