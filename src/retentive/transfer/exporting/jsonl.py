"""Writes memories with all they have into a file that `retentive import` makes an equal store of."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any

from retentive.errors import Conflict, Invalid
from retentive.models import Judgement, Memory, Serializable
from retentive.pipeline.tuning_history import EXPORTED
from retentive.stores import Record, Store
from retentive.transfer.formats.jsonl import end_line, header_line, judgement_line, kept_line, memory_line

PAGE = 500


@dataclass(frozen=True, slots=True)
class Exported(Serializable):
    """What was written. `left_out` are the profiles that have memories and were not asked for."""

    path: str
    profile: str | None
    memories: int
    vectors: int
    judgements: int
    settings: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """What to export: a profile, perhaps only a project or a session of it; without a profile, the whole store."""

    profile: str | None = None
    project: str | None = None
    session: str | None = None

    def holds(self, memory: Memory) -> bool:
        """Whether a memory is among what was chosen."""
        return (
            self.profile in (None, memory.profile)
            and self.project in (None, memory.project)
            and self.session in (None, memory.session)
        )


def export_to(
    store: Store,
    path: str,
    choice: Choice,
    *,
    vectors: bool,
    force: bool = False,
    output: IO[bytes] | None = None,
    now: datetime,
    progress: Callable[[int], None] = lambda done: None,
) -> Exported:
    """Write what was chosen to a file, which is there whole or not at all; or to an open output."""
    export = _Export(store, choice, vectors, now, progress)
    if output is not None:
        _write_out(export, output)
    else:
        with _replacing(Path(path), force=force) as file:
            export.write(file)
    return Exported(
        path=path,
        profile=choice.profile,
        memories=export.counted["memories"],
        vectors=export.rows,
        judgements=export.counted["judgements"],
        settings=export.counted["kept"],
        left_out=left_out(store, choice),
    )


def _write_out(export: _Export, output: IO[bytes]) -> None:
    try:
        export.write(output)
        output.flush()
    except BrokenPipeError:
        raise  # whoever reads has enough, which is for the program to end on
    except OSError as error:
        raise Invalid(f"the export cannot be written: {error.strerror or error}") from None


def left_out(store: Store, choice: Choice) -> tuple[str, ...]:
    """The profiles that have memories and were not chosen."""
    others = {profile.name for profile in store.profiles() if profile.memories} - {choice.profile}
    return () if choice.profile is None else tuple(sorted(others))


class _Export:
    """One export under way."""

    def __init__(
        self, store: Store, choice: Choice, vectors: bool, now: datetime, progress: Callable[[int], None]
    ) -> None:
        self._store = store
        self._choice = choice
        self._vectors = vectors
        self._now = now
        self._progress = progress
        self.counted = {"memories": 0, "judgements": 0, "kept": 0}
        self.rows = 0

    def write(self, file: IO[bytes]) -> None:
        """Write every line, the last of which counts them."""
        for line in self._lines():
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")

    def _lines(self) -> Iterator[dict[str, Any]]:
        model = self._store.model() if self._vectors else None
        yield header_line(profile=self._choice.profile, model=model, vectors=self._vectors, at=self._now)
        for record in self._records():
            self.counted["memories"] += 1
            rows = record.vectors if self._vectors else None
            self.rows += 0 if rows is None else len(rows)
            yield memory_line(record.memory, rows)
        if self._vectors and self._store.model() != model:
            raise Conflict("the store changed over to another model meanwhile; export it again")
        for judgement in self._judgements():
            self.counted["judgements"] += 1
            yield judgement_line(judgement)
        for name in EXPORTED if self._choice.profile is None else ():
            value = self._store.get_value(name)
            if value is not None:
                self.counted["kept"] += 1
                yield kept_line(name, value)
        yield end_line(self.counted)

    def _records(self) -> Iterator[Record]:
        cursor: str | None = None
        while True:
            page = self._store.walk(cursor=cursor, limit=PAGE)
            yield from (record for record in page.records if self._choice.holds(record.memory))
            self._progress(len(page.records))
            cursor = page.next_cursor
            if cursor is None:
                return

    def _judgements(self) -> Iterator[Judgement]:
        """What was said of the memories that were chosen."""
        for profile in self._store.profiles() if self._choice.profile is None else (None,):
            name = self._choice.profile if profile is None else profile.name
            given = self._store.judgements(name or "")
            for at in range(0, len(given), PAGE):
                some = given[at : at + PAGE]
                chosen = {one.id for one in self._store.get(_judged(some)) if self._choice.holds(one)}
                yield from (judgement for judgement in some if judgement.memory in chosen)


def _judged(judgements: Sequence[Judgement]) -> list[str]:
    return list(dict.fromkeys(judgement.memory for judgement in judgements))


@contextmanager
def _replacing(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A new file that takes its name when it is complete; readable by its owner alone."""
    if path.is_dir():
        raise Invalid(f"{path} is a folder; name a file, such as {path / 'memories.jsonl'}")
    if path.exists() and not path.is_file():
        raise Invalid(f"{path} is not a file that can be replaced; - writes to standard output")
    if path.exists() and not force:
        raise Conflict(f"{path} is there already; say --force to replace it")
    target = Path(os.path.realpath(path))  # a link stays, and what it leads to is written
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
