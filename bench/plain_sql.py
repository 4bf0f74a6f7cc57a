"""The baseline on PostgreSQL: one table, and one SQL statement with both searches and RRF.

Half-precision vectors with HNSW, a generated `tsvector` with GIN, `ts_rank_cd`. Terms of more than a twentieth of the
rows are left out of the query, because ranking all their rows would take most of the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import psycopg

from bench.corpus import BenchQuery, Corpus, Matrix
from bench.progress import Progress

COMMON = 0.05
POOL = 30
EF_SEARCH = 100
_SETTINGS = (f"SET hnsw.ef_search = {EF_SEARCH}", "SET hnsw.iterative_scan = relaxed_order")

_TABLE = """
    CREATE EXTENSION IF NOT EXISTS vector;
    CREATE SCHEMA plain;
    CREATE TABLE plain.memories (
        row integer PRIMARY KEY,
        session text NOT NULL,
        text text NOT NULL,
        words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED,
        embedding halfvec({dimension}) NOT NULL
    );
    ALTER TABLE plain.memories ALTER COLUMN embedding SET STORAGE PLAIN;
"""

_INDEXES = f"""
    CREATE INDEX ON plain.memories (session);
    CREATE INDEX ON plain.memories USING gin (words);
    CREATE INDEX ON plain.memories USING hnsw (embedding halfvec_cosine_ops);
    CREATE TABLE plain.common AS
        SELECT word FROM ts_stat('SELECT words FROM plain.memories')
        WHERE ndoc > {COMMON} * (SELECT count(*) FROM plain.memories);
    CREATE UNIQUE INDEX ON plain.common (word);
"""

# Every part of the query is a parameter; only the clause of the scope is optional.
_BOTH = """
    WITH terms AS (
        SELECT lexeme, EXISTS (SELECT FROM plain.common WHERE word = lexeme) AS common
        FROM unnest(to_tsvector('english', %(text)s))
    ),
    parsed AS (
        SELECT coalesce(
            string_agg(quote_literal(lexeme), ' | ') FILTER (WHERE NOT common),
            string_agg(quote_literal(lexeme), ' | ')
        )::tsquery AS query
        FROM terms
    ),
    semantic AS MATERIALIZED (
        SELECT row, embedding <=> %(vector)s::halfvec AS distance
        FROM plain.memories {scope}
        ORDER BY embedding <=> %(vector)s::halfvec
        LIMIT {pool}
    ),
    keyword AS MATERIALIZED (
        SELECT row, ts_rank_cd(words, query) AS score
        FROM plain.memories, parsed {scope} {also} words @@ query
        ORDER BY score DESC
        LIMIT {pool}
    ),
    ranks AS (
        SELECT row, row_number() OVER (ORDER BY distance, row) AS rank FROM semantic
        UNION ALL
        SELECT row, row_number() OVER (ORDER BY score DESC, row) FROM keyword
    ),
    fused AS (
        SELECT row, sum(1.0 / (60 + rank)) AS score FROM ranks GROUP BY row ORDER BY score DESC, row LIMIT 10
    )
    SELECT row, session, text, score FROM fused JOIN plain.memories USING (row) ORDER BY score DESC, row
"""

_NEAREST = """
    WITH semantic AS MATERIALIZED (
        SELECT row, embedding <=> %(vector)s::halfvec AS distance
        FROM plain.memories {scope}
        ORDER BY embedding <=> %(vector)s::halfvec
        LIMIT %(limit)s
    )
    SELECT row FROM semantic ORDER BY distance
"""

_IN_SESSION = "WHERE session = %(session)s"


class PlainSql:
    """A table with the corpus, the seconds that filling it took, and the statement."""

    def __init__(self, address: str, corpus: Corpus, progress: Progress) -> None:
        self.name = "one SQL statement, RRF"
        self._connection = psycopg.connect(address, autocommit=True)
        for statement in _SETTINGS:
            self._connection.execute(statement)
        started = perf_counter()
        with progress.task("plain SQL: copy everything, then index"):
            self._connection.execute(_TABLE.format(dimension=corpus.vectors.shape[1]))
            with self._connection.cursor().copy(
                "COPY plain.memories (row, session, text, embedding) FROM STDIN"
            ) as copy:
                for row, (text, session) in enumerate(zip(corpus.texts, corpus.sessions, strict=True)):
                    copy.write_row((row, session, text, _literal(corpus.vectors[row])))
            self._connection.execute(_INDEXES)
        self.seconds = perf_counter() - started
        self._connection.execute("VACUUM (ANALYZE) plain.memories")
        self._statements = {scoped: _statement(scoped=scoped) for scoped in (True, False)}

    def search(self, query: BenchQuery, *, scoped: bool) -> list[Any]:
        values = {"text": query.text, "vector": _literal(query.vector), "session": query.session}
        return self._connection.execute(self._statements[scoped], values, prepare=True).fetchall()

    def nearest(self, query: BenchQuery, *, scoped: bool, limit: int) -> Sequence[int]:
        statement = _NEAREST.format(scope=_IN_SESSION if scoped else "")
        values = {"vector": _literal(query.vector), "session": query.session, "limit": limit}
        return [row for (row,) in self._connection.execute(statement, values, prepare=True)]

    def bytes(self) -> int:
        """Return the size of the table with its indexes."""
        found = self._connection.execute("SELECT pg_total_relation_size('plain.memories')").fetchone()
        assert found is not None
        return int(found[0])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _statement(*, scoped: bool) -> str:
    scope, also = (_IN_SESSION, "AND") if scoped else ("", "WHERE")
    return _BOTH.format(scope=scope, also=also, pool=POOL)


def _literal(vector: Matrix) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"
