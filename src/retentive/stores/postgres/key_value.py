"""Short texts under names, as a PostgreSQL store keeps them."""

from __future__ import annotations

from collections.abc import Mapping

from retentive.stores.postgres.pools import Connection


def get_value(connection: Connection, name: str) -> str | None:
    """What is kept under a name."""
    row = connection.execute("SELECT value FROM kept WHERE name = %s", (name,)).fetchone()
    return None if row is None else row[0]


def list_values(connection: Connection, prefix: str) -> dict[str, str]:
    """Everything whose name begins so, by name."""
    rows = connection.execute("SELECT name, value FROM kept WHERE starts_with(name, %s) ORDER BY name", (prefix,))
    return dict(rows.fetchall())


def keep(connection: Connection, changes: Mapping[str, str | None], expected: Mapping[str, str | None]) -> bool:
    """Whether all these were kept; not one if anything is other than expected."""
    # Nobody else looks and changes meanwhile. Settings are changed by hand, so this is no queue.
    connection.execute("LOCK TABLE kept IN SHARE ROW EXCLUSIVE MODE")
    if any(get_value(connection, name) != value for name, value in expected.items()):
        return False
    for name, value in changes.items():
        if value is None:
            connection.execute("DELETE FROM kept WHERE name = %s", (name,))
        else:
            connection.execute(
                "INSERT INTO kept VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name, value),
            )
    return True
