"""Which memories of a target were copied from its source, recorded in the target: an update deletes no others.

The record is a list of changes. A memory has eight bytes in it, so that a million memories take 11 MB.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from retentive.errors import Conflict
from retentive.stores.base import Store
from retentive.stores.json_entries import JsonEntries, Transaction
from retentive.transfer.copying.contents import IdHashes, are_in, hash_ids

CHANGE_SIZE = 20_000
"""How many ids one change has at most."""

NAMES_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class _Change:
    """Ids that were copied, or that are no longer in the target, as hashes."""

    kind: Literal["copied", "gone"]
    hashes: str


COPIED = JsonEntries[_Change]("copied/", _Change)


class CopiedIds:
    """The ids of the memories in a target that were copied from its source.

    A copy that was finished by an earlier version has no record: none of its memories is known to be copied, until the
    next update finds it in both stores.
    """

    def __init__(self, target: Store) -> None:
        self._target = target
        changes = COPIED.list(target)
        self._number = max(map(int, changes), default=-1) + 1
        self._hashes = _replay([change for _, change in sorted(changes.items())])
        self._new: list[IdHashes] = []

    def add(self, ids: Sequence[str]) -> None:
        """Record ids that are copied now; those that are recorded already are left out."""
        hashes = hash_ids(ids)
        new = hashes[~are_in(hashes, self._hashes)]
        self._record("copied", new)
        self._new.append(new)

    def others(self, ids: Sequence[str]) -> list[str]:
        """Return which of these were not copied."""
        self._merge()
        copied = are_in(hash_ids(ids), self._hashes)
        return [id for id, known in zip(ids, copied.tolist(), strict=True) if not known]

    def keep(self, present: IdHashes) -> None:
        """Record that of the copied ids only these are still in the target."""
        self._merge()
        left = are_in(self._hashes, np.sort(present))
        self._record("gone", self._hashes[~left])
        self._hashes = self._hashes[left]

    def _merge(self) -> None:
        self._hashes = np.union1d(self._hashes, np.concatenate(self._new)) if self._new else self._hashes
        self._new = []

    def _record(self, kind: Literal["copied", "gone"], hashes: IdHashes) -> None:
        for at in range(0, len(hashes), CHANGE_SIZE):
            change = _Change(kind, base64.b64encode(hashes[at : at + CHANGE_SIZE].astype("<u8").tobytes()).decode())
            transaction = Transaction(self._target)
            transaction.create(COPIED, change, f"{self._number:010d}")
            if not transaction.commit():
                raise Conflict("another copy into this store is running; wait until it ends, then run this again")
            self._number += 1


def clear_copied_ids(target: Store) -> None:
    """Delete the record: the target becomes a copy of another source, or none."""
    names = list(target.list_values(COPIED.prefix))
    for at in range(0, len(names), NAMES_AT_ONCE):
        target.compare_and_set(dict.fromkeys(names[at : at + NAMES_AT_ONCE]))


def _replay(changes: Iterable[_Change]) -> IdHashes:
    """Return the ids, sorted, that are left after all changes."""
    hashes, copied = np.empty(0, np.uint64), [np.empty(0, np.uint64)]
    for change in changes:
        found = np.frombuffer(base64.b64decode(change.hashes), "<u8").astype(np.uint64)
        if change.kind == "copied":
            copied.append(found)
        else:
            hashes, copied = np.setdiff1d(np.concatenate([hashes, *copied]), found), []
    return np.unique(np.concatenate([hashes, *copied]))
