"""How the SQLite store chooses the vectors of a large scope that it compares exactly."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from retentive import native
from retentive.stores.sqlite import vector_codes
from retentive.stores.sqlite.vector_blocks import signs
from retentive.stores.sqlite.vector_codes import by_distance, by_rounded, by_signs, rounded
from retentive.stores.values import Vector

DIMENSION = 100  # not a multiple of 64: the last word of a code has unused bits


def unit(count: int, *, seed: int) -> Vector:
    """Unit vectors with one much larger component, as some models have them."""
    points = np.random.default_rng(seed).standard_normal((count, DIMENSION))
    points[:, 7] += 4
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


VECTORS, QUERY = unit(5000, seed=1), unit(1, seed=2)[0]
CODES = np.ascontiguousarray(signs(VECTORS).T)


@pytest.fixture(autouse=True, params=["numpy", "library"] if native.can_scan() else ["numpy"])
def computed_by(request, monkeypatch):
    """Every test here runs with numpy, and with the library where it can be used."""
    if request.param == "numpy":
        monkeypatch.setattr(native, "can_scan", lambda: False)


def test_distances_are_those_of_numpy_however_many_codes_there_are():
    random = np.random.default_rng(5)
    for words, count in ((1, 1), (2, 15), (6, 16), (6, 17), (6, 1000), (16, 33)):
        codes = random.integers(0, 2**64, (words, count + 5), dtype=np.uint64)
        code, inside = codes[:, 0], random.random(count) < 0.7

        found = vector_codes._distances(codes, code, inside)

        other = np.bitwise_count(codes[:, :count] ^ code[:, None]).sum(axis=0)
        assert found.tolist() == np.where(inside, other, 64 * words + 1).tolist()


def test_products_with_signs_are_those_of_numpy_to_the_last_bit(monkeypatch):
    random = np.random.default_rng(8)
    weights = np.array([1, 2, 4, 8, -7.3], np.float32)
    for words, count in ((1, 1), (2, 7), (6, 8), (6, 1000)):
        codes = random.integers(0, 2**64, (words, count), dtype=np.uint64)
        planes = random.integers(0, 2**64, (5, words), dtype=np.uint64)
        places = np.flatnonzero(random.random(count) < 0.6)

        found = vector_codes._sign_products(codes, places, planes, weights)
        with monkeypatch.context() as patched:
            patched.setattr(native, "can_scan", lambda: False)
            expected = vector_codes._sign_products(codes, places, planes, weights)

        assert np.array_equal(found, expected)


@pytest.mark.parametrize("dimension", [1, 31, 32, 100, 384])
def test_products_of_bytes_are_those_of_numpy_whatever_the_dimension(dimension):
    random = np.random.default_rng(6)
    rows = random.integers(-127, 128, (300, dimension), dtype=np.int8)
    vector = random.standard_normal(2 * dimension).astype(np.float32)[::2]
    for numbers in ([0], [5, 3, 299], list(range(300))):
        found = vector_codes._products(rows, np.array(numbers, np.int32), vector)

        exact = rows[numbers].astype(np.float64) @ vector.astype(np.float64)
        assert found == pytest.approx(exact, rel=1e-5, abs=1e-3)


def test_the_nearest_by_distance_are_those_inside_with_the_fewest_other_signs():
    other = np.count_nonzero((VECTORS > 0) != (QUERY > 0), axis=1)
    for share in (1.0, 0.6, 0.1):  # read sequentially, with some left out, gathered
        inside = np.random.default_rng(3).random(len(VECTORS)) < share

        found = by_distance(CODES, signs(QUERY[None, :])[0], inside, 100)

        assert inside[found].all()
        assert (np.diff(found) > 0).all()
        assert len(found) >= 100
        assert other[found].max() == np.sort(other[inside])[99]


def test_a_distance_that_all_have_keeps_all_inside_and_none_outside():
    inside = np.arange(len(VECTORS)) < 4000
    same = np.repeat(CODES[:, :1], len(VECTORS), axis=1)

    assert by_distance(same, same[:, 0], inside, 10).tolist() == list(range(4000))


def test_the_nearest_by_signs_have_the_largest_dot_products_with_the_query():
    exact = np.where(VECTORS > 0, 1, -1) @ QUERY
    places = np.arange(0, len(VECTORS), 2)

    found = by_signs(CODES, QUERY, places, 200)

    assert len(found) == 200
    assert (np.diff(found) > 0).all()
    assert np.isin(found, places).all()
    best = places[np.argsort(-exact[places])[:150]]
    assert np.isin(best, found).mean() > 0.95  # the query is rounded to a few bits
    assert by_signs(CODES, QUERY, places, len(places)) is places


@pytest.mark.parametrize("parts", [1, 3, 200])
def test_no_vector_of_the_nearest_memories_is_lost_by_rounding(parts: int):
    owners = np.arange(len(VECTORS)) // parts
    exact = VECTORS @ QUERY
    best = np.array([exact[owners == owner].max() for owner in np.unique(owners)])
    columns = rounded(VECTORS)
    numbers = np.arange(len(VECTORS), dtype=np.int32)
    for limit in (1, 20, 100):
        found = by_rounded(columns, numbers, QUERY, owners, limit)

        nearest = np.argsort(-best)[:limit]
        assert {(owner, best[owner]) for owner in nearest} <= set(zip(owners[found], exact[found], strict=True))
        if parts == 1:
            assert len(found) < 4 * limit + 100  # few besides are compared exactly


def test_a_vector_of_zeros_is_rounded_to_zeros():
    numbers, steps = rounded(np.zeros((1, DIMENSION), np.float32))

    assert not numbers.any()
    assert steps.tolist() == [0.0]


def test_arrays_that_do_not_fit_are_refused():
    one = np.zeros(1, np.int32)
    with pytest.raises(ValueError):
        vector_codes._products(np.zeros((2, 4), np.int8), one, np.zeros(3, np.float32))
    with pytest.raises(ValueError):
        vector_codes._distances(CODES[:, :10].copy(), CODES[:, 0], np.ones(11, np.bool_))


needs_library = pytest.mark.skipif(not native.can_scan(), reason="needs the compiled library")


@needs_library
@pytest.mark.parametrize("at", [-1, 40, 2**31])
def test_the_library_refuses_places_that_are_none_of_the_array(at):
    codes, rows = np.ones((2, 40), np.uint64), np.ones((40, 8), np.int8)
    with pytest.raises(IndexError):
        native.sign_products(codes, np.array([0, at]), np.ones((3, 2), np.uint64), np.ones(3, np.float32))
    if at < 2**31:
        with pytest.raises(IndexError):
            native.byte_products(rows, np.array([0, at], np.int32), np.ones(8, np.float32))


@needs_library
def test_the_library_refuses_arrays_of_another_type_or_layout():
    codes, rows = np.ones((2, 40), np.uint64), np.ones((40, 8), np.int8)
    places, numbers, vector = np.arange(20), np.arange(20, dtype=np.int32), np.ones(8, np.float32)
    planes, weights, inside = np.ones((3, 2), np.uint64), np.ones(3, np.float32), np.ones(40, np.bool_)

    for refused in (
        lambda: native.byte_products(rows, numbers.astype(np.int64), vector),
        lambda: native.byte_products(rows, numbers[::2], vector),
        lambda: native.byte_products(rows[:, ::-1], numbers, vector),
        lambda: native.byte_products(rows.astype(np.int16), numbers, vector),
        lambda: native.sign_products(codes, places[::2], planes, weights),
        lambda: native.sign_products(codes, places.astype(np.int32), planes, weights),
        lambda: native.sign_products(codes.astype(np.float64), places, planes, weights),
        lambda: native.code_distances(codes, codes[:, 0], inside[::2]),
        lambda: native.code_distances(codes, codes[:, 0], inside.astype(np.int64)),
        lambda: native.code_distances(codes, codes[:, 0].astype(np.uint32), inside),
    ):
        with pytest.raises(ctypes.ArgumentError):
            refused()
