"""One export: as what it is written, by what its target is called and is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import IO

from retentive.errors import Invalid
from retentive.stores import Store
from retentive.transfer.exporting.jsonl import Choice, Exported, export_to
from retentive.transfer.exporting.markdown import export_markdown

__all__ = ["Choice", "Exported", "export_file"]


def export_file(
    store: Store,
    place: str,
    chosen: Choice,
    *,
    format: str | None,
    vectors: bool,
    force: bool,
    output: IO[bytes] | None,
    now: datetime,
    progress: Callable[[int], None],
) -> Exported:
    """What was written: jsonl, or markdown where that is named or the place is a folder."""
    folder = output is None and (place.endswith("/") or Path(place).is_dir())
    named = format or ("markdown" if folder else "jsonl")
    if named == "jsonl":
        return export_to(store, place, chosen, vectors=vectors, force=force, output=output, now=now, progress=progress)
    if named != "markdown":
        raise Invalid(f"nothing is exported as '{named}'; there are jsonl and markdown")
    if output is not None or vectors or force:
        raise Invalid("markdown goes into a new folder, without vectors")
    return export_markdown(store, Path(place), chosen, progress=progress)
