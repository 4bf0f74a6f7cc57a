"""Migrate a file to the newest schema, one transaction per step, safe while other processes open it too."""

from __future__ import annotations

from importlib import resources

import apsw

from retentive.errors import Invalid
from retentive.stores.sqlite.connections import Connections

APPLICATION_ID = 0x52434C54
"""Identifies our files in their header. The value predates the name Retentive and must not change."""

MIGRATIONS = ("001_memories.sql", "002_judgements.sql", "003_requests.sql", "004_no_view.sql")


def migrate(connections: Connections) -> None:
    """Apply the missing steps. A file of another program, or of a newer version, is rejected and left unchanged."""
    with connections.read() as connection:
        version = _version(connection, connections.path)
    connections.use_wal()
    if version == len(MIGRATIONS):
        return
    while True:
        with connections.write() as connection:
            version = _version(connection, connections.path)
            if version == len(MIGRATIONS):
                return
            script = resources.files("retentive.stores.sqlite").joinpath("sql", MIGRATIONS[version])
            connection.execute(script.read_text(encoding="utf-8"))
            # The version is set in the same transaction as the step.
            connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _version(connection: apsw.Connection, path: str) -> int:
    version: int = connection.pragma("user_version")
    application: int = connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if application != APPLICATION_ID and (tables or version):
        raise Invalid(f"{path} is an SQLite file of another program; choose another file")
    if version > len(MIGRATIONS):
        raise Invalid(
            f"{path} was written by a newer Retentive (schema {version}, this one knows {len(MIGRATIONS)}); "
            "upgrade with: pip install -U retentive"
        )
    return version
