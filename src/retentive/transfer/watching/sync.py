"""One look at a folder: what changed since the last one, and memories brought into step with it."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeVar

import uuid_utils

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.models import Memory, Serializable
from retentive.transfer.formats import Skipped
from retentive.transfer.formats.markdown import drafts
from retentive.transfer.formats.passages import Fits
from retentive.transfer.formats.text_files import Closed, TextFile, Unreadable, decode, read_bytes, walk
from retentive.transfer.watching.notes import FolderNotes, Known
from retentive.transfer.watching.plan import Orphans, Plan, make_plan, share
from retentive.transfer.watching.retries import Troubles

BATCH_FILES, BATCH_MEMORIES = 64, 128
"""So much is written at once: a transaction a file would make a folder of thousands wait for the disk."""

CAREFUL_ABOVE = 20
"""In a folder of more files than this, most of them being gone at once is rather a mistake or an empty mount point."""

_VERSION = b"passages 1"
"""Part of every print: when passages are cut in another way, this changes, and every file is read again."""

_SETTLED_NS = 50_000_000
"""A file written so shortly before it was read may be written again within the same tick of its clock."""

What = Literal["added", "changed", "moved", "forgotten", "unreadable", "skipped", "noted", "held", "waiting", "ready"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Change(Serializable):
    """Something that happened to a file, and how many memories were added, updated, forgotten by it."""

    change: What
    file: str
    before: str | None = None
    added: int = 0
    updated: int = 0
    forgotten: int = 0
    reason: str | None = None


@dataclass(slots=True)
class _Look:
    """What a walk through the folder saw."""

    files: dict[str, TextFile]
    closed: list[str]

    def may_hold(self, path: str) -> bool:
        """Whether this is something that could not be looked at, or in it."""
        return any(path == where or path.startswith(f"{where}/") for where in self.closed)


class FolderSync:
    """Brings the memories of a folder into step with its files, as often as it is asked to."""

    def __init__(
        self,
        engine: Engine,
        notes: FolderNotes,
        folder: Path,
        *,
        fits: Fits | None = None,
        sure: bool = False,
        dry_run: bool = False,
        grace: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.troubles = Troubles(clock)
        self.held = 0
        """How many files are gone whose memories are kept, because it is so many."""
        self._engine = engine
        self._notes = notes
        self._fits = fits
        self._sure = sure
        self._dry_run = dry_run
        self._grace = grace
        self._clock = clock
        self._missing: dict[str, float] = {}
        self._told: set[tuple[str, str]] = set()
        self._verified = False

    def sync(self) -> Iterator[Change]:
        """Every change, told when it is durable. `Unavailable` if the folder or the store is not to be had now.

        A file that vanishes while it is watched is forgotten after `grace` seconds: it may turn up under another name,
        or be on its way back from an editor that writes it anew.
        """
        known = self._known()
        look = _Look({}, [])
        yield from self._look(look)
        if not self._dry_run:
            self._notes.begin()
        self.troubles.only(look.files)
        gone = {path: was for path, was in known.items() if path not in look.files and not look.may_hold(path)}
        changed = [file for file in look.files.values() if self._may_have_changed(file, known.get(file.path))]
        new = sum(file.path not in known for file in changed)
        yield from self._hold(gone, of=len(known), new=new)
        yield from self._follow(changed, known, gone)
        yield from self._forget(self._long_gone(gone))
        self._verified = True

    def next_due(self) -> float | None:
        """When, by the clock, something is to be tried again or forgotten; None if nothing is."""
        times = (self.troubles.next_due(), *(since + self._grace for since in self._missing.values()))
        return min((at for at in times if at is not None), default=None)

    def ready(self) -> Change:
        """What to say when everything is in step: how many files are known, and how many memories are theirs."""
        known = self._notes.files().values()
        files, memories = len(known), sum(len(file.ids) for file in known)
        said = f"{files} {'file' if files == 1 else 'files'}, {memories} {'memory' if memories == 1 else 'memories'}"
        return Change("ready", "", reason=said)

    def forget_all(self) -> int:
        """How many memories the folder had; they are gone, and so is all that was known of it. Its files stay."""
        ids = [id for known in self._notes.files().values() for id in known.ids]
        gone = sum(self._engine.forget(*some) for some in _batches(ids, 1000))
        self._notes.end()
        return gone

    def _known(self) -> dict[str, Known]:
        """What the notes say; at the first look, also whether every memory they speak of is still there."""
        known = self._notes.files()
        if self._verified:
            return known
        ids = [id for file in known.values() for id in file.ids]
        there = {memory.id for some in _batches(ids, 1000) for memory in self._engine.get_many(some)}
        return {path: file if there.issuperset(file.ids) else Known(file.ids) for path, file in known.items()}

    def _look(self, look: _Look) -> Iterator[Change]:
        for found in walk(self.folder):
            if isinstance(found, TextFile):
                look.files[found.path] = found
                continue
            if isinstance(found, Closed):
                if not found.where:
                    raise Unavailable(f"{self.folder} cannot be read: {found.reason}; what it held stays remembered")
                look.closed.append(found.where)
            yield from self._tell_once(found)

    def _tell_once(self, skipped: Skipped) -> Iterator[Change]:
        if (skipped.where, skipped.reason) not in self._told:
            self._told.add((skipped.where, skipped.reason))
            yield Change(
                "unreadable" if isinstance(skipped, Closed) else "skipped", skipped.where, reason=skipped.reason
            )

    def _may_have_changed(self, file: TextFile, known: Known | None) -> bool:
        if known is not None and known.print and known.stamp == file.stamp:
            return False
        return not self.troubles.waits(file.path, file.stamp)

    def _hold(self, gone: dict[str, Known], *, of: int, new: int) -> Iterator[Change]:
        """Where nearly everything is gone, keep it: a disk that is not mounted looks just so."""
        if self._sure or of <= CAREFUL_ABOVE or (len(gone) - new) * 2 <= of:
            self.held = 0
            return
        if self.held != len(gone):
            reason = f"{len(gone)} of {of} files are gone; what they held stays remembered until they are back"
            yield Change("held", "", reason=f"{reason}, or until --yes is said")
        self.held = len(gone)
        gone.clear()

    def _follow(
        self, changed: Sequence[TextFile], known: Mapping[str, Known], gone: dict[str, Known]
    ) -> Iterator[Change]:
        orphans = self._orphans(gone) if changed else Orphans()
        plans: list[Plan] = []
        for file in changed:
            try:
                plan = self._plan(file, known.get(file.path), orphans)
            except Unreadable as error:
                if self.troubles.add(file.path, file.stamp, str(error)):
                    yield Change("unreadable", file.path, reason=str(error))
                continue
            self.troubles.over(file.path)
            plans.append(plan)
            if len(plans) >= BATCH_FILES or sum(len(plan.add) for plan in plans) >= BATCH_MEMORIES:
                yield from self._carry_out(plans, known, gone)
                plans = []
        yield from self._carry_out(plans, known, gone)

    def _orphans(self, gone: Mapping[str, Known]) -> Orphans:
        orphans = Orphans()
        for path, known in gone.items():
            orphans.add(path, known, self._engine.get_many(known.ids))
        return orphans

    def _plan(self, file: TextFile, known: Known | None, orphans: Orphans) -> Plan:
        read_at = time.time_ns()
        data = read_bytes(self.folder, file.path)
        print = hashlib.blake2b(data, digest_size=16, key=_VERSION).hexdigest()
        stamp = file.stamp if read_at - max(file.stamp[1:]) > _SETTLED_NS else None
        if known is not None and known.print == print:
            return Plan(file.path, Known(known.ids, print, stamp))
        decoded = decode(data)
        plan = make_plan(
            file.path,
            list(drafts(file.path, decoded, fits=self._fits)),
            self._engine.get_many(known.ids) if known else (),
            orphans=orphans,
            known=Known((), print, stamp),
            before=None if known else orphans.moved_from(file.path, print),
            get=self._get,
            new_id=lambda: str(uuid_utils.uuid7()),
        )
        plan.new, plan.note = known is None, decoded.note
        return plan

    def _get(self, id: str) -> Memory | None:
        return next(iter(self._engine.get_many([id])), None)

    def _carry_out(self, plans: Sequence[Plan], known: Mapping[str, Known], gone: dict[str, Known]) -> Iterator[Change]:
        """Notes, memories, notes: see `retentive.transfer.watching.notes` for why in this order."""
        share(plans)
        at_first: dict[str, Known | None] = {}
        for plan in plans:
            for path, ids in plan.adopted.items():
                left = tuple(id for id in gone[path].ids if id not in set(ids))
                gone[path] = Known(left)
                at_first[path] = gone[path] if left else None
            if plan.touches_memories:
                had = known[plan.path].ids if plan.path in known else ()
                owned = dict.fromkeys((*had, *plan.known.ids))
                at_first[plan.path] = Known(tuple(id for id in owned if id not in plan.gave))
        for plan in plans:
            if plan.before is not None and not gone[plan.before].ids:
                del gone[plan.before]  # nothing is left of it: it is not forgotten, it is here
                at_first[plan.before] = None
        if not self._dry_run:
            self._write(plans, at_first, known)
        for plan in plans:
            yield from _told(plan)

    def _write(self, plans: Sequence[Plan], at_first: Mapping[str, Known | None], known: Mapping[str, Known]) -> None:
        if at_first:
            self._notes.keep(at_first)
        for some in _batches([draft for plan in plans for draft in plan.add], BATCH_MEMORIES):
            self._engine.remember_many({**draft, "project": self._notes.project} for draft in some)
        for plan in plans:
            for id, changes in plan.update.items():
                self._engine.update(id, **changes)
        removed = [id for plan in plans for id in plan.remove]
        if removed:
            self._engine.forget(*removed)
        done = {plan.path: plan.known for plan in plans if known.get(plan.path) != plan.known}
        if done:
            self._notes.keep(done)

    def _long_gone(self, gone: Mapping[str, Known]) -> dict[str, Known]:
        now = self._clock()
        since = {path: self._missing.get(path, now if self._verified else -math.inf) for path in gone}
        self._missing = {path: at for path, at in since.items() if now - at < self._grace}
        return {path: known for path, known in gone.items() if path not in self._missing}

    def _forget(self, gone: Mapping[str, Known]) -> Iterator[Change]:
        for paths in _batches(list(gone), BATCH_FILES):
            ids = [id for path in paths for id in gone[path].ids]
            if not self._dry_run:
                self._engine.forget(*ids)
                self._notes.keep(dict.fromkeys(paths))
            for path in paths:
                yield Change("forgotten", path, forgotten=len(gone[path].ids))


def _told(plan: Plan) -> Iterator[Change]:
    if plan.note:
        yield Change("noted", plan.path, reason=plan.note)
    what: What = "moved" if plan.before is not None else "added" if plan.new else "changed"
    if plan.new or plan.touches_memories:
        yield Change(what, plan.path, plan.before, len(plan.add), len(plan.update), len(plan.remove))


def _batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
