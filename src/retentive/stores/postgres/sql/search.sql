-- name: select_by_terms
-- An approximation of BM25 that ignores how often a term occurs in a memory. The memories it selects are scored exactly.
-- A cast that is a SELECT of its own is computed once, and not for each row.
{name} AS MATERIALIZED (
  SELECT key FROM memories
  WHERE words @@ (SELECT %(searched)s::tsquery) {exclusion}
  ORDER BY ({weights}) / (1 + %(per_memory)s::float8 + %(per_term)s::float8 * length) DESC, key LIMIT {most}
)

-- name: select_strong
-- Reading a memory takes longer than finding it. Those with the heaviest terms are read first, and the others only if they
-- could have better scores.
strong AS MATERIALIZED (
  SELECT key, ({weights}) / (1 + %(per_memory)s::float8 + %(per_term)s::float8 * length) AS score FROM memories
  WHERE words @@ (SELECT %(strong)s::tsquery) {exclusion}
  ORDER BY score DESC, key LIMIT {most}
),
enough AS MATERIALIZED (SELECT count(*) = {most} AND min(score) > %(best_of_others)s::float8 AS yes FROM strong),
{by_terms},
selected AS MATERIALIZED (
  SELECT key FROM strong WHERE (SELECT yes FROM enough)
  UNION ALL
  SELECT key FROM by_terms
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
  WHERE words @@ (SELECT %(searched)s::tsquery) {exclusion}
),
{by_terms},
selected AS MATERIALIZED (
  SELECT key FROM ranked
  UNION
  SELECT key FROM by_terms
  WHERE (SELECT count(*) < %(limit)s OR max(score) = max(score) FILTER (WHERE rank <= %(limit)s) FROM ranked)
)

-- name: score
-- The memories that were selected by their BM25, computed as retentive.text.bm25 does: the same operations in the same
-- order, so that every digit is the same. Each space is doubled, so that a term that follows itself counts twice.
scored AS MATERIALIZED (
  SELECT m.key, (
    SELECT coalesce(sum(found.idf * found.count * %(saturation)s::float8 / (found.count + document.damping)), 0)
    FROM (
      SELECT idf,
        ((octet_length(document.padded) - octet_length(replace(document.padded, spaced, ''))) / octet_length(spaced))::float8 AS count
      FROM unnest(%(words)s::text[], %(spaced)s::text[], %(idfs)s::float8[]) AS query (word, spaced, idf)
      WHERE strpos(m.terms, word) > 0 OFFSET 0
    ) AS found
  ) AS score
  FROM selected JOIN memories AS m ON m.key = selected.key
  CROSS JOIN LATERAL (
    SELECT ' ' || replace(m.terms, ' ', '  ') || ' ' AS padded,
      %(k1)s::float8 * (%(not_b)s::float8 + %(b)s::float8 * m.length / %(mean_length)s::float8) AS damping
    OFFSET 0
  ) AS document
),
by_keyword AS MATERIALIZED (
  SELECT key, score, row_number() OVER (ORDER BY score DESC, key) AS rank FROM scored ORDER BY score DESC, key LIMIT %(limit)s
)

-- name: no_keyword
by_keyword AS (SELECT NULL::bigint AS key, NULL::float8 AS score, NULL::bigint AS rank WHERE false)

-- name: no_near
near AS (SELECT NULL::bigint AS memory, NULL::float8 AS score WHERE false)

-- name: near_in_scope
-- Scores are computed with the query's vector in single precision; half precision only orders the scans below.
SELECT memory, max(-(embedding::vector <#> %(vector)s)) AS score FROM vectors
WHERE model = {model} AND {condition} {exclusion}
GROUP BY memory ORDER BY score DESC, memory LIMIT {depth}

-- name: nearest_few
near AS MATERIALIZED ({near_in_scope})

-- name: nearest_exact
-- A scan in half precision takes half the time. If a vector that is not among the scanned ones could be among the best,
-- or if these are parts of too few memories, the whole scope is read.
scanned AS MATERIALIZED (
  SELECT ctid AS place, embedding <#> (SELECT %(vector)s::halfvec) AS distance
  FROM vectors WHERE model = {model} AND {condition} {exclusion}
  ORDER BY distance LIMIT {scanned}
),
best AS MATERIALIZED (
  SELECT v.memory, max(-(v.embedding::vector <#> %(vector)s)) AS score
  FROM scanned JOIN vectors AS v ON v.ctid = scanned.place
  GROUP BY v.memory ORDER BY score DESC, v.memory LIMIT {depth}
),
complete AS MATERIALIZED (
  SELECT (SELECT count(*) FROM scanned) < {scanned}
    OR count(*) = {depth} AND min(score) > %(rounding)s::float8 - (SELECT max(distance) FROM scanned) AS yes
  FROM best
),
near AS MATERIALIZED (
  SELECT memory, score FROM best WHERE (SELECT yes FROM complete)
  UNION ALL
  SELECT memory, score FROM ({near_in_scope}) AS everything
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
(SELECT max(-(v.embedding::vector <#> %(vector)s)) FROM vectors AS v WHERE v.memory = {key} AND v.model = {model})

-- name: search
-- The memories of both retrievers, the neighbours of the first `centres` of each, and further ones, once each. The row of
-- the nearest one has the scores of all.
WITH {by_keyword},
{near},
by_vector AS MATERIALIZED (
  SELECT memory AS key, score, row_number() OVER (ORDER BY score DESC, memory) AS rank FROM near
),
centres AS (
  SELECT key FROM by_keyword WHERE rank <= %(centres)s
  UNION
  SELECT key FROM by_vector WHERE rank <= %(centres)s
  {around}
),
sides AS MATERIALIZED (
  SELECT m.key, {sides} FROM centres JOIN memories AS m ON m.key = centres.key WHERE m.session IS NOT NULL
),
wanted AS (
  SELECT key FROM by_keyword
  UNION SELECT key FROM by_vector WHERE rank <= %(semantic)s
  UNION SELECT key FROM sides
  UNION SELECT before FROM sides
  UNION SELECT after FROM sides
  {further}
)
SELECT
  wanted.key, k.score, coalesce(v.score, {cosine}), v.rank,
  CASE WHEN v.rank = 1 THEN ARRAY(SELECT score FROM by_vector ORDER BY rank) END,
  sides.key IS NOT NULL, sides.before, sides.after,
  found.*
FROM wanted
LEFT JOIN by_keyword AS k ON k.key = wanted.key
LEFT JOIN by_vector AS v ON v.key = wanted.key
LEFT JOIN sides ON sides.key = wanted.key
LEFT JOIN LATERAL (
  SELECT CASE WHEN k.score IS NULL THEN m.terms::varchar END, {columns} FROM memories AS m WHERE m.key = wanted.key
) AS found ON true
WHERE wanted.key IS NOT NULL

-- name: with_ids
UNION SELECT key FROM memories WHERE id = ANY (%({ids})s)

-- name: sides
(
  SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position < m.position {current}
  ORDER BY n.position DESC LIMIT 1
) AS before, (
  SELECT n.key FROM memories AS n WHERE n.session = m.session AND n.position > m.position {current}
  ORDER BY n.position LIMIT 1
) AS after

-- name: vectors
SELECT m.id, v.embedding FROM memories AS m JOIN vectors AS v ON v.memory = m.key
WHERE m.id = ANY (%(ids)s) AND v.model = (SELECT active_model FROM state) AND v.part = 0

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
