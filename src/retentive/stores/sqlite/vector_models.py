"""The models of the vectors in a store, and the change to another one."""

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


def model_id(connection: apsw.Connection, model: Model) -> int | None:
    """The id of a model in this store; None if it was never used here."""
    found = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).get
    return None if found is None else int(found)


def register(connection: apsw.Connection, model: Model) -> int:
    """The id of a model, created if it is new. The first model of a store becomes the active one."""
    connection.execute(
        "INSERT OR IGNORE INTO models (name, revision, dimension, fingerprint) VALUES (?, ?, ?, ?)",
        (model.name, model.revision, model.dimension, model.fingerprint),
    )
    id: int = connection.execute("SELECT id FROM models WHERE fingerprint = ?", (model.fingerprint,)).get
    connection.execute("UPDATE state SET active_model = ? WHERE active_model IS NULL", (id,))
    return id


def unembedded_keys(connection: apsw.Connection, model: Model, *, limit: int = -1) -> list[int]:
    """The keys of memories that have no vector of this model."""
    id = model_id(connection, model) or 0
    return [key for (key,) in connection.execute(_UNEMBEDDED, (id, id + 1, limit))]


def switch(connection: apsw.Connection, model: Model) -> bool:
    """Make a model the active one and delete all others; False if a memory has no vector of it."""
    if unembedded_keys(connection, model, limit=1):
        return False
    id = register(connection, model)
    first, end = id << MODEL_SHIFT, (id + 1) << MODEL_SHIFT
    connection.execute("DELETE FROM vectors WHERE slot < ? OR slot >= ?", (first, end))
    connection.execute("DELETE FROM blocks WHERE model <> ?", (id,))
    connection.execute("UPDATE state SET active_model = ?", (id,))
    connection.execute("DELETE FROM models WHERE id <> ?", (id,))
    return True
