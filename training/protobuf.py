"""The small part of the protocol buffer format that an ONNX file needs, so that no library is needed for it.

A message is a list of fields, each with a number and a value: an integer, or bytes (text, packed numbers, a message).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7
"""ONNX's numbers for the types of tensors."""

DTYPES = {FLOAT: np.float32, UINT8: np.uint8, INT8: np.int8, INT32: np.int32, INT64: np.int64}
TYPES = {np.dtype(dtype): number for number, dtype in DTYPES.items()}

Array = npt.NDArray[np.generic]


def varint(value: int) -> bytes:
    """An integer, seven bits in each byte; a negative one has ten bytes."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field of a message."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + np.float32(value).tobytes()
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message, in the order of the file."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(key & 7)
        if size is None:
            size, at = _varint(message, at)
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def tensor(name: str, array: Array) -> bytes:
    """A `TensorProto`."""
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, TYPES[array.dtype]) + field(8, name) + field(9, np.ascontiguousarray(array).tobytes())


def read_tensor(message: memoryview) -> tuple[str, Array]:
    """The name and the values of a `TensorProto`."""
    dims: list[int] = []
    name, kind, raw, values = "", FLOAT, memoryview(b""), None
    for number, value in fields(message):
        if number == 1:
            dims += [value] if isinstance(value, int) else _packed(value)
        elif number == 2 and isinstance(value, int):
            kind = value
        elif not isinstance(value, int):
            if number == 4:
                values = np.frombuffer(value, np.float32)
            elif number in (5, 7):
                values = np.array(_packed(value), np.int64)
            elif number == 8:
                name = bytes(value).decode()
            elif number == 9:
                raw = value
    found = np.frombuffer(raw, DTYPES[kind]) if values is None else values.astype(DTYPES[kind])
    return name, found.reshape(dims)


def _packed(message: memoryview) -> list[int]:
    at, found = 0, []
    while at < len(message):
        value, at = _varint(message, at)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found
