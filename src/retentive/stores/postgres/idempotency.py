"""Writes that named themselves: carried out once, however often they are sent."""

from __future__ import annotations

import json

from retentive.stores import IdempotencyKey, check_same
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import to_micros


def made_before(connection: Connection, idempotency_key: IdempotencyKey) -> list[str] | None:
    """The ids that the request of this name wrote, None if it is new. `Conflict` if it was another request.

    Whoever sends the same at the same moment waits here.
    """
    connection.execute(
        "SELECT pg_advisory_xact_lock(hashtextextended('retentive.once.' || %s, 0))", (idempotency_key.name,)
    )
    row = connection.execute(
        "SELECT fingerprint, ids FROM requests WHERE name = %s", (idempotency_key.name,)
    ).fetchone()
    if row is None:
        return None
    fingerprint, ids = row
    check_same(idempotency_key, fingerprint)
    written: list[str] = json.loads(ids)
    return written


def note(connection: Connection, idempotency_key: IdempotencyKey, ids: list[str]) -> None:
    """Write down what the request wrote, in its own transaction, and drop those that nobody will send again."""
    connection.execute("DELETE FROM requests WHERE made < %s", (to_micros(idempotency_key.forget_before),))
    connection.execute(
        "INSERT INTO requests VALUES (%s, %s, %s, %s)",
        (idempotency_key.name, idempotency_key.fingerprint, json.dumps(ids), to_micros(idempotency_key.at)),
    )
