-- name: search_stats
-- Everything that a search must know first: the ids of its scope, how many memories are in it, how many memories contain
-- each term of the query, and the active model.
WITH
owner AS (SELECT id FROM profiles WHERE name = %(profile)s),
named_project AS (SELECT p.id FROM projects AS p, owner WHERE p.profile = owner.id AND p.name = %(project)s::text),
named_sessions AS (
  SELECT s.id, s.project FROM sessions AS s, owner
  WHERE s.profile = owner.id AND s.name = ANY (%(sessions)s::text[])
    AND (%(project)s::text IS NULL OR s.project = (SELECT id FROM named_project))
    AND NOT (%(outside_projects)s::boolean AND s.project IS NOT NULL)
),
-- A session that belongs to a project stands for the whole project, unless only_sessions is set.
resolved AS MATERIALIZED (
  SELECT
    id AS profile,
    CASE
      WHEN %(sessions)s::text[] IS NOT NULL THEN
        ARRAY(SELECT DISTINCT project FROM named_sessions WHERE NOT %(only_sessions)s::boolean AND project IS NOT NULL)
      WHEN %(project)s::text IS NOT NULL THEN ARRAY(SELECT id FROM named_project)
    END AS projects,
    CASE
      WHEN %(sessions)s::text[] IS NOT NULL THEN
        ARRAY(SELECT id FROM named_sessions WHERE %(only_sessions)s::boolean OR project IS NULL)
      WHEN %(project)s::text IS NOT NULL THEN '{}'::integer[]
    END AS sessions
  FROM owner
),
-- A search of a project also finds the identity memories of the profile that belong to no project.
shared AS MATERIALIZED (
  SELECT '''=p' || profile::text || ''' & ''=r0'' & ''=k' || %(shared_kind)s::text || '''' AS query
  FROM resolved WHERE cardinality(projects) > 0 AND %(shared_kind)s::integer IS NOT NULL
),
shared_memories AS MATERIALIZED (
  SELECT coalesce(array_agg(m.key ORDER BY m.key), '{}') AS keys
  FROM memories AS m WHERE m.words @@ (SELECT query FROM shared)::tsquery
    AND NOT coalesce(m.session = ANY ((SELECT sessions FROM resolved)::integer[]), false)
),
containers AS MATERIALIZED (
  SELECT 'p' || profile::text AS container FROM resolved WHERE projects IS NULL
  UNION ALL SELECT 'r' || unnest(projects)::text FROM resolved
  UNION ALL SELECT 's' || unnest(sessions)::text FROM resolved
),
scope_names AS MATERIALIZED (
  SELECT array_agg('=' || container || 'k' || kind::text) AS names
  FROM containers, unnest(%(any_kinds)s::integer[]) AS k (kind)
),
counted AS MATERIALIZED (
  SELECT name, sum(memories)::bigint AS memories, sum(length)::bigint AS length
  FROM (
    SELECT name, memories, length FROM counts
    WHERE profile = (SELECT profile FROM resolved)
      AND name = ANY ('='::text || %(terms)s::text[] || (SELECT names FROM scope_names))
    UNION ALL
    SELECT name, memories, length FROM count_changes
    WHERE profile = (SELECT profile FROM resolved)
      AND name = ANY ('='::text || %(terms)s::text[] || (SELECT names FROM scope_names))
  ) AS both_tables
  GROUP BY name
),
total AS MATERIALIZED (
  SELECT coalesce(sum(memories), 0)::bigint AS memories, coalesce(sum(length), 0)::bigint AS length
  FROM counted WHERE name = '='
),
store AS MATERIALIZED (
  SELECT (SELECT coalesce(sum(memories), 0) FROM counts WHERE profile = 0)
    + (SELECT coalesce(sum(memories), 0) FROM count_changes WHERE profile = 0) AS memories
),
own AS MATERIALIZED (
  SELECT CASE
    -- Memories in no project have no count.
    WHEN %(outside_projects)s::boolean AND %(sessions)s::text[] IS NULL THEN (
      SELECT count(*) FROM memories AS m
      WHERE m.profile = (SELECT profile FROM resolved) AND m.project IS NULL AND m.kind = ANY (%(any_kinds)s::integer[])
    )
    ELSE coalesce(sum(memories), 0)::bigint
  END AS memories
  FROM counted WHERE name = ANY ((SELECT names FROM scope_names)::text[])
),
in_scope AS MATERIALIZED (
  SELECT
    own.memories + (SELECT cardinality(keys) FROM shared_memories) AS memories,
    -- The scope as a part of a tsquery; NULL if it excludes no memory.
    CASE WHEN own.memories < (SELECT memories FROM store) THEN nullif(concat_ws(
      ' & ',
      (SELECT '(' || string_agg('''=' || container || '''', ' | ') || coalesce(' | (' || (SELECT query FROM shared) || ')', '')
              || ')' FROM containers),
      CASE WHEN %(outside_projects)s::boolean THEN '''=r0''' END,
      (SELECT '(' || string_agg('''=k' || kind::text || '''', ' | ') || ')'
       FROM unnest(%(kinds)s::integer[]) AS k (kind))
    ), '') END AS query
  FROM own
),
known_terms AS (
  SELECT name, memories FROM counted
  WHERE name = ANY (%(terms)s::text[]) AND memories > 0
  ORDER BY memories, name LIMIT %(max_terms)s
),
-- A term that is rare in the profile may be common in the scope. Counting reads every memory of the scope that contains
-- the term, so it is done only where there cannot be many.
frequencies AS (
  SELECT name, known_terms.memories AS in_profile,
    CASE
      WHEN i.memories = total.memories THEN known_terms.memories
      WHEN least(known_terms.memories, i.memories) <= %(max_counted)s THEN (
        SELECT count(*) FROM memories AS m
        WHERE m.words @@ ('(' || i.query || ') & ''' || known_terms.name || '''')::tsquery
      )
    END AS in_scope
  FROM known_terms, total, in_scope AS i
)
SELECT
  resolved.profile, resolved.projects, resolved.sessions, (SELECT keys FROM shared_memories), in_scope.memories, in_scope.query,
  total.memories, total.length,
  model.id, model.name, model.revision, model.dimension, model.fingerprint,
  model.id IS NOT NULL AND EXISTS (
    SELECT 1 FROM pg_index WHERE indexrelid = to_regclass('vectors_near_' || model.id::text) AND indisvalid
  ),
  (SELECT v.reltuples / greatest(m.reltuples, 1) FROM pg_class AS v, pg_class AS m
   WHERE v.oid = 'vectors'::regclass AND m.oid = 'memories'::regclass),
  -- The BM25 extension, if the server has it, and our index of that kind.
  (SELECT quote_ident(n.nspname) FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
   WHERE e.extname = 'pg_textsearch'),
  (SELECT current_schema() || '.memories_by_bm25' FROM pg_index
   WHERE indexrelid = to_regclass('memories_by_bm25') AND indisvalid),
  EXISTS (
    SELECT 1 FROM memories AS m WHERE m.profile = resolved.profile
      AND (m.valid_from IS NOT NULL OR m.valid_to IS NOT NULL OR m.expires IS NOT NULL)
  ),
  ARRAY(SELECT name FROM frequencies ORDER BY in_profile, name),
  ARRAY(SELECT in_profile FROM frequencies ORDER BY in_profile, name),
  ARRAY(SELECT in_scope FROM frequencies ORDER BY in_profile, name)
FROM total
CROSS JOIN in_scope
CROSS JOIN state
LEFT JOIN resolved ON true
LEFT JOIN models AS model ON model.id = state.active_model
