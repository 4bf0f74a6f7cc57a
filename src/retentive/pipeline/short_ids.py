"""Short ids for people: the first characters of ids, as many as tell each one from all others of its scope."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from retentive.models import Scope
from retentive.stores.base import Store

SHORTEST = 8
"""The least number of characters of an id that is shown."""


def short_ids(store: Store, ids: Iterable[str], *, within: Scope) -> dict[str, str]:
    """Return a prefix of each id that no other id in a scope has.

    All of them have one length, so that they form a column.
    """
    ordered = sorted(set(ids))
    length = max((_told_apart(a, b) for a, b in pairwise(ordered)), default=0)
    length = max(length, SHORTEST)
    for id in ordered:
        length = _unique_length(store, id, length, within)
    return {id: id[:length] for id in ordered}


def _unique_length(store: Store, id: str, length: int, within: Scope) -> int:
    """The least length, from the given one on, at which no other id of the scope starts as this one does."""
    while length < len(id):
        others = [other for other in store.ids_with_prefix(id[:length], within=within, limit=2) if other != id]
        if not others:
            return length
        length = max(_told_apart(id, other) for other in others)
    return len(id)


def _told_apart(a: str, b: str) -> int:
    """How many characters tell two ids apart."""
    return next((at for at, (one, other) in enumerate(zip(a, b, strict=False), 1) if one != other), len(a) + 1)
