-- name: select_by_terms
-- An approximation of BM25 that ignores how often a term occurs in a memory. The memories it selects are scored exactly.
{name} AS MATERIALIZED (
  SELECT key FROM memories
  WHERE words @@ %(searched)s::tsquery {exclusion}
  ORDER BY ({weights}) / (1 + %(per_memory)s::float8 + %(per_term)s::float8 * length) DESC, key LIMIT {most}
)

-- name: select_by_extension
-- Some of the best memories of the extension may contain only terms that do not retrieve candidates. If too few are left,
-- or if the last one that is wanted has the same score as the last one of all, our own selection is added: of memories
-- with equal scores, those stored first come first.
ranked AS MATERIALIZED (
  SELECT key, score, row_number() OVER (ORDER BY score, key) AS rank
  FROM (
    SELECT key, id, words, valid_from, valid_to, expires,
      terms OPERATOR({schema}.<@>) {schema}.to_bm25query(%(extension_query)s::text, %(index)s::text) AS score
    FROM memories ORDER BY score LIMIT {most}
  ) AS best
  WHERE words @@ %(searched)s::tsquery {exclusion}
),
{by_terms},
selected AS MATERIALIZED (
  SELECT key FROM ranked
  UNION
  SELECT key FROM by_terms
  WHERE (SELECT count(*) < %(limit)s OR max(score) = max(score) FILTER (WHERE rank <= %(limit)s) FROM ranked)
)

-- name: keyword
WITH {selected}
SELECT {cosine}, m.terms, {columns} FROM selected JOIN memories AS m ON m.key = selected.key

-- name: nearest_exact
-- Scores are computed with the query's vector in single precision; half precision only orders the scan of the index.
near AS MATERIALIZED (
  SELECT memory, max(-(embedding::vector <#> %(vector)s)) AS score
  FROM vectors WHERE model = {model} AND {condition} {exclusion}
  GROUP BY memory ORDER BY score DESC, memory LIMIT {depth}
)

-- name: nearest_indexed
-- CASE hides the scope from the planner, which would otherwise choose another index, the slower one in a large scope. If
-- the scan finds too few memories (many parts of the same ones, or hardly any in the scope), the whole scope is read.
scanned AS MATERIALIZED (
  SELECT memory, embedding FROM vectors
  WHERE model = {model} AND CASE WHEN {condition} THEN true ELSE false END {exclusion}
  ORDER BY (embedding::halfvec({dimension})) <#> %(vector)s::halfvec({dimension}) LIMIT {scanned}
),
near AS MATERIALIZED (
  SELECT memory, max(score) AS score FROM (
    SELECT memory, -(embedding::vector <#> %(vector)s) AS score FROM scanned
    UNION ALL
    SELECT memory, -(embedding::vector <#> %(vector)s) AS score FROM vectors
    WHERE (SELECT count(DISTINCT memory) < {least} FROM scanned) AND model = {model} AND {condition} {exclusion}
  ) AS found
  GROUP BY memory ORDER BY score DESC, memory LIMIT {depth}
)

-- name: cosine
(SELECT max(-(v.embedding::vector <#> %(vector)s)) FROM vectors AS v WHERE v.memory = m.key AND v.model = {model})

-- name: nearest
-- The scores of the nearest memories and of all known ones. Only new memories that become candidates are read.
WITH {near},
wanted AS (
  SELECT memory AS key, score, row_number() OVER (ORDER BY score DESC, memory) AS rank FROM near
  UNION ALL
  SELECT m.key, {cosine}, NULL FROM unnest(%(known)s::bigint[]) AS m (key)
)
SELECT wanted.key, wanted.rank, wanted.score, found.*
FROM wanted
LEFT JOIN LATERAL (
  SELECT m.terms, {columns} FROM memories AS m
  WHERE m.key = CASE WHEN wanted.rank <= %(limit)s AND wanted.key <> ALL (%(known)s::bigint[]) THEN wanted.key END
) AS found ON true

-- name: neighbours
-- Each memory that has a session gives two rows, one for each side. Only neighbours that are not known are read.
SELECT wanted.id, wanted.is_after, wanted.key, found.*
FROM (
  SELECT m.id, side.is_after, side.key FROM memories AS m
  CROSS JOIN LATERAL (
    SELECT false AS is_after, (
      SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position < m.position {current}
      ORDER BY n.position DESC LIMIT 1
    ) AS key
    UNION ALL
    SELECT true, (
      SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position > m.position {current}
      ORDER BY n.position LIMIT 1
    )
  ) AS side
  WHERE m.id = ANY (%(ids)s) AND m.session IS NOT NULL
) AS wanted
LEFT JOIN LATERAL (
  SELECT {cosine}, m.terms, {columns} FROM memories AS m
  WHERE m.key = CASE WHEN wanted.key <> ALL (%(known)s::bigint[]) THEN wanted.key END
) AS found ON true

-- name: memories
SELECT {cosine}, m.terms, {columns} FROM memories AS m WHERE m.id = ANY (%(ids)s)

-- name: vectors
SELECT m.id, v.embedding FROM memories AS m JOIN vectors AS v ON v.memory = m.key
WHERE m.id = ANY (%(ids)s) AND v.model = %(model)s AND v.part = 0

-- name: terms_with_prefix
WITH owner AS (SELECT id FROM profiles WHERE name = %(profile)s)
SELECT name FROM (
  SELECT name, memories FROM counts
  WHERE profile = (SELECT id FROM owner) AND name >= %(prefix)s AND name < %(end)s
  UNION ALL
  SELECT name, memories FROM count_changes
  WHERE profile = (SELECT id FROM owner) AND name >= %(prefix)s AND name < %(end)s
) AS both_tables
GROUP BY name HAVING sum(memories) > 0 ORDER BY sum(memories) DESC, name LIMIT %(limit)s
