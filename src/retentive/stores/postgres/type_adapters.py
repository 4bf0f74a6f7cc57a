"""How Python values are sent to PostgreSQL and read back: any text, integers of one size, vectors as numpy arrays.

PostgreSQL's text cannot contain NUL or half of a surrogate pair; Python's can. Each of these characters, and U+FDD0
itself, is stored as U+FDD0 (not a character in Unicode) followed by a private-use character. All other text is stored
unchanged.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format
from psycopg.types import TypeInfo
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper
from psycopg.types.string import StrBinaryDumper, StrDumper, TextBinaryLoader, TextLoader

from retentive.errors import Invalid
from retentive.stores.values import Vector

_ESCAPE = "\ufdd0"
_ESCAPED = {"\0": "\ufdd0\ue000", _ESCAPE: "\ufdd0\ue001"} | {
    chr(0xD800 + number): _ESCAPE + chr(0xE100 + number) for number in range(0x800)
}
_UNESCAPED = {escaped: character for character, escaped in _ESCAPED.items()}
_UNSTORABLE = re.compile("[\0\ud800-\udfff\ufdd0]")
_ESCAPE_SEQUENCE = re.compile("\ufdd0.", re.DOTALL)

_VECTOR_TYPES = """
    SELECT t.typname, t.oid, t.typarray, n.nspname
    FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
    JOIN pg_type AS t ON t.typnamespace = n.oid AND t.typname IN ('vector', 'halfvec')
    WHERE e.extname = 'vector'
"""


def escape(text: str) -> str:
    """Return text in a form that PostgreSQL can store."""
    return _UNSTORABLE.sub(lambda match: _ESCAPED[match[0]], text)


def unescape(text: str) -> str:
    """Return the text that `escape` was given."""
    return _ESCAPE_SEQUENCE.sub(lambda match: _UNESCAPED.get(match[0], match[0]), text) if _ESCAPE in text else text


def unescape_row(row: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
    """Return a row whose text was read as it is stored, with the text that `escape` was given."""
    for place in places:
        value = row[place]
        if value is not None and _ESCAPE in value:
            return [unescape(one) if isinstance(one, str) else one for one in row]
    return row


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


class _VectorDumper(Dumper):
    format = Format.BINARY
    number_type = ">f4"

    def dump(self, obj: Vector) -> Buffer | None:
        return struct.pack(">HH", len(obj), 0) + obj.astype(self.number_type).tobytes()


class _HalfVectorDumper(_VectorDumper):
    number_type = ">f2"


class _HalfVectorLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Vector:
        return np.frombuffer(bytes(data), ">f2", offset=4).astype(np.float32)


def register_adapters(connection: psycopg.Connection[Any]) -> str:
    """Teach a connection these conversions, and return the schema in which pgvector is installed."""
    adapters = connection.adapters
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(str, _TextBinaryDumper)
    # Integers of one size: otherwise a statement is prepared once for each mixture of sizes. Lists are sent as text, so
    # both formats must agree: psycopg keeps one dumper for all lists whose integers have the same type in binary.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(int, Int8BinaryDumper)
    # No column is varchar: a search casts to it, so that psycopg reads much text without calling Python for each value.
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("text", _TextBinaryLoader)
    found = connection.execute(_VECTOR_TYPES).fetchall()
    if len(found) < 2:
        raise Invalid("the types of pgvector were not found; run: CREATE EXTENSION vector")
    types = {name: TypeInfo(name, oid, array_oid) for name, oid, array_oid, _ in found}
    for info in types.values():
        info.register(connection)
    # A parameter is sent as the type registered last, `vector`; COPY chooses by the type of the column.
    for name, dumper in (("halfvec", _HalfVectorDumper), ("vector", _VectorDumper)):
        adapters.register_dumper(np.ndarray, type(dumper.__name__, (dumper,), {"oid": types[name].oid}))
    adapters.register_loader(types["halfvec"].oid, _HalfVectorLoader)
    return str(found[0][3])
