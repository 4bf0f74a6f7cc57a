"""Changes of many memories in transactions of bounded duration, between which other writers get their turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic

BATCH_SECONDS = 0.05
"""About how long one transaction of a large change takes."""

FIRST_BATCH = 64
_LARGEST = 1000


def batches(keys: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield keys in batches; the time that the caller takes for one determines the size of the next."""
    size, at = FIRST_BATCH, 0
    while at < len(keys):
        started = monotonic()
        yield keys[at : at + size]
        at += size
        took = max(monotonic() - started, 1e-6)
        size = max(8, min(int(size * BATCH_SECONDS / took), 2 * size, _LARGEST))
