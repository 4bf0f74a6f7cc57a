"""Imports a source into a store: in durable batches, without duplicates, counting what is skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from retentive.errors import Conflict, Invalid, NotFound, Unavailable
from retentive.extras import needs_extra
from retentive.inference.embedders import Embedder
from retentive.inference.judge import Judge
from retentive.models import Memory, Serializable
from retentive.pipeline.remember import Draft, redacted, to_memory
from retentive.settings import public_address
from retentive.stores.base import Store
from retentive.transfer.formats import DATABASE_FORMAT, detect_format, find_format
from retentive.transfer.formats.base import (
    Format,
    ImportEntry,
    ImportIssue,
    ImportItem,
    JudgementEntry,
    ReadWarning,
    SettingEntry,
    Skipped,
    SplitsText,
    StoredMemory,
    Truncated,
)
from retentive.transfer.formats.passages import passage_limit
from retentive.transfer.formats.text_files import printable
from retentive.transfer.importing.captured import CapturedMessages
from retentive.transfer.importing.ids import IdSet, existing_ids, imported_id, moved_id
from retentive.transfer.importing.log import ImportLog, ImportRun
from retentive.transfer.importing.replacements import Replacements
from retentive.transfer.importing.writing import MemoryWriter, PendingMemory, SideRecordWriter, WriteCounts
from retentive.transfer.watching.imported import NOTE_FORMATS
from retentive.transfer.watching.state import watched_folders

BATCH = 256
BATCH_WITHOUT_VECTORS = 1000
MAX_BATCH_CHARACTERS = 4_000_000
"""A batch of long texts is smaller, so that it fits into memory."""

MAX_REASONS = 40
OTHER_REASONS = "other reasons"


@dataclass(frozen=True, slots=True)
class ImportResult(Serializable):
    """What an import did, or would do in a dry run.

    `run` identifies it if it added anything. `existing` memories were in the store before, `unembedded` ones were added
    without a vector. `skipped` and `warnings` count by reason. `truncated` are the places at which reading stopped; it
    is empty if everything was read. `profiles` counts the memories that were read by their profiles.
    """

    format: str
    path: str
    dry_run: bool
    run: str | None
    resumed: bool
    added: int
    existing: int
    judgements: int
    settings: int
    unembedded: int
    skipped: Mapping[str, int]
    warnings: Mapping[str, int]
    truncated: tuple[str, ...]
    profiles: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ImportTarget:
    """The profiles and the project that imported memories go to.

    Each person of a source, and each profile of an exported store, is a profile: of the same name, or of that in
    `profiles`. Memories of nobody get `default_profile`. With `profile`, all go there. With `only_profiles`, those of
    other profiles are skipped. If `project` is None, memories keep their projects.
    """

    default_profile: str
    profile: str | None = None
    project: str | None = None
    profiles: Mapping[str, str] = field(default_factory=dict)
    only_profiles: Collection[str] = ()
    redact: bool = True
    """Whether secrets in texts are replaced. An export of a store is imported as it is."""

    def profile_of(self, person: str | None) -> str | None:
        """The profile for the memories of a person; None if they are not imported."""
        own = self.default_profile if person is None else self.profiles.get(person, person)
        return (self.profile or own) if not self.only_profiles or own in self.only_profiles else None


@dataclass(frozen=True, slots=True)
class ImportSource:
    """What is imported: its format, its path or address as given and resolved, and a function that reads it.

    An address is without its password.
    """

    format: str
    path: str
    resolved: str
    read: Callable[[], Iterator[ImportEntry]]


class ImportInterrupted(KeyboardInterrupt):
    """Ctrl-C stopped an import. `result` is what it did until then; importing again continues it."""

    def __init__(self, result: ImportResult) -> None:
        super().__init__()
        self.result = result


def open_source(path: str, format: str | None, embedder: Callable[[], Embedder | None]) -> ImportSource:
    """Return the source at a path or at the address of a database.

    The format is detected unless given. Long texts are split to fit the model, so an import with another model may
    split differently, and then adds the passages that are different.
    """
    scheme, separator, _ = path.partition("://")
    if separator:
        return _database_source(path, scheme, format, embedder)
    place = Path(path)
    if not place.exists():
        raise NotFound(f"there is no {place}")
    chosen = find_format(format) if format else detect_format(place)
    if isinstance(chosen, SplitsText):
        with suppress(Unavailable):
            chosen = chosen.splitting_by(passage_limit(embedder()))
    return file_source(chosen, place)


def file_source(format: Format, path: Path) -> ImportSource:
    """Return the source of a file or folder in a format."""
    return ImportSource(format.name, printable(str(path)), printable(str(path.resolve())), lambda: format.read(path))


def _database_source(
    address: str, scheme: str, format: str | None, embedder: Callable[[], Embedder | None]
) -> ImportSource:
    if scheme not in ("postgresql", "postgres"):
        raise Invalid(f"'{scheme}://' cannot be imported from; give a file, a folder or a postgresql:// address")
    if format not in (None, DATABASE_FORMAT):
        raise Invalid(f"the format of a PostgreSQL address is {DATABASE_FORMAT}, not {format}")
    with needs_extra("an import from PostgreSQL", "postgres"):
        from retentive.transfer.formats.postgres_tables import read_tables
    shown = public_address(address)
    return ImportSource(DATABASE_FORMAT, shown, shown, lambda: read_tables(address, embedder))


def import_source(
    store: Store,
    embedder: Embedder | None,
    source: ImportSource,
    *,
    judge: Judge | None = None,
    target: ImportTarget,
    clock: Callable[[], datetime],
    dry_run: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    report: Callable[[ImportIssue], None] = lambda issue: None,
) -> ImportResult:
    """Import everything of a source. Importing it again adds what is new and nothing twice.

    `progress` is called with the number of memories read since the last call, `report` with everything that was skipped
    or changed. Ctrl-C raises `ImportInterrupted`.
    """
    now = clock()
    profile = target.profile or target.default_profile
    if source.format in NOTE_FORMATS:
        _refuse_watched(store, Path(source.resolved), profile)
    log = ImportLog(store, format=source.format, path=source.resolved, profile=profile, now=now)
    issues = _IssueCounts(report)
    importer = _Importer(store, embedder, judge, source.format, target, now, None if dry_run else log, issues, progress)

    def result(run: ImportRun | None, added: int) -> ImportResult:
        return ImportResult(
            format=source.format,
            path=source.path,
            dry_run=dry_run,
            run=None if run is None else run.id,
            resumed=log.resumed and not dry_run,
            added=added,
            existing=importer.existing,
            judgements=importer.judgements,
            settings=importer.settings,
            unembedded=importer.written.unembedded,
            skipped=dict(issues.skipped),
            warnings=dict(issues.warnings),
            truncated=tuple(issues.truncated),
            profiles=dict(importer.profiles),
        )

    try:
        importer.add_all(source.read())
    except KeyboardInterrupt:
        # The batch that was being written may be stored or not; the log knows.
        raise ImportInterrupted(result(log.open_run(), 0 if dry_run else log.count_added())) from None
    run = None if dry_run else log.finish(added=importer.written.added, at=clock())
    return result(run, importer.written.added)


def _refuse_watched(store: Store, path: Path, profile: str) -> None:
    """Raise `Conflict` if the memories of a path are those of a watched folder: an import would store them again."""
    for folder in watched_folders(store, profile=profile):
        if path.is_relative_to(folder) or folder.is_relative_to(path):
            raise Conflict(
                f"{folder} is watched, so its memories are stored already and follow its files; "
                f"to import it instead, run first: retentive watch {folder} --forget"
            )


def count_memories(source: ImportSource) -> int:
    """Return how many memories a source has."""
    return sum(isinstance(entry, ImportItem | StoredMemory) for entry in source.read())


def id_of_item(format: str, item: ImportItem, memory: Memory) -> str:
    """Return the id with which an item is stored as a memory."""
    when = memory.occurred or (memory.created if item.draft.get("created") else None)
    return imported_id(memory.profile, format, item.key, memory.text, when=when)


class _IssueCounts:
    """Counts the issues of an import by reason, and reports each of them."""

    def __init__(self, report: Callable[[ImportIssue], None]) -> None:
        self._report = report
        self.skipped: Counter[str] = Counter()
        self.warnings: Counter[str] = Counter()
        self.truncated: list[str] = []

    def add(self, issue: ImportIssue) -> None:
        """Count an issue. A file may have any number of reasons: beyond a limit they are counted together."""
        self._report(issue)
        # Half of a surrogate pair, which a file may contain, cannot be stored or printed.
        reason = issue.reason.encode(errors="replace").decode()
        if isinstance(issue, Truncated):
            if len(self.truncated) < MAX_REASONS:
                self.truncated.append(f"{issue.where}: {reason}".encode(errors="replace").decode())
            return
        counter = self.skipped if isinstance(issue, Skipped) else self.warnings
        counter[reason if reason in counter or len(counter) < MAX_REASONS else OTHER_REASONS] += 1

    def skip(self, where: str, reason: str) -> None:
        """Count something that was skipped."""
        self.add(Skipped(where, reason))

    def warn(self, where: str, reason: str) -> None:
        """Count a warning."""
        self.add(ReadWarning(where, reason))


class _Importer:
    """One import in progress; without a log it is a dry run."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        judge: Judge | None,
        format: str,
        target: ImportTarget,
        now: datetime,
        log: ImportLog | None,
        issues: _IssueCounts,
        progress: Callable[[int], None],
    ) -> None:
        self._store = store
        self._format = format
        self._target = target
        self._now = now
        self._issues = issues
        self._progress = progress
        self._side_records = SideRecordWriter(store, log, skip=issues.skip)
        self._writer = None if log is None else MemoryWriter(store, embedder, judge, log, skip=issues.skip)
        self._would_add = IdSet() if log is None else None
        self._limit = BATCH_WITHOUT_VECTORS if embedder is None else BATCH
        self._pending: list[PendingMemory] = []
        self._pending_characters = 0
        self._pending_judgements: list[JudgementEntry] = []
        self._replacements = Replacements(store)
        self._captured = CapturedMessages(store)
        self.written = WriteCounts()
        self.existing = self.judgements = self.settings = 0
        self.profiles: Counter[str] = Counter()

    def add_all(self, entries: Iterable[ImportEntry]) -> None:
        """Import all entries."""
        settings: list[SettingEntry] = []
        for entry in entries:
            if isinstance(entry, ImportItem | StoredMemory):
                self._add(entry)
            elif isinstance(entry, JudgementEntry):
                self._pending_judgements.append(entry)
                if len(self._pending_judgements) >= self._limit:
                    self._flush()
            elif isinstance(entry, SettingEntry):
                settings.append(entry)
            else:
                self._issues.add(entry)
        self._flush()
        if self._writer is not None:
            self._replacements.write()
        self.settings = self._side_records.add_settings(
            settings, into_profile=self._target.profile is not None or bool(self._target.only_profiles)
        )

    def _add(self, entry: ImportItem | StoredMemory) -> None:
        try:
            pending = self._from_item(entry) if isinstance(entry, ImportItem) else self._from_stored(entry)
        except Invalid as error:
            self._issues.skip(entry.where, str(error))
            self._progress(1)
            return
        self._pending.append(pending)
        self.profiles[pending.memory.profile] += 1
        self._pending_characters += len(pending.memory.text)
        if len(self._pending) >= self._limit or self._pending_characters >= MAX_BATCH_CHARACTERS:
            self._flush_memories()

    def _from_item(self, item: ImportItem) -> PendingMemory:
        fields: dict[str, Any] = {**item.draft, "profile": self._profile_of(item.person)}
        if self._target.project is not None:
            fields["project"] = self._target.project
        draft = redacted(Draft(**fields)) if self._target.redact else Draft(**fields)
        memory = to_memory(draft, now=self._now)
        memory = memory._replace(id=id_of_item(self._format, item, memory))
        if item.superseded_by is not None:
            self._replacements.add(item.key, memory.id, item.superseded_by)
        return PendingMemory(memory, item.where, item.vectors, item.model, turn=item.turn)

    def _profile_of(self, person: str | None) -> str:
        profile = self._target.profile_of(person)
        if profile is None:
            raise Invalid("of a profile that is not imported")
        return profile

    def _from_stored(self, entry: StoredMemory) -> PendingMemory:
        memory, profile = entry.memory, self._profile_of(entry.memory.profile)
        if profile != memory.profile:
            by = memory.superseded_by and moved_id(profile, memory.superseded_by)
            memory = memory._replace(id=moved_id(profile, memory.id), profile=profile, superseded_by=by)
        if self._target.project is not None:
            memory = memory._replace(project=self._target.project)
        return PendingMemory(memory, entry.where, entry.vectors, entry.model, exact=True)

    def _flush(self) -> None:
        self._flush_memories()
        entries, self._pending_judgements = self._pending_judgements, []
        self.judgements += self._side_records.add_judgements(list(self._to_target(entries)))

    def _flush_memories(self) -> None:
        batch, self._pending, self._pending_characters = self._pending, [], 0
        first: dict[str, PendingMemory] = {}
        for pending in batch:
            first.setdefault(pending.memory.id, pending)
        existing = existing_ids(self._store, list(first))
        new = [
            pending
            for id, pending in first.items()
            if id not in existing
            and not (pending.turn and self._captured.has(pending.memory, pending.turn))
            and (self._would_add is None or self._would_add.add(id))
        ]
        written = self._writer.add(new) if self._writer and new else WriteCounts(len(new))
        self.written += written
        self.existing += len(batch) - written.added - written.rejected
        self._progress(len(batch))

    def _to_target(self, entries: Iterable[JudgementEntry]) -> Iterator[JudgementEntry]:
        """Yield judgements of the memories that were imported, under their ids and profiles there."""
        for entry in entries:
            judgement, profile = entry.judgement, self._target.profile_of(entry.judgement.profile)
            if judgement.project is not None and self._target.project is not None:
                judgement = replace(judgement, project=self._target.project)
            if entry.item is not None:
                try:
                    memory = self._from_item(entry.item).memory
                except Invalid:  # the item was skipped with its own reason
                    self._issues.skip(entry.where, "the judged memory does not exist")
                    continue
                judgement = replace(judgement, memory=memory.id, profile=memory.profile, created=self._now)
            elif profile is None:
                continue
            elif profile != judgement.profile:
                judgement = replace(judgement, memory=moved_id(profile, judgement.memory), profile=profile)
            yield JudgementEntry(judgement, entry.where)
