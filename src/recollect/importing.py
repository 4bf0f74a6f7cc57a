"""Brings what a format reads into a store: a batch at a time, nothing twice, every skipped thing counted and said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import apsw

from recollect import tuning_log
from recollect.embedders import Embedder
from recollect.errors import Conflict, Invalid, NotFound, Unavailable
from recollect.formats import Broken, Entry, Format, Item, Judged, Noticed, Setting, Skipped, Stored
from recollect.import_ids import imported_id, moved_id
from recollect.import_log import RunLog
from recollect.models import Judgement, Memory, Model, Plain
from recollect.remember import Draft, embed_memories, to_memory, usable_embedder
from recollect.stores import Record, Store, Vector

BATCH = 256
BATCH_WITHOUT_VECTORS = 1000
MOST_CHARACTERS = 4_000_000
"""A batch of long texts is cut here, so that it fits into memory."""

MOST_REASONS = 40
OTHER = "other reasons"

Remark = Skipped | Noticed | Broken


@dataclass(frozen=True, slots=True)
class Imported(Plain):
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
    """Where imported memories go: a profile (None: each its own, where the file says), and a project for all."""

    default_profile: str
    profile: str | None = None
    project: str | None = None


@dataclass(frozen=True, slots=True)
class _Ready:
    """A memory that only has to be stored."""

    memory: Memory
    where: str
    vectors: Vector | None = None
    model: Model | None = None


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
    log = RunLog(store, format=format.name, path=str(path.resolve()), profile=target.profile, now=now)
    work = _Import(store, embedder, format.name, target, now, None if dry_run else log, progress, report)
    work.take(format.read(path))
    run = None if dry_run else log.finish(added=work.counts["added"], at=clock())
    return Imported(
        format=format.name,
        path=str(path),
        dry_run=dry_run,
        run=None if run is None else run.id,
        resumed=log.resumed and not dry_run,
        added=work.counts["added"],
        there=work.counts["there"],
        judgements=work.counts["judgements"],
        settings=work.counts["settings"],
        waiting=work.counts["waiting"],
        skipped=dict(work.skipped),
        noticed=dict(work.noticed),
        broken=tuple(work.broken),
    )


class _Import:
    """One import under way."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        format: str,
        target: Target,
        now: datetime,
        log: RunLog | None,
        progress: Callable[[int], None],
        report: Callable[[Remark], None],
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._format = format
        self._target = target
        self._now = now
        self._log = log
        self._progress = progress
        self._report = report
        self._seen = Seen() if log is None else None
        self._ready: list[_Ready] = []
        self._size = 0
        self._said: list[Judged] = []
        self._settings: list[Setting] = []
        self._known: dict[str, set[tuple[str | None, str, str]]] = {}
        self._limit = BATCH_WITHOUT_VECTORS if embedder is None else BATCH
        self.counts: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.noticed: Counter[str] = Counter()
        self.broken: list[str] = []

    def take(self, entries: Iterable[Entry]) -> None:
        """Take everything, and leave nothing half done."""
        for entry in entries:
            if isinstance(entry, Item | Stored):
                self._prepare(entry)
            elif isinstance(entry, Judged):
                self._said.append(entry)
                if len(self._said) >= self._limit:
                    self._flush()
            elif isinstance(entry, Setting):
                self._settings.append(entry)
            else:
                self._remark(entry)
        self._flush()
        self._keep_settings()

    # Memories

    def _prepare(self, entry: Item | Stored) -> None:
        try:
            ready = self._of_item(entry) if isinstance(entry, Item) else self._of_stored(entry)
        except Invalid as error:
            self._remark(Skipped(entry.where, str(error)))
            self._progress(1)
            return
        self._ready.append(ready)
        self._size += len(ready.memory.text)
        if len(self._ready) >= self._limit or self._size >= MOST_CHARACTERS:
            self._flush_memories()

    def _of_item(self, item: Item) -> _Ready:
        profile = self._target.profile or self._target.default_profile
        fields: dict[str, Any] = {**item.draft, "profile": profile}
        if self._target.project is not None:
            fields["project"] = self._target.project
        memory = to_memory(Draft(**fields), now=self._now)
        return _Ready(memory._replace(id=self._id(item, memory)), item.where)

    def _id(self, item: Item, memory: Memory) -> str:
        told = memory.occurred or (memory.created if item.draft.get("created") else None)
        return imported_id(memory.profile, self._format, item.key, memory.text, when=told)

    def _of_stored(self, entry: Stored) -> _Ready:
        memory, profile = entry.memory, self._target.profile
        if profile is not None and profile != memory.profile:
            memory = memory._replace(id=moved_id(profile, memory.id), profile=profile)
        if self._target.project is not None:
            memory = memory._replace(project=self._target.project)
        return _Ready(memory, entry.where, entry.vectors, entry.model)

    def _flush(self) -> None:
        self._flush_memories()
        self._flush_judgements()

    def _flush_memories(self) -> None:
        batch, self._ready, self._size = self._ready, [], 0
        if not batch:
            return
        first: dict[str, _Ready] = {}
        for ready in batch:
            first.setdefault(ready.memory.id, ready)
        new = self._unknown(list(first.values()))
        refused = self.counts["refused"]
        added = self._add(self._log, new) if self._log is not None and new else len(new)
        self.counts["added"] += added
        self.counts["there"] += len(batch) - added - (self.counts["refused"] - refused)
        self._progress(len(batch))

    def _unknown(self, batch: Sequence[_Ready]) -> list[_Ready]:
        known = self._store.keys([ready.memory.id for ready in batch])
        new = [ready for ready in batch if ready.memory.id not in known]
        return new if self._seen is None else [ready for ready in new if self._seen.add(ready.memory.id)]

    def _add(self, log: RunLog, new: list[_Ready]) -> int:
        """How many were added; others may be at it too, and sessions may belong elsewhere than the file says."""
        for _ in range(3):
            records, model = self._records(new)
            note = log.note([record.memory.id for record in records])
            try:
                self._store.add(records, model=model)
            except Conflict:
                log.correct(note, ())
                new = self._at_home(self._unknown(new))
                if not new:
                    return 0
            else:
                self.counts["waiting"] += sum(record.vectors is None for record in records)
                return len(records)
        return sum(self._add_alone(log, ready) for ready in new)

    def _add_alone(self, log: RunLog, ready: _Ready) -> bool:
        records, model = self._records([ready])
        note = log.note([ready.memory.id])
        try:
            self._store.add(records, model=model)
        except (Conflict, Invalid) as error:
            log.correct(note, ())
            self.counts["refused"] += 1
            self._remark(Skipped(ready.where, str(error)))
            return False
        self.counts["waiting"] += records[0].vectors is None
        return True

    def _at_home(self, batch: Sequence[_Ready]) -> list[_Ready]:
        """These in the projects their sessions belong to: a session that was moved stays where it was put."""
        homes = {
            (session.profile, session.name): session.project
            for profile in {ready.memory.profile for ready in batch}
            for session in self._store.sessions(profile)
        }

        def home(memory: Memory) -> str | None:
            if memory.session is None:
                return memory.project
            return homes.setdefault((memory.profile, memory.session), memory.project)

        return [replace(ready, memory=ready.memory._replace(project=home(ready.memory))) for ready in batch]

    # Vectors

    def _records(self, batch: Sequence[_Ready]) -> tuple[list[Record], Model | None]:
        """The batch with vectors: those of the file where they are of the right model, else made now."""
        embedder = usable_embedder(self._store, self._embedder)
        model = self._model(batch, embedder)
        ours = {ready.memory.id: ready.vectors for ready in batch if ready.model == model and ready.vectors is not None}
        lacking = [ready.memory for ready in batch if ready.memory.id not in ours]
        rows = embed_memories(embedder, lacking) if embedder and lacking else None
        made = dict(zip((memory.id for memory in lacking), rows, strict=True)) if rows else {}
        vectors = {**ours, **made}
        return [Record(ready.memory, vectors.get(ready.memory.id)) for ready in batch], model if vectors else None

    def _model(self, batch: Sequence[_Ready], embedder: Embedder | None) -> Model | None:
        """The model whose vectors the store takes: its own, or the embedder's, or with neither that of the file."""
        known = self._store.model()
        if known is None and embedder is not None:
            try:
                known = embedder.model
            except Unavailable:
                known = None
        in_file = (ready.model for ready in batch if ready.model is not None)
        if known is None:
            return next(in_file, None)
        # The same model may be called otherwise elsewhere; its fingerprint decides.
        return next((model for model in in_file if model.fingerprint == known.fingerprint), known)

    # Judgements and settings

    def _flush_judgements(self) -> None:
        said, self._said = self._said, []
        new: list[tuple[Judgement, str]] = []
        for one in said:
            judgement = self._of_judged(one)
            key = (judgement.project, judgement.question, judgement.memory)
            known = self._judged(judgement.profile)
            if key in known:
                self.counts["judgements there"] += 1
                continue
            known.add(key)
            new.append((judgement, one.where))
        if self._log is None:
            self.counts["judgements"] += len(new)
        elif new:
            self.counts["judgements"] += self._judge(self._log, new)

    def _of_judged(self, one: Judged) -> Judgement:
        judgement, profile = one.judgement, self._target.profile
        if one.item is not None:
            memory = self._of_item(one.item).memory
            return replace(judgement, memory=memory.id, profile=memory.profile, created=self._now)
        if profile is None or profile == judgement.profile:
            return judgement
        return replace(judgement, memory=moved_id(profile, judgement.memory), profile=profile)

    def _judged(self, profile: str) -> set[tuple[str | None, str, str]]:
        if profile not in self._known:
            known = self._store.judgements(profile)
            self._known[profile] = {(one.project, one.question, one.memory) for one in known}
        return self._known[profile]

    def _judge(self, log: RunLog, new: Sequence[tuple[Judgement, str]]) -> int:
        there = self._store.keys([judgement.memory for judgement, _ in new])
        for judgement, where in new:
            if judgement.memory not in there:
                self._remark(Skipped(where, "the memory that was judged is not there"))
        good = [judgement for judgement, _ in new if judgement.memory in there]
        if not good:
            return 0
        log.note_judgements(good)
        try:
            self._store.judge(good)
        except (NotFound, Invalid) as error:  # a file that says one profile judged another's memory
            for _, where in new:
                self._remark(Skipped(where, str(error)))
            return 0
        return len(good)

    def _keep_settings(self) -> None:
        """Settings of a whole store are taken where there are none yet, all of them or none."""
        wanted = {one.name: one.value for one in self._settings}
        if not wanted:
            return
        reason = "settings of a whole store, and this goes into one profile" if self._target.profile else None
        reason = reason or tuning_log.refusal(self._store, wanted)
        if reason:
            for one in self._settings:
                self._remark(Skipped(one.where, reason))
            return
        if self._log is not None:
            self._log.note_settings(wanted)
            self._store.keep(wanted, expecting=dict.fromkeys(wanted))
        self.counts["settings"] += len(wanted)

    def _remark(self, remark: Remark) -> None:
        self._report(remark)
        if isinstance(remark, Broken):
            self.broken.append(f"{remark.where}: {remark.reason}")
            return
        counter, reason = (self.skipped, remark.reason) if isinstance(remark, Skipped) else (self.noticed, remark.what)
        counter[reason if reason in counter or len(counter) < MOST_REASONS else OTHER] += 1


class Seen:
    """Ids that came before, on disk where they are many: a trial run must not grow with its file."""

    def __init__(self) -> None:
        self._kept = apsw.Connection("")  # a temporary file, gone when it is closed
        self._kept.execute("CREATE TABLE seen (id TEXT PRIMARY KEY) WITHOUT ROWID; BEGIN").fetchall()

    def add(self, id: str) -> bool:
        """Whether this one is new."""
        self._kept.execute("INSERT OR IGNORE INTO seen VALUES (?)", (id,))
        return bool(self._kept.changes())


def count_memories(format: Format, path: Path) -> int:
    """How many memories a format reads at a path."""
    return sum(isinstance(entry, Item | Stored) for entry in format.read(path))
