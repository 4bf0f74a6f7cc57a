"""Fetches what stands around the candidates in their sessions: two calls to the store, whatever their number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from retentive.models import Context, Key, Kind, Memory
from retentive.stores import Searching


def fetch_neighbours(
    store: Searching,
    memories: Mapping[Key, Memory],
    *,
    around: Sequence[Key],
    exclude: Collection[str] = (),
    kinds: Sequence[Kind] | None = None,
) -> tuple[Mapping[Key, Memory], Context]:
    """The candidates with the neighbours of those named, and who stands beside whom.

    Neighbours come from the same session, so from the same profile and project; what the caller already has, and kinds
    it did not ask for, stay out.
    """
    beside = store.neighbours([key for key in around if key in memories])
    new = {key for pair in beside.values() for key in pair if key is not None and key not in memories}
    found = {
        key: memory
        for key, memory in store.fetch(sorted(new, key=str)).items()
        if memory.id not in exclude and (kinds is None or memory.kind in kinds)
    }
    known = {**memories, **found}
    return known, Context(tuple(found.values()), _beside(known, beside))


def _beside(
    known: Mapping[Key, Memory], beside: Mapping[Key, tuple[Key | None, Key | None]]
) -> dict[str, tuple[str | None, str | None]]:
    """For every memory that has a session, the ids before and behind it; those not asked for go by their positions."""
    ids: dict[Key | None, str] = {key: memory.id for key, memory in known.items()}
    places = {(memory.session, memory.position): memory.id for memory in known.values()}
    pairs: dict[str, tuple[str | None, str | None]] = {}
    for key, memory in known.items():
        if memory.session is None:
            continue
        if key in beside:
            before, behind = beside[key]
            pairs[memory.id] = ids.get(before), ids.get(behind)
        else:
            at = memory.position or 0
            pairs[memory.id] = places.get((memory.session, at - 1)), places.get((memory.session, at + 1))
    return pairs
