"""The outbox of a store in a file: which memories the index of its vectors does not have as they are."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import apsw

from retentive.models import Model
from retentive.stores.external_index import FAR, Changes, Point, StoredModel
from retentive.stores.sqlite.connections import Connections
from retentive.stores.sqlite.vector_blocks import stored_vectors

_PAGE = 500

_CREATE = """
    CREATE TABLE IF NOT EXISTS vector_changes (entry INTEGER PRIMARY KEY AUTOINCREMENT, memory INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS vector_index (name TEXT NOT NULL, stamp INTEGER NOT NULL);
    CREATE TRIGGER IF NOT EXISTS vector_index_added AFTER INSERT ON vectors BEGIN
      INSERT INTO vector_changes (memory) VALUES (new.memory);
    END;
    -- The vectors of a model that was replaced are removed whole. The id of one that is newer than the present one can
    -- be used again.
    CREATE TRIGGER IF NOT EXISTS vector_index_removed AFTER DELETE ON vectors
    WHEN old.slot >> 40 > (SELECT active_model FROM state) OR EXISTS (SELECT 1 FROM models WHERE id = old.slot >> 40)
    BEGIN
      INSERT INTO vector_changes (memory) VALUES (old.memory);
    END;
    -- A change of a memory replaces its row, and may keep its vectors.
    CREATE TRIGGER IF NOT EXISTS vector_index_changed AFTER INSERT ON memories
    WHEN EXISTS (SELECT 1 FROM vectors WHERE memory = new.key) BEGIN
      INSERT INTO vector_changes (memory) VALUES (new.key);
    END;
    CREATE TRIGGER IF NOT EXISTS vector_index_moved
    AFTER UPDATE OF profile, project, session, kind, valid_from, valid_to, expires ON memories
    WHEN (old.profile, old.project, old.session, old.kind, old.valid_from, old.valid_to, old.expires)
      IS NOT (new.profile, new.project, new.session, new.kind, new.valid_from, new.valid_to, new.expires) BEGIN
      INSERT INTO vector_changes (memory) VALUES (new.key);
    END;
"""

_NAME = "INSERT INTO vector_index SELECT ?, 0 WHERE NOT EXISTS (SELECT 1 FROM vector_index)"

_ENTRIES = "SELECT entry, memory FROM vector_changes ORDER BY entry LIMIT ?"

_SCOPES = f"""
    SELECT m.key, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind, coalesce(m.valid_from, 0),
      min(coalesce(m.valid_to, {FAR}), coalesce(m.expires, {FAR}))
    FROM carray(?) AS wanted JOIN memories AS m ON m.key = wanted.value ORDER BY m.key
"""  # noqa: S608 - a number of our own


class SqliteOutbox:
    """See `retentive.stores.external_index.Outbox`.

    A power cut may undo the last `take` and `settle`: then the same entries are taken again, with a later stamp.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        with connections.read() as connection:
            created = connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'vector_index'").get
        if not created:
            with connections.write() as connection:
                connection.execute(_CREATE)
                connection.execute(_NAME, (uuid4().hex[:12],))
        with connections.read() as connection:
            self.name: str = connection.execute("SELECT name FROM vector_index").get

    def waiting(self) -> int:
        with self._connections.read() as connection:
            count: int = connection.execute("SELECT count(*) FROM vector_changes").get
            return count

    def take(self, limit: int) -> Changes:
        with self._connections.read() as connection:  # most often there is nothing
            if connection.execute("SELECT 1 FROM vector_changes").get is None:
                return Changes(0, [], [], [], [])
        with self._connections.write(durable=False) as connection:
            stamp: int = connection.execute(
                "UPDATE vector_index SET stamp = max(stamp + 1, ?) RETURNING stamp", (time.time_ns() // 1000,)
            ).get
            rows: list[Any] = connection.execute(_ENTRIES, (limit,)).fetchall()
            keys = sorted({key for _, key in rows})
            models = _models(connection)
            points = [list(_points(connection, keys, one.id)) for one in models]
        return Changes(stamp, [entry for entry, _ in rows], keys, models, points)

    def settle(self, entries: Sequence[int]) -> None:
        with self._connections.write(durable=False) as connection:
            connection.execute("DELETE FROM vector_changes WHERE entry IN carray(?)", (_array(entries),))

    def add(self, keys: Sequence[int]) -> None:
        if keys:
            with self._connections.write() as connection:
                connection.execute("INSERT INTO vector_changes (memory) SELECT value FROM carray(?)", (_array(keys),))

    def add_all(self, model: StoredModel) -> None:
        statement = """
            INSERT INTO vector_changes (memory) SELECT DISTINCT memory FROM vectors
            WHERE slot >= ? << 40 AND slot < ? << 40
        """
        with self._connections.write() as connection:
            connection.execute(statement, (model.id, model.id + 1))

    def models(self) -> list[StoredModel]:
        with self._connections.read() as connection:
            return _models(connection)

    def points(self, model: StoredModel) -> Iterator[Point]:
        after = 0
        while True:
            with self._connections.read() as connection:
                rows = connection.execute("SELECT key FROM memories WHERE key > ? ORDER BY key LIMIT ?", (after, _PAGE))
                keys = [key for (key,) in rows]
                found = list(_points(connection, keys, model.id)) if keys and model in _models(connection) else []
            if not keys:
                return
            yield from found
            after = keys[-1]


def waiting_keys(connection: apsw.Connection, limit: int) -> list[int]:
    """The keys of memories in the outbox, of at most so many entries."""
    return [key for (key,) in connection.execute("SELECT memory FROM vector_changes LIMIT ?", (limit,))]


def _models(connection: apsw.Connection) -> list[StoredModel]:
    rows = connection.execute("SELECT id, name, revision, dimension, fingerprint FROM models ORDER BY id")
    return [StoredModel(id, Model(*model)) for id, *model in rows]


def _points(connection: apsw.Connection, keys: Sequence[int], model: int) -> Iterator[Point]:
    vectors = stored_vectors(connection, keys, model)
    if not vectors:  # an array for a statement cannot be empty
        return
    for key, *scope in connection.execute(_SCOPES, (_array(vectors),)):
        yield Point._make((key, *scope, vectors[key]))


def _array(keys: Iterable[int]) -> Any:
    return apsw.carray(array("q", keys))
