"""Damaged memories in sentences, for `check` and the result of a recall; and stores that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retentive.errors import Damaged
from retentive.models import Scope, Serializable, counted

NOT_ITS_TEXT = "its text is not the one that was stored"
UNREADABLE = "it cannot be read"
"""The reasons of damage: the text does not match its hash, or the row cannot be decoded."""

_NAMED = 5
"""How many ids a sentence names."""


@dataclass(frozen=True, slots=True)
class Damage(Serializable):
    """A memory that is stored but cannot be returned, and why. `retentive doctor --repair` handles it."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SetAside(Serializable):
    """A memory that could not be read when the store was repaired, and the legible part of its text."""

    id: str
    reason: str
    at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class Repair(Serializable):
    """What a repair did, by the ids of memories.

    `changed` have another text than the one that was stored, and were indexed as they are. `set_aside` could not be
    read. `vectors_removed` is the number of vectors that belonged to no memory, and `stale_vectors` the number of other
    memories that had a vector of another text and were embedded again.
    """

    memories: int = 0
    changed: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()
    vectors_removed: int = 0
    stale_vectors: int = 0


@dataclass(frozen=True, slots=True)
class Recovery(Serializable):
    """What was saved of a damaged file.

    `changed` are the ids of memories that may not have their original text. `lost` are memories whose text cannot be
    read, and `damaged_rows` is the number of rows, of any table, that cannot be read at all.
    """

    memories: int
    changed: tuple[str, ...]
    lost: tuple[Damage, ...]
    damaged_rows: int
    judgements: int
    settings: int


class Undamaged:
    """A part of `retentive.stores.base.Integrity` for stores that read every text as it is."""

    def damaged(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Damage]:
        return []

    def set_aside(self) -> list[SetAside]:
        return []


def damage_sentences(
    damaged: Sequence[Damage], *, unreadable_remedy: str = "retentive doctor --repair sets them aside"
) -> list[str]:
    """Return a sentence for each kind of damage, with some of the ids and what to do."""
    lines = []
    changed = [one.id for one in damaged if one.reason == NOT_ITS_TEXT]
    unreadable = [one.id for one in damaged if one.reason != NOT_ITS_TEXT]
    if unreadable:
        lines.append(f"{counted(len(unreadable), 'memory')} cannot be read ({_some(unreadable)}); {unreadable_remedy}")
    if changed:
        lines.append(
            f"{counted(len(changed), 'memory has', 'memories have')} another text than the one that was "
            f"stored ({_some(changed)}): it was changed by another program, "
            "or damaged; retentive doctor --repair indexes and embeds it as it is now"
        )
    return lines


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")


def left_out(damaged: Sequence[Damage]) -> str:
    """Return a sentence for memories that a recall left out."""
    reasons = {one.id: one.reason for one in damaged}
    named = "; ".join(f"{id}: {reason}" for id, reason in list(reasons.items())[:_NAMED])
    more = ", …" if len(reasons) > _NAMED else ""
    memories = counted(len(reasons), "damaged memory was", "damaged memories were")
    return f"{memories} left out ({named}{more}); run: retentive doctor"


def damaged_error(damage: Damage) -> Damaged:
    """Return the error of a method that needs this one memory."""
    return Damaged(f"memory {damage.id} is damaged: {damage.reason}; run: retentive doctor --repair")
