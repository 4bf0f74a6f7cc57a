"""The compiled library: the two models of this package and the scans of vectors, on x86-64 and 64-bit ARM processors.

It is compiled when the package is built (`hatch_build.py`). Where there is none, or the processor lacks an instruction,
onnxruntime computes the models and numpy the scans: `retentive.inference.bert` and
`retentive.stores.sqlite.vector_codes` decide between them.
"""

from __future__ import annotations

import ctypes
import os
import struct
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LIBRARY = Path(__file__).parent / "library.so"
VERSION = 4
"""What `library_version` of a library that was compiled from these sources returns."""

_ADDRESS, _INT, _LONG, _DOUBLE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double
_TEXT = ctypes.c_char_p


def _array(kind: type[np.generic], dimensions: int = 1) -> Any:
    """An array whose type and layout are checked in each call."""
    return np.ctypeslib.ndpointer(kind, ndim=dimensions, flags="C_CONTIGUOUS")


def _arguments() -> dict[str, list[Any]]:
    """The types of the arguments of each function."""
    bytes, flags, integers, longs = _array(np.int8), _array(np.bool_), _array(np.int32), _array(np.int64)
    floats, doubles, words, table = _array(np.float32), _array(np.float64), _array(np.uint64), _array(np.uint64, 2)
    return {
        "bert_pack": [_array(np.int8, 2), _INT, _INT, bytes, floats],
        "bert_run": [_ADDRESS, _INT, integers, integers, integers, _INT, bytes, _array(np.float32, 2)],
        "bm25_scores": [_TEXT, doubles, _INT, _TEXT, _LONG, _DOUBLE, _DOUBLE, _DOUBLE, _LONG, doubles],
        "scan_distances": [table, _LONG, _INT, words, flags, _LONG, _array(np.uint16)],
        "scan_signs": [table, _LONG, _INT, table, floats, _INT, longs, _LONG, floats],
        "scan_bytes": [_array(np.int8, 2), _LONG, integers, _LONG, floats, floats],
    }


INSTRUCTION_SETS = ("avx2", "avx-vnni", "avx512-vnni", "amx", "neon", "neon-dotprod")
"""The instruction sets of the models in the order of their numbers in the library, the first of which is 1."""


@cache
def library() -> Any:
    """The library, or None."""
    if not LIBRARY.is_file() or os.environ.get("RETENTIVE_NATIVE") == "0" or not _is_whole(LIBRARY):
        return None
    try:
        found = ctypes.CDLL(str(LIBRARY))
        if found.library_version() != VERSION:
            return None
    except (OSError, AttributeError):
        return None  # compiled for another system or from other sources
    found.bert_scratch_bytes.restype = ctypes.c_int64
    for name, types in _arguments().items():
        getattr(found, name).argtypes = types
    return found


def _is_whole(path: Path) -> bool:
    """Whether a library of Linux has its last part, the table of sections: to load a part of one ends the process."""
    with path.open("rb") as file:
        header = file.read(64)
    if len(header) < 64:
        return False
    if not header.startswith(b"\x7fELF"):
        return True  # of another system
    (table,) = struct.unpack_from("<Q", header, 40)
    size, count = struct.unpack_from("<HH", header, 58)
    return bool(path.stat().st_size >= table + size * count)


@cache
def instruction_sets() -> tuple[str, ...]:
    """The instruction sets that models can use on this machine, the fastest last; empty if there is no library.

    Asking for them also asks the kernel for the registers of AMX.
    """
    found = library()
    return tuple(name for number, name in enumerate(INSTRUCTION_SETS, 1) if found and found.bert_supports(number))


@cache
def can_scan() -> bool:
    """Whether the functions below can be used."""
    found = library()
    return bool(found and found.scan_supported())


def code_distances(
    codes: npt.NDArray[np.uint64], code: npt.NDArray[np.uint64], inside: npt.NDArray[np.bool_]
) -> npt.NDArray[np.uint16]:
    """The Hamming distances of codes to a code; a larger number than any distance for those that are not inside.

    Row w of `codes` has word w of each code; there may be more codes than `inside` has places.
    """
    if len(code) != len(codes) or len(inside) > codes.shape[1]:
        raise ValueError(f"{len(inside)} places, and a code of {len(code)} words, do not fit codes {codes.shape}")
    distances = np.empty(len(inside), np.uint16)
    code = np.ascontiguousarray(code)
    library().scan_distances(codes, codes.shape[1], len(codes), code, inside, len(inside), distances)
    return distances


def sign_products(
    codes: npt.NDArray[np.uint64],
    places: npt.NDArray[np.int64],
    planes: npt.NDArray[np.uint64],
    weights: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """For the codes at some places, the weighted sum of the number of bits that each has in common with each plane."""
    if planes.shape != (len(weights), len(codes)):
        raise ValueError(f"planes {planes.shape} and {len(weights)} weights do not fit codes {codes.shape}")
    _check_within(places, codes.shape[1])
    products = np.empty(len(places), np.float32)
    planes, weights = np.ascontiguousarray(planes), np.ascontiguousarray(weights, np.float32)
    library().scan_signs(codes, codes.shape[1], len(codes), planes, weights, len(planes), places, len(places), products)
    return products


def byte_products(
    rows: npt.NDArray[np.int8], numbers: npt.NDArray[np.int32], vector: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The dot products of these rows with a vector."""
    if len(vector) != rows.shape[1]:
        raise ValueError(f"a vector of {len(vector)} numbers does not fit rows of {rows.shape[1]}")
    _check_within(numbers, len(rows))
    products = np.empty(len(numbers), np.float32)
    vector = np.ascontiguousarray(vector, np.float32)
    library().scan_bytes(rows, rows.shape[1], numbers, len(numbers), vector, products)
    return products


def _check_within(places: npt.NDArray[Any], size: int) -> None:
    """Raise `IndexError` unless all places are those of an array of this size."""
    if len(places) and not (places.min() >= 0 and places.max() < size):
        raise IndexError(f"places {places.min()} to {places.max()} are not all within {size}")
