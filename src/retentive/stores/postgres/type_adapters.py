"""How Python values are sent to PostgreSQL and read back: any text, integers of one size, half-precision vectors.

PostgreSQL's text cannot contain NUL or half of a surrogate pair; Python's can. Each of these characters, and U+FDD0
itself, is stored as U+FDD0 (not a character in Unicode) followed by a private-use character. All other text is stored
unchanged.
"""

from __future__ import annotations

import re
import struct
from typing import Any

import numpy as np
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper, StrDumper, TextBinaryLoader, TextLoader

from retentive.stores.base import Vector

_ESCAPE = "\ufdd0"
_UNSTORABLE = re.compile("[\0\ud800-\udfff\ufdd0]")
_ESCAPED = re.compile("\ufdd0(.)", re.DOTALL)
_NUL, _ESCAPE_ITSELF, _SURROGATES, _FIRST_SURROGATE = 0xE000, 0xE001, 0xE100, 0xD800


def escape(text: str) -> str:
    """Return text in a form that PostgreSQL can store."""
    return _UNSTORABLE.sub(_escape_character, text)


def _escape_character(match: re.Match[str]) -> str:
    if match[0] == "\0":
        return _ESCAPE + chr(_NUL)
    if match[0] == _ESCAPE:
        return _ESCAPE + chr(_ESCAPE_ITSELF)
    return _ESCAPE + chr(_SURROGATES + ord(match[0]) - _FIRST_SURROGATE)


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    return _ESCAPED.sub(_unescape_character, text) if _ESCAPE in text else text


def _unescape_character(match: re.Match[str]) -> str:
    code = ord(match[1])
    if code == _NUL:
        return "\0"
    return _ESCAPE if code == _ESCAPE_ITSELF else chr(_FIRST_SURROGATE + code - _SURROGATES)


class _TextDumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj if obj.isascii() and "\0" not in obj else escape(obj))


class _TextBinaryDumper(StrBinaryDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj if obj.isascii() and "\0" not in obj else escape(obj))


class _TextLoader(TextLoader):
    def load(self, data: Buffer) -> Any:
        return unescape(str(super().load(data)))


class _TextBinaryLoader(TextBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return unescape(str(super().load(data)))


class SingleVector:
    """A vector to send in single precision, as pgvector's `vector`."""

    number_type = ">f4"

    def __init__(self, values: Vector) -> None:
        self.values = values


class HalfVector(SingleVector):
    """A vector to send in half precision, as pgvector's `halfvec`."""

    number_type = ">f2"


class _VectorDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: SingleVector) -> Buffer | None:
        return struct.pack(">HH", len(obj.values), 0) + obj.values.astype(obj.number_type).tobytes()


class _HalfVectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Vector:
        return np.frombuffer(bytes(data), ">f2", offset=4).astype(np.float32)


def register_adapters(connection: psycopg.Connection[Any], vector: TypeInfo, halfvec: TypeInfo) -> None:
    """Teach a connection these conversions, given the object ids of pgvector's types in its database."""
    adapters = connection.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(str, _TextBinaryDumper)
    # Integers of one size: otherwise a statement is prepared once for each mixture of sizes.
    adapters.register_dumper(int, Int8BinaryDumper)
    for name in ("text", "varchar"):
        adapters.register_loader(name, _TextLoader)
        adapters.register_loader(name, _TextBinaryLoader)
    for info, cls in ((vector, SingleVector), (halfvec, HalfVector)):
        info.register(connection)
        adapters.register_dumper(cls, type(f"{cls.__name__}Dumper", (_VectorDumper,), {"oid": info.oid}))
    adapters.register_loader(halfvec.oid, _HalfVectorLoader)
