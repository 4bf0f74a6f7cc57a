"""Which model's vectors a store holds, and changing over to another."""

from __future__ import annotations

from collections.abc import Iterable

from retentive.models import Model
from retentive.stores.postgres.pools import Connection

_UNEMBEDDED = """
    FROM memories AS m WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.memory = m.key AND v.model = %s)
"""


def active_model(connection: Connection) -> Model | None:
    """The model whose vectors are searched."""
    row = connection.execute(
        "SELECT m.name, m.revision, m.dimension, m.fingerprint FROM state JOIN models AS m ON m.id = active_model"
    ).fetchone()
    return None if row is None else Model(*row)


def number_of(connection: Connection, model: Model) -> int:
    """The number of a model in this store; 0 if it is not in use here."""
    statement = "SELECT id FROM models WHERE fingerprint = %s AND NOT retired"
    row = connection.execute(statement, (model.fingerprint,)).fetchone()
    return 0 if row is None else int(row[0])


def register(connection: Connection, model: Model) -> int:
    """The number of a model, made if it is new. The first model of a store is the one searched."""
    number = number_of(connection, model)
    if not number:
        connection.execute(
            "INSERT INTO models (name, revision, dimension, fingerprint) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING",
            (model.name, model.revision, model.dimension, model.fingerprint),
        )
        number = number_of(connection, model)
    connection.execute("UPDATE state SET active_model = %s WHERE active_model IS NULL", (number,))
    return number


def unembedded_keys(connection: Connection, model: Model, *, limit: int) -> list[int]:
    """The keys of some memories that have no vector of this model."""
    statement = f"SELECT m.key {_UNEMBEDDED} ORDER BY m.key LIMIT %s".encode()
    return [key for (key,) in connection.execute(statement, (number_of(connection, model), limit), binary=True)]


def count_unembedded(connection: Connection, model: Model) -> int:
    """How many memories have no vector of this model."""
    statement = f"SELECT count(*) {_UNEMBEDDED}".encode()
    [(count,)] = connection.execute(statement, (number_of(connection, model),)).fetchall()
    return int(count)


def without_vector(connection: Connection, keys: Iterable[int], number: int) -> dict[int, tuple[int, ...]]:
    """Where those of these memories are that exist and have no vector of this model; nobody else changes them."""
    rows = connection.execute(
        "SELECT m.key, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind FROM memories AS m "
        "WHERE m.key = ANY (%s) ORDER BY m.key FOR UPDATE",
        (list(keys),),
        binary=True,
    ).fetchall()
    done = {
        key
        for (key,) in connection.execute(
            "SELECT DISTINCT memory FROM vectors WHERE memory = ANY (%s) AND model = %s",
            ([row[0] for row in rows], number),
            binary=True,
        )
    }
    return {key: tuple(scope) for key, *scope in rows if key not in done}


def switch(connection: Connection, model: Model) -> bool:
    """Whether every memory has a vector of this model; if so it is the one searched, and all others are retired."""
    connection.execute("SELECT 1 FROM state FOR UPDATE")
    if unembedded_keys(connection, model, limit=1):
        return False
    number = register(connection, model)
    connection.execute("UPDATE state SET active_model = %s", (number,))
    connection.execute("UPDATE models SET retired = true WHERE id <> %s AND NOT retired", (number,))
    return True
