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

SCHEMA, EARLIER_SCHEMA = "retentive", "recollect"
"""The schema of an address that names none. A store created before the project was renamed has the earlier one."""

MIGRATIONS = (
    "001_memories.sql",
    "002_text_hash.sql",
    "003_damage.sql",
    "004_profile_counts.sql",
    "005_validity.sql",
    "006_previous_turns.sql",
    "007_session_names.sql",
    "008_vector_length.sql",
    "009_content.sql",
    "010_rules.sql",
)
MIN_PGVECTOR = (0, 8)

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('retentive.migrations', 0))"

_HAS_EARLIER_SCHEMA = """
    SELECT to_regnamespace(%s) IS NULL AND count(*) = 2 FROM pg_tables
    WHERE schemaname = %s AND tablename IN ('schema_version', 'memories')
"""


def migrate(connections: Connections, *, create: bool = True) -> None:
    """Choose the schema and apply the migrations that it lacks; unless `create`, only to a store that exists.

    `Invalid` if the schema belongs to another program or to a newer version; it is not changed then.
    """
    with connections.plain() as connection:
        schema = connections.address.schema or _default_schema(connection)
        connections.use_schema(schema)
        version = _version(connection, schema)
        if version == len(MIGRATIONS):
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
            for name in MIGRATIONS[version:]:
                connection.execute(read_script(name).encode())
            connection.execute("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)")
            connection.execute("DELETE FROM schema_version")
            connection.execute("INSERT INTO schema_version VALUES (%s)", (len(MIGRATIONS),))
        connections.record_log_position(connection)


def _default_schema(connection: Connection) -> str:
    """Return the schema of an address that names none."""
    return EARLIER_SCHEMA if _value(connection, _HAS_EARLIER_SCHEMA, SCHEMA, EARLIER_SCHEMA) else SCHEMA


def _version(connection: Connection, schema: str) -> int:
    """Return how many migrations the schema has; 0 if it does not exist or is empty."""
    if not _value(connection, "SELECT count(*) FROM pg_tables WHERE schemaname = %s", schema):
        return 0
    table = sql.SQL("{}.schema_version").format(sql.Identifier(schema))
    if _value(connection, "SELECT to_regclass(%s)::text", table.as_string(connection)) is None:
        raise Invalid(f"the schema '{schema}' belongs to another program; choose another one with ?schema=")
    version: int = connection.execute(sql.SQL("SELECT version FROM {}").format(table)).fetchall()[0][0]
    if version > len(MIGRATIONS):
        raise Invalid(
            f"the schema '{schema}' was written by a newer Retentive (schema {version}, this one supports "
            f"{len(MIGRATIONS)}); upgrade with: {pip_install(options='--upgrade')}"
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
