"""Reads values of PostgreSQL that Python has no equal of, so that one such value does not end the reading of its table.

A time such as `infinity`, one before the year 1 or after 9999, is read as its text. JSON that Python does not read is
read as None.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.abc import Buffer, Loader
from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader
from psycopg.types.json import JsonbLoader, JsonLoader


class _Timestamp(TimestampLoader):
    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return _text(data)


class _TimestampWithZone(TimestamptzLoader):
    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return _text(data)


class _Date(DateLoader):
    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)
        except psycopg.DataError:
            return _text(data)


class _Json(JsonLoader):
    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)
        except (ValueError, RecursionError):  # a number of 5,000 digits, or nested too deeply
            return None


class _Jsonb(JsonbLoader):
    def load(self, data: Buffer) -> Any:
        try:
            return super().load(data)
        except (ValueError, RecursionError):
            return None


_LOADERS: dict[str, type[Loader]] = {
    "timestamp": _Timestamp,
    "timestamptz": _TimestampWithZone,
    "date": _Date,
    "json": _Json,
    "jsonb": _Jsonb,
}


def read_odd_values(connection: psycopg.Connection[tuple[Any, ...]]) -> None:
    """Read the values of this connection in this way."""
    for name, loader in _LOADERS.items():
        connection.adapters.register_loader(name, loader)


def _text(data: Buffer) -> str:
    return bytes(data).decode(errors="replace")
