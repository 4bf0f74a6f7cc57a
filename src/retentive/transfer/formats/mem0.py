"""Memories as mem0 gives them out: the answer of `get_all`, or an export, saved as JSON.

Documented at docs.mem0.ai (API reference, "Get Memories"; cookbook "Export Stored Memories"): an array, or an object
with `results` (an export made to a schema of one's own: `memories`), of objects with `id`, `memory`, `user_id`,
`agent_id`, `run_id`, `metadata`, `categories`, `created_at` and `updated_at`. `metadata.memory_type` is
episodic_memory, semantic_memory or procedural_memory; without it, mem0 keeps facts.

The user becomes the project, so that several users' memories stay apart, and the run becomes the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retentive.transfer.formats import Entry, Item, Noticed, Skipped
from retentive.transfer.formats.documents import looks, read_each
from retentive.transfer.formats.values import given, to_list, to_name, to_object, to_text, to_when

_LISTS = ("results", "memories")
_KNOWN = {
    "id", "memory", "user_id", "agent_id", "app_id", "run_id",
    "actor_id", "role", "metadata", "categories", "created_at", "updated_at",
    "hash", "score", "expiration_date", "immutable", "structured_attributes",
}  # fmt: skip


class Mem0:
    """Memories of mem0."""

    name = "mem0"

    def recognises(self, path: Path) -> bool:
        return not path.is_dir() and {"id", "memory"} <= looks(path, inside=r"\.json$").inner

    def read(self, path: Path) -> Iterator[Entry]:
        return read_each(path, _memory, inside=r"\.json$", lists=_LISTS)


def _memory(where: str, value: Mapping[str, Any]) -> Iterator[Entry]:
    text, metadata = to_text(value.get("memory")), to_object(value.get("metadata"))
    if text is None:
        yield Skipped(where, "it has no 'memory', which is its text")
        return
    unknown = sorted(value.keys() - _KNOWN)
    if unknown:
        yield Noticed(where, f"not understood and left out: {', '.join(unknown)[:200]}")
    about = {
        name: to_name(value.get(name)) or to_name(metadata.get(name)) for name in ("user_id", "agent_id", "run_id")
    }
    occurred = to_when(value.get("created_at"))
    if occurred is None and value.get("created_at") is not None:
        yield Noticed(where, "its time cannot be understood")
    categories = [one for one in to_list(value.get("categories")) if isinstance(one, str)]
    id = to_name(value.get("id"))
    yield Item(
        given(
            text=text.strip(),
            project=about["user_id"],
            session=about["run_id"] and f"mem0:{about['run_id']}",
            kind="episodic" if metadata.get("memory_type") == "episodic_memory" else "semantic",
            speaker=to_name(value.get("actor_id")),
            occurred=occurred,
            source=None if id is None else f"mem0:{id}"[:500],
            metadata={**metadata, **given(categories=categories or None, **about)},
        ),
        id or "",
        where,
    )
