"""Brings what a format reads into a store: a batch at a time, nothing twice, every skipped thing counted and said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from retentive.errors import Invalid, Unavailable
from retentive.inference.embedders import Embedder
from retentive.models import Judgement, Memory, Serializable
from retentive.pipeline.remember import Draft, to_memory
from retentive.stores import Store
from retentive.transfer.formats import Broken, Entry, Format, Item, Judged, Noticed, Setting, Skipped, Stored
from retentive.transfer.formats.passages import CutsTexts, fitting
from retentive.transfer.formats.registry import find_format, recognise
from retentive.transfer.formats.text_files import printable
from retentive.transfer.importing.id_set import Seen
from retentive.transfer.importing.ids import imported_id, moved_id
from retentive.transfer.importing.log import RunLog
from retentive.transfer.importing.side_records import Asides, Verdict
from retentive.transfer.importing.writing import Ready, Writer, Written

BATCH = 256
BATCH_WITHOUT_VECTORS = 1000
MOST_CHARACTERS = 4_000_000
"""A batch of long texts is cut here, so that it fits into memory."""

MOST_REASONS = 40
OTHER = "other reasons"

Remark = Skipped | Noticed | Broken


@dataclass(frozen=True, slots=True)
class Imported(Serializable):
    """What an import did, or would do.

    `run` is its name if it added anything. `skipped` and `noticed` count by reason. `broken` tells where a file could
    not be read on; it is empty where everything was read. `waiting` were stored without a vector.
    """

    format: str
    path: str
    dry_run: bool
    run: str | None
    resumed: bool
    added: int
    there: int
    judgements: int
    settings: int
    waiting: int
    skipped: Mapping[str, int]
    noticed: Mapping[str, int]
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """Where imported memories go: into a profile (None: each into its own, where the file says), all into a project."""

    default_profile: str
    profile: str | None = None
    project: str | None = None


def import_file(
    store: Store,
    embedder: Embedder | None,
    format: Format,
    path: Path,
    *,
    target: Target,
    clock: Callable[[], datetime],
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    report: Callable[[Remark], None] = lambda remark: None,
) -> Imported:
    """Import everything that a format reads at a path. Done again, it adds what is new and nothing twice.

    `progress` hears how many memories were read since it last heard; `report` hears of everything that was not taken
    as it stands there.
    """
    now = clock()
    profile = target.profile or target.default_profile
    log = RunLog(store, format=format.name, path=printable(str(path.resolve())), profile=profile, now=now)
    remarks = Remarks(report)
    work = _Import(store, embedder, format.name, target, now, None if dry_run else log, remarks)
    work.take(format.read(path), progress)
    run = None if dry_run else log.finish(added=work.written.added, at=clock())
    return Imported(
        format=format.name,
        path=printable(str(path)),
        dry_run=dry_run,
        run=None if run is None else run.id,
        resumed=log.resumed and not dry_run,
        added=work.written.added,
        there=work.there,
        judgements=work.judgements,
        settings=work.settings,
        waiting=work.written.waiting,
        skipped=dict(remarks.skipped),
        noticed=dict(remarks.noticed),
        broken=tuple(remarks.broken),
    )


def choose_format(path: Path, name: str | None, embedder: Callable[[], Embedder | None]) -> Format:
    """The format that was named, or that a path looks like; long texts are cut so that the model reads each part whole.

    So importing again under another model may cut otherwise, and then adds what it cut otherwise.
    """
    found = find_format(name) if name else recognise(path)
    if not isinstance(found, CutsTexts):
        return found
    try:
        return found.cutting(fitting(embedder()))
    except Unavailable:
        return found


def count_memories(format: Format, path: Path) -> int:
    """How many memories a format reads at a path."""
    return sum(isinstance(entry, Item | Stored) for entry in format.read(path))


class Remarks:
    """Counts by reason what was not taken as it stands, and passes it on one by one."""

    def __init__(self, report: Callable[[Remark], None]) -> None:
        self._report = report
        self.skipped: Counter[str] = Counter()
        self.noticed: Counter[str] = Counter()
        self.broken: list[str] = []

    def take(self, remark: Remark) -> None:
        """Count one. A file may have any number of reasons: beyond some they are counted together."""
        self._report(remark)
        if isinstance(remark, Broken):
            if len(self.broken) < MOST_REASONS:
                self.broken.append(_storable(f"{remark.where}: {remark.reason}"))
            return
        counter, reason = (self.skipped, remark.reason) if isinstance(remark, Skipped) else (self.noticed, remark.what)
        reason = _storable(reason)
        counter[reason if reason in counter or len(counter) < MOST_REASONS else OTHER] += 1

    def skip(self, where: str, reason: str) -> None:
        """Count something that was passed over."""
        self.take(Skipped(where, reason))


class _Import:
    """One import under way; without a log, a trial."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        format: str,
        target: Target,
        now: datetime,
        log: RunLog | None,
        remarks: Remarks,
    ) -> None:
        self._store = store
        self._format = format
        self._target = target
        self._now = now
        self._remarks = remarks
        self._asides = Asides(store, log, remarks.skip)
        self._writer = None if log is None else self._open_writer(embedder, log)
        self._seen = Seen() if log is None else None
        self._limit = BATCH_WITHOUT_VECTORS if embedder is None else BATCH
        self._ready: list[Ready] = []
        self._size = 0
        self._said: list[Judged] = []
        self.written = Written()
        self.there = self.judgements = self.settings = 0

    def _open_writer(self, embedder: Embedder | None, log: RunLog) -> Writer:
        return Writer(
            self._store,
            embedder,
            log,
            refuse=lambda ready, reason: self._remarks.skip(ready.where, reason),
            notice=lambda ready, what: self._remarks.take(Noticed(ready.where, what)),
        )

    def take(self, entries: Iterable[Entry], progress: Callable[[int], None]) -> None:
        """Take everything, and leave nothing half done."""
        settings: list[Setting] = []
        for entry in entries:
            if isinstance(entry, Item | Stored):
                self._prepare(entry, progress)
            elif isinstance(entry, Judged):
                self._said.append(entry)
                if len(self._said) >= self._limit:
                    self._flush(progress)
            elif isinstance(entry, Setting):
                settings.append(entry)
            else:
                self._remarks.take(entry)
        self._flush(progress)
        self.settings = self._asides.keep_settings(settings, into_profile=self._target.profile is not None)

    def _prepare(self, entry: Item | Stored, progress: Callable[[int], None]) -> None:
        try:
            ready = self._of_item(entry) if isinstance(entry, Item) else self._of_stored(entry)
        except Invalid as error:
            self._remarks.skip(entry.where, str(error))
            progress(1)
            return
        self._ready.append(ready)
        self._size += len(ready.memory.text)
        if len(self._ready) >= self._limit or self._size >= MOST_CHARACTERS:
            self._flush_memories(progress)

    def _of_item(self, item: Item) -> Ready:
        profile = self._target.profile or self._target.default_profile
        fields: dict[str, Any] = {**item.draft, "profile": profile}
        if self._target.project is not None:
            fields["project"] = self._target.project
        memory = to_memory(Draft(**fields), now=self._now)
        return Ready(memory._replace(id=self._id(item, memory)), item.where)

    def _id(self, item: Item, memory: Memory) -> str:
        told = memory.occurred or (memory.created if item.draft.get("created") else None)
        return imported_id(memory.profile, self._format, item.key, memory.text, when=told)

    def _of_stored(self, entry: Stored) -> Ready:
        memory, profile = entry.memory, self._target.profile
        if profile is not None and profile != memory.profile:
            memory = memory._replace(id=moved_id(profile, memory.id), profile=profile)
        if self._target.project is not None:
            memory = memory._replace(project=self._target.project)
        return Ready(memory, entry.where, entry.vectors, entry.model)

    def _flush(self, progress: Callable[[int], None]) -> None:
        self._flush_memories(progress)
        said, self._said = self._said, []
        self.judgements += self._asides.judge(list(self._verdicts(said)))

    def _flush_memories(self, progress: Callable[[int], None]) -> None:
        batch, self._ready, self._size = self._ready, [], 0
        first: dict[str, Ready] = {}
        for ready in batch:
            first.setdefault(ready.memory.id, ready)
        known = self._store.keys(list(first)) if first else {}
        new = [ready for id, ready in first.items() if id not in known and (self._seen is None or self._seen.add(id))]
        done = self._writer.add(new) if self._writer and new else Written(len(new))
        self.written += done
        self.there += len(batch) - done.added - done.refused
        progress(len(batch))

    def _verdicts(self, said: Iterable[Judged]) -> Iterator[Verdict]:
        for one in said:
            try:
                yield Verdict(self._of_judged(one), one.where)
            except Invalid:  # the item itself was passed over, with its own reason
                self._remarks.skip(one.where, "the memory that was judged is not there")

    def _of_judged(self, one: Judged) -> Judgement:
        judgement, profile = one.judgement, self._target.profile
        if judgement.project is not None and self._target.project is not None:
            judgement = replace(judgement, project=self._target.project)
        if one.item is not None:
            memory = self._of_item(one.item).memory
            return replace(judgement, memory=memory.id, profile=memory.profile, created=self._now)
        if profile is None or profile == judgement.profile:
            return judgement
        return replace(judgement, memory=moved_id(profile, judgement.memory), profile=profile)


def _storable(text: str) -> str:
    """Text from a file that can be written down: half of a surrogate pair cannot."""
    return text.encode(errors="replace").decode()
