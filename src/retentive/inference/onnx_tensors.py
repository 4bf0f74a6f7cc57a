"""Reads the stored tensors of an ONNX file without a copy and without the package `onnx`.

An ONNX file is one protobuf message. Only the fields that lead to its tensors are read; everything else is skipped.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

Tensor = npt.NDArray[np.generic]

# The numbers of fields and types in onnx.proto.
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _TYPE, _NAME, _RAW = 1, 2, 8, 9
_TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}

_CUT = "the file ends inside a field"


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the stored tensors by name. They are views of the file, which stays mapped while one of them is used."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    found: dict[str, Tensor] = {}
    for graph_field, graph in _fields(data):
        if graph_field != _GRAPH or isinstance(graph, int):
            continue
        for field, message in _fields(graph):
            if field == _INITIALIZER and not isinstance(message, int):
                name, tensor = _tensor(message)
                found[name] = tensor
    return found


def _tensor(message: memoryview) -> tuple[str, Tensor]:
    dims: list[int] = []
    kind, name, raw = 0, "", memoryview(b"")
    for field, value in _fields(message):
        if isinstance(value, int):
            if field == _DIMS:
                dims.append(value)
            elif field == _TYPE:
                kind = value
        elif field == _DIMS:  # packed
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                dims.append(number)
        elif field == _NAME:
            name = bytes(value).decode()
        elif field == _RAW:
            raw = value
    if kind not in _TYPES:
        raise ValueError(f"tensor {name} has type {kind}, which is not read")
    return name, np.frombuffer(raw, _TYPES[kind]).reshape(dims)


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: their numbers, with integers or the bytes of strings and messages."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == 2:
            size, at = _varint(message, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError(f"field {number} has wire type {wire}, which no ONNX file has")
        if at + size > len(message):
            raise ValueError(_CUT)
        if wire == 2:
            yield number, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError(_CUT)
