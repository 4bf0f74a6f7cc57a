"""Which imported memories have replaced others, by the keys that they have in their source."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from uuid import UUID

import numpy as np

from retentive.stores.base import Store
from retentive.stores.validity import retired
from retentive.stores.values import Record

BATCH = 500


class Replacements:
    """Collects replacements while a source is read, because an item may name one that comes later."""

    def __init__(self, store: Store) -> None:
        self._store = store
        # 24 bytes for each item, so that memory stays small however many there are: the hash of its key, and its id.
        self._keys = array("Q")
        self._ids = bytearray()
        self._replaced: dict[str, int] = {}

    def add(self, key: str, id: str, superseded_by: str) -> None:
        """Add an item, and the key of the one that replaced it, if there is one."""
        if key:
            self._keys.append(_hash(key))
            self._ids += UUID(id).bytes
        if superseded_by and superseded_by != key:
            self._replaced[id] = _hash(superseded_by)

    def write(self) -> None:
        """Store what replaced what. A memory without an end ends when the one that replaced it starts."""
        wanted = np.fromiter(self._replaced.values(), np.uint64, len(self._replaced))
        keys = np.array(self._keys, np.uint64)
        places = {int(keys[at]): int(at) for at in np.flatnonzero(np.isin(keys, wanted))}
        pairs = [
            (id, str(UUID(bytes=bytes(self._ids[16 * places[key] : 16 * places[key] + 16]))))
            for id, key in self._replaced.items()
            if key in places
        ]
        for at in range(0, len(pairs), BATCH):
            batch = pairs[at : at + BATCH]
            found = {memory.id: memory for memory in self._store.get([id for pair in batch for id in pair])}
            for old, new in batch:
                if old in found and new in found and found[old].superseded_by is None:
                    memory = found[old]
                    end = memory.valid_to or found[new].start
                    changed = retired(memory, end, found[new], reason=memory.reason, actor=memory.actor)
                    self._store.update(
                        Record(changed), model=None, fields=("valid_to", "superseded_by"), if_version=memory.version
                    )


def _hash(key: str) -> int:
    return int.from_bytes(blake2b(key.encode(errors="surrogatepass"), digest_size=8).digest())
