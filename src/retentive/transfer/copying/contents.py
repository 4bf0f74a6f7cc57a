"""What a store holds, as counts and checksums that do not depend on the order in which it is read."""

from __future__ import annotations

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from retentive.stores import Record, Store
from retentive.transfer.copying.canonical import rounded, written, written_use

STRETCH = 500
_SIZE = 16

ScopeIds = npt.NDArray[np.uint64]


@dataclass(slots=True)
class Checksum:
    """The sum of a hash of each thing, so that order does not matter and no thing can stand for two."""

    things: int = 0
    total: int = 0

    def add(self, *parts: bytes) -> None:
        """Take in one thing."""
        digest = hashlib.blake2b(digest_size=_SIZE)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        self.things += 1
        self.total = (self.total + int.from_bytes(digest.digest(), "big")) % 2 ** (8 * _SIZE)

    def __str__(self) -> str:
        return f"{self.total:0{2 * _SIZE}x}"


@dataclass(slots=True)
class Contents:
    """All memories of a store. `sampled` are some of them, the same whichever store they are read from."""

    memories: Checksum = field(default_factory=Checksum)
    use: Checksum = field(default_factory=Checksum)
    vectors: Checksum = field(default_factory=Checksum)
    by_profile: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    by_session: Counter[tuple[str, str | None, str | None]] = field(default_factory=Counter)
    sampled: list[Record] = field(default_factory=list)
    numbers: ScopeIds = field(default_factory=lambda: np.empty(0, np.uint64))

    def take(self, record: Record) -> None:
        """Take in one memory."""
        memory = record.memory
        self.memories.add(written(memory))
        self.use.add(memory.id.encode(), written_use(memory))
        for part, row in enumerate(() if record.vectors is None else record.vectors):
            self.vectors.add(memory.id.encode(), str(part).encode(), rounded(row))
        self.by_profile[memory.profile] += 1
        self.by_kind[memory.kind] += 1
        if memory.session is not None:
            self.by_session[memory.profile, memory.project, memory.session] += 1


def read_contents(
    store: Store,
    *,
    sample: int = 0,
    only: ScopeIds | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Contents:
    """What the store holds, or what it holds of the memories with `only` these numbers, in one walk."""
    contents, numbers, chosen = Contents(), [], _Sample(sample)
    for records in _stretches(store):
        here = numbers_of(record.memory.id for record in records)
        inside = np.ones(len(here), bool) if only is None else _within(here, only)
        numbers.append(here[inside])
        for record, number, wanted in zip(records, here.tolist(), inside.tolist(), strict=True):
            if wanted:
                contents.take(record)
                chosen.offer(number, record)
        progress(len(records))
    contents.numbers = np.sort(np.concatenate(numbers)) if numbers else contents.numbers
    contents.sampled = chosen.records()
    return contents


def _stretches(store: Store) -> Iterable[list[Record]]:
    cursor = None
    while True:
        stretch = store.walk(cursor=cursor, limit=STRETCH)
        yield list(stretch.records)
        cursor = stretch.next_cursor
        if cursor is None:
            return


def numbers_of(ids: Iterable[str]) -> ScopeIds:
    """Eight bytes for each id, so that a hundred million of them can be held and looked up."""
    digests = [hashlib.blake2b(id.encode(), digest_size=8).digest() for id in ids]
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _within(numbers: ScopeIds, known: ScopeIds) -> npt.NDArray[np.bool_]:
    at = np.searchsorted(known, numbers)
    found = at < len(known)
    found[found] = known[at[found]] == numbers[found]
    return found


class _Sample:
    """The memories of the smallest numbers: as good as chance, and the same for every order of reading."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._largest_first: list[tuple[int, int, Record]] = []
        self._offered = 0

    def offer(self, number: int, record: Record) -> None:
        self._offered += 1  # keeps the heap from ever comparing records
        if len(self._largest_first) < self._size:
            heapq.heappush(self._largest_first, (-number, self._offered, record))
        elif self._size and -number > self._largest_first[0][0]:
            heapq.heapreplace(self._largest_first, (-number, self._offered, record))

    def records(self) -> list[Record]:
        return [record for _, _, record in sorted(self._largest_first, key=lambda item: item[:2], reverse=True)]
