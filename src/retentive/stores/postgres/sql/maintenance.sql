-- name: try_lock
SELECT pg_try_advisory_lock(hashtextextended('retentive.maintenance.' || current_schema(), 0))

-- name: unlock
SELECT pg_advisory_unlock(hashtextextended('retentive.maintenance.' || current_schema(), 0))

-- name: try_lock_counts
SELECT pg_try_advisory_xact_lock(hashtextextended('retentive.compact.' || current_schema(), 0))

-- name: compact
WITH removed AS (DELETE FROM count_changes RETURNING profile, name, memories, length)
INSERT INTO counts AS c (profile, name, memories, length)
SELECT profile, name, sum(memories), sum(length) FROM removed GROUP BY profile, name ORDER BY profile, name
ON CONFLICT (profile, name) DO UPDATE SET memories = c.memories + excluded.memories, length = c.length + excluded.length

-- name: models_without_index
SELECT m.id, m.dimension FROM models AS m
WHERE NOT m.retired AND to_regclass('vectors_near_' || m.id::text) IS NULL
  AND (SELECT count(*) FROM (SELECT 1 FROM vectors AS v WHERE v.model = m.id LIMIT %(limit)s + 1) AS limited) > %(limit)s

-- name: unusable_indexes
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace AND (
  c.relname LIKE 'vectors\_near\_%%'
    AND (NOT i.indisvalid OR c.relname NOT IN (SELECT 'vectors_near_' || id::text FROM models WHERE NOT retired))
  OR c.relname = %s AND NOT i.indisvalid
)

-- name: delete_retired_vectors
DELETE FROM vectors WHERE ctid = ANY (ARRAY(
  SELECT v.ctid FROM vectors AS v JOIN models AS m ON m.id = v.model WHERE m.retired LIMIT 5000
))

-- name: raise_memory
-- An index that does not fit into memory is built many times more slowly. At most 2 GB are used, and at least what is set.
SELECT set_config('maintenance_work_mem', kilobytes::text, false) FROM (
  SELECT least(2000000, count(*) * %(bytes)s / 1000)::bigint AS kilobytes FROM vectors WHERE model = %(model)s
) AS needed
WHERE kilobytes > (SELECT setting::bigint FROM pg_settings WHERE name = 'maintenance_work_mem')

-- name: create_hnsw_index
CREATE INDEX CONCURRENTLY {name} ON vectors
USING hnsw ((embedding::halfvec({dimension})) halfvec_ip_ops) WHERE model = {model}

-- name: memories_without_container
SELECT count(*) FROM memories AS m
WHERE NOT EXISTS (SELECT 1 FROM profiles AS p WHERE p.id = m.profile)
  OR m.project IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM projects AS r WHERE r.id = m.project AND r.profile = m.profile)
  OR m.session IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM sessions AS s
    WHERE s.id = m.session AND s.profile = m.profile AND s.project IS NOT DISTINCT FROM m.project
  )

-- name: vectors_without_memory
SELECT count(*) FROM vectors AS v WHERE NOT EXISTS (SELECT 1 FROM memories AS m WHERE m.key = v.memory)

-- name: vectors_in_other_scope
SELECT count(*) FROM vectors AS v JOIN memories AS m ON m.key = v.memory
WHERE (v.profile, v.kind) <> (m.profile, m.kind)
  OR v.project IS DISTINCT FROM m.project OR v.session IS DISTINCT FROM m.session

-- name: vectors_of_other_dimension
SELECT count(*) FROM vectors AS v JOIN models AS m ON m.id = v.model
WHERE vector_dims(v.embedding) <> m.dimension AND NOT m.retired

-- name: text_hashes
SELECT m.key, v.text_hash, m.text, m.speaker
FROM (SELECT DISTINCT memory, text_hash FROM vectors WHERE text_hash IS NOT NULL) AS v
JOIN memories AS m ON m.key = v.memory

-- name: memories_without_terms
SELECT count(*) FROM memories AS m
WHERE NOT m.words @@ ('''=p' || m.profile || ''' & ''=k' || m.kind || '''')::tsquery
  OR m.terms <> '' AND octet_length(m.terms) < 1000000
    AND NOT m.words @@ ('''' || split_part(m.terms, ' ', 1) || '''')::tsquery

-- name: invalid_indexes
SELECT c.relname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
WHERE c.relnamespace = current_schema()::regnamespace AND NOT i.indisvalid AND NOT EXISTS (
  SELECT 1 FROM pg_stat_progress_create_index AS p WHERE p.index_relid = i.indexrelid
)

-- name: every_memory
SELECT profile, coalesce(project, 0), coalesce(session, 0), kind, terms FROM memories

-- name: stored_counts
SELECT profile, name, sum(memories)::bigint, sum(length)::bigint FROM (TABLE counts UNION ALL TABLE count_changes) AS c
GROUP BY profile, name HAVING sum(memories) <> 0 OR sum(length) <> 0
