"""The small tables beside the memories: key-value entries, relevance judgements, and idempotency keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from retentive.errors import NotFound
from retentive.stores.postgres.connections import Connections
from retentive.stores.postgres.placement import project_ids
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import Statements
from retentive.stores.rules import is_sent_again
from retentive.stores.sql_codec import from_micros, to_micros
from retentive.stores.values import IdempotencyKey, Judgement

_SQL = Statements("side_tables")


class KeyValueTable:
    """The part `retentive.stores.base.KeyValue` of a PostgreSQL store, in the table `kept`."""

    _connections: Connections

    def get_value(self, name: str) -> str | None:
        return self._connections.read(lambda connection: _get_value(connection, name), primary=True)

    def list_values(self, prefix: str) -> dict[str, str]:
        return dict(self._connections.fetch(_SQL("list_values"), (prefix,), primary=True))

    def compare_and_set(
        self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None
    ) -> bool:
        def work(connection: Connection) -> bool:
            # Nobody else compares or changes values meanwhile. They are changed by hand, so that nobody waits long.
            connection.execute("LOCK TABLE kept IN SHARE ROW EXCLUSIVE MODE")
            if any(_get_value(connection, name) != value for name, value in (expected or {}).items()):
                return False
            for name, value in changes.items():
                if value is None:
                    connection.execute("DELETE FROM kept WHERE name = %s", (name,))
                else:
                    connection.execute(_SQL("set_value"), (name, value))
            return True

        return self._connections.write(work)


def _get_value(connection: Connection, name: str) -> str | None:
    row = connection.execute("SELECT value FROM kept WHERE name = %s", (name,)).fetchone()
    return None if row is None else row[0]


class JudgementTable:
    """The part `retentive.stores.base.Judgements` of a PostgreSQL store."""

    _connections: Connections

    def judge(self, judgements: Sequence[Judgement]) -> None:
        def work(connection: Connection) -> None:
            for one in judgements:
                found = connection.execute(_SQL("find_memory"), (one.memory, one.profile)).fetchone()
                if found is None:
                    raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
                key, profile = found
                project = 0
                if one.project is not None:
                    project = project_ids(connection, [(profile, one.project)])[profile, one.project]
                times = (to_micros(one.asked_at), to_micros(one.created))
                connection.execute(_SQL("insert_judgement"), (profile, project, one.query, key, one.relevance, *times))

        self._connections.write(work)

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        rows = self._connections.fetch(_SQL("list_judgements"), {"profile": profile, "project": project})
        found = []
        for query, memory, relevance, created, owner, home, asked_at in rows:
            at = from_micros(created)
            assert at is not None
            found.append(Judgement(query, memory, relevance, at, owner, home, from_micros(asked_at)))
        return found

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        def work(connection: Connection) -> int:
            deleted = 0
            for one in judgements:
                names = {name: getattr(one, name) for name in ("query", "profile", "project", "memory")}
                deleted += connection.execute(_SQL("delete_judgement"), names).rowcount
            return deleted

        return self._connections.write(work)


def find_request(connection: Connection, key: IdempotencyKey | None) -> list[str] | None:
    """Return the ids that the request with this key wrote; None if it is new or there is no key.

    `Conflict` if the key was used for another request. A second request with the same key waits for the first to end.
    """
    if key is None:
        return None
    connection.execute(_SQL("lock_request"), (key.name,))
    row = connection.execute("SELECT ids, fingerprint, made FROM requests WHERE name = %s", (key.name,)).fetchone()
    return json.loads(row[0]) if row is not None and is_sent_again(key, *row[1:]) else None


def record_request(connection: Connection, key: IdempotencyKey | None, ids: Sequence[str]) -> None:
    """Store which ids a request wrote, in its own transaction, and delete expired requests."""
    if key is None:
        return
    connection.execute("DELETE FROM requests WHERE made < %s", (to_micros(key.expires_before),))
    values = (key.name, key.fingerprint, json.dumps(list(ids)), to_micros(key.at))
    connection.execute(_SQL("insert_request"), values)
