"""The contents of a store as counts and checksums that do not depend on the order of reading.

The canonical forms are equal for memories and vectors that are equal, whichever store they are read from.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import compress
from typing import Any

import numpy as np
import numpy.typing as npt

from retentive.models import FACT_FIELDS, Memory
from retentive.stores.base import Store
from retentive.stores.rules import scan_pages
from retentive.stores.values import Record, Vector

PAGE = 500
_DIGEST_SIZE = 16

IdHashes = npt.NDArray[np.uint64]


def canonical_memory(memory: Memory) -> bytes:
    """Return the canonical form of a memory without its use: a recall does not change a memory."""
    fields = memory._replace(accessed=None, access_count=0)._asdict()
    for name in FACT_FIELDS:
        if fields[name] is None:
            del fields[name]
    for name in ("created", "occurred", "valid_from", "valid_to", "expires"):
        if name in fields:
            fields[name] = _canonical_time(fields[name])
    fields["metadata"] = _canonical_numbers(dict(memory.metadata))
    return json.dumps(fields, sort_keys=True, default=str).encode()


def canonical_use(memory: Memory) -> bytes:
    """Return the canonical form of when and how often a memory was used."""
    return json.dumps([_canonical_time(memory.accessed), memory.access_count]).encode()


def canonical_vector(row: Vector) -> bytes:
    """Return a vector as float16, which is the precision of the stores."""
    return (row.astype(np.float16) + np.float16(0)).tobytes()  # adding 0 turns -0 into 0


def _canonical_time(time: datetime | None) -> str | None:
    return None if time is None else time.astimezone(UTC).isoformat()


def _canonical_numbers(value: Any) -> Any:
    """Return JSON values with whole floats as integers: some stores return 1e22, others 10000000000000000000000."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _canonical_numbers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical_numbers(item) for item in value]
    return value


@dataclass(slots=True)
class Checksum:
    """The sum of the hashes of all items, which does not depend on their order, and their count."""

    count: int = 0
    total: int = 0

    def add(self, *parts: bytes) -> None:
        """Add one item."""
        digest = hashlib.blake2b(digest_size=_DIGEST_SIZE)
        for part in parts:
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
        self.count += 1
        self.total = (self.total + int.from_bytes(digest.digest(), "big")) % 2 ** (8 * _DIGEST_SIZE)

    def __str__(self) -> str:
        return f"{self.total:0{2 * _DIGEST_SIZE}x}"


@dataclass(slots=True)
class Contents:
    """Counts and checksums of all memories in a store.

    `id_hashes` is sorted. `damaged` are the ids of memories that cannot be read, which are not counted.
    """

    memories: Checksum = field(default_factory=Checksum)
    use: Checksum = field(default_factory=Checksum)
    vectors: Checksum = field(default_factory=Checksum)
    by_profile: Counter[str] = field(default_factory=Counter)
    by_kind: Counter[str] = field(default_factory=Counter)
    by_session: Counter[tuple[str, str | None, str | None]] = field(default_factory=Counter)
    damaged: set[str] = field(default_factory=set)
    id_hashes: IdHashes = field(default_factory=lambda: np.empty(0, np.uint64))

    def add(self, record: Record) -> None:
        """Add one memory."""
        memory = record.memory
        self.memories.add(canonical_memory(memory))
        self.use.add(memory.id.encode(), canonical_use(memory))
        own = record.alone().vectors  # the vector of two turns may not have been copied
        for part, row in enumerate(() if own is None else own):
            self.vectors.add(memory.id.encode(), str(part).encode(), canonical_vector(row))
        self.by_profile[memory.profile] += 1
        self.by_kind[memory.kind] += 1
        if memory.session is not None:
            self.by_session[memory.profile, memory.project, memory.session] += 1


def read_contents(
    store: Store,
    *,
    only: IdHashes | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> Contents:
    """Scan a store once and return its contents, or those of the memories whose id hashes are in `only`."""
    contents, id_hashes = Contents(), []
    for page in scan_pages(store, limit=PAGE):
        records = page.records
        contents.damaged.update(damage.id for damage in page.damaged)
        hashes = hash_ids(record.memory.id for record in records)
        included = np.ones(len(hashes), bool) if only is None else are_in(hashes, only)
        id_hashes.append(hashes[included])
        for record in compress(records, included):
            contents.add(record)
        progress(len(records))
    contents.id_hashes = np.sort(np.concatenate(id_hashes)) if id_hashes else contents.id_hashes
    return contents


def hash_ids(ids: Iterable[str]) -> IdHashes:
    """Return eight bytes for each id, so that a hundred million ids fit into memory."""
    digests = [hashlib.blake2b(id.encode(), digest_size=8).digest() for id in ids]
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def are_in(hashes: IdHashes, known: IdHashes) -> npt.NDArray[np.bool_]:
    """Whether each of these hashes is among the known ones, which are sorted."""
    at = np.searchsorted(known, hashes)
    found = at < len(known)
    found[found] = known[at[found]] == hashes[found]
    return found
