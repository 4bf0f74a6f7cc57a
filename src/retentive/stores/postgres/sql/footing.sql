-- Everything that a search has to know before it begins: the scope in numbers, how much is in it, how common each term
-- of the question is, and which model serves.
WITH
owner AS (SELECT id FROM profiles WHERE name = %(profile)s),
home AS (SELECT p.id FROM projects AS p, owner WHERE p.profile = owner.id AND p.name = %(project)s::text),
named AS (
  SELECT s.id, s.project FROM sessions AS s, owner
  WHERE s.profile = owner.id AND s.name = ANY (%(sessions)s::text[])
    AND (%(project)s::text IS NULL OR s.project = (SELECT id FROM home))
),
-- A session that belongs to a project stands for the project, unless only sessions are asked for.
reach AS MATERIALIZED (
  SELECT
    id AS profile,
    CASE
      WHEN %(sessions)s::text[] IS NOT NULL THEN
        ARRAY(SELECT DISTINCT project FROM named WHERE NOT %(only_sessions)s::boolean AND project IS NOT NULL)
      WHEN %(project)s::text IS NOT NULL THEN ARRAY(SELECT id FROM home)
    END AS projects,
    CASE
      WHEN %(sessions)s::text[] IS NOT NULL THEN
        ARRAY(SELECT id FROM named WHERE %(only_sessions)s::boolean OR project IS NULL)
      WHEN %(project)s::text IS NOT NULL THEN '{}'::integer[]
    END AS sessions
  FROM owner
),
places AS MATERIALIZED (
  SELECT 'p' || profile::text AS place FROM reach WHERE projects IS NULL
  UNION ALL SELECT 'r' || unnest(projects)::text FROM reach
  UNION ALL SELECT 's' || unnest(sessions)::text FROM reach
),
within AS MATERIALIZED (
  SELECT array_agg('=' || place || 'k' || kind::text) AS names
  FROM places, unnest(%(any_kinds)s::integer[]) AS k (kind)
),
counted AS MATERIALIZED (
  SELECT name, sum(memories)::bigint AS memories, sum(length)::bigint AS length
  FROM (
    SELECT name, memories, length FROM counts
    WHERE name = ANY ('='::text || %(terms)s::text[] || (SELECT names FROM within))
    UNION ALL
    SELECT name, memories, length FROM count_changes
    WHERE name = ANY ('='::text || %(terms)s::text[] || (SELECT names FROM within))
  ) AS both_of_them
  GROUP BY name
),
total AS MATERIALIZED (
  SELECT coalesce(sum(memories), 0)::bigint AS memories, coalesce(sum(length), 0)::bigint AS length
  FROM counted WHERE name = '='
),
inside AS MATERIALIZED (
  SELECT
    coalesce(sum(memories), 0)::bigint AS memories,
    -- The scope as part of a search for words; none is needed where it leaves nothing out.
    CASE WHEN coalesce(sum(memories), 0) < (SELECT memories FROM total) THEN nullif(concat_ws(
      ' & ',
      (SELECT '(' || string_agg('''=' || place || '''', ' | ') || ')' FROM places),
      (SELECT '(' || string_agg('''=k' || kind::text || '''', ' | ') || ')'
       FROM unnest(%(kinds)s::integer[]) AS k (kind))
    ), '') END AS query
  FROM counted WHERE name = ANY ((SELECT names FROM within)::text[])
),
known AS (
  SELECT name, memories FROM counted
  WHERE name = ANY (%(terms)s::text[]) AND memories > 0
  ORDER BY memories, name LIMIT %(most_terms)s
),
-- What is rare everywhere may be common in the scope. Counting reads the memories of the term in the scope, so it is
-- done where there cannot be many.
found AS (
  SELECT name, memories AS everywhere,
    CASE
      WHEN inside_query IS NULL THEN memories
      WHEN least(memories, (SELECT memories FROM inside)) <= %(counted)s THEN (
        SELECT count(*) FROM memories AS m
        WHERE m.words @@ ('(' || inside_query || ') & ''' || known.name || '''')::tsquery
      )
    END AS here
  FROM known, (SELECT query AS inside_query FROM inside) AS i
)
SELECT
  reach.profile, reach.projects, reach.sessions, inside.memories, inside.query, total.memories, total.length,
  model.id, model.name, model.revision, model.dimension, model.fingerprint,
  model.id IS NOT NULL AND EXISTS (
    SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('vectors_near_' || model.id::text) AND indisvalid
  ),
  (SELECT v.reltuples / greatest(m.reltuples, 1) FROM pg_class AS v, pg_class AS m
   WHERE v.oid = 'vectors'::regclass AND m.oid = 'memories'::regclass),
  -- A BM25 of the server's own, and our index of that kind.
  (SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
   WHERE e.extname = 'pg_textsearch'),
  (SELECT current_schema() || '.memories_by_bm25' FROM pg_index
   WHERE indexrelid = to_regclass('memories_by_bm25') AND indisvalid),
  ARRAY(SELECT name FROM found ORDER BY everywhere, name),
  ARRAY(SELECT everywhere FROM found ORDER BY everywhere, name),
  ARRAY(SELECT here FROM found ORDER BY everywhere, name)
FROM total
CROSS JOIN inside
CROSS JOIN state
LEFT JOIN reach ON true
LEFT JOIN models AS model ON model.id = state.active_model
