"""How far a copy has come, noted in its target, so that a copy that was broken off goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from recollect.errors import Conflict, Invalid
from recollect.stores import Store

NOTE = "copy"
"""The name of the note. It is there while a copy is not finished, and is never copied itself."""


@dataclass(frozen=True, slots=True)
class HalfDone:
    """From where a copy is made, what with, and behind which memory it goes on."""

    source: str
    vectors: bool
    cursor: str | None = None
    done: int = 0
    walked: bool = False


class Noted:
    """The note in a target, which one copy at a time may move on."""

    def __init__(self, target: Store, begun: HalfDone, *, before: str | None) -> None:
        self._target = target
        self._kept = before
        self.at = begun
        self._keep(begun)

    def move_on(self, *, cursor: str | None, by: int) -> None:
        """Note that all memories up to the cursor are there; those up to the end, if there is none."""
        self._keep(replace(self.at, cursor=cursor, done=self.at.done + by, walked=cursor is None))

    def remove(self) -> None:
        """There is no copy under way."""
        self._target.keep({NOTE: None})

    def _keep(self, at: HalfDone) -> None:
        written = json.dumps(asdict(at))
        if not self._target.keep({NOTE: written}, expecting={NOTE: self._kept}):
            raise Conflict("another copy into this store is under way; wait for it, or end it, and run this again")
        self._kept, self.at = written, at


def begin(source: Store, target: Store, *, named: str, vectors: bool, into: bool) -> Noted:
    """The note of a new copy, or of the one that is gone on with. What cannot be copied into is refused untouched."""
    if source.kept(NOTE) is not None:
        # Also what is seen of a store that is being copied into itself.
        raise Conflict("the store to copy from is itself a half-done copy; finish that one first")
    kept = target.kept(NOTE)
    if kept is None:
        if not into and not _empty(target):
            raise Conflict("the store to copy into is not empty; name a new one, or say --into to add to what is there")
        return _begun(source, target, HalfDone(named, vectors))
    found = HalfDone(**json.loads(kept))
    if found.source != named:
        if not into:
            raise Conflict(
                f"the store to copy into holds a half-done copy of {found.source}; run that one to its end, "
                "or say --into"
            )
        return Noted(target, HalfDone(named, vectors), before=kept)
    if found.vectors != vectors:
        word = "with" if found.vectors else "without"
        raise Conflict(f"this copy was begun {word} vectors; go on {word} them, or copy into a new store")
    return Noted(target, found, before=kept)


def finish(target: Store, *, complete: bool) -> None:
    """End a copy: with its note taken away, or, where something is missing, so that it is looked at again in full."""
    kept = target.kept(NOTE)
    if kept is not None:
        found = HalfDone(**json.loads(kept))
        again = json.dumps(asdict(HalfDone(found.source, found.vectors)))
        target.keep({NOTE: None if complete else again}, expecting={NOTE: kept})


def _begun(source: Store, target: Store, begun: HalfDone) -> Noted:
    noted = Noted(target, begun, before=None)
    if source.kept(NOTE) is not None:
        noted.remove()
        raise Invalid("both names lead to the same store; name another one to copy into")
    return noted


def _empty(store: Store) -> bool:
    """Whether a copy would find nothing there that could differ. Tokens may have been made beforehand."""
    from recollect.tokens import PREFIX

    return store.stats().memories == 0 and all(name.startswith(PREFIX) for name in store.kept_under(""))
