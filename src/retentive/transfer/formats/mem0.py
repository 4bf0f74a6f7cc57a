"""Memories of mem0, saved as JSON: the response of `get_all`, or an export.

Documented at docs.mem0.ai (API reference, "Get Memories"; cookbook "Export Stored Memories"): an array, or an object
with `results` (in an export with a custom schema: `memories`), of objects with `id`, `memory`, `user_id`, `agent_id`,
`run_id`, `metadata`, `categories`, `created_at` and `updated_at`. `metadata.memory_type` is episodic_memory,
semantic_memory or procedural_memory; without it, a memory is a fact. A memory expires after its `expiration_date`
(platform features, "Memory Expiration").

Each user becomes a profile, and the run becomes the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from retentive.transfer.formats.base import ImportEntry, ImportItem, ReadWarning, Skipped
from retentive.transfer.formats.json_documents import document_shape, read_documents
from retentive.transfer.formats.json_lines import parse_time, to_list, to_name, to_object, to_text, without_none

_LISTS = ("results", "memories")
_KNOWN = {
    "id", "memory", "user_id", "agent_id", "app_id", "run_id",
    "actor_id", "role", "metadata", "categories", "created_at", "updated_at",
    "hash", "score", "expiration_date", "immutable", "structured_attributes",
    "valid_from", "valid_to", "superseded_by",
}  # fmt: skip


class Mem0:
    """Memories exported from mem0."""

    name = "mem0"

    def recognises(self, path: Path) -> bool:
        return not path.is_dir() and {"id", "memory"} <= document_shape(path, names=r"\.json$").inner

    def read(self, path: Path) -> Iterator[ImportEntry]:
        return read_documents(path, _memory, names=r"\.json$", lists=_LISTS)


def _memory(where: str, value: Mapping[str, Any]) -> Iterator[ImportEntry]:
    text, metadata = to_text(value.get("memory")), to_object(value.get("metadata"))
    if text is None:
        yield Skipped(where, "no text: 'memory' is missing")
        return
    unknown = sorted(value.keys() - _KNOWN)
    if unknown:
        yield ReadWarning(where, f"unknown fields left out: {', '.join(unknown)[:200]}")
    about = {
        name: to_name(value.get(name)) or to_name(metadata.get(name)) for name in ("user_id", "agent_id", "run_id")
    }
    occurred = parse_time(value.get("created_at"))
    if occurred is None and value.get("created_at") is not None:
        yield ReadWarning(where, "no valid time")
    categories = [one for one in to_list(value.get("categories")) if isinstance(one, str)]
    id = to_name(value.get("id"))
    yield ImportItem(
        without_none(
            text=text.strip(),
            session=about["run_id"] and f"mem0:{about['run_id']}",
            kind="episodic" if metadata.get("memory_type") == "episodic_memory" else "semantic",
            speaker=to_name(value.get("actor_id")),
            occurred=occurred,
            source=None if id is None else f"mem0:{id}"[:500],
            metadata={**metadata, **without_none(categories=categories or None, **about)},
            expires=_end_of_day(value.get("expiration_date")),
            valid_from=parse_time(value.get("valid_from")),
            valid_to=parse_time(value.get("valid_to")),
        ),
        id or "",
        where,
        superseded_by=to_name(value.get("superseded_by")) or "",
        person=about["user_id"],
    )


def _end_of_day(value: Any) -> datetime | None:
    """Return the end of the last day of a memory: it is valid all through its expiration date, in UTC."""
    time = parse_time(value)
    dated = isinstance(value, str) and len(value.strip()) <= len("2030-01-31")
    return time + timedelta(days=1) if time is not None and dated and time.year < 9999 else time
