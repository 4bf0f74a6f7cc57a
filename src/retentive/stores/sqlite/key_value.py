"""Short texts under names, as a SQLite store keeps them."""

from __future__ import annotations

from collections.abc import Mapping

import apsw


def get_value(connection: apsw.Connection, name: str) -> str | None:
    """What is kept under a name."""
    value: str | None = connection.execute("SELECT value FROM kept WHERE name = ?", (name,)).get
    return value


def list_values(connection: apsw.Connection, prefix: str) -> dict[str, str]:
    """Everything whose name begins so, by name."""
    rows = connection.execute(
        "SELECT name, value FROM kept WHERE substr(name, 1, length(:prefix)) = :prefix ORDER BY name",
        {"prefix": prefix},
    )
    return dict(rows)


def keep(connection: apsw.Connection, changes: Mapping[str, str | None], expected: Mapping[str, str | None]) -> bool:
    """Whether all these were kept; not one if anything is other than expected."""
    if any(get_value(connection, name) != value for name, value in expected.items()):
        return False
    for name, value in changes.items():
        if value is None:
            connection.execute("DELETE FROM kept WHERE name = ?", (name,))
        else:
            connection.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (name, value))
    return True
