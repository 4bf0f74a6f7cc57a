"""Writes imported memories, judgements and settings to a store, each recorded in the log before it is added."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from retentive.errors import Conflict, Invalid, NotFound, Unavailable
from retentive.inference.embedders import Embedder
from retentive.inference.judge import Judge
from retentive.models import Memory, Model
from retentive.pipeline.remember import embed_following, embed_memories, turns_before, usable_embedder
from retentive.pipeline.standing_rules import mark_rules
from retentive.pipeline.tuning_history import refusal
from retentive.stores.base import Store
from retentive.stores.values import Judgement, Record, Vector
from retentive.transfer.formats.base import JudgementEntry, SettingEntry
from retentive.transfer.importing.ids import existing_ids
from retentive.transfer.importing.log import ImportLog

TRIES = 3


@dataclass(frozen=True, slots=True)
class PendingMemory:
    """A memory to store, with vectors if the imported file has them.

    One that was exported from a store is `exact`: without a project it was in a session without one. `turn` is that of
    an `ImportItem`.
    """

    memory: Memory
    where: str
    vectors: Vector | None = None
    model: Model | None = None
    exact: bool = False
    turn: str | None = None


@dataclass(frozen=True, slots=True)
class WriteCounts:
    """How many memories were added, how many of them without a vector, and how many the store rejected."""

    added: int = 0
    unembedded: int = 0
    rejected: int = 0

    def __add__(self, other: WriteCounts) -> WriteCounts:
        return WriteCounts(self.added + other.added, self.unembedded + other.unembedded, self.rejected + other.rejected)


class MemoryWriter:
    """Adds memories in batches, each into the session of its project. Other processes may write too."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder | None,
        judge: Judge | None,
        log: ImportLog,
        *,
        skip: Callable[[str, str], None],
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._judge = judge
        self._log = log
        self._skip = skip

    def add(self, batch: Sequence[PendingMemory]) -> WriteCounts:
        """Add memories that did not exist a moment ago. Those that were exported from a store are marked already."""
        if not _is_exact(batch):
            marked = mark_rules([pending.memory for pending in batch], self._judge)
            batch = [replace(pending, memory=memory) for pending, memory in zip(batch, marked, strict=True)]
        for _ in range(TRIES):
            try:
                return self._add(batch)
            except Conflict:
                existing = existing_ids(self._store, [pending.memory.id for pending in batch])
                batch = [pending for pending in batch if pending.memory.id not in existing]
                if not batch:
                    return WriteCounts()
        return sum((self._add_one(pending) for pending in batch), WriteCounts())

    def _add(self, batch: Sequence[PendingMemory]) -> WriteCounts:
        records, model = self._records(batch)
        key = self._log.record_memories([record.memory.id for record in records])
        try:
            stored = self._store.add(records, model=model, exact=_is_exact(batch))
        except (Conflict, Invalid):
            self._log.discard(key)
            raise
        placed = any(pending.memory.session and pending.memory.position is not None for pending in batch)
        if placed and (embedder := usable_embedder(self._store, self._embedder)):
            embed_following(self._store, embedder, stored)
        return WriteCounts(len(records), sum(record.vectors is None for record in records))

    def _add_one(self, pending: PendingMemory) -> WriteCounts:
        try:
            return self._add([pending])
        except (Conflict, Invalid) as error:
            self._skip(pending.where, str(error))
            return WriteCounts(rejected=1)

    def _records(self, batch: Sequence[PendingMemory]) -> tuple[list[Record], Model | None]:
        """Return the batch with vectors: those of the file if they are of the right model, else new ones."""
        embedder = usable_embedder(self._store, self._embedder)
        model = self._model(batch, embedder)
        records = {
            pending.memory.id: Record(pending.memory, pending.vectors)
            for pending in batch
            if pending.model == model and pending.vectors is not None
        }
        missing = [pending.memory for pending in batch if pending.memory.id not in records]
        if embedder and missing:
            before = turns_before(self._store, embedder, [pending.memory for pending in batch], exact=_is_exact(batch))
            turns = [turn for turn, one in zip(before, batch, strict=True) if one.memory.id not in records]
            records |= {
                one.memory.id: one for one in embed_memories(embedder, missing, turns=turns) if one.vectors is not None
            }
        given = [records.get(one.memory.id, Record(one.memory)) for one in batch]
        return given, model if records else None

    def _model(self, batch: Sequence[PendingMemory], embedder: Embedder | None) -> Model | None:
        """Return the model whose vectors can be stored: the store's, else the embedder's, else that of the file."""
        model = self._store.model()
        if model is None and embedder is not None:
            try:
                model = embedder.model
            except Unavailable:
                model = None
        in_file = (pending.model for pending in batch if pending.model is not None)
        if model is None:
            return next(in_file, None)
        # The same model may have another name elsewhere; the fingerprint decides.
        return next((one for one in in_file if one.fingerprint == model.fingerprint), model)


def _is_exact(batch: Sequence[PendingMemory]) -> bool:
    """Whether a batch was exported from a store. A file has one format, so all of its memories were or none."""
    return all(pending.exact for pending in batch)


class SideRecordWriter:
    """Adds the judgements and settings of an imported file that the store does not have. Without a log, only counts."""

    def __init__(self, store: Store, log: ImportLog | None, *, skip: Callable[[str, str], None]) -> None:
        self._store = store
        self._log = log
        self._skip = skip
        self._known: dict[str, set[tuple[str | None, str, str]]] = {}

    def add_judgements(self, entries: Sequence[JudgementEntry]) -> int:
        """Add the judgements that are new, and return how many."""
        new = [entry for entry in entries if self._is_new(entry.judgement)]
        if self._log is None or not new:
            return len(new)
        existing = existing_ids(self._store, [entry.judgement.memory for entry in new])
        valid = []
        for entry in new:
            if entry.judgement.memory in existing:
                valid.append(entry)
            else:
                self._skip(entry.where, "the judged memory does not exist")
        if not valid:
            return 0
        judgements = [entry.judgement for entry in valid]
        key = self._log.record_judgements(judgements)
        try:
            self._store.judge(judgements)
        except (NotFound, Invalid) as error:  # a file in which one profile judges a memory of another
            self._log.discard(key)
            for entry in valid:
                self._skip(entry.where, str(error))
            return 0
        return len(valid)

    def _is_new(self, judgement: Judgement) -> bool:
        if judgement.profile not in self._known:
            judged = self._store.judgements(judgement.profile)
            self._known[judgement.profile] = {(one.project, one.query, one.memory) for one in judged}
        known, key = self._known[judgement.profile], (judgement.project, judgement.query, judgement.memory)
        if key in known:
            return False
        known.add(key)
        return True

    def add_settings(self, entries: Sequence[SettingEntry], *, into_profile: bool) -> int:
        """Add all settings if the store has none, and return how many were added."""
        settings = {entry.name: entry.value for entry in entries}
        if not settings:
            return 0
        reason = "settings of a whole store are not imported into one profile" if into_profile else None
        reason = reason or refusal(self._store, settings)
        if reason:
            for entry in entries:
                self._skip(entry.where, reason)
            return 0
        if self._log is not None:
            self._log.record_settings(settings)
            self._store.compare_and_set(settings, expected=dict.fromkeys(settings))
        return len(settings)
