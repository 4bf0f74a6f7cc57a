"""Nearest-neighbour search in memory: exact in small scopes, sign codes with exact rescoring in large ones.

The blocks of one model are held in memory, and the vectors that searches have read. Each search first checks whether
any process has written since the last one, and reads only the blocks that changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

import apsw
import numpy as np
import numpy.typing as npt

from retentive.stores.sqlite.memory_table import IDENTITY, ResolvedScope
from retentive.stores.sqlite.vector_blocks import (
    BLOCK,
    MODEL_SHIFT,
    Records,
    Slots,
    changed_blocks,
    read_block,
    read_vectors,
    record_type,
    signs,
)
from retentive.stores.values import Vector

EXACT = 20_000
"""Scopes of up to this many vectors are searched exactly. Codes lose recall on small or dense sets."""

RESCORED = 4_096
"""At least this many of the nearest by code are rescored exactly; a 25th of the scope if that is more."""

CACHED = 400_000
"""At most this many vectors are cached (600 MB at 384 dimensions); then the cache is emptied."""

MOST_EMPTY = 64
"""An index in memory with more empty blocks than this is created anew, if they are most of its blocks."""

Places = npt.NDArray[np.intp]


class VectorIndex:
    """The vectors of one model, for any number of threads."""

    def __init__(
        self,
        model: int,
        dimension: int,
        *,
        columns: _Columns | None = None,
        places: _BlockPlaces | None = None,
        count: int = 0,
        cache: _Cache | None = None,
    ) -> None:
        self.model = model
        self.dimension = dimension
        self._refreshing = threading.Lock()
        self._sequence = 0
        self._written: dict[int, int] = {}  # the sequence number of each block, by its first place
        self._emptied = 0  # the highest sequence number of a block that was empty when it was first read
        self._empty: set[int] = set()  # the first places of blocks that have become empty
        self._count = count
        self._columns = columns or _Columns(BLOCK, dimension)
        self._block_places = places or _BlockPlaces()
        self._cache = cache or _Cache(dimension)

    def in_snapshot(self, connection: apsw.Connection, sequence: int) -> VectorIndex:
        """This index in the snapshot of a connection, whose sequence number is given.

        The blocks that any process wrote up to it are read first. If a search on a later snapshot has already read
        later blocks, the result is a copy that has the blocks of this snapshot in their place.
        """
        if sequence == self._sequence:
            return self
        with self._refreshing:
            if self._emptied > sequence:  # in this snapshot, blocks that were left out here are not empty
                return VectorIndex(self.model, self.dimension).in_snapshot(connection, sequence)
            later = [at for at, written in self._written.items() if written > sequence]
            if later:
                columns = self._columns.grown(self._columns.capacity)
                for at in later:
                    columns.put(at, read_block(connection, self._block_places.first_slot(at), self.dimension))
                return VectorIndex(
                    self.model,
                    self.dimension,
                    columns=columns,
                    places=self._block_places,
                    count=self._count,
                    cache=self._cache,
                )
            for first, written, data in changed_blocks(connection, self.model, since=self._sequence):
                self._put(first, written, data)
            self._sequence = max(self._sequence, sequence)
            return self

    def _put(self, first: int, written: int, data: bytes) -> None:
        """Copy a block into the columns, given its first slot."""
        at = self._block_places.find(first)
        if at is None and not data:
            self._emptied = max(self._emptied, written)
            return
        if at is None:
            at = self._count
            if at + BLOCK > self._columns.capacity:
                # Running searches continue with the old arrays.
                self._columns = self._columns.grown(2 * self._columns.capacity)
            self._block_places.add(first, at)
            self._count = at + BLOCK
        kind = record_type(self.dimension)
        self._columns.put(at, np.frombuffer(data, kind) if data else np.zeros(BLOCK, kind))
        self._written[at] = written
        if not data:
            self._empty.add(at)

    @property
    def is_sparse(self) -> bool:
        """Whether most blocks in memory have become empty; then an index that is created anew is smaller and faster."""
        return len(self._empty) > MOST_EMPTY and 2 * BLOCK * len(self._empty) > self._count

    def search(
        self,
        connection: apsw.Connection,
        vector: Vector,
        scope: ResolvedScope,
        *,
        limit: int,
        exclude: frozenset[int],
        only: Sequence[int] | None = None,
        keep: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]] | None = None,
    ) -> list[tuple[int, float]]:
        """The keys of the nearest memories in the scope with their cosines, best first; only of `only` if given.

        `keep` tells which keys are searched; without it all are.
        """
        count = self._count
        columns = self._columns
        places = np.flatnonzero(columns.within(scope, count))
        if only is not None:
            places = places[np.isin(columns.memory[places], only)]
        if keep is not None:
            places = places[keep(columns.memory[places])]
        if exclude:
            places = places[~np.isin(columns.memory[places], list(exclude))]
        if len(places) > EXACT:
            nearest = max(RESCORED, 30 * limit, len(places) // 25)
            places = columns.nearest(signs(vector[None, :])[0], places, count, nearest)
        scores = _cosines(*self._cache.rows(connection, self._block_places, places), vector)
        return _best(columns.memory[places], scores, limit)

    def score(
        self, connection: apsw.Connection, vector: Vector, slots: Mapping[int, Sequence[int]]
    ) -> dict[int, float]:
        """The cosine of each memory's nearest part, given the slots of the memories by key."""
        owners, places = self._places(slots)
        scores = _cosines(*self._cache.rows(connection, self._block_places, places), vector)
        found: dict[int, float] = {}
        for key, score in zip(owners, scores.tolist(), strict=True):
            found[key] = max(score, found.get(key, score))
        return found

    def first_vectors(self, connection: apsw.Connection, slots: Mapping[int, Sequence[int]]) -> dict[int, Vector]:
        """The vector of each memory's first part, given the slots of the memories by key."""
        owners, places = self._places(slots)
        cached, numbers = self._cache.rows(connection, self._block_places, places)
        rows = cached[numbers]
        first: dict[int, Vector] = {}
        for key, row in zip(owners, rows, strict=True):
            first.setdefault(key, row)
        return first

    def _places(self, slots: Mapping[int, Sequence[int]]) -> tuple[list[int], Places]:
        """The places of this model's slots, with the memory of each."""
        pairs = [
            (key, at + slot % BLOCK)
            for key, of_memory in slots.items()
            for slot in of_memory
            if slot >> MODEL_SHIFT == self.model and (at := self._block_places.find(slot - slot % BLOCK)) is not None
        ]
        return [key for key, _ in pairs], np.array([place for _, place in pairs], np.intp)


class _BlockPlaces:
    """The place of each block in the columns. Blocks keep their place, and new ones are added at the end."""

    def __init__(self) -> None:
        self._place_of: dict[int, int] = {}
        self._first_slots = np.zeros(0, np.int64)

    def find(self, first: int) -> int | None:
        """The first place of a block, given its first slot; None if it was empty when it was first read."""
        return self._place_of.get(first)

    def add(self, first: int, at: int) -> None:
        """Give a block the next place."""
        self._place_of[first] = at
        self._first_slots = np.append(self._first_slots, first)

    def first_slot(self, at: int) -> int:
        """The first slot of the block at a place."""
        return int(self._first_slots[at // BLOCK])

    def slots(self, places: Places) -> Slots:
        """The slots at these places."""
        found: Slots = self._first_slots[places // BLOCK] + places % BLOCK
        return found


class _Columns:
    """Owner, scope and sign code of every slot, one array each. Sign codes are stored by word, not by slot."""

    def __init__(self, capacity: int, dimension: int) -> None:
        self.capacity = capacity
        self._dimension = dimension
        self.memory = np.zeros(capacity, np.int64)
        self.scope = {name: np.zeros(capacity, np.int32) for name in ("profile", "project", "session", "kind")}
        self.codes = np.zeros((-(-dimension // 64), capacity), np.uint64)

    def grown(self, capacity: int) -> _Columns:
        """A copy with this capacity, which is not smaller."""
        larger = _Columns(capacity, self._dimension)
        larger.memory[: self.capacity] = self.memory
        larger.codes[:, : self.capacity] = self.codes
        for name, column in self.scope.items():
            larger.scope[name][: self.capacity] = column
        return larger

    def put(self, at: int, records: Records) -> None:
        """Copy a block's records into the columns."""
        part = slice(at, at + len(records))
        for name, column in self.scope.items():
            column[part] = records[name]
        self.codes[:, part] = records["code"].T
        self.memory[part] = records["memory"]

    def within(self, scope: ResolvedScope, count: int) -> npt.NDArray[np.bool_]:
        """A mask of the slots that are in use and in the scope."""
        inside: npt.NDArray[np.bool_] = self.scope["profile"][:count] == scope.profile
        if scope.containers is not None:
            projects, sessions = self.scope["project"][:count], self.scope["session"][:count]
            within = _any_of(projects, scope.containers.projects) | _any_of(sessions, scope.containers.sessions)
            if scope.shares_identity:
                within |= (projects == 0) & (self.scope["kind"][:count] == IDENTITY)
            inside &= within
        if scope.kinds is not None:
            inside &= _any_of(self.scope["kind"][:count], scope.kinds)
        inside &= self.memory[:count] != 0
        return inside

    def nearest(self, code: npt.NDArray[np.uint64], places: Places, count: int, wanted: int) -> Places:
        """The places with the smallest Hamming distance to the code."""
        if wanted >= len(places):
            return places
        # For most of the store, read sequentially; for a part of it, gather that part first.
        whole = 2 * len(places) > count
        distance = np.zeros(count if whole else len(places), np.uint16)
        for word, column in zip(code, self.codes, strict=True):
            distance += np.bitwise_count((column[:count] if whole else column[places]) ^ word)
        if whole:
            distance = np.take(distance, places, mode="clip")
        # Distances are small integers: counting finds the threshold faster than sorting, and keeps the places in order,
        # which makes reading their vectors faster too.
        limit = int(np.searchsorted(np.cumsum(np.bincount(distance)), wanted))
        return places[np.flatnonzero(distance <= limit)]  # a third of the time that the mask itself would take


def _any_of(column: npt.NDArray[np.int32], ids: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    return np.isin(column, ids) if len(ids) != 1 else column == ids[0]


class _Cache:
    """The vectors that searches have read, as float32 rows in the order in which they were first read."""

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._filling = threading.Lock()
        # Row 0 is all zeros, for a vector that a snapshot does not have.
        self._rows: Vector = np.zeros((BLOCK, dimension), np.float32)
        self._used = 1
        self._row_of = np.full(BLOCK, -1, np.int32)

    def rows(
        self, connection: apsw.Connection, blocks: _BlockPlaces, places: Places
    ) -> tuple[Vector, npt.NDArray[np.int32]]:
        """The cached rows, and the row number of each place; missing vectors are read from the file."""
        if not len(places):
            return self._rows, np.zeros(0, np.int32)
        with self._filling:
            top = int(places.max()) + 1
            if top > len(self._row_of):
                more = np.full(max(top, 2 * len(self._row_of)) - len(self._row_of), -1, np.int32)
                self._row_of = np.concatenate([self._row_of, more])
            numbers = self._row_of[places]
            missing = places[numbers < 0]
            if len(missing):
                self._read(connection, blocks, missing, places)
                numbers = np.maximum(self._row_of[places], 0)
            return self._rows, numbers

    def _read(self, connection: apsw.Connection, blocks: _BlockPlaces, missing: Places, places: Places) -> None:
        if self._used + len(missing) > max(CACHED, len(places) + 1):
            # Running searches keep the old arrays.
            self._rows = np.zeros((BLOCK, self._dimension), np.float32)
            self._used = 1
            self._row_of = np.full(len(self._row_of), -1, np.int32)
            missing = places
        wanted = blocks.slots(missing)
        slots, found = read_vectors(connection, wanted, self._dimension)
        last = self._used + len(found)
        if last > len(self._rows):
            larger = np.empty((max(last, 2 * len(self._rows)), self._dimension), np.float32)
            larger[: self._used] = self._rows[: self._used]
            self._rows = larger
        self._rows[self._used : last] = found
        order = np.argsort(wanted)
        there = missing[order[np.searchsorted(wanted, slots, sorter=order)]]
        self._row_of[there] = np.arange(self._used, last)
        self._used = last


def _cosines(rows: Vector, numbers: npt.NDArray[np.int32], vector: Vector) -> npt.NDArray[np.float32]:
    """The dot products of these rows with the vector.

    In batches of 256 rows, so that the gathered rows stay in the CPU cache and BLAS does not start threads, which cost
    more than the arithmetic when the cores are busy (measured: 0.5 ms against 8). `take` releases the interpreter's
    lock, which `rows[…]` does not.
    """
    products = np.empty(len(numbers), np.float32)
    gathered = np.empty((min(len(numbers), 256), rows.shape[1]), np.float32)
    for at in range(0, len(numbers), 256):
        part = numbers[at : at + 256]
        first, last = int(part[0]), int(part[-1])
        if last - first == len(part) - 1 and bool((part[1:] > part[:-1]).all()):
            few = rows[first : last + 1]  # already side by side: nothing to gather (a third of the time)
        else:
            few = gathered[: len(part)]
            np.take(rows, part, axis=0, out=few, mode="clip")  # every number is valid; "raise" would copy once more
        np.dot(few, vector, out=products[at : at + 256])
    return products


def _best(owners: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], limit: int) -> list[tuple[int, float]]:
    """The best memories, each by its best part; equal scores by age."""
    wanted = 2 * limit + 32  # most memories have one part
    while True:
        part = np.argpartition(-scores, wanted)[:wanted] if wanted < len(scores) else np.arange(len(scores))
        order = part[np.lexsort((owners[part], -scores[part]))]
        best: dict[int, float] = {}
        for owner, score in zip(owners[order].tolist(), scores[order].tolist(), strict=True):
            best.setdefault(owner, score)
        if len(best) >= limit or wanted >= len(scores):
            return list(best.items())[:limit]
        wanted *= 4
