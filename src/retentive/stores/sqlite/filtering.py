"""The filter of a query as a statement."""

from __future__ import annotations

import json

import apsw

from retentive.models import Filter
from retentive.stores.sql_codec import to_micros
from retentive.stores.sqlite.memory_table import IDENTITY, ResolvedScope, fetch_json

# Metadata is compared by type and value; integers and reals are one type.
_FILTER = """
    SELECT json_group_array(m.key) FROM memories AS m
    WHERE m.profile = :profile
      AND (:projects IS NULL OR m.project IN (SELECT value FROM json_each(:projects))
        OR m.session IN (SELECT value FROM json_each(:sessions)) OR (m.project IS NULL AND m.kind = :shared))
      AND (:kinds IS NULL OR m.kind IN (SELECT value FROM json_each(:kinds)))
      AND (:since IS NULL OR coalesce(m.occurred, m.created) >= :since)
      AND (:until IS NULL OR coalesce(m.occurred, m.created) < :until)
      AND (:started_by IS NULL OR coalesce(m.valid_from, m.occurred, m.created) <= :started_by)
      AND NOT EXISTS (
        SELECT 1 FROM json_each(:metadata) AS wanted WHERE NOT EXISTS (
          SELECT 1 FROM json_each(CASE WHEN json_valid(m.metadata) THEN m.metadata END) AS has
          WHERE has.key = wanted.key AND has.atom IS wanted.atom
            AND replace(has.type, 'integer', 'real') = replace(wanted.type, 'integer', 'real')
            AND has.type NOT IN ('object', 'array')
        )
      )
"""


def filtered_keys(connection: apsw.Connection, scope: ResolvedScope, wanted: Filter) -> list[int]:
    """The keys of the memories that a search finds in the scope and that match a filter."""
    times = {"since": wanted.since, "until": wanted.until, "started_by": wanted.started_by}
    bounds = {name: to_micros(time) for name, time in times.items()}
    shared = IDENTITY if scope.shares_identity else None
    parameters = {**scope.parameters, **bounds, "shared": shared, "metadata": json.dumps(dict(wanted.metadata))}
    keys: list[int] = fetch_json(connection, _FILTER, parameters)
    return keys
