"""Creates the schema of a store or brings it up to date, in one transaction under a lock."""

from __future__ import annotations

import re
from typing import Any

from psycopg import errors, sql

from retentive.errors import Invalid
from retentive.extras import pip_install
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import read_script
from retentive.stores.rules import no_store

SCHEMA = "retentive"
"""The schema of an address that names none."""

FIRST_VERSION = 10
"""The version of `schema.sql`. No earlier one was ever released."""

SCRIPTS = ("schema.sql",)
"""The schema, and then the scripts that lead from it to the following versions, one each."""

LATEST = FIRST_VERSION - 1 + len(SCRIPTS)
MIN_PGVECTOR = (0, 8)

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('retentive.migrations', 0))"


def migrate(connections: Connections, *, create: bool = True) -> None:
    """Choose the schema and apply the migrations that it lacks; unless `create`, only to a store that exists.

    `Invalid` if the schema belongs to another program or to a newer version; it is not changed then.
    """
    with connections.plain() as connection:
        schema = connections.address.schema or SCHEMA
        connections.use_schema(schema)
        version = _version(connection, schema)
        if version == LATEST:
            return
        if version == 0 and not create:
            raise no_store(f"{connections.address.shown} (schema '{schema}')")
        with connection.transaction():
            connection.execute(_LOCK)
            _ensure_pgvector(connection)
            version = _version(connection, schema)
            if version == 0:
                connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            extension = _value(
                connection, "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'vector'"
            )
            connection.execute(
                sql.SQL("SET LOCAL search_path = {}, {}").format(sql.Identifier(schema), sql.SQL(extension))
            )
            for name in SCRIPTS[max(version + 1 - FIRST_VERSION, 0) :]:
                connection.execute(read_script(name).encode())
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (%s)", (LATEST,))
        connections.record_log_position(connection)


def _version(connection: Connection, schema: str) -> int:
    """Return the version of the schema; 0 if it does not exist or is empty."""
    if not _value(connection, "SELECT count(*) FROM pg_tables WHERE schemaname = %s", schema):
        return 0
    table = sql.SQL("{}.schema_version").format(sql.Identifier(schema))
    if _value(connection, "SELECT to_regclass(%s)::text", table.as_string(connection)) is None:
        raise Invalid(f"the schema '{schema}' belongs to another program; choose another one with ?schema=")
    version: int = connection.execute(sql.SQL("SELECT version FROM {}").format(table)).fetchall()[0][0]
    if version > LATEST:
        raise Invalid(
            f"the schema '{schema}' was written by a newer Retentive (schema {version}, this one supports "
            f"{LATEST}); upgrade with: {pip_install(options='--upgrade')}"
        )
    if version < FIRST_VERSION:
        raise Invalid(
            f"the schema '{schema}' has version {version}; this Retentive upgrades stores from {FIRST_VERSION} on"
        )
    return version


def _ensure_pgvector(connection: Connection) -> None:
    """Create the extension if it is missing. `Invalid` if that fails or its version is too old."""
    installed = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    version = _value(connection, installed)
    if version is None:
        try:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except errors.InsufficientPrivilege:
            raise Invalid(
                "the database lacks the extension 'vector' (pgvector), and the role may not create it; "
                "ask an administrator to run: CREATE EXTENSION vector"
            ) from None
        except (errors.UndefinedFile, errors.FeatureNotSupported):
            raise Invalid(
                "the server does not have pgvector; install 0.8 or newer there (https://github.com/pgvector/pgvector)"
            ) from None
        version = _value(connection, installed)
    if tuple(int(part) for part in re.findall(r"\d+", str(version))[:2]) < MIN_PGVECTOR:
        raise Invalid(f"pgvector {version} is too old, 0.8 is needed; update it with: ALTER EXTENSION vector UPDATE")


def _value(connection: Connection, statement: str, *parameters: str) -> Any:
    row = connection.execute(statement.encode(), parameters).fetchone()
    return None if row is None else row[0]
