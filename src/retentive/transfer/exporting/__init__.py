"""Exports memories from a store: as JSON Lines, which an import restores completely, or as Markdown for reading."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import IO

from retentive.errors import Invalid
from retentive.stores.base import Store
from retentive.transfer.exporting.jsonl import ExportFilter, ExportResult, export_jsonl
from retentive.transfer.exporting.markdown import export_markdown

__all__ = ["ExportFilter", "ExportResult", "export_file"]


def export_file(
    store: Store,
    path: str,
    filter: ExportFilter,
    *,
    format: str | None,
    vectors: bool,
    force: bool,
    output: IO[bytes] | None,
    now: datetime,
    progress: Callable[[int], None],
) -> ExportResult:
    """Export to a path or to an open output. Without a format it is jsonl, or markdown if the path is a folder."""
    is_folder = output is None and (path.endswith("/") or Path(path).is_dir())
    chosen = format or ("markdown" if is_folder else "jsonl")
    if chosen == "jsonl":
        return export_jsonl(
            store, path, filter, vectors=vectors, force=force, output=output, now=now, progress=progress
        )
    if chosen != "markdown":
        raise Invalid(f"unknown export format '{chosen}'; the formats are jsonl and markdown")
    if output is not None or vectors or force:
        raise Invalid("markdown is exported to a new folder, without vectors")
    return export_markdown(store, Path(path), filter, progress=progress)
