"""The search by vectors: exactly within small scopes, by an HNSW index in large ones, scored exactly in both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from retentive.errors import Invalid
from retentive.models import Model
from retentive.stores import Vector
from retentive.stores.postgres.pools import Connection
from retentive.stores.postgres.search_stats import ActiveModel, ResolvedScope
from retentive.stores.postgres.type_adapters import Half
from retentive.stores.sql_codec import ScopeIds

EXACT = 10_000
"""Up to so many memories in reach, every vector is looked at."""

PARTED = 1.02
"""From so many vectors to a memory on, some of the nearest are parts of the same one, and more are asked for."""

MOST_NUMBERS = 4_000
"""What a page of PostgreSQL, and the index, can hold of a vector."""

_COPY = b"""
    COPY vectors (model, memory, part, profile, project, session, kind, embedding) FROM STDIN (FORMAT BINARY)
"""
_TYPES = ("int4", "int8", "int4", "int4", "int4", "int4", "int4", "halfvec")

_WITHOUT = "AND memory <> ALL (ARRAY(SELECT key FROM memories WHERE id = ANY (%(exclude)s)))"

# Both are scored against the query's vector as it is; only the order in which the index is walked goes by halves.
_EXACT = """
    near AS MATERIALIZED (
      SELECT memory, max(-(embedding::vector <#> %(vector)s)) AS score
      FROM vectors WHERE model = {model} AND {condition} {without}
      GROUP BY memory ORDER BY score DESC, memory LIMIT {depth}
    )"""

# The CASE hides the scope from the planner, which else would take another index: in a large scope the slower way. If
# too few memories come to choose from (many parts of the same ones, or hardly any in reach), all in reach are looked at
# after all.
_INDEXED = """
    walked AS MATERIALIZED (
      SELECT memory, embedding FROM vectors
      WHERE model = {model} AND CASE WHEN {condition} THEN true ELSE false END {without}
      ORDER BY (embedding::halfvec({dimension})) <#> %(half)s::halfvec({dimension}) LIMIT {walked}
    ),
    near AS MATERIALIZED (
      SELECT memory, max(score) AS score FROM (
        SELECT memory, -(embedding::vector <#> %(vector)s) AS score FROM walked
        UNION ALL
        SELECT memory, -(embedding::vector <#> %(vector)s) AS score FROM vectors
        WHERE (SELECT count(DISTINCT memory) < {least} FROM walked) AND model = {model} AND {condition} {without}
      ) AS found
      GROUP BY memory ORDER BY score DESC, memory LIMIT {depth}
    )"""


def near(serving: ActiveModel, reach: ResolvedScope, *, depth: int, least: int, excluding: bool) -> str:
    """The search for the nearest as a part of a statement, for `vector` and `half`: memories and their scores.

    The index is asked for `depth` of them. Of memories with several parts it may bring fewer; `least` are needed.
    """
    condition = reach.condition
    without = _WITHOUT if excluding else ""
    if reach.memories <= EXACT or not serving.indexed:
        return _EXACT.format(model=serving.number, condition=condition, without=without, depth=depth)
    parts = min(max(serving.parts, 1.0), 20.0)
    walked = min(round_up(int(depth * parts * (1.1 if parts > PARTED else 1.0))), 20_000)
    return _INDEXED.format(
        model=serving.number,
        dimension=serving.model.dimension,
        condition=condition,
        without=without,
        walked=walked,
        depth=depth,
        least=min(least, depth),
    )


def round_up(number: int) -> int:
    """A round number that is not smaller, so that a statement is prepared for few of them and not for each."""
    step = 1 << max(number.bit_length() - 3, 4)
    return -(-number // step) * step


def check_vectors(vectors: Iterable[Vector | None], model: Model | None) -> None:
    """`Invalid` if a vector is not as long as the model's are."""
    if model is not None and model.dimension > MOST_NUMBERS:
        raise Invalid(f"PostgreSQL stores vectors of up to {MOST_NUMBERS:,} numbers; {model} has more")
    for rows in vectors:
        if rows is not None and model is not None and (rows.ndim != 2 or rows.shape[1] != model.dimension):
            raise Invalid(f"every vector of {model} has {model.dimension} numbers, one of these has not")


def add_vectors(connection: Connection, entries: Sequence[tuple[int, ScopeIds, Vector]], *, model: int) -> None:
    """Store the vectors of these memories."""
    with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
        copy.set_types(_TYPES)
        for key, at, rows in entries:
            scope = (at.profile, at.project or None, at.session or None, at.kind)
            for part, row in enumerate(np.asarray(rows, np.float32)):
                copy.write_row((model, key, part, *scope, Half(row)))


def remove_vectors(connection: Connection, key: int) -> None:
    """Take out the vectors of a memory, of every model."""
    connection.execute("DELETE FROM vectors WHERE memory = %s", (key,))


def move_vectors(connection: Connection, key: int, numbers: ScopeIds) -> None:
    """Note a memory's new scope beside its vectors."""
    connection.execute(
        "UPDATE vectors SET profile = %s, project = nullif(%s, 0), session = nullif(%s, 0), kind = %s "
        "WHERE memory = %s",
        (numbers.profile, numbers.project, numbers.session, numbers.kind, key),
    )


def stored_vectors(connection: Connection, keys: Sequence[int]) -> dict[int, Vector]:
    """The vectors of each of these memories, of the model that is searched, a row a part."""
    if not keys:
        return {}
    found: dict[int, list[Vector]] = {}
    for key, vector in connection.execute(
        "SELECT v.memory, v.embedding FROM vectors AS v, state "
        "WHERE v.memory = ANY (%s) AND v.model = active_model ORDER BY v.memory, v.part",
        (list(keys),),
        binary=True,
    ):
        found.setdefault(key, []).append(vector)
    return {key: np.stack(rows) for key, rows in found.items()}
