"""Exports memories with all their fields as JSON Lines, from which `retentive import` restores an equal store."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from retentive.errors import Conflict, Invalid
from retentive.models import Memory, Scope, Serializable
from retentive.pipeline.tuning_history import EXPORTED
from retentive.stores.base import Store
from retentive.stores.damage import Damage
from retentive.stores.rules import scan_pages
from retentive.stores.values import Record, ScanPage
from retentive.transfer.formats.jsonl import end_line, header_line, judgement_line, memory_line, setting_line

PAGE = 500


@dataclass(frozen=True, slots=True)
class ExportResult(Serializable):
    """What was written. `omitted_profiles` are the profiles with memories that were not exported.

    `damaged` are memories that cannot be read, and were left out.
    """

    path: str
    profile: str | None
    memories: int
    vectors: int
    judgements: int
    settings: int
    omitted_profiles: tuple[str, ...]
    damaged: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True)
class ExportFilter:
    """What to export: a profile, or a project or session of it; the whole store if the profile is None."""

    profile: str | None = None
    project: str | None = None
    session: str | None = None

    def includes(self, memory: Memory) -> bool:
        """Whether a memory is exported."""
        return (
            self.profile in (None, memory.profile)
            and self.project in (None, memory.project)
            and self.session in (None, memory.session)
        )

    @property
    def scope(self) -> Scope | None:
        """The scope of what is exported; None is the whole store."""
        if self.profile is None:
            return None
        return Scope(self.profile, self.project, None if self.session is None else (self.session,))

    def damaged(self, store: Store, page: ScanPage) -> list[Damage]:
        """Return the memories of a page of a scan that would be exported, if they were not damaged."""
        if not page.damaged or self.scope is None:
            return list(page.damaged)
        return store.damaged([damage.id for damage in page.damaged], within=self.scope)

    def omitted_profiles(self, store: Store) -> tuple[str, ...]:
        """Return the profiles with memories that are not exported."""
        others = {profile.name for profile in store.profiles() if profile.memories} - {self.profile}
        return () if self.profile is None else tuple(sorted(others))


def export_jsonl(
    store: Store,
    path: str,
    filter: ExportFilter,
    *,
    vectors: bool,
    force: bool = False,
    output: IO[bytes] | None = None,
    now: datetime,
    progress: Callable[[int], None] = lambda done: None,
) -> ExportResult:
    """Write to a file, which exists only when it is complete; or to an open output."""
    export = _Export(store, filter, vectors, now, progress)
    if output is not None:
        _write_output(export, output)
    else:
        with _replace_file(Path(path), force=force) as file:
            export.write(file)
    return ExportResult(
        path=path,
        profile=filter.profile,
        memories=export.counts["memories"],
        vectors=export.vector_rows,
        judgements=export.counts["judgements"],
        settings=export.counts["kept"],
        omitted_profiles=filter.omitted_profiles(store),
        damaged=tuple(export.damaged),
    )


def _write_output(export: _Export, output: IO[bytes]) -> None:
    try:
        export.write(output)
        output.flush()
    except BrokenPipeError:
        raise  # the reader of the pipe has closed it, which ends the program
    except OSError as error:
        raise Invalid(f"the export cannot be written: {error.strerror or error}") from None


class _Export:
    """One export in progress."""

    def __init__(
        self, store: Store, filter: ExportFilter, vectors: bool, now: datetime, progress: Callable[[int], None]
    ) -> None:
        self._store = store
        self._filter = filter
        self._vectors = vectors
        self._now = now
        self._progress = progress
        self.counts = {"memories": 0, "judgements": 0, "kept": 0}
        self.vector_rows = 0
        self.damaged: list[Damage] = []

    def write(self, file: IO[bytes]) -> None:
        """Write all lines."""
        for line in self._lines():
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def _lines(self) -> Iterator[dict[str, Any]]:
        model = self._store.model() if self._vectors else None
        yield header_line(profile=self._filter.profile, model=model, vectors=self._vectors, at=self._now)
        profiles = (
            [one.name for one in self._store.profiles()] if self._filter.profile is None else [self._filter.profile]
        )
        judgements = [one for profile in profiles for one in self._store.judgements(profile)]
        judged, exported = {one.memory for one in judgements}, set[str]()
        for record in self._records():
            self.counts["memories"] += 1
            exported |= judged & {record.memory.id}
            rows = record.alone().vectors if self._vectors else None
            self.vector_rows += 0 if rows is None else len(rows)
            yield memory_line(record.memory, rows)
        if self._vectors and self._store.model() != model:
            raise Conflict("the model of the store changed during the export; export it again")
        for judgement in (one for one in judgements if one.memory in exported):
            self.counts["judgements"] += 1
            yield judgement_line(judgement)
        for name in EXPORTED if self._filter.profile is None else ():
            value = self._store.get_value(name)
            if value is not None:
                self.counts["kept"] += 1
                yield setting_line(name, value)
        yield end_line(self.counts)

    def _records(self) -> Iterator[Record]:
        for page in scan_pages(self._store, limit=PAGE):
            yield from (record for record in page.records if self._filter.includes(record.memory))
            self.damaged += self._filter.damaged(self._store, page)
            self._progress(len(page.records))


@contextmanager
def _replace_file(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """Open a new file that gets its name when it is complete; only its owner can read it."""
    if path.is_dir():
        raise Invalid(f"{path} is a folder; name a file, such as {path / 'memories.jsonl'}")
    if path.exists() and not path.is_file():
        raise Invalid(f"{path} is not a regular file; - writes to standard output")
    if path.exists() and not force:
        raise Conflict(f"{path} already exists; --force replaces it")
    target = Path(os.path.realpath(path))  # the target of a link is written, and the link stays
    temporary: str | None = None
    try:
        with NamedTemporaryFile("wb", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            temporary = file.name
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(target)
        temporary = None
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror or error}") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
