"""Which vectors of a large scope are compared exactly: by their sign codes, then by their vectors rounded to bytes.

Each step keeps a part of the slots and takes more time for each of them than the one before it: the Hamming distance of
two sign codes, the dot product of the query with a sign code, and its dot product with a rounded vector. The first two
may leave out one of the nearest; the last one does not, because its error is bounded. The compiled library computes
them in a third of the time that numpy takes, or less.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from retentive import native
from retentive.stores.values import Vector

Places = npt.NDArray[np.intp]
Codes = npt.NDArray[np.uint64]
"""The sign codes of all slots by word: row w has word w of each."""

_QUERY_BITS = 4
"""Bits of each number of a query in its dot product with sign codes."""

_SAMPLED = 16_384
"""The distribution of more distances than this is that of a sample of about as many."""

_LARGEST = 127
_BATCH = 256
_BATCH_CODES = 32_768

_MARGIN = 1.5
"""How far the dot product of a rounded vector with a unit vector may be from the exact one, in rounding steps. Rounding
errors are independent, so that their sum has a standard deviation of 0.29 steps, and this is five of them."""


def by_distance(codes: Codes, code: npt.NDArray[np.uint64], inside: npt.NDArray[np.bool_], wanted: int) -> Places:
    """About as many of the places inside as wanted: those with the smallest Hamming distance to a code, in order."""
    places = None
    if 4 * np.count_nonzero(inside) > len(inside):  # read sequentially, and put those outside last
        distance = _distances(codes, code, inside)
    else:
        places = np.flatnonzero(inside)
        distance = _distances(np.take(codes, places, axis=1, mode="clip"), code, np.ones(len(places), np.bool_))
    # Distances are small integers: counting finds the threshold faster than sorting, and keeps the places in order,
    # which makes reading their vectors faster too.
    step = max(len(distance) // _SAMPLED, 1)
    limit = int(np.searchsorted(np.cumsum(np.bincount(distance[::step])), wanted // step))
    nearest = np.flatnonzero(distance <= min(limit, 64 * len(codes)))
    return nearest if places is None else places[nearest]


def _distances(codes: Codes, code: npt.NDArray[np.uint64], inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint16]:
    """The Hamming distances of codes to a code; for those that are not inside, a larger number than any distance."""
    if native.can_scan():
        return native.code_distances(codes, code, inside)
    distances = np.zeros(len(inside), np.uint16)
    words, bits = np.empty(_BATCH_CODES, np.uint64), np.empty(_BATCH_CODES, np.uint8)
    for at in range(0, len(distances), _BATCH_CODES):  # in batches whose arrays stay in the CPU cache
        part = distances[at : at + _BATCH_CODES]
        for column, word in zip(codes, code, strict=True):
            np.bitwise_xor(column[at : at + len(part)], word, out=words[: len(part)])
            part += np.bitwise_count(words[: len(part)], out=bits[: len(part)])
    distances[np.flatnonzero(~inside)] = 64 * len(codes) + 1
    return distances


def by_signs(codes: Codes, vector: Vector, places: Places, wanted: int) -> Places:
    """As many of the places as wanted: those with the largest dot product of the vector and the signs, in order.

    The numbers of the vector are rounded to a few bits. Then the dot product is a weighted sum of the number of bits
    that a code has in common with each of these bit planes.
    """
    if wanted >= len(places):
        return places
    least = float(vector.min())
    step = max(float(np.ptp(vector)) / (2**_QUERY_BITS - 1), 1e-12)
    levels = np.zeros(64 * len(codes), np.uint8)
    levels[: len(vector)] = np.rint((vector - least) / step)
    bits = [*(levels >> bit & 1 for bit in range(_QUERY_BITS)), np.arange(len(levels)) < len(vector)]
    planes = np.packbits(np.stack(bits), axis=1).view("<u8")
    weights = np.array([*(1 << bit for bit in range(_QUERY_BITS)), least / step], np.float32)
    # The dot product with signs is twice that with bits, less a constant: the sum of the vector.
    products = _sign_products(codes, places, planes, weights)
    kept = np.argpartition(products, len(products) - wanted)[len(products) - wanted :]
    return places[np.sort(kept)]


def _sign_products(
    codes: Codes, places: Places, planes: npt.NDArray[np.uint64], weights: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The weighted sum of the number of bits that the code at each place has in common with each plane."""
    if native.can_scan():
        return native.sign_products(codes, places, planes, weights)
    words = [np.take(column, places, mode="clip") for column in codes]
    products = np.zeros(len(places), np.float32)
    for plane, weight in zip(planes, weights, strict=True):
        common = np.zeros(len(places), np.uint16)
        for word, column in zip(plane, words, strict=True):
            common += np.bitwise_count(column & word)
        products += weight * common
    return products


def rounded(vectors: Vector) -> tuple[npt.NDArray[Any], ...]:
    """Vectors as bytes, and the rounding step of each, which multiplies its bytes."""
    steps = np.abs(vectors).max(axis=1) / np.float32(_LARGEST)
    return np.rint(vectors / np.maximum(steps, 1e-12)[:, None]).astype(np.int8), steps


def by_rounded(
    columns: tuple[npt.NDArray[Any], ...],
    numbers: npt.NDArray[np.int32],
    vector: Vector,
    owners: npt.NDArray[np.int64],
    limit: int,
) -> Places:
    """The indices of all vectors that may belong to the nearest memories, given the rows of the rounded ones."""
    rows, steps = columns[0], columns[1][numbers]
    scores = _products(rows, numbers, vector) * steps
    errors = steps * np.float32(_MARGIN * np.linalg.norm(vector))
    wanted = 2 * limit + 32  # most memories have one part
    while wanted < len(scores):
        best = np.argpartition(-scores, wanted)[:wanted]
        best = best[np.argsort(-scores[best])]
        _, first = np.unique(owners[best], return_index=True)
        if len(first) >= limit:
            # As many memories as are wanted have a part whose exact score is not less than this.
            least = (scores - errors)[best[np.sort(first)[:limit]]].min()
            return np.flatnonzero(scores + errors >= least)
        wanted *= 4
    return np.arange(len(scores))


def _products(rows: npt.NDArray[np.int8], numbers: npt.NDArray[np.int32], vector: Vector) -> npt.NDArray[np.float32]:
    """The dot products of these rows with the vector."""
    if native.can_scan():
        return native.byte_products(rows, numbers, vector)
    products = np.empty(len(numbers), np.float32)
    gathered = np.empty((min(len(numbers), _BATCH), rows.shape[1]), np.int8)
    floats = np.empty(gathered.shape, np.float32)
    for at in range(0, len(numbers), _BATCH):  # in batches that stay in the CPU cache
        part = numbers[at : at + _BATCH]
        few, first, last = floats[: len(part)], int(part[0]), int(part[-1])
        if last - first == len(part) - 1 and bool((part[1:] > part[:-1]).all()):
            np.copyto(few, rows[first : last + 1])  # already side by side: nothing to gather
        else:
            np.take(rows, part, axis=0, out=gathered[: len(part)], mode="clip")
            np.copyto(few, gathered[: len(part)])
        np.dot(few, vector, out=products[at : at + _BATCH])
    return products
