"""Python's values as PostgreSQL's, and back: any text at all, whole numbers of one size, half-precision vectors.

PostgreSQL's text can hold neither NUL nor half of a surrogate pair, Python's can. U+FDD0, which is no character, leads
in a stand-in for each of them and for itself; all other text is stored as it is.
"""

from __future__ import annotations

import re
import struct
from typing import Any, cast

import numpy as np
import psycopg
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryDumper
from psycopg.types.string import StrBinaryDumper, StrDumper, TextBinaryLoader, TextLoader

from retentive.errors import Invalid
from retentive.stores import Vector

_LEAD = "\ufdd0"
_UNSTORABLE = re.compile("[\0\ud800-\udfff\ufdd0]")
_STAND_IN = re.compile("\ufdd0(.)", re.DOTALL)
_LOW, _SURROGATES, _FIRST_SURROGATE = 0xE000, 0xE100, 0xD800


def escaped(text: str) -> str:
    """Text as PostgreSQL can store it."""
    return _UNSTORABLE.sub(_stand_in, text)


def _stand_in(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x80:
        return _LEAD + chr(_LOW)
    return _LEAD + (chr(_LOW + 1) if found[0] == _LEAD else chr(_SURROGATES + code - _FIRST_SURROGATE))


def unescaped(text: str) -> str:
    """Text as it was given."""
    return _STAND_IN.sub(_stood_for, text) if _LEAD in text else text


def _stood_for(found: re.Match[str]) -> str:
    code = ord(found[1])
    if code == _LOW:
        return "\0"
    return _LEAD if code == _LOW + 1 else chr(_FIRST_SURROGATE + code - _SURROGATES)


class _TextDumper(StrDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj if obj.isascii() and "\0" not in obj else escaped(obj))


class _TextBinaryDumper(StrBinaryDumper):
    def dump(self, obj: str) -> Buffer | None:
        return super().dump(obj if obj.isascii() and "\0" not in obj else escaped(obj))


class _TextLoader(TextLoader):
    def load(self, data: Buffer) -> Any:
        return unescaped(cast("str", super().load(data)))


class _TextBinaryLoader(TextBinaryLoader):
    def load(self, data: Buffer) -> Any:
        return unescaped(cast("str", super().load(data)))


class Half:
    """A vector to be sent in half precision."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector


class Single:
    """A vector to be sent as it is."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector


class _HalfDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Half) -> Buffer | None:
        return struct.pack(">HH", len(obj.vector), 0) + obj.vector.astype(">f2").tobytes()


class _SingleDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Single) -> Buffer | None:
        return struct.pack(">HH", len(obj.vector), 0) + obj.vector.astype(">f4").tobytes()


class _HalfLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Vector:
        return np.frombuffer(bytes(data), ">f2", offset=4).astype(np.float32)


def adapt(connection: psycopg.Connection[Any]) -> None:
    """Teach a connection our values. The extension is there already."""
    adapters = connection.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(str, _TextBinaryDumper)
    adapters.register_dumper(int, Int8BinaryDumper)  # one size: else a statement is prepared for each mixture of sizes
    for name in ("text", "varchar"):
        adapters.register_loader(name, _TextLoader)
        adapters.register_loader(name, _TextBinaryLoader)
    for name, cls, dumper in (("halfvec", Half, _HalfDumper), ("vector", Single, _SingleDumper)):
        info = TypeInfo.fetch(connection, sql.Identifier(name))
        if info is None:
            raise Invalid("pgvector's types are not to be found; run: CREATE EXTENSION vector")
        info.register(connection)
        adapters.register_dumper(cls, type(f"{name}_dumper", (dumper,), {"oid": info.oid}))
        if name == "halfvec":
            adapters.register_loader(info.oid, _HalfLoader)
