"""A stand-in for pg_textsearch, which no package contains: its documented names and their meaning, in SQL.

`to_bm25query` and `<@>` are in their own schema and return negative BM25 for the parser of text_config 'simple', with
the statistics of the memories that existed when the stand-in was created. The access method `bm25` is a b-tree: it has
no `text_config`, so that PostgreSQL refuses our statement for the index, and a test that needs an index uses another
one (`INDEX`). The row in `pg_extension` is inserted directly.
"""

from __future__ import annotations

import psycopg

from retentive.text.bm25 import K1, B

INDEX = "CREATE INDEX CONCURRENTLY memories_by_bm25 ON memories USING bm25 (length)"

_OBJECTS = f"""
    CREATE SCHEMA "text search %";
    SET LOCAL search_path = "text search %", retentive;

    CREATE ACCESS METHOD bm25 TYPE INDEX HANDLER bthandler;
    CREATE OPERATOR CLASS lengths DEFAULT FOR TYPE integer USING bm25 AS
      OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >, FUNCTION 1 btint4cmp (integer, integer);

    CREATE TABLE frequencies AS
      SELECT word AS lexeme, ndoc FROM ts_stat('SELECT to_tsvector(''simple'', terms) FROM retentive.memories');
    CREATE TABLE corpus AS SELECT count(*) AS memories, avg(length - 4) AS length FROM retentive.memories;

    CREATE TYPE bm25query AS (words text, index_name text);
    CREATE FUNCTION to_bm25query(input_text text, index_name text) RETURNS bm25query
      LANGUAGE sql STABLE STRICT AS $$ SELECT input_text, index_name::regclass::text $$;

    CREATE FUNCTION score(document text, query bm25query) RETURNS float8 LANGUAGE sql STABLE STRICT AS $$
      SELECT -coalesce(sum(
        ln(1 + (c.memories - f.ndoc + 0.5) / (f.ndoc + 0.5)) * cardinality(d.positions) * ({K1} + 1)
        / (cardinality(d.positions) + {K1} * (1 - {B} + {B} * cardinality(string_to_array(document, ' ')) / c.length))
      ), 0)::float8
      FROM "text search %".corpus AS c, unnest(to_tsvector('simple', document)) AS d
      JOIN "text search %".frequencies AS f USING (lexeme)
      WHERE d.lexeme = ANY (tsvector_to_array(to_tsvector('simple', (query).words)))
    $$;
    CREATE OPERATOR <@> (LEFTARG = text, RIGHTARG = bm25query, FUNCTION = score);

    INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
      VALUES (99999, 'pg_textsearch', 10, '"text search %"'::regnamespace, false, '1.5.1');
"""


def make(address: str) -> None:
    """Create the stand-in in a database, for the memories that exist."""
    with psycopg.connect(address) as connection:
        connection.execute(_OBJECTS.encode())


def replace_score(address: str, body: str) -> None:
    """Replace the result of `<@>` by an SQL expression of `document` and `query`."""
    with psycopg.connect(address) as connection:
        connection.execute('SET LOCAL search_path = "text search %"')
        connection.execute(
            "CREATE OR REPLACE FUNCTION score(document text, query bm25query) RETURNS float8 "
            f"LANGUAGE sql STABLE STRICT AS $$ SELECT {body} $$".encode()
        )
