"""Damaged memories in sentences, for `check` and the result of a recall; and stores that have none."""

from __future__ import annotations

from collections.abc import Sequence

from retentive.errors import Damaged
from retentive.models import NOT_ITS_TEXT, Damage, Scope, SetAside

_NAMED = 5
"""How many ids a sentence names."""


class Undamaged:
    """A part of `retentive.stores.base.Integrity` for stores that read every text as it is."""

    def damaged(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Damage]:  # noqa: ARG002
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
        lines.append(f"{len(unreadable)} memories cannot be read ({_some(unreadable)}); {unreadable_remedy}")
    if changed:
        lines.append(
            f"{len(changed)} memories have another text than the one that was stored ({_some(changed)}): it was "
            "changed by another program, or damaged; retentive doctor --repair indexes and embeds it as it is now"
        )
    return lines


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")


def left_out(damaged: Sequence[Damage]) -> str:
    """Return a sentence for memories that a recall left out."""
    reasons = {one.id: one.reason for one in damaged}
    named = "; ".join(f"{id}: {reason}" for id, reason in list(reasons.items())[:_NAMED])
    more = ", …" if len(reasons) > _NAMED else ""
    return f"{len(reasons)} damaged memories were left out ({named}{more}); run: retentive doctor"


def damaged_error(damage: Damage) -> Damaged:
    """Return the error of a method that needs this one memory."""
    return Damaged(f"memory {damage.id} is damaged: {damage.reason}; run: retentive doctor --repair")
