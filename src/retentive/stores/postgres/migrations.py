"""Brings a schema to its newest form in one transaction, however many servers start at the same moment."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import psycopg
from psycopg import errors, sql

from retentive.errors import Invalid
from retentive.stores.postgres.connections import Connections

MIGRATIONS = ("001_memories.sql",)

LEAST_PGVECTOR = (0, 8)

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('retentive.migrations', 0))"


def migrate(connections: Connections) -> None:
    """Apply what is missing. A schema that is another program's, or from a newer version, is left alone."""
    schema = connections.address.schema
    with connections.first() as connection:
        if _version(connection, schema) == len(MIGRATIONS):
            return
        with connection.transaction():
            connection.execute(_LOCK)
            _see_to_pgvector(connection)
            version = _version(connection, schema)
            if version == 0:
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            extension = _one(
                connection, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
            )
            connection.execute(
                sql.SQL("SET LOCAL search_path = {}, {}").format(sql.Identifier(schema), sql.SQL(extension))
            )
            for at in range(version, len(MIGRATIONS)):
                script = resources.files("retentive.stores.postgres").joinpath("sql", MIGRATIONS[at])
                connection.execute(script.read_bytes())
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))
        connections.note_written(connection)


def _version(connection: psycopg.Connection[Any], schema: str) -> int:
    """How far the schema has come; 0 if there is none yet."""
    tables = _one(connection, "SELECT count(*) FROM pg_tables WHERE schemaname = %s", schema)
    if not tables:
        return 0
    table = sql.SQL("{}.schema_version").format(sql.Identifier(schema))
    if _one(connection, "SELECT to_regclass(%s)::text", table.as_string(connection)) is None:
        raise Invalid(f"the schema '{schema}' is another program's; name another one with ?schema=")
    version: int = connection.execute(sql.SQL("SELECT version FROM {}").format(table)).fetchall()[0][0]
    if version > len(MIGRATIONS):
        raise Invalid(
            f"the schema '{schema}' was written by a newer Retentive (schema {version}, this one knows "
            f"{len(MIGRATIONS)}); upgrade with: pip install -U retentive"
        )
    return version


def _see_to_pgvector(connection: psycopg.Connection[Any]) -> None:
    there = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    version = _one(connection, there)
    if version is None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except errors.InsufficientPrivilege:
            raise Invalid(
                "the extension 'vector' (pgvector) is not in this database, and the role may not create it; "
                "have an administrator run: CREATE EXTENSION vector"
            ) from None
        except (errors.UndefinedFile, errors.FeatureNotSupported):
            raise Invalid(
                "the server does not have pgvector; install 0.8 or newer there (https://github.com/pgvector/pgvector)"
            ) from None
        version = _one(connection, there)
    found = tuple(int(part) for part in re.findall(r"\d+", str(version))[:2])
    if found < LEAST_PGVECTOR:
        raise Invalid(f"pgvector {version} is too old, 0.8 is needed; update it with: ALTER EXTENSION vector UPDATE")


def _one(connection: psycopg.Connection[Any], statement: str, *values: str) -> Any:
    row = connection.execute(statement.encode(), values).fetchone()
    return None if row is None else row[0]
