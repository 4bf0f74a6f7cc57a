"""A SQLite file with a table `episodes`, and tables `sessions` and `projects` that it refers to by integer ids.

Chat services that keep their messages in SQLite, with FTS5 for words and vectors elsewhere, have such a file. Only
`episodes` and its text are required; `tables` tells which columns are recognised.

The file is untrusted and perhaps in use: it is opened read-only, in one snapshot, and its views and functions do not
run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from retentive.errors import Invalid
from retentive.stores.sqlite.connections import APPLICATION_ID
from retentive.transfer.formats.base import ImportEntry, ReadWarning, Truncated
from retentive.transfer.formats.streams import MAX_LINE_BYTES, open_file
from retentive.transfer.formats.tables import (
    COLUMNS,
    PROJECT_COLUMNS,
    SESSION_COLUMNS,
    Table,
    read_row,
    recognise,
    select_rows,
    warn_of_columns,
)

_HEADER = b"SQLite format 3\0"
_WAIT_MS = 5000


class SqliteTables:
    """The episodes of another program in a SQLite file."""

    name = "sqlite"

    def recognises(self, path: Path) -> bool:
        if not path.is_file():
            return False
        try:
            with open_file(path) as file:
                return file.read(len(_HEADER)) == _HEADER
        except Invalid:
            return False

    def read(self, path: Path) -> Iterator[ImportEntry]:
        if not self.recognises(path):
            yield Truncated(path.name, "it is not a SQLite file")
            return
        try:
            with closing(_open(path)) as connection:
                yield from _read_episodes(path, connection)
        except apsw.Error as error:
            yield Truncated(path.name, str(error))


def _open(path: Path) -> apsw.Connection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"file:{quote(str(path.resolve()))}?mode=ro", flags=flags)
    connection.set_busy_timeout(_WAIT_MS)
    connection.limit(apsw.SQLITE_LIMIT_LENGTH, MAX_LINE_BYTES)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.execute("PRAGMA cell_size_check = ON; BEGIN").fetchall()
    return connection


def _read_episodes(path: Path, connection: apsw.Connection) -> Iterator[ImportEntry]:
    if connection.pragma("application_id") == APPLICATION_ID:
        raise Invalid(f"{path} is a store of Retentive; copy it with: retentive copy {path} TO")
    table = _table(connection, "episodes")
    if table is None or "text" not in table.columns:
        raise Invalid(f"{path} has no table 'episodes' with a column 'content'")
    yield from warn_of_columns(table)
    sessions = _table(connection, "sessions", SESSION_COLUMNS)
    statement, fields = select_rows(table, sessions, _table(connection, "projects", PROJECT_COLUMNS), wrap=_as_bytes)
    rows, last = connection.execute(statement), ""
    while True:
        try:
            row = next(rows, None)
        except (apsw.CorruptError, apsw.IOError, apsw.TooBigError) as error:
            yield Truncated(f"{table.name}, after {last}" if last else table.name, str(error))
            return
        if row is None:
            return
        values, replaced = _decode(row)
        found = dict(zip(fields, values, strict=True))
        last = f"id {found.get('id')!s:.80}"
        if replaced:
            yield ReadWarning(f"{table.name}, {last}", "invalid UTF-8 was replaced")
        yield from read_row(table.name, found, "episodic")


def _table(connection: apsw.Connection, name: str, known: Mapping[str, tuple[str, ...]] = COLUMNS) -> Table | None:
    """Return a table by name. A view or virtual table is not one: it would run what the file says."""
    listed = connection.execute("SELECT name FROM pragma_table_list WHERE lower(name) = ? AND type = 'table'", (name,))
    if listed.get is None:
        return None
    columns = connection.execute("SELECT name FROM pragma_table_info(?)", (name,))
    return recognise(name, [column for (column,) in columns], known)


def _as_bytes(expression: str) -> str:
    """Return an expression whose texts are bytes: SQLite does not check their encoding."""
    return f"CASE typeof({expression}) WHEN 'text' THEN CAST({expression} AS BLOB) ELSE {expression} END"


def _decode(row: tuple[Any, ...]) -> tuple[list[Any], bool]:
    """Return the values of a row with bytes as text, and whether invalid bytes were replaced."""
    try:
        return [value.decode() if isinstance(value, bytes) else value for value in row], False
    except UnicodeDecodeError:
        return [value.decode(errors="replace") if isinstance(value, bytes) else value for value in row], True
