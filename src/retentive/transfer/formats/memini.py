"""The output of `memini export`.

Documented at github.com/eleboucher/memini, docs/operations/import-export.md, and its exportRecord: an object with
`memories` (or only the array) of objects with `id`, `namespace`, `tier` (working, episodic, semantic or procedural),
`content`, `summary`, `tags`, `metadata`, `importance`, `created_at`, `updated_at` and `expires_at`, and where a memory
was replaced `valid_from`, `valid_to` and `superseded_by`. Its `links` between namespaces have no equivalent here.

The namespace becomes the project. Fields without an equivalent become metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retentive.transfer.formats.base import ImportEntry, ImportItem, ReadWarning, Skipped
from retentive.transfer.formats.json_documents import document_shape, read_documents
from retentive.transfer.formats.json_lines import parse_time, to_list, to_name, to_object, to_text, without_none

_KNOWN = {
    "id", "namespace", "tier", "content", "summary", "tags",
    "metadata", "importance", "created_at", "updated_at", "expires_at",
    "valid_from", "valid_to", "superseded_by",
}  # fmt: skip
_KINDS = {"working": "episodic", "episodic": "episodic", "semantic": "semantic", "procedural": "semantic"}


class Memini:
    """Memories exported from memini."""

    name = "memini"

    def recognises(self, path: Path) -> bool:
        keys = frozenset() if path.is_dir() else document_shape(path, names=r"\.json$").inner
        return "content" in keys and bool({"tier", "namespace"} & keys)

    def read(self, path: Path) -> Iterator[ImportEntry]:
        return read_documents(path, _memory, names=r"\.json$", lists=("memories",))


def _memory(where: str, value: Mapping[str, Any]) -> Iterator[ImportEntry]:
    text, tier, id = to_text(value.get("content")), to_name(value.get("tier")), to_name(value.get("id"))
    if text is None:
        yield Skipped(where, "no text: 'content' is missing")
        return
    unknown = sorted(value.keys() - _KNOWN)
    if unknown:
        yield ReadWarning(where, f"unknown fields left out: {', '.join(unknown)[:200]}")
    if tier not in _KINDS:
        yield ReadWarning(where, f"the unknown tier '{tier!s:.40}' was read as episodic")
    occurred = parse_time(value.get("created_at"))
    if occurred is None and value.get("created_at") is not None:
        yield ReadWarning(where, "no valid time")
    tags = [one for one in to_list(value.get("tags")) if isinstance(one, str)]
    extra = without_none(tier=tier, tags=tags or None, summary=to_text(value.get("summary")))
    yield ImportItem(
        without_none(
            text=text.strip(),
            project=to_name(value.get("namespace")),
            kind=_KINDS.get(tier or "", "episodic"),
            importance=_importance(value.get("importance")),
            occurred=occurred,
            source=None if id is None else f"memini:{id}"[:500],
            metadata={**to_object(value.get("metadata")), **extra},
            expires=parse_time(value.get("expires_at")),
            valid_from=parse_time(value.get("valid_from")),
            valid_to=parse_time(value.get("valid_to")),
        ),
        id or "",
        where,
        superseded_by=to_name(value.get("superseded_by")) or "",
    )


def _importance(value: Any) -> float | None:
    """Return a number from 0 to 1; None for any other value."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None
