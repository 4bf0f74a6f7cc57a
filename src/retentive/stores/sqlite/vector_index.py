"""Nearest-neighbour search in memory: exact in small scopes, sign codes with exact rescoring in large ones.

The blocks of one model are held in memory, and of the vectors that searches have read a copy that is rounded to bytes.
Each search first checks whether any process has written since the last one, and reads only the blocks that changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import apsw
import numpy as np
import numpy.typing as npt

from retentive.stores.sqlite.memory_table import IDENTITY, ResolvedScope
from retentive.stores.sqlite.vector_blocks import (
    BLOCK,
    Records,
    Slots,
    changed_blocks,
    read_block,
    read_vectors,
    record_type,
    signs,
    slots_in_model,
)
from retentive.stores.sqlite.vector_codes import Codes, Places, by_distance, by_rounded, by_signs, rounded
from retentive.stores.values import Vector

EXACT = 20_000
"""Scopes of up to this many vectors are searched exactly. Codes lose recall on small or dense sets."""

RESCORED = 4_096
"""At least this many of the nearest by their codes are compared by the rounded vectors, which finds the nearest of them
exactly; a 250th of the scope if that is more."""

CODED = 50
"""Of a large scope, a 50th, the nearest by the codes of both, is compared by the vector and the code first, if
it is more than are rescored."""

DIRECT = 256
"""Of up to this many vectors the exact ones are read at once."""

CACHED_ROUNDED = 400 << 20
"""At most this many bytes of rounded vectors are cached (a million of 384 dimensions); then the cache is emptied."""

CACHED = 72 << 20
"""At most this many bytes of exact vectors are cached (49,000 of 384 dimensions); then the cache is emptied."""

MAX_KEYS = 16
"""The places of vectors are recorded for keys of up to this many times the capacity. Larger ones are of a store of
which most was forgotten, or of a damaged block; those places are read from the store."""

MOST_EMPTY = 64
"""An index in memory with more empty blocks than this is created anew, if they are most of its blocks."""


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
        caches: tuple[_Cache, _Cache] | None = None,
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
        self._caches = caches or (_Cache(dimension, CACHED, _unchanged), _Cache(dimension, CACHED_ROUNDED, rounded))
        self._exact, self._rounded = self._caches

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
                    caches=self._caches,
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
        only: npt.NDArray[np.int64] | None = None,
        keep: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]] | None = None,
        approximate: bool = False,
    ) -> list[tuple[int, float]]:
        """The keys of the nearest memories in the scope with their cosines, best first; only of `only` if given.

        `keep` tells which keys are searched; without it all are. `approximate`: of a large scope, few vectors are read.
        """
        columns, count = self._filled()
        inside = columns.within(scope, count)
        places = np.flatnonzero(inside) if np.count_nonzero(inside) <= EXACT else None
        if only is not None or keep is not None or exclude:
            keys = columns.memory[:count] if places is None else columns.memory[places]
            searched = _searched(keys, only, keep, exclude)
            if places is None:
                inside &= searched
            else:
                places = places[searched]
        if places is None:
            places = _by_codes(columns.codes, vector, inside, limit, approximate=approximate)
        places = places[columns.memory[places] != 0]  # another thread may be clearing some
        if len(places) > DIRECT:
            rows = self._rounded.rows(connection, self._block_places, places)
            places = places[by_rounded(*rows, vector, columns.memory[places], limit)]
        (cached,), numbers = self._exact.rows(connection, self._block_places, places)
        there = numbers > 0
        if not there.all():
            places, numbers = places[there], numbers[there]
        return _best(columns.memory[places], _cosines(cached, numbers, vector), limit)

    def score(self, connection: apsw.Connection, vector: Vector, keys: Sequence[int]) -> dict[int, float]:
        """The cosine of the nearest part of each of these memories that has one."""
        owners, places = self._places(connection, keys)
        (cached,), numbers = self._exact.rows(connection, self._block_places, places)
        found: dict[int, float] = {}
        for key, number, score in zip(owners, numbers, _cosines(cached, numbers, vector).tolist(), strict=True):
            if number:
                found[key] = max(score, found.get(key, score))
        return found

    def first_vectors(self, connection: apsw.Connection, keys: Sequence[int]) -> dict[int, Vector]:
        """The vector of the first part of each of these memories that has one."""
        owners, places = self._places(connection, keys)
        (cached,), numbers = self._exact.rows(connection, self._block_places, places)
        first: dict[int, Vector] = {}
        for key, number in zip(owners, numbers, strict=True):
            if number:
                first.setdefault(key, cached[number])
        return first

    def _filled(self) -> tuple[_Columns, int]:
        """The columns and how many of their slots are in use, both of one moment."""
        with self._refreshing:
            return self._columns, self._count

    def _places(self, connection: apsw.Connection, keys: Sequence[int]) -> tuple[list[int], Places]:
        """The places of the vectors of these memories, with the memory of each."""
        columns, count = self._filled()
        owners, places, unknown = columns.places_of(np.array(keys, np.int64), count)
        if not len(unknown):
            return owners.tolist(), places
        read, slots = slots_in_model(connection, unknown.tolist(), self.model)
        more = self._block_places.places(np.array(slots, np.int64))
        there = more >= 0
        return [*owners.tolist(), *np.array(read, np.int64)[there].tolist()], np.concatenate([places, more[there]])


def _searched(
    keys: npt.NDArray[np.int64],
    only: npt.NDArray[np.int64] | None,
    keep: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.bool_]] | None,
    exclude: frozenset[int],
) -> npt.NDArray[np.bool_]:
    """Which of these keys are searched."""
    found = np.ones(len(keys), np.bool_) if keep is None else keep(keys)
    if only is not None:
        found &= np.isin(keys, only)
    if exclude:
        found &= ~np.isin(keys, list(exclude))
    return found


def _by_codes(codes: Codes, vector: Vector, inside: npt.NDArray[np.bool_], limit: int, *, approximate: bool) -> Places:
    """The places inside; if there are many, about the nearest by their sign codes."""
    size = int(np.count_nonzero(inside))
    if size <= EXACT:
        return np.flatnonzero(inside)
    rescored = max(DIRECT, limit) if approximate else max(RESCORED, 30 * limit, size // 250)
    places = by_distance(codes, signs(vector[None, :])[0], inside, max(rescored, size // CODED))
    return by_signs(codes, vector, places, rescored) if approximate or size // CODED > rescored else places


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

    def places(self, slots: Slots) -> Places:
        """The places of these slots; negative where a block was empty when it was first read."""
        offsets = slots % BLOCK
        first = [self._place_of.get(block, -BLOCK) for block in (slots - offsets).tolist()]
        found: Places = np.array(first, np.intp) + offsets
        return found

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
        self._first = np.full(1, -1, np.int32)  # the place of the first vector of a memory, by its key
        self.scope = {name: np.zeros(capacity, np.int32) for name in ("profile", "project", "session", "kind")}
        self.codes = np.zeros((-(-dimension // 64), capacity), np.uint64)

    def grown(self, capacity: int) -> _Columns:
        """A copy with this capacity, which is not smaller."""
        larger = _Columns(capacity, self._dimension)
        larger.memory[: self.capacity] = self.memory
        larger._first = self._first.copy()
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
        keys = self.memory[part] = records["memory"]
        used = np.flatnonzero((keys > 0) & (keys < MAX_KEYS * self.capacity))
        starts = used[(keys[used] != keys[used - 1]) | (used == 0)]  # of the vectors of each memory
        if at and len(starts) and starts[0] == 0 and self.memory[at - 1] == keys[0]:
            starts = starts[1:]  # its first vector is in the block before
        size = int(keys[used].max(initial=0)) + 1
        if size > len(self._first):
            more = np.full(max(size, 2 * len(self._first)) - len(self._first), -1, np.int32)
            self._first = np.concatenate([self._first, more])
        self._first[keys[starts]] = at + starts

    def places_of(
        self, keys: npt.NDArray[np.int64], count: int
    ) -> tuple[npt.NDArray[np.int64], Places, npt.NDArray[np.int64]]:
        """The places of the vectors of these memories, with the key of each, and the keys of which none is known.

        The vectors of a memory are side by side. What is recorded may be outdated, so each place is checked.
        """
        first, last = self._first, count - 1
        places = np.where(keys < len(first), first[np.minimum(keys, len(first) - 1)], -1).astype(np.intp)
        known = (places >= 0) & (places <= last) & (self.memory[np.minimum(places, last)] == keys)
        owners, found = [keys[known]], [places[known]]
        while len(found[-1]):
            following = found[-1] + 1
            same = (following <= last) & (self.memory[np.minimum(following, last)] == owners[-1])
            owners.append(owners[-1][same])
            found.append(following[same])
        return np.concatenate(owners), np.concatenate(found), keys[~known]

    def within(self, scope: ResolvedScope, count: int) -> npt.NDArray[np.bool_]:
        """A mask of the slots in the scope. No scope has the ids of an unused slot, which are 0."""
        if scope.containers is None:
            inside: npt.NDArray[np.bool_] = self.scope["profile"][:count] == scope.profile
        else:  # a project or session is of one profile
            inside = _any_of(self.scope["session"][:count], scope.containers.sessions)
            if scope.containers.projects:
                inside |= _any_of(self.scope["project"][:count], scope.containers.projects)
            if scope.shares_identity:
                shared = self.scope["kind"][:count] == IDENTITY
                shared &= self.scope["project"][:count] == 0
                inside |= shared & (self.scope["profile"][:count] == scope.profile)
        if scope.outside_projects:
            inside &= self.scope["project"][:count] == 0
        if scope.kinds is not None:
            inside &= _any_of(self.scope["kind"][:count], scope.kinds)
        return inside


def _any_of(column: npt.NDArray[np.int32], ids: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    if len(ids) > 4:
        return np.isin(column, ids)
    found = np.zeros(len(column), np.bool_) if not ids else column == ids[0]
    for id in ids[1:]:
        found |= column == id
    return found


def _unchanged(vectors: Vector) -> tuple[npt.NDArray[Any], ...]:
    return (vectors,)


class _Cache:
    """The vectors that searches have read, encoded as rows of some arrays, in the order in which they were first read.

    Row 0 is that of a vector of zeros, for one that a snapshot does not have, or that has a wrong length.
    """

    def __init__(self, dimension: int, most: int, encode: Callable[[Vector], tuple[npt.NDArray[Any], ...]]) -> None:
        """With at most so many bytes, beside small arrays."""
        self._dimension = dimension
        self._encode = encode
        self._filling = threading.Lock()
        self._most = most
        self._columns: tuple[npt.NDArray[Any], ...] = ()
        self._used = 0
        self._row_of = np.full(BLOCK, -1, np.int32)

    def _clear(self) -> None:
        """Forget all vectors. Running searches keep the old arrays."""
        size = max([len(column) for column in self._columns], default=BLOCK)
        zero = self._encode(np.zeros((1, self._dimension), np.float32))
        self._columns = tuple(_extended(column, size) for column in zero)
        self._used = 1
        self._row_of = np.full(len(self._row_of), -1, np.int32)

    def rows(
        self, connection: apsw.Connection, blocks: _BlockPlaces, places: Places
    ) -> tuple[tuple[npt.NDArray[Any], ...], npt.NDArray[np.int32]]:
        """The cached arrays, and the row number of each place; missing vectors are read from the file."""
        with self._filling:
            if not self._columns:
                self._clear()
            top = int(places.max(initial=0)) + 1
            if top > len(self._row_of):
                more = np.full(max(top, 2 * len(self._row_of)) - len(self._row_of), -1, np.int32)
                self._row_of = np.concatenate([self._row_of, more])
            numbers = self._row_of[places]
            missing = places[numbers < 0]
            if len(missing):
                most = self._most // self._columns[0][0].nbytes
                if self._used + len(missing) > max(most, len(places) + 1):
                    self._clear()
                    missing = places
                for at in range(0, len(missing), 4 * BLOCK):  # few at once, so that this takes little memory
                    self._read(connection, blocks, missing[at : at + 4 * BLOCK])
                numbers = np.maximum(self._row_of[places], 0)
            return self._columns, numbers

    def _read(self, connection: apsw.Connection, blocks: _BlockPlaces, missing: Places) -> None:
        wanted = blocks.slots(missing)
        slots, found = read_vectors(connection, wanted, self._dimension)
        last = self._used + len(found)
        if last > len(self._columns[0]):
            # By a half: where the rows fill most of a process's memory, twice as many would be too much.
            size = max(last, 3 * len(self._columns[0]) // 2)
            self._columns = tuple(_extended(column, size) for column in self._columns)
        for column, values in zip(self._columns, self._encode(found), strict=True):
            column[self._used : last] = values
        order = np.argsort(wanted)
        there = missing[order[np.searchsorted(wanted, slots, sorter=order)]]
        self._row_of[there] = np.arange(self._used, last)
        self._used = last


def _extended(column: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    larger = np.empty((size, *column.shape[1:]), column.dtype)
    larger[: len(column)] = column
    return larger


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
