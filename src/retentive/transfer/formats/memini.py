"""Memories as `memini export` writes them.

Documented at github.com/eleboucher/memini, docs/operations/import-export.md, and its exportRecord: an object with
`memories` (or a bare array) of objects with `id`, `namespace`, `tier` (working, episodic, semantic or procedural),
`content`, `summary`, `tags`, `metadata`, `importance`, `created_at`, `updated_at` and `expires_at`; beside them `links`
between namespaces, which have no counterpart here.

The namespace becomes the project. What has no field of its own is kept as metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retentive.transfer.formats import Entry, Item, Noticed, Skipped
from retentive.transfer.formats.documents import looks, read_each
from retentive.transfer.formats.values import given, to_list, to_name, to_object, to_text, to_when

_KNOWN = {
    "id", "namespace", "tier", "content", "summary", "tags",
    "metadata", "importance", "created_at", "updated_at", "expires_at",
}  # fmt: skip
_KINDS = {"working": "episodic", "episodic": "episodic", "semantic": "semantic", "procedural": "semantic"}


class Memini:
    """Memories of memini."""

    name = "memini"

    def recognises(self, path: Path) -> bool:
        keys = frozenset() if path.is_dir() else looks(path, inside=r"\.json$").inner
        return "content" in keys and bool({"tier", "namespace"} & keys)

    def read(self, path: Path) -> Iterator[Entry]:
        return read_each(path, _memory, inside=r"\.json$", lists=("memories",))


def _memory(where: str, value: Mapping[str, Any]) -> Iterator[Entry]:
    text, tier, id = to_text(value.get("content")), to_name(value.get("tier")), to_name(value.get("id"))
    if text is None:
        yield Skipped(where, "it has no 'content', which is its text")
        return
    unknown = sorted(value.keys() - _KNOWN)
    if unknown:
        yield Noticed(where, f"not understood and left out: {', '.join(unknown)[:200]}")
    if tier not in _KINDS:
        yield Noticed(where, f"the unknown tier '{tier!s:.40}' was read as episodic")
    occurred = to_when(value.get("created_at"))
    if occurred is None and value.get("created_at") is not None:
        yield Noticed(where, "its time cannot be understood")
    tags = [one for one in to_list(value.get("tags")) if isinstance(one, str)]
    kept = given(
        tier=tier, tags=tags or None, summary=to_text(value.get("summary")), expires_at=to_text(value.get("expires_at"))
    )
    yield Item(
        given(
            text=text.strip(),
            project=to_name(value.get("namespace")),
            kind=_KINDS.get(tier or "", "episodic"),
            importance=_share(value.get("importance")),
            occurred=occurred,
            source=None if id is None else f"memini:{id}"[:500],
            metadata={**to_object(value.get("metadata")), **kept},
        ),
        id or "",
        where,
    )


def _share(value: Any) -> float | None:
    """A number from 0 to 1."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None
