"""The compiled library: the two models of this package and the scans of vectors, on x86-64 processors.

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
_ARGUMENTS = {
    "bert_pack": [_ADDRESS, _INT, _INT, _ADDRESS, _ADDRESS],
    "bert_run": [_ADDRESS, _INT, _ADDRESS, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _ADDRESS],
    "bm25_scores": [_TEXT, _ADDRESS, _INT, _TEXT, _LONG, _DOUBLE, _DOUBLE, _DOUBLE, _LONG, _ADDRESS],
    "scan_distances": [_ADDRESS, _LONG, _INT, _ADDRESS, _ADDRESS, _LONG, _ADDRESS],
    "scan_signs": [_ADDRESS, _LONG, _INT, _ADDRESS, _ADDRESS, _INT, _ADDRESS, _LONG, _ADDRESS],
    "scan_bytes": [_ADDRESS, _LONG, _ADDRESS, _LONG, _ADDRESS, _ADDRESS],
}
"""The types of the arguments of each function; an address is that of an array (`array.ctypes.data`)."""

INSTRUCTION_SETS = ("avx2", "avx-vnni", "avx512-vnni", "amx")
"""The instruction sets of the models in the order of their numbers in `bert.c`."""


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
    for name, types in _ARGUMENTS.items():
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
    if len(code) != len(codes) or len(inside) > codes.shape[1] or not codes.flags.c_contiguous:
        raise ValueError(f"{len(inside)} places, and a code of {len(code)} words, do not fit codes {codes.shape}")
    distances = np.empty(len(inside), np.uint16)
    code = np.ascontiguousarray(code)
    library().scan_distances(
        codes.ctypes.data,
        codes.shape[1],
        len(codes),
        code.ctypes.data,
        inside.ctypes.data,
        len(inside),
        distances.ctypes.data,
    )
    return distances


def sign_products(
    codes: npt.NDArray[np.uint64],
    places: npt.NDArray[np.intp],
    planes: npt.NDArray[np.uint64],
    weights: npt.NDArray[np.float32],
) -> npt.NDArray[np.float32]:
    """For the codes at some places, the weighted sum of the number of bits that each has in common with each plane."""
    if planes.shape != (len(weights), len(codes)) or not codes.flags.c_contiguous:
        raise ValueError(f"planes {planes.shape} and {len(weights)} weights do not fit codes {codes.shape}")
    products = np.empty(len(places), np.float32)
    planes, places = np.ascontiguousarray(planes), np.ascontiguousarray(places, np.int64)
    weights = np.ascontiguousarray(weights, np.float32)
    library().scan_signs(
        codes.ctypes.data,
        codes.shape[1],
        len(codes),
        planes.ctypes.data,
        weights.ctypes.data,
        len(planes),
        places.ctypes.data,
        len(places),
        products.ctypes.data,
    )
    return products


def byte_products(
    rows: npt.NDArray[np.int8], numbers: npt.NDArray[np.int32], vector: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """The dot products of these rows with a vector."""
    if len(vector) != rows.shape[1] or not rows.flags.c_contiguous:
        raise ValueError(f"a vector of {len(vector)} numbers does not fit rows of {rows.shape[1]}")
    products = np.empty(len(numbers), np.float32)
    vector = np.ascontiguousarray(vector, np.float32)
    library().scan_bytes(
        rows.ctypes.data,
        rows.shape[1],
        numbers.ctypes.data,
        len(numbers),
        vector.ctypes.data,
        products.ctypes.data,
    )
    return products
