"""The log of imports in a store: what each import added, recorded before it is added, so that it can be undone.

An interrupted run stays open, and the next import of the same file continues it. Each batch is one entry; its ids take
22 characters each.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from retentive.errors import NotFound
from retentive.models import Serializable, check_unicode
from retentive.stores.base import KeyValue, Store
from retentive.stores.json_entries import JsonEntries, Transaction, transact
from retentive.stores.values import Judgement
from retentive.transfer.importing.ids import IdSet, existing_ids

UNDO_BATCH = 50
"""How many memories an undo deletes in one transaction, so that other writers get their turn."""

GROUP = 100
"""How many batches are read at once when a run is undone; it may have thousands."""


@dataclass(frozen=True, slots=True)
class ImportRun(Serializable):
    """An import that added something. `ended` is None if it was interrupted or is still running."""

    id: str
    format: str
    path: str
    profile: str
    started: datetime
    ended: datetime | None = None
    added: int = 0
    groups: int = 0


@dataclass(frozen=True, slots=True)
class UndoResult(Serializable):
    """How much the undo of an import removed."""

    run: str
    memories: int
    judgements: int
    settings: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one batch adds: ids of memories, judgements, or key-value entries with their values."""

    kind: Literal["ids", "judgements", "setting"]
    value: Any


_RUNS = JsonEntries[ImportRun]("imports/", ImportRun)
_BATCHES = JsonEntries[_Batch]("imported/", _Batch)
"""With a prefix of their own, so that listing the runs does not read them."""


class Imports:
    """`engine.imports`: list imports and undo them. `engine.import_from` makes them."""

    def __init__(self, store: Store, *, after_undo: Callable[[], object] = lambda: None) -> None:
        """With a function that is called after memories were removed."""
        self._store = store
        self._after_undo = after_undo

    def undo(self, run: str, *, progress: Callable[[int], None] = lambda done: None) -> UndoResult:
        """Remove every memory, judgement and setting that an import added, and nothing else.

        It can be interrupted and run again: the record of a batch is deleted after its contents.
        """
        check_unicode("run", run)
        store = self._store
        recorded = _RUNS.get(store, run)
        if recorded is None:
            raise NotFound(f"there is no import {run}; see: retentive imports")
        memories = judgements = settings = 0
        sessions: set[tuple[str, str | None, str]] = set()
        for key, batch in _batches(store, recorded):
            if batch.kind == "ids":
                ids = _unpack_ids(batch.value)
                sessions.update(
                    (one.profile, one.project, one.session) for one in store.get(ids) if one.session is not None
                )
                for at in range(0, len(ids), UNDO_BATCH):
                    memories += len(store.remove(ids[at : at + UNDO_BATCH]))
                    progress(len(ids[at : at + UNDO_BATCH]))
            elif batch.kind == "judgements":
                judgements += store.unjudge(list(map(_parse_judgement, batch.value)))
            else:  # settings that were changed since are not removed
                for name, value in batch.value.items():
                    settings += store.compare_and_set({name: None}, expected={name: value})
            _delete_batch(store, key)
        for profile, project, session in sessions:
            store.drop_session(profile, session, project=project)
        delete = Transaction(store)
        delete.set(_RUNS, None, run)
        delete.commit()
        if memories:
            self._after_undo()
        return UndoResult(run, memories, judgements, settings)

    # Defined last: after it, `list` in this class is no longer the type.
    def list(self) -> Sequence[ImportRun]:
        """Return the imports that can be undone, newest first.

        Of one that was interrupted, the memories that it stored are counted: it had no time to record their number.
        """
        runs = import_runs(self._store)
        return [run if run.ended else replace(run, added=_count_added(self._store, run)) for run in runs]


def import_runs(store: KeyValue) -> list[ImportRun]:
    """Return every import as it is recorded, newest first."""
    return sorted(_RUNS.list(store).values(), key=lambda run: (run.started, run.id), reverse=True)


def _count_added(store: Store, run: ImportRun) -> int:
    """Return how many memories of a run are in the store: the last batch was perhaps recorded and not added."""
    counted = IdSet()  # a batch that was not added is recorded again when the run continues
    recorded = (_unpack_ids(batch.value) for _, batch in _batches(store, run) if batch.kind == "ids")
    return sum(counted.add(id) for ids in recorded for id in existing_ids(store, ids))


class ImportLog:
    """The log of one import. It writes nothing before the import adds something."""

    def __init__(self, store: Store, *, format: str, path: str, profile: str, now: datetime) -> None:
        self._store = store
        same = (format, path, profile)
        open_runs = [run for run in import_runs(store) if not run.ended and (run.format, run.path, run.profile) == same]
        self.resumed = bool(open_runs)
        self.run = open_runs[0] if open_runs else ImportRun(secrets.token_hex(4), format, path, profile, now)
        self._number = max(self.run.groups - 1, 0) * GROUP

    def record_memories(self, ids: Sequence[str]) -> str:
        """Record ids that are about to be added; return the key of the batch."""
        return self._record(_Batch("ids", base64.b64encode(b"".join(UUID(id).bytes for id in ids)).decode()))

    def record_judgements(self, judgements: Sequence[Judgement]) -> str:
        """Record judgements that are about to be added; return the key of the batch."""
        return self._record(_Batch("judgements", list(map(_dump_judgement, judgements))))

    def record_settings(self, settings: Mapping[str, str]) -> None:
        """Record key-value entries that are about to be created."""
        self._record(_Batch("setting", dict(settings)))

    def discard(self, key: str) -> None:
        """Delete the record of a batch that was not added after all."""
        _delete_batch(self._store, key)

    def finish(self, *, added: int, at: datetime) -> ImportRun | None:
        """Close the run and return it; None if it recorded nothing.

        `added` is how many memories were added since the run was started or continued.
        """
        if not self.run.groups:
            return None
        recorded = _RUNS.get(self._store, self.run.id) or self.run
        if self.resumed or recorded != self.run:  # another process has imported the same file in this run
            added = _count_added(self._store, recorded)

        def close(transaction: Transaction) -> ImportRun:
            stored = transaction.get(_RUNS, self.run.id)  # another process may import the same file in this run
            groups = max(self.run.groups, stored.groups if stored else 0)
            closed = replace(self.run, ended=at, added=added, groups=groups)
            transaction.set(_RUNS, closed, closed.id)
            return closed

        self.run = transact(self._store, close)
        return self.run

    def open_run(self) -> ImportRun | None:
        """Return the run, if it has recorded anything so far."""
        return self.run if self.run.groups else None

    def count_added(self) -> int:
        """Return how many memories the run has stored so far, including those before it was continued."""
        return _count_added(self._store, self.run)

    def _record(self, batch: _Batch) -> str:
        while True:  # another process in the same run may have taken the number
            group = self._number // GROUP
            key = f"{self.run.id}/{group:06d}/{self._number:08d}"
            self._number += 1
            transaction = Transaction(self._store)
            transaction.create(_BATCHES, batch, key)
            if group >= self.run.groups:
                run = transaction.get(_RUNS, self.run.id) or self.run
                self.run = replace(run, groups=max(run.groups, group + 1), ended=None)
                transaction.set(_RUNS, self.run, self.run.id)
            if transaction.commit():
                return key


def _batches(store: Store, run: ImportRun) -> Iterator[tuple[str, _Batch]]:
    """Yield the batches of a run by key, the last first: judgements of a memory before the memory."""
    for group in reversed(range(run.groups)):
        batches = _BATCHES.list(store, f"{run.id}/{group:06d}/")
        yield from sorted(batches.items(), reverse=True, key=lambda item: item[0])


def _delete_batch(store: Store, key: str) -> None:
    delete = Transaction(store)
    delete.set(_BATCHES, None, key)
    delete.commit()


def _unpack_ids(text: str) -> list[str]:
    data = base64.b64decode(text)
    return [str(UUID(bytes=data[at : at + 16])) for at in range(0, len(data), 16)]


# In the store, the query of a judgement is called "question"; logs written before must stay readable.


def _dump_judgement(judgement: Judgement) -> dict[str, Any]:
    entry = judgement.to_dict()
    return {"question": entry.pop("query"), **entry}


def _parse_judgement(entry: Mapping[str, Any]) -> Judgement:
    fields = dict(entry)
    query = fields.pop("question")
    times = {name: fields[name] and datetime.fromisoformat(fields[name]) for name in ("created", "asked_at")}
    return Judgement(**{**fields, **times, "query": query})
