"""Which model's vectors a store holds, and changing over to another."""

from __future__ import annotations

import apsw

from retentive.models import Model
from retentive.stores.sqlite.vector_blocks import MODEL_SHIFT

_UNEMBEDDED = """
    SELECT key FROM memories AS m
    WHERE NOT EXISTS (SELECT 1 FROM vectors AS v WHERE v.memory = m.key AND v.slot >= ? << 40 AND v.slot < ? << 40)
    ORDER BY key LIMIT ?
"""


def active_model(connection: apsw.Connection) -> Model | None:
    """The model whose vectors are searched."""
    row = connection.execute(
        "SELECT m.name, m.revision, m.dimension, m.fingerprint FROM state JOIN models AS m ON m.id = active_model"
    ).get
    return None if row is None else Model(*row)


def _number(connection: apsw.Connection, model: Model) -> int | None:
    """The number of a model in this store, if it was ever used here."""
    found = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).get
    return None if found is None else int(found)


def register(connection: apsw.Connection, model: Model) -> int:
    """The number of a model, made if it is new. The first model of a store is the one searched."""
    connection.execute(
        "INSERT OR IGNORE INTO models (name, revision, dimension, fingerprint) VALUES (?, ?, ?, ?)",
        (model.name, model.revision, model.dimension, model.fingerprint),
    )
    number = _number(connection, model)
    if number is None:  # pragma: no cover - inserted just now
        raise LookupError(model)
    connection.execute("UPDATE state SET active_model = ? WHERE active_model IS NULL", (number,))
    return number


def unembedded_keys(connection: apsw.Connection, model: Model, *, limit: int = -1) -> list[int]:
    """The keys of memories that have no vector of this model."""
    number = _number(connection, model) or 0
    return [key for (key,) in connection.execute(_UNEMBEDDED, (number, number + 1, limit))]


def switch(connection: apsw.Connection, model: Model) -> bool:
    """Whether every memory has a vector of this model; if so it is the one searched, and all others are dropped."""
    if unembedded_keys(connection, model, limit=1):
        return False
    number = register(connection, model)
    first, behind = number << MODEL_SHIFT, (number + 1) << MODEL_SHIFT
    connection.execute("DELETE FROM vectors WHERE slot < ? OR slot >= ?", (first, behind))
    connection.execute("DELETE FROM blocks WHERE model <> ?", (number,))
    connection.execute("UPDATE state SET active_model = ?", (number,))
    connection.execute("DELETE FROM models WHERE id <> ?", (number,))
    return True
