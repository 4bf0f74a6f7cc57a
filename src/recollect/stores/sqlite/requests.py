"""Writes that named themselves: carried out once, however often they are sent."""

from __future__ import annotations

import json

import apsw

from recollect.stores import Once, check_same
from recollect.stores.numbered import to_micros


def made_before(connection: apsw.Connection, once: Once) -> list[str] | None:
    """The ids that the request of this name wrote, None if it is new. `Conflict` if it was another request."""
    row = connection.execute("SELECT fingerprint, ids FROM requests WHERE name = ?", (once.name,)).get
    if row is None:
        return None
    fingerprint, ids = row
    check_same(once, fingerprint)
    written: list[str] = json.loads(ids)
    return written


def note(connection: apsw.Connection, once: Once, ids: list[str]) -> None:
    """Write down what the request wrote, in its own transaction, and drop those that nobody will send again."""
    connection.execute("DELETE FROM requests WHERE made < ?", (to_micros(once.forget_before),))
    connection.execute(
        "INSERT INTO requests VALUES (?, ?, ?, ?)", (once.name, once.fingerprint, json.dumps(ids), to_micros(once.at))
    )
