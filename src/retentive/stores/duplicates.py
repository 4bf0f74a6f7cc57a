"""Texts that a write repeats: the same in every store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from retentive.errors import Conflict
from retentive.models import Memory
from retentive.stores.values import Duplicates
from retentive.text.normal_form import normalised

Home = tuple[Any, Any]
"""The profile and the project of a memory, by their names or ids."""


def find_repeated(
    memories: Sequence[Memory],
    homes: Sequence[Home],
    stored: Callable[[Home, Memory], Iterable[Memory]],
    duplicates: Duplicates,
) -> list[str | None]:
    """Return for each memory the id of the one that it repeats, a stored or an earlier one; None for a new one.

    `stored` returns the memories of a home with the content hash of a memory. `Conflict` if repeats are refused.
    """
    known: dict[tuple[Home, str], tuple[int, str | None]] = {}
    repeated: list[str | None] = []
    for place, (memory, home) in enumerate(zip(memories, homes, strict=True)):
        text = normalised(memory.text)
        if (home, text) in known:
            first, original = known[home, text]
            if duplicates.action == "refuse":
                raise Conflict(f"memory {first + 1} of the request has the text of a later one; nothing was stored")
            repeated.append(original or memories[first].id)
            continue
        same = (
            one.id for one in stored(home, memory) if one.is_current(duplicates.at) and normalised(one.text) == text
        )
        found = next(same, None)
        if found is not None and duplicates.action == "refuse":
            raise Conflict(f"memory {found} has the same text already; nothing was stored")
        known[home, text] = place, found
        repeated.append(found)
    return repeated


def counted_repeats(memory: Memory, times: int) -> Mapping[str, Any]:
    """Return the metadata of a memory that has been repeated some more times."""
    count = memory.metadata.get("repeats", 0)
    return {**memory.metadata, "repeats": (count if isinstance(count, int) else 0) + times}
