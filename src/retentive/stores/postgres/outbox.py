"""The outbox of a store on a server: which memories the index of its vectors does not have as they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

import numpy as np

from retentive.models import Model
from retentive.stores.external_index import FAR, Changes, Point, StoredModel
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import Statements

_PAGE = 500
_SQL = Statements("outbox")
_POINTS = _SQL("points", far=FAR)
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('retentive.vector_index', 0))"


class PostgresOutbox:
    """See `retentive.stores.external_index.Outbox`. Take and settle are not durable: they can be repeated."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        [(created,)] = connections.fetch(b"SELECT to_regclass('vector_index') IS NOT NULL", primary=True)
        if not created or not connections.fetch(b"SELECT 1 FROM vector_index", primary=True):
            with connections.maintenance() as connection, connection.transaction():
                connection.execute(_LOCK, prepare=False)
                connection.execute(_SQL("create"), prepare=False)
        [(self.name,)] = connections.fetch(b"SELECT name FROM vector_index", primary=True)

    def waiting(self) -> int:
        [(count,)] = self._connections.fetch(b"SELECT count(*) FROM vector_changes", primary=True)
        return int(count)

    def take(self, limit: int) -> Changes:
        if not self._connections.fetch(b"SELECT 1 FROM vector_changes LIMIT 1", primary=True):
            return Changes(0, [], [], [], [])

        def work(connection: Connection) -> Changes:
            # The row stays locked until the memories have been read: who reads later has a larger stamp.
            [(stamp,)] = connection.execute(_SQL("stamp")).fetchall()
            rows = connection.execute(_SQL("entries"), (limit,)).fetchall()
            keys = sorted({key for _, key in rows})
            models = _models(connection)
            points = [_points(connection, keys, one.id) for one in models]
            return Changes(stamp, [entry for entry, _ in rows], keys, models, points)

        return self._connections.write(work, durable=False)

    def settle(self, entries: Sequence[int]) -> None:
        self._execute(b"DELETE FROM vector_changes WHERE entry = ANY (%s)", list(entries), durable=False)

    def add(self, keys: Sequence[int]) -> None:
        self._execute(b"INSERT INTO vector_changes (memory) SELECT unnest(%s::bigint[])", list(keys))

    def add_all(self, model: StoredModel) -> None:
        self._execute(_SQL("add_all"), model.id)

    def models(self) -> list[StoredModel]:
        return self._connections.read(_models, primary=True)

    def points(self, model: StoredModel) -> Iterator[Point]:
        after = 0
        while True:
            statement = b"SELECT key FROM memories WHERE key > %s ORDER BY key LIMIT %s"
            keys = [key for (key,) in self._connections.fetch(statement, (after, _PAGE), primary=True)]
            if not keys:
                return
            yield from self._connections.read(partial(_points, keys=keys, model=model.id), primary=True)
            after = keys[-1]

    def _execute(self, statement: bytes, parameter: list[int] | int, *, durable: bool = True) -> None:
        def work(connection: Connection) -> None:
            connection.execute(statement, (parameter,))

        self._connections.write(work, durable=durable)


def _models(connection: Connection) -> list[StoredModel]:
    return [StoredModel(id, Model(*model)) for id, *model in connection.execute(_SQL("models")).fetchall()]


def _points(connection: Connection, keys: Sequence[int], model: int) -> list[Point]:
    rows = connection.execute(_POINTS, (list(keys), model), binary=True).fetchall()
    found = []
    for scope, parts in groupby(rows, key=lambda row: row[:7]):
        found.append(Point._make((*scope, np.stack([part[7] for part in parts]))))
    return found
