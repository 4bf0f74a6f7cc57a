"""One sync of a folder: finds the files that changed since the last one, and updates their memories."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, Unpack

from retentive.errors import Unavailable
from retentive.models import Memory, Serializable
from retentive.pipeline.remember import MemoryChanges, new_id
from retentive.transfer.formats.base import Fits, Skipped
from retentive.transfer.formats.markdown import file_drafts
from retentive.transfer.formats.text_files import (
    Inaccessible,
    TextFile,
    Unreadable,
    decode,
    find_text_files,
    read_bytes,
)
from retentive.transfer.watching.imported import ImportedPassages
from retentive.transfer.watching.retries import Retries
from retentive.transfer.watching.state import FilePlan, FileState, FolderState, Orphans, exchange_memories, plan_file

BATCH_FILES, BATCH_MEMORIES = 64, 128
"""The size of one write: with a transaction for each file, a folder of thousands would wait for the disk."""

MIN_FILES_TO_HOLD = 20
"""In a folder of more files than this, the deletion of most of them at once is held: the disk may not be mounted."""

_SPLITTING = b"passages 2"
"""Part of every digest. When passages are split in another way this changes, and every file is read again."""

_SETTLED_NS = 50_000_000
"""A file that was written this shortly before it was read may be written again with the same time."""

ChangeKind = Literal[
    "added", "changed", "moved", "forgotten", "unreadable", "skipped", "warning", "held", "waiting", "ready"
]
T = TypeVar("T")


class MemoryEngine(Protocol):
    """The verbs of `Engine` that a sync uses."""

    def remember_many(self, drafts: Iterable[Mapping[str, Any]]) -> Sequence[Memory]:
        """Store memories."""
        ...

    def update(self, id: str, **changes: Unpack[MemoryChanges]) -> Memory:
        """Change some fields of a memory."""
        ...

    def forget(self, *ids: str) -> Sequence[str]:
        """Delete memories and return the ids of those that existed."""
        ...

    def get_many(self, ids: Sequence[str]) -> Sequence[Memory]:
        """Return the memories with these ids that exist."""
        ...


@dataclass(frozen=True, slots=True)
class FileChange(Serializable):
    """A change of a file, and how many memories were added, updated and forgotten for it."""

    change: ChangeKind
    file: str
    before: str | None = None
    added: int = 0
    updated: int = 0
    forgotten: int = 0
    reason: str | None = None


@dataclass(slots=True)
class _Listing:
    """The files of the folder, and the paths that could not be accessed."""

    files: dict[str, TextFile]
    inaccessible: list[str]

    def may_contain(self, path: str) -> bool:
        """Whether a path is inaccessible, or in an inaccessible folder, so that it may exist."""
        return any(path == where or path.startswith(f"{where}/") for where in self.inaccessible)


class FolderSync:
    """Makes the memories of a folder equal to its files, each time `sync` is called.

    `held` is how many deleted files have kept their memories, because they are so many; `force` forgets them.
    """

    def __init__(
        self,
        engine: MemoryEngine,
        state: FolderState,
        folder: Path,
        *,
        fits: Fits | None = None,
        force: bool = False,
        dry_run: bool = False,
        grace: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self._root = folder.resolve()
        self.retries = Retries(clock)
        self.held = 0
        self._engine = engine
        self._state = state
        self._fits = fits
        self._force = force
        self._dry_run = dry_run
        self._grace = grace
        self._clock = clock
        self._missing_since: dict[str, float] = {}
        self._reported: set[tuple[str, str]] = set()
        self._verified = False
        self._imports: ImportedPassages | None = None

    def sync(self) -> Iterator[FileChange]:
        """Yield each change when it is durable. `Unavailable` if the folder or the store cannot be used now.

        A file that is deleted between two syncs is forgotten after `grace` seconds: it may appear under another name,
        or an editor may be about to write it again.
        """
        known = self._known_files()
        listing = _Listing({}, [])
        yield from self._list_files(listing)
        if not self._dry_run:
            self._state.save_folder()
        self.retries.retain(listing.files)
        deleted = {
            path: state for path, state in known.items() if path not in listing.files and not listing.may_contain(path)
        }
        changed = [file for file in listing.files.values() if self._may_have_changed(file, known.get(file.path))]
        new = sum(file.path not in known for file in changed)
        yield from self._hold(deleted, of=len(known), new=new)
        yield from self._update(changed, known, deleted)
        yield from self._forget(self._after_grace(deleted))
        self._verified = True

    def next_due(self) -> float | None:
        """Return when a file is to be retried or forgotten, by the clock; None if none is."""
        times = (self.retries.next_due(), *(since + self._grace for since in self._missing_since.values()))
        return min((at for at in times if at is not None), default=None)

    def ready(self) -> FileChange:
        """Return the report of a completed sync: how many files and memories there are."""
        states = self._state.files().values()
        files, memories = len(states), sum(len(state.ids) for state in states)
        text = f"{files} {'file' if files == 1 else 'files'}, {memories} {'memory' if memories == 1 else 'memories'}"
        return FileChange("ready", "", reason=text)

    def forget_all(self) -> int:
        """Delete the folder's memories and its state, but not its files; return how many memories there were."""
        ids = [id for state in self._state.files().values() for id in state.ids]
        count = sum(len(self._engine.forget(*batch)) for batch in _batches(ids, 1000))
        self._state.delete()
        return count

    def _known_files(self) -> dict[str, FileState]:
        """Return the saved states; at the first sync, files with missing memories have no digest, so they are read."""
        known = self._state.files()
        if self._verified:
            return known
        ids = [id for state in known.values() for id in state.ids]
        existing = {memory.id for batch in _batches(ids, 1000) for memory in self._engine.get_many(batch)}
        return {
            path: state if existing.issuperset(state.ids) else FileState(state.ids) for path, state in known.items()
        }

    def _list_files(self, listing: _Listing) -> Iterator[FileChange]:
        if self.folder.resolve() != self._root:
            raise Unavailable(f"{self.folder} is a link to another folder now; its memories are kept")
        for found in find_text_files(self.folder):
            if isinstance(found, TextFile):
                listing.files[found.path] = found
                continue
            if isinstance(found, Inaccessible):
                if not found.where:
                    raise Unavailable(f"{self.folder} cannot be read: {found.reason}; its memories are kept")
                listing.inaccessible.append(found.where)
            yield from self._report_once(found)

    def _report_once(self, skipped: Skipped) -> Iterator[FileChange]:
        if (skipped.where, skipped.reason) not in self._reported:
            self._reported.add((skipped.where, skipped.reason))
            kind: ChangeKind = "unreadable" if isinstance(skipped, Inaccessible) else "skipped"
            yield FileChange(kind, skipped.where, reason=skipped.reason)

    def _may_have_changed(self, file: TextFile, state: FileState | None) -> bool:
        if state is not None and state.digest and state.stamp == file.stamp:
            return False
        return not self.retries.must_wait(file.path, file.stamp)

    def _hold(self, deleted: dict[str, FileState], *, of: int, new: int) -> Iterator[FileChange]:
        """Keep the memories if most files are deleted at once: a disk that is not mounted looks the same."""
        if self._force or of <= MIN_FILES_TO_HOLD or (len(deleted) - new) * 2 <= of:
            self.held = 0
            return
        if self.held != len(deleted):
            reason = f"{len(deleted)} of {of} files are missing; their memories are kept until the files are back"
            yield FileChange("held", "", reason=f"{reason}; --yes forgets them")
        self.held = len(deleted)
        deleted.clear()

    def _update(
        self, changed: Sequence[TextFile], known: Mapping[str, FileState], deleted: dict[str, FileState]
    ) -> Iterator[FileChange]:
        orphans = Orphans()
        for path, state in deleted.items() if changed else ():
            orphans.add(path, state, self._engine.get_many(state.ids))
        plans: list[FilePlan] = []
        for file in changed:
            try:
                plan = self._plan(file, known.get(file.path), orphans)
            except Unreadable as error:
                if self.retries.add(file.path, file.stamp, str(error)):
                    yield FileChange("unreadable", file.path, reason=str(error))
                continue
            self.retries.remove(file.path)
            plans.append(plan)
            if len(plans) >= BATCH_FILES or sum(len(plan.add) for plan in plans) >= BATCH_MEMORIES:
                yield from self._carry_out(plans, known, deleted)
                plans = []
        yield from self._carry_out(plans, known, deleted)

    def _plan(self, file: TextFile, state: FileState | None, orphans: Orphans) -> FilePlan:
        read_at = time.time_ns()
        data = read_bytes(self.folder, file.path, root=self._root)
        digest = hashlib.blake2b(data, digest_size=16, key=_SPLITTING).hexdigest()
        stamp = file.stamp if read_at - max(file.stamp[1:]) > _SETTLED_NS else None
        if state is not None and state.digest == digest:
            return FilePlan(file.path, FileState(state.ids, digest, stamp))
        decoded = decode(data)
        drafts = list(file_drafts(file.path, decoded, fits=self._fits))
        plan = plan_file(
            file.path,
            drafts,
            self._engine.get_many(state.ids if state else self._imported(file.path, drafts)),
            project=self._state.project,
            orphans=orphans,
            state=FileState((), digest, stamp),
            moved_from=None if state else orphans.find_moved(file.path, digest),
            get=lambda one: next(iter(self._engine.get_many([one])), None),
            new_id=new_id,
        )
        plan.new, plan.warning = state is None, decoded.warning
        return plan

    def _imported(self, path: str, drafts: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the ids that memories of a new file have if an import stored them."""
        if self._imports is None:
            self._imports = self._state.imported_passages()
        return list(dict.fromkeys(self._imports.ids(path, drafts)))

    def _carry_out(
        self, plans: Sequence[FilePlan], known: Mapping[str, FileState], deleted: dict[str, FileState]
    ) -> Iterator[FileChange]:
        """Write the states, the memories, and the states again: `retentive.transfer.watching.state` tells why."""
        exchange_memories(plans)
        before: dict[str, FileState | None] = {}
        for plan in plans:
            for path, ids in plan.adopted.items():
                left = tuple(id for id in deleted[path].ids if id not in set(ids))
                deleted[path] = FileState(left)
                before[path] = deleted[path] if left else None
            if plan.changes_memories:
                old = known[plan.path].ids if plan.path in known else ()
                owned = dict.fromkeys((*old, *plan.replaced, *plan.state.ids))
                before[plan.path] = FileState(tuple(id for id in owned if id not in plan.given))
        for plan in plans:
            if plan.moved_from is not None and not deleted[plan.moved_from].ids:
                del deleted[plan.moved_from]  # moved completely, so it is not reported as forgotten
                before[plan.moved_from] = None
        if not self._dry_run:
            self._write(plans, before, known)
        for plan in plans:
            if plan.warning:
                yield FileChange("warning", plan.path, reason=plan.warning)
            kind: ChangeKind = "moved" if plan.moved_from is not None else "added" if plan.new else "changed"
            if plan.new or plan.changes_memories:
                yield FileChange(kind, plan.path, plan.moved_from, len(plan.add), len(plan.update), len(plan.remove))

    def _write(
        self, plans: Sequence[FilePlan], before: Mapping[str, FileState | None], known: Mapping[str, FileState]
    ) -> None:
        if before:
            self._state.save_files(before)
        for batch in _batches([draft for plan in plans for draft in plan.add], BATCH_MEMORIES):
            self._engine.remember_many({**draft, "project": self._state.project} for draft in batch)
        for plan in plans:
            for id, changes in plan.update.items():
                self._engine.update(id, **changes)
        removed = [id for plan in plans for id in (*plan.remove, *plan.replaced)]
        if removed:
            self._engine.forget(*removed)
        after = {plan.path: plan.state for plan in plans if known.get(plan.path) != plan.state}
        if after:
            self._state.save_files(after)

    def _after_grace(self, deleted: Mapping[str, FileState]) -> dict[str, FileState]:
        """Return the deleted files whose grace period is over; at the first sync there is none."""
        now = self._clock()
        since = {path: self._missing_since.get(path, now if self._verified else -math.inf) for path in deleted}
        self._missing_since = {path: at for path, at in since.items() if now - at < self._grace}
        return {path: state for path, state in deleted.items() if path not in self._missing_since}

    def _forget(self, deleted: Mapping[str, FileState]) -> Iterator[FileChange]:
        for paths in _batches(list(deleted), BATCH_FILES):
            if not self._dry_run:
                self._engine.forget(*(id for path in paths for id in deleted[path].ids))
                self._state.save_files(dict.fromkeys(paths))
            for path in paths:
                yield FileChange("forgotten", path, forgotten=len(deleted[path].ids))


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
