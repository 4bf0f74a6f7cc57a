"""Retentive's own files: JSONL with a header, a line for each memory with all it has, and an end that counts them.

    {"retentive": "memories", "version": 1, "profile": null, "vectors": true, "model": {…}}
    {"memory": {"id": "…", "text": "…", …}, "vectors": "base64 of float16, a row for each part"}
    {"judgement": {…}}
    {"kept": {"name": "tuning", "value": "…"}}
    {"end": {"memories": 1, "judgements": 1, "kept": 1}}

A file without a header is read too, as `retentive remember --jsonl` reads it: a line is a memory of which only the text
is needed. Lines of kinds or fields that a later version may add are named and passed over.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np

from retentive.errors import Invalid, RetentiveError
from retentive.models import Judgement, Memory, Model
from retentive.pipeline.remember import Draft, check_name, content_hash, to_memory, to_time
from retentive.stores import Vector
from retentive.transfer.formats import Broken, Entry, Item, Judged, Noticed, Setting, Skipped, Stored
from retentive.transfer.formats.json_lines import Row, rows
from retentive.transfer.formats.reading import opened

VERSION = 1
_DRAFT = frozenset(item.name for item in fields(Draft)) - {"profile"}
_OWN = ("accessed", "access_count", "content_hash")
_LENGTH_OFF = 0.01
_NO_END = "the file has no end: it was cut off, or its writing was"
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class Jsonl:
    """Retentive's own lines."""

    name = "jsonl"

    def recognises(self, path: Path) -> bool:
        if not path.is_file() or path.suffix.lower() == ".json":
            return False
        try:
            with opened(path) as file:
                first = next(rows(path.name, file), None)
        except RetentiveError:
            return False
        keys = first.value.keys() if isinstance(first, Row) else ()
        return "retentive" in keys or ("text" in keys and "_id" not in keys)

    def read(self, path: Path) -> Iterator[Entry]:
        with opened(path) as file:
            yield from _entries(path.name, rows(path.name, file))


def _entries(name: str, found: Iterator[Row | Skipped | Noticed | Broken]) -> Iterator[Entry]:
    header: Mapping[str, Any] | None = None
    counted = {"memories": 0, "judgements": 0, "kept": 0}
    last, ended, first = name, False, True
    for row in found:
        last, before = row.where, last
        if not isinstance(row, Row):
            ended = ended or isinstance(row, Broken)
            yield row
            continue
        if "retentive" in row.value and (first or header is not None):
            if not (first or ended):
                yield Broken(before, _NO_END)
            try:
                header = _checked(row.value)
            except Invalid as error:
                if first:
                    raise
                yield Broken(row.where, str(error))  # of a file that was put behind another one
                return
            counted, ended = dict.fromkeys(counted, 0), False
        elif header is None:
            yield _plain(row.where, row.value)
        elif "end" in row.value:
            ended = True
            yield from _compared(row.where, counted, row.value["end"])
        else:
            yield _entry(row.where, row.value, header, counted)
        first = False
    if header is not None and not ended:
        yield Broken(last, _NO_END)


def _checked(header: Mapping[str, Any]) -> Mapping[str, Any]:
    version = header.get("version")
    if header["retentive"] != "memories" or type(version) is not int:
        raise Invalid(f"this is not a file of memories: its header is {dict(header)!r:.200}")
    if version > VERSION:
        raise Invalid(f"this file has version {version}, which a newer Retentive wrote; this one reads up to {VERSION}")
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
        raise Invalid(f"the header's model is not one: {value!r:.200}")
    return model


def _plain(where: str, value: Mapping[str, Any]) -> Entry:
    """A line as `remember --jsonl` takes it; its profile is the one that imports."""
    unknown = sorted(value.keys() - _DRAFT - {"profile"})
    if unknown:
        return Skipped(where, f"there is no field '{unknown[0]:.80}'")
    draft = {name: given for name, given in value.items() if name != "profile" and given is not None}
    key = str(draft.pop("id", None) or draft.get("source") or "")
    return Item(draft, key, where)


def _entry(where: str, value: Mapping[str, Any], header: Mapping[str, Any], counted: dict[str, int]) -> Entry:
    try:
        if "memory" in value:
            counted["memories"] += 1
            model = header["model"]
            return Stored(_memory(value["memory"]), where, _vectors(value.get("vectors"), model), model)
        if "judgement" in value:
            counted["judgements"] += 1
            return Judged(_judgement(value["judgement"]), where)
        if "kept" in value:
            counted["kept"] += 1
            name, text = str(value["kept"]["name"]), str(value["kept"]["value"])
            (name + text).encode()
            return Setting(name, text, where)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        return Skipped(where, f"a line that is not as this version writes it ({error!r:.200})")
    except Invalid as error:
        return Skipped(where, str(error))
    return Skipped(where, f"a line of the unknown kind '{next(iter(value), '')!s:.40}'")


def _memory(value: Mapping[str, Any]) -> Memory:
    """The memory as it was, checked as if it came from a caller."""
    whole = {name: value[name] for name in ("id", "created", "profile")}  # else each import would give it another
    own = {name: given for name, given in value.items() if name in _DRAFT and given is not None}
    unknown = sorted(value.keys() - _DRAFT - set(_OWN) - {"profile"})
    if unknown:
        raise Invalid(f"there is no field '{unknown[0]:.80}'")
    memory = to_memory(Draft(**{**own, **whole}), now=_ANY_TIME)
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
    # Searched by their products: one ten times as long would come before all others. Half floats are off by 1 in 2,000.
    if (np.abs(np.linalg.norm(rows.astype(np.float32), axis=1) - 1) > _LENGTH_OFF).any():
        raise Invalid("vectors: some are not of length 1")
    return rows.astype(np.float32)


def _judgement(value: Mapping[str, Any]) -> Judgement:
    relevance = value["relevance"]
    if type(relevance) is not int or relevance not in range(4):
        raise Invalid(f"relevance: a whole number from 0 to 3, not {relevance!r:.80}")
    created, query = to_time(value["created"], "created"), value["query"]
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


def _compared(where: str, counted: Mapping[str, int], end: Any) -> Iterator[Entry]:
    for name, number in counted.items():
        written = end.get(name) if isinstance(end, dict) else None
        if written != number:
            yield Broken(where, f"{written!s:.20} {name} were written, {number} are here: lines are missing")


def header_line(*, profile: str | None, model: Model | None, vectors: bool, at: datetime) -> dict[str, Any]:
    """The first line of a file; `profile` is None where it holds a whole store."""
    return {
        "retentive": "memories",
        "version": VERSION,
        "exported": at.isoformat(),
        "profile": profile,
        "vectors": vectors,
        "model": model.to_dict() if model and vectors else None,
    }


def memory_line(memory: Memory, vectors: Vector | None) -> dict[str, Any]:
    """A memory with every field that says something, and its vectors if they are wanted."""
    whole = {name: value for name, value in memory.to_dict().items() if value not in (None, {})}
    del whole["content_hash"]  # follows from the text
    if vectors is None:
        return {"memory": whole}
    return {"memory": whole, "vectors": base64.b64encode(vectors.astype("<f2").tobytes()).decode()}


def judgement_line(judgement: Judgement) -> dict[str, Any]:
    """What somebody said of a memory."""
    return {"judgement": {name: value for name, value in judgement.to_dict().items() if value is not None}}


def kept_line(name: str, value: str) -> dict[str, Any]:
    """Something kept under a name."""
    return {"kept": {"name": name, "value": value}}


def end_line(counted: Mapping[str, int]) -> dict[str, Any]:
    """The last line: how many of each there are, so that a file that was cut off is known for one."""
    return {"end": dict(counted)}
