"""PostgreSQL tables `episodic_memories`, `semantic_memories` and `identity_memories`, as MCP servers on pgvector have.

At least one of them must exist; its text is the only required column, and `tables` tells which others are recognised.
Vectors are in a column `embedding`, or in a side table such as `memory_embeddings` with `memory_id` and `embedding`; a
column `model` or `embedding_model` beside them names their model.

Names of models say little: one model has several, and two revisions share one. So vectors are taken over if the
embedder gives nearly the same ones for a sample of the texts; otherwise the memories are embedded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import psycopg

from retentive.errors import Invalid, Unavailable
from retentive.inference.embedders import Embedder
from retentive.models import Kind
from retentive.stores.postgres.address import Address, parse_address
from retentive.stores.postgres.error_mapping import first_line, to_store_error
from retentive.stores.values import Vector
from retentive.transfer.formats.base import ImportEntry, ImportItem, ReadWarning, Truncated
from retentive.transfer.formats.postgres_loaders import read_odd_values
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

TABLES: dict[str, Kind] = {
    "episodic_memories": "episodic",
    "semantic_memories": "semantic",
    "identity_memories": "identity",
}
ROWS = 500
"""How many rows the server sends at once."""

SAMPLE = 16
SAME_VECTOR = 0.98
"""The least cosine of two vectors of one text by one model, whose weights or vectors may be rounded."""

_SIDE_TABLES = ("memory_embeddings", "embeddings", "memory_vectors")
_VECTOR_COLUMNS = {
    "memory": ("memoryid",),
    "embedding": ("embedding", "vector"),
    "model": ("embeddingmodel", "model", "modelname"),
}
_VECTOR_TYPES = ("vector", "halfvec", "_float4", "_float8")
_COLUMNS_OF = """
    SELECT attname, typname FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""

Connection = psycopg.Connection[tuple[Any, ...]]
OpenEmbedder = Callable[[], Embedder | None]


def read_tables(address: str, embedder: OpenEmbedder) -> Iterator[ImportEntry]:
    """Yield the memories of all tables, in one read-only snapshot."""
    server = parse_address(address)
    try:
        with closing(_connect(server)) as connection:
            tables = [table for name in TABLES if (table := _table(connection, name)) and "text" in table.columns]
            if not tables:
                raise Invalid(
                    f"{server.shown} has no table {', '.join(TABLES)} with a column 'content'; ?schema=NAME in the "
                    "address names another schema. A store of Retentive is copied with: retentive copy FROM TO"
                )
            for table in tables:
                yield from _read_table(connection, table, embedder)
    except psycopg.Error as error:
        raise to_store_error(error, server.shown) from error


def _connect(server: Address) -> Connection:
    connection = psycopg.connect(server.server, application_name="retentive import")
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    read_odd_values(connection)
    if server.schema:
        connection.execute("SELECT set_config('search_path', %s, false)", (server.schema,))
    return connection


def _columns(connection: Connection, table: str) -> dict[str, str]:
    """Return the columns of a table with their types; none if there is no such table."""
    return dict(connection.execute(_COLUMNS_OF, (table,)).fetchall())


def _table(connection: Connection, name: str, known: Mapping[str, tuple[str, ...]] = COLUMNS) -> Table | None:
    columns = _columns(connection, name)
    return recognise(name, columns, known) if columns else None


def _read_table(connection: Connection, table: Table, embedder: OpenEmbedder) -> Iterator[ImportEntry]:
    vectors = _find_vectors(connection, table)
    yield from warn_of_columns(_without_vector_columns(table))
    matcher = None
    if vectors is not None:
        matcher = _Matcher(embedder)
        if not matcher.match(connection, table, vectors):
            yield ReadWarning(table.name, f"vectors are not taken over: {matcher.reason}")
            matcher = None
    sessions = _table(connection, "sessions", SESSION_COLUMNS)
    statement, fields = select_rows(
        table,
        sessions,
        _table(connection, "projects", PROJECT_COLUMNS),
        extra=f", {vectors.of_model}::real[]" if vectors and matcher else "",
        join=vectors.join if vectors and matcher else "",
        by_time=True,
    )
    last = ""
    try:
        with connection.cursor(name="retentive_import") as cursor:
            cursor.itersize = ROWS
            for row in cursor.execute(statement.encode(), {"model": matcher.name} if matcher else None):
                found = dict(zip(fields, row, strict=False))
                last = f"id {found.get('id')!s:.80}"
                for entry in read_row(table.name, found, TABLES[table.name]):
                    yield matcher.attach(entry, row[-1]) if matcher and isinstance(entry, ImportItem) else entry
    except psycopg.Error as error:
        yield Truncated(f"{table.name}, after {last}" if last else table.name, first_line(error))


# Vectors


@dataclass(frozen=True, slots=True)
class _Vectors:
    """Where the vectors of a table are: expressions of a vector and of the name of its model.

    `of_model` and `join` are for the statement that reads the table, and select the vectors of `%(model)s`. `source` is
    for a sample.
    """

    embedding: str
    model: str | None
    of_model: str
    source: str
    join: str = ""


def _find_vectors(connection: Connection, table: Table) -> _Vectors | None:
    own = _table(connection, table.name, _VECTOR_COLUMNS)
    if own and _has_vectors(connection, own):
        model = f"m.{own.quoted('model')}" if "model" in own.columns else None
        embedding = f"m.{own.quoted('embedding')}"
        chosen = f"CASE WHEN {model} = %(model)s THEN {embedding} END" if model else embedding
        return _Vectors(embedding, model, f"({chosen})", f'"{table.name}" AS m WHERE {embedding} IS NOT NULL')
    if "id" not in table.columns:
        return None
    for name in (f"{table.name}_embeddings", f"{TABLES[table.name]}_memory_embeddings", *_SIDE_TABLES):
        side = _table(connection, name, _VECTOR_COLUMNS)
        if side and "memory" in side.columns and _has_vectors(connection, side):
            same = f"CAST(v.{side.quoted('memory')} AS TEXT) = CAST(m.{table.quoted('id')} AS TEXT)"
            model = f"v.{side.quoted('model')}" if "model" in side.columns else None
            join = f'LEFT JOIN "{name}" AS v ON {same}' + (f" AND {model} = %(model)s" if model else "")
            source = f'"{table.name}" AS m JOIN "{name}" AS v ON {same} WHERE true'
            embedding = f"v.{side.quoted('embedding')}"
            return _Vectors(embedding, model, embedding, source, join)
    return None


def _has_vectors(connection: Connection, table: Table) -> bool:
    column = table.columns.get("embedding")
    return column is not None and _columns(connection, table.name)[column] in _VECTOR_TYPES


def _without_vector_columns(table: Table) -> Table:
    known = {name for names in _VECTOR_COLUMNS.values() for name in names}
    return replace(table, others=tuple(one for one in table.others if one.lower().replace("_", "") not in known))


class _Matcher:
    """Finds the vectors that are of the embedder's model: `name` is the name that their table gives it.

    If there are none, `reason` tells why.
    """

    def __init__(self, embedder: OpenEmbedder) -> None:
        self.name: str | None = None
        self.reason = "no embedder is configured, so that their model cannot be compared"
        self._embedder: Embedder | None = None
        try:
            self._embedder = embedder()
        except Unavailable as error:
            self.reason = str(error)

    def match(self, connection: Connection, table: Table, vectors: _Vectors) -> bool:
        """Whether the embedder gives the same vectors for a sample of the texts."""
        if self._embedder is None:
            return False
        names: list[str | None] = [None]
        if vectors.model:
            statement = f"SELECT DISTINCT {vectors.model} FROM {vectors.source} LIMIT 50"  # noqa: S608 - see `Table.quoted`
            names = [name for (name,) in connection.execute(statement.encode()) if name is not None]
        self.reason = "there are none"
        for name in names:
            self.name = name
            if self._same_vectors(self._embedder, connection, table, vectors):
                return True
        return False

    def _same_vectors(self, embedder: Embedder, connection: Connection, table: Table, vectors: _Vectors) -> bool:
        where = f" AND {vectors.model} = %(model)s" if vectors.model else ""
        text = f"m.{table.quoted('text')}"
        statement = f"SELECT {text}, {vectors.embedding}::real[] FROM {vectors.source}{where} LIMIT {SAMPLE}"  # noqa: S608 - as above
        rows = connection.execute(statement.encode(), {"model": self.name} if where else None).fetchall()
        found = [(text.strip(), row) for text, raw in rows if text and (row := self._unit(raw)) is not None]
        sample = [(text, row) for text, row in found if embedder.reads_whole(text)]
        named = f"those of '{self.name:.80}'" if self.name else "they"
        self.reason = f"{named} are not of the model {embedder.model}"
        if not sample:
            return False
        try:
            ours = embedder.embed([text for text, _ in sample])
        except Unavailable as error:
            self.reason = str(error)
            return False
        theirs = np.stack([row for _, row in sample])
        return bool(((ours * theirs).sum(axis=1) >= SAME_VECTOR).all())

    def attach(self, item: ImportItem, raw: Any) -> ImportItem:
        """Return the item with its vector, if it has one of all its text."""
        row = self._unit(raw)
        if row is None or self._embedder is None or not self._embedder.reads_whole(item.draft["text"]):
            return item
        return replace(item, vectors=row.reshape(1, -1), model=self._embedder.model)

    def _unit(self, raw: Any) -> Vector | None:
        """Return a vector with length 1; None if it is not one of the embedder's dimension."""
        if self._embedder is None or not isinstance(raw, list) or len(raw) != self._embedder.model.dimension:
            return None
        row = np.array([0.0 if one is None else one for one in raw], np.float32)
        norm = float(np.linalg.norm(row))
        return row / np.float32(norm) if 0 < norm < np.inf else None
