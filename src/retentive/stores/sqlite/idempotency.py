"""Writes that named themselves: carried out once, however often they are sent."""

from __future__ import annotations

import json

import apsw

from retentive.stores import IdempotencyKey, check_same
from retentive.stores.sql_codec import to_micros


def made_before(connection: apsw.Connection, idempotency_key: IdempotencyKey) -> list[str] | None:
    """The ids that the request of this name wrote, None if it is new. `Conflict` if it was another request."""
    row = connection.execute("SELECT fingerprint, ids FROM requests WHERE name = ?", (idempotency_key.name,)).get
    if row is None:
        return None
    fingerprint, ids = row
    check_same(idempotency_key, fingerprint)
    written: list[str] = json.loads(ids)
    return written


def note(connection: apsw.Connection, idempotency_key: IdempotencyKey, ids: list[str]) -> None:
    """Write down what the request wrote, in its own transaction, and drop those that nobody will send again."""
    connection.execute("DELETE FROM requests WHERE made < ?", (to_micros(idempotency_key.forget_before),))
    connection.execute(
        "INSERT INTO requests VALUES (?, ?, ?, ?)",
        (idempotency_key.name, idempotency_key.fingerprint, json.dumps(ids), to_micros(idempotency_key.at)),
    )
