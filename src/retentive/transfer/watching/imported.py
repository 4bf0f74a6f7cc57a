"""Memories of a watched folder that an import stored before, so that the first sync does not store them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retentive.stores.base import KeyValue
from retentive.transfer.formats.markdown import passage_key
from retentive.transfer.formats.openclaw import file_fields
from retentive.transfer.importing.ids import imported_id
from retentive.transfer.importing.log import import_runs

NOTE_FORMATS = ("markdown", "openclaw")
"""Formats that split text files into passages as a sync does."""


class ImportedPassages:
    """Finds the memories that imports of a folder, of a folder above it or of a part of it may have stored."""

    def __init__(self, store: KeyValue, folder: Path, *, profile: str) -> None:
        runs = (run for run in import_runs(store) if run.profile == profile and run.format in NOTE_FORMATS)
        self._imports = dict.fromkeys((run.format, Path(run.path)) for run in runs)
        self._folder = folder
        self._profile = profile

    def ids(self, path: str, drafts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """Yield the ids that the passages of a file have if they were imported. Ids of imports can be computed."""
        file = self._folder / path
        for format, imported in self._imports:
            if not file.is_relative_to(imported):
                continue
            name = file.name if file == imported else file.relative_to(imported).as_posix()
            fields = file_fields(name, 0) if format == "openclaw" else {}
            repeats: Counter[str] = Counter()
            for draft in drafts:
                when = fields.get("occurred") or draft.get("occurred")
                key = passage_key(name, draft["text"], repeats)
                yield imported_id(self._profile, format, key, draft["text"], when=when)
