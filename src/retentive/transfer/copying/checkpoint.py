"""How far a copy has come, noted in its target, so that a copy that was broken off goes on where it stopped."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime

from retentive.errors import Conflict, Invalid
from retentive.pipeline.access_tokens import PREFIX
from retentive.stores import Store

NOTE = "copy"
"""The name of the note. It is there while a copy is not finished, and is never copied itself."""

SOURCE = "copy/source"
"""What a finished copy is a copy of, and since when, so that it alone can be brought up to date."""


@dataclass(frozen=True, slots=True)
class HalfDone:
    """From where a copy is made, what with, and behind which memory it goes on."""

    source: str
    vectors: bool
    again: bool = False
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
        if not self._target.keep({NOTE: written}, expected={NOTE: self._kept}):
            raise Conflict("another copy into this store is under way; wait for it, or end it, and run this again")
        self._kept, self.at = written, at


def begin(source: Store, target: Store, begun: HalfDone, *, into: bool) -> Noted:
    """The note of a new copy, or of the one that is gone on with. What cannot be copied into is refused untouched."""
    if source.get_value(NOTE) is not None:
        raise Conflict("the store to copy from is itself a half-done copy; finish that one first")
    kept = target.get_value(NOTE)
    if kept is None:
        _check_unnoted(target, begun, into=into)
        return _begun(source, target, begun)
    found = HalfDone(**json.loads(kept))
    if found.source != begun.source:
        if not into:
            raise Conflict(
                f"the store to copy into holds a half-done copy of {found.source}; run that one to its end, "
                "or say --into"
            )
        return Noted(target, begun, before=kept)
    if (found.vectors, found.again) != (begun.vectors, begun.again):
        words = f"{'with' if found.vectors else '--without-vectors'}{' vectors' if found.vectors else ''}"
        raise Conflict(f"this copy was begun {words}{' --again' if found.again else ''}; go on with it in the same way")
    return Noted(target, found, before=kept)


def _check_unnoted(target: Store, begun: HalfDone, *, into: bool) -> None:
    """`Conflict` unless a copy may begin in a store in which none is under way."""
    copy_of_it = made_from(target)[0] == begun.source
    if begun.again and not copy_of_it:
        raise Conflict(
            f"the store to copy into is no finished copy of {begun.source}: --again would forget whatever else it "
            "holds; leave it out, or say --into to add to what is there"
        )
    if not (begun.again or into or _empty(target)):
        hint = "say --again to bring this copy up to date" if copy_of_it else "say --into to add to what is there"
        raise Conflict(f"the store to copy into is not empty; name a new one, or {hint}")


def made_from(target: Store) -> tuple[str | None, datetime]:
    """What a store is a finished copy of, and when it was finished."""
    made = json.loads(target.get_value(SOURCE) or "{}")
    return made.get("from"), datetime.fromisoformat(made.get("at", "0001-01-01T00:00:00+00:00"))


def finish(target: Store, *, complete: bool, now: datetime, copy: bool = True) -> None:
    """End a copy: with its note taken away, or, where something is missing, so that it is looked at again in full.

    A target that is no `copy`, because it held others' memories before, cannot be brought up to date later.
    """
    kept = target.get_value(NOTE)
    if kept is None:
        return
    found = HalfDone(**json.loads(kept))
    if complete:
        made = json.dumps({"from": found.source, "at": now.isoformat()})
        target.keep({NOTE: None, SOURCE: made if copy else None}, expected={NOTE: kept})
    else:
        again = HalfDone(found.source, found.vectors, found.again)
        target.keep({NOTE: json.dumps(asdict(again))}, expected={NOTE: kept})


def _begun(source: Store, target: Store, begun: HalfDone) -> Noted:
    noted = Noted(target, begun, before=None)
    if source.get_value(NOTE) is not None:
        noted.remove()
        raise Invalid("both names lead to the same store; name another one to copy into")
    return noted


def _empty(store: Store) -> bool:
    """Whether a copy would find nothing there that could differ. Tokens may have been made beforehand."""
    notes = (name for name in store.list_values("") if name != SOURCE)
    return store.stats().memories == 0 and all(name.startswith(PREFIX) for name in notes)
