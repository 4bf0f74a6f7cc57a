"""Whether text, words, counts and vectors of a PostgreSQL store agree, and its indexes can be used."""

from __future__ import annotations

from collections import Counter

from retentive.stores.postgres import counts
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import SCOPE_TOKENS, ScopeIds

_STRAY = {
    "{} memories are in a profile, project or session that does not exist": """
        SELECT count(*) FROM memories AS m
        WHERE NOT EXISTS (SELECT 1 FROM profiles AS p WHERE p.id = m.profile)
          OR m.project IS NOT NULL
            AND NOT EXISTS (SELECT 1 FROM projects AS r WHERE r.id = m.project AND r.profile = m.profile)
          OR m.session IS NOT NULL AND NOT EXISTS (
            SELECT 1 FROM sessions AS s
            WHERE s.id = m.session AND s.profile = m.profile AND s.project IS NOT DISTINCT FROM m.project
          )
    """,
    "{} vectors belong to no memory": """
        SELECT count(*) FROM vectors AS v WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.key = v.memory)
    """,
    "{} vectors are in another scope than their memory": """
        SELECT count(*) FROM vectors AS v JOIN memories AS m ON m.key = v.memory
        WHERE (v.profile, v.kind) <> (m.profile, m.kind)
          OR v.project IS DISTINCT FROM m.project OR v.session IS DISTINCT FROM m.session
    """,
    "{} vectors are not as long as their model's": """
        SELECT count(*) FROM vectors AS v JOIN models AS m ON m.id = v.model
        WHERE vector_dims(v.embedding) <> m.dimension AND NOT m.retired
    """,
    "{} memories have lost some of their words": """
        SELECT count(*) FROM memories AS m
        WHERE NOT m.words @@ ('''=p' || m.profile || ''' & ''=k' || m.kind || '''')::tsquery
          OR m.terms <> '' AND octet_length(m.terms) < 1000000
            AND NOT m.words @@ ('''' || split_part(m.terms, ' ', 1) || '''')::tsquery
    """,
}

_INDEXES = """
    SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
    WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid AND NOT EXISTS (
      SELECT 1 FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid
    )
"""


def problems(connection: Connection) -> list[str]:
    """What is wrong, one sentence each."""
    connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")  # one picture of the store for all checks
    try:
        found = []
        for sentence, statement in _STRAY.items():
            [(count,)] = connection.execute(statement.encode()).fetchall()
            if count:
                found.append(sentence.format(count))
        broken = [name for (name,) in connection.execute(_INDEXES)]
        found += [f"the index {name} is not complete; REINDEX it, or wait for a large write" for name in broken]
        return [*found, *_counts(connection)]
    finally:
        connection.execute("ROLLBACK")


def _counts(connection: Connection) -> list[str]:
    expected: Counter[str] = Counter()
    length = 0
    with connection.cursor("every_memory", binary=True) as cursor:
        cursor.itersize = 5000
        cursor.execute("SELECT profile, coalesce(project, 0), coalesce(session, 0), kind, terms FROM memories")
        for *scope, terms in cursor:
            document = terms.split()
            expected.update({"=", *document, *counts.places(ScopeIds(*scope))})
            length += len(document) + SCOPE_TOKENS
    kept: dict[str, int] = {}
    kept_length = 0
    for name, memories, terms in connection.execute(
        "SELECT name, sum(memories)::bigint, sum(length)::bigint "
        "FROM (TABLE counts UNION ALL TABLE count_changes) AS c "
        "GROUP BY name HAVING sum(memories) <> 0 OR sum(length) <> 0",
        binary=True,
    ):
        kept[name] = memories
        kept_length += terms
    if kept != expected or kept_length != length:
        return ["the counts of terms and memories differ from the memories'"]
    return []
