"""The checkpoint of a copy, saved in the target store, so that an interrupted copy continues where it stopped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated

from pydantic import Field

from retentive.errors import Conflict, Invalid
from retentive.pipeline.access_tokens import GRANTS
from retentive.pipeline.access_tokens import PREFIX as TOKENS
from retentive.stores.base import Store
from retentive.stores.json_entries import JsonEntries, Transaction
from retentive.transfer.copying.copied_ids import COPIED, clear_copied_ids


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The source and options of a copy that is not finished, and the cursor from which it continues.

    Aliases are the names in stores that were written before.
    """

    source: str
    vectors: bool
    again: bool = False
    cursor: str | None = None
    done: int = 0
    scanned: Annotated[bool, Field(alias="walked")] = False


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of a finished copy, and when the copy was finished. Only such a copy can be updated."""

    source: Annotated[str, Field(alias="from")]
    finished: Annotated[datetime, Field(alias="at")]


CHECKPOINT = JsonEntries[Checkpoint]("copy", Checkpoint)
ORIGIN = JsonEntries[Origin]("copy/source", Origin)


def is_own_entry(name: str) -> bool:
    """Whether a key-value entry is one of a copy itself, which is never copied."""
    return name in (CHECKPOINT.prefix, ORIGIN.prefix) or name.startswith(COPIED.prefix)


class CheckpointStore:
    """The checkpoint in a target store. Only one copy at a time can advance it."""

    def __init__(self, target: Store, checkpoint: Checkpoint, *, before: Checkpoint | None) -> None:
        self._target = target
        self._stored = before
        self.current = checkpoint
        self._save(checkpoint)

    def advance(self, *, cursor: str | None, count: int) -> None:
        """Save that all memories up to the cursor are copied; None means all memories."""
        done = self.current.done + count
        self._save(replace(self.current, cursor=cursor, done=done, scanned=cursor is None))

    def restart(self) -> None:
        """Let the next run compare everything."""
        found = self.current
        self._save(Checkpoint(found.source, found.vectors, found.again))

    def remove(self) -> None:
        """Delete the checkpoint."""
        transaction = Transaction(self._target)
        transaction.set(CHECKPOINT, None)
        transaction.commit()

    def _save(self, checkpoint: Checkpoint) -> None:
        transaction = Transaction(self._target)
        unchanged = transaction.get(CHECKPOINT) == self._stored
        transaction.set(CHECKPOINT, checkpoint)
        if not (unchanged and transaction.commit()):
            raise Conflict("another copy into this store is running; wait until it ends, then run this again")
        self._stored = self.current = checkpoint


def start_copy(source: Store, target: Store, wanted: Checkpoint, *, into: bool) -> CheckpointStore:
    """Start a copy, or continue an interrupted one. `Conflict`, without a change, if the target cannot be used."""
    if CHECKPOINT.get(source) is not None:
        raise Conflict("the source is itself an unfinished copy; finish that one first")
    found = CHECKPOINT.get(target)
    if found is None:
        _check_target(target, wanted, into=into)
        started = CheckpointStore(target, wanted, before=None)
        if CHECKPOINT.get(source) is not None:
            started.remove()
            raise Invalid("both addresses are of the same store; name another target")
        if not wanted.again:
            clear_copied_ids(target)
        return started
    if found.source != wanted.source:
        if not into:
            raise Conflict(f"the target is an unfinished copy of {found.source}; finish that one first, or use --into")
        return CheckpointStore(target, wanted, before=found)
    if (found.vectors, found.again) != (wanted.vectors, wanted.again):
        options = f"{'with vectors' if found.vectors else '--without-vectors'}{' --again' if found.again else ''}"
        raise Conflict(f"this copy was started {options}; continue it with the same options")
    return CheckpointStore(target, found, before=found)


def _check_target(target: Store, wanted: Checkpoint, *, into: bool) -> None:
    """Raise `Conflict` if a new copy cannot start in this store."""
    origin = ORIGIN.get(target)
    is_copy = origin is not None and origin.source == wanted.source
    if wanted.again and not is_copy:
        raise Conflict(
            f"the target is not a finished copy of {wanted.source}: --again would delete everything else in it; "
            "omit it, or use --into to add to the target"
        )
    if not (wanted.again or into or _is_empty(target)):
        hint = "use --again to update this copy" if is_copy else "use --into to add to it"
        raise Conflict(f"the target is not empty; name a new one, or {hint}")


def _is_empty(store: Store) -> bool:
    """Whether a store has no memories and no entries that a copy could change. Tokens may have been created before."""
    names = (name for name in store.list_values("") if not is_own_entry(name))
    return store.stats().memories == 0 and all(name.startswith((TOKENS, GRANTS)) for name in names)


def finish_copy(target: Store, *, complete: bool, now: datetime, copy: bool = True) -> None:
    """End a copy. One that is not complete keeps a checkpoint at the start, so that the next run compares everything.

    A target that is no `copy`, because it had other memories before, cannot be updated later.
    """
    transaction = Transaction(target)
    found = transaction.get(CHECKPOINT)
    if found is None:
        return
    if complete:
        transaction.set(CHECKPOINT, None)
        transaction.set(ORIGIN, Origin(found.source, now) if copy else None)
    else:
        transaction.set(CHECKPOINT, Checkpoint(found.source, found.vectors, found.again))
    if transaction.commit() and not copy:
        clear_copied_ids(target)
