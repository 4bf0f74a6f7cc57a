-- name: copy_memories
COPY memories (
  key, id, profile, project, session, position, kind, speaker, importance, metadata, source, created, occurred,
  accessed, access_count, evergreen, content_hash, text, text_hash, fact_key, valid_from, valid_to, superseded_by,
  reason, actor, expires, terms, length
) FROM STDIN (FORMAT BINARY)

-- name: update
UPDATE memories SET
  profile = %s, project = nullif(%s, 0), session = nullif(%s, 0), kind = %s, position = %s,
  speaker = %s, importance = %s, metadata = %s, source = %s, created = %s, occurred = %s, accessed = %s,
  access_count = %s, evergreen = %s, content_hash = %s, text = %s, text_hash = %s, fact_key = %s,
  valid_from = %s, valid_to = %s, superseded_by = %s, reason = %s, actor = %s, expires = %s, terms = %s, length = %s
WHERE key = %s

-- name: new_keys
SELECT nextval(pg_get_serial_sequence('memories', 'key')) FROM generate_series(1, %s)

-- name: lock
SELECT key, profile, coalesce(project, 0), coalesce(session, 0), kind, terms FROM memories WHERE id = %s FOR UPDATE

-- name: lock_all
SELECT key, id, profile, coalesce(project, 0), coalesce(session, 0), kind FROM memories
WHERE id = ANY (%s) ORDER BY key FOR UPDATE

-- name: lock_texts
SELECT key, id, profile, coalesce(project, 0), coalesce(session, 0), kind, text, speaker FROM memories
WHERE id = ANY (%s) ORDER BY key FOR UPDATE

-- name: delete
DELETE FROM memories WHERE key = ANY (%s)
RETURNING id, profile, coalesce(project, 0), coalesce(session, 0), kind, terms

-- name: list
-- Only keys and sizes, so that texts are read for one page. The size of a long text is known without reading it.
SELECT key, octet_length(text) + coalesce(octet_length(metadata), 0), coalesce(occurred, created), id FROM memories
WHERE {condition} AND coalesce(occurred, created) <= %(time)s AND (coalesce(occurred, created) < %(time)s OR id < %(id)s)
ORDER BY coalesce(occurred, created) DESC, id DESC LIMIT %(limit)s

-- name: by_keys
SELECT {columns} FROM memories AS m WHERE m.key = ANY (%s)

-- name: by_ids
SELECT {columns} FROM memories AS m WHERE m.id = ANY (%s)

-- name: by_content
SELECT {columns} FROM memories AS m
WHERE m.content_hash = %s AND m.profile = %s AND coalesce(m.project, 0) = %s ORDER BY m.key

-- name: lock_contents
SELECT pg_advisory_xact_lock(id) FROM (
  SELECT DISTINCT hashtextextended('retentive.text.' || name, 0) AS id FROM unnest(%s::text[]) AS u (name) ORDER BY id
) AS ordered

-- name: scan
SELECT key, octet_length(text) + coalesce(octet_length(metadata), 0), id FROM memories WHERE id > %s ORDER BY id LIMIT %s

-- name: ids_between
SELECT id FROM memories WHERE id >= %s AND id < %s ORDER BY id LIMIT %s

-- name: scopes
SELECT m.key, m.id, (SELECT name FROM profiles WHERE id = m.profile), (SELECT name FROM projects WHERE id = m.project),
  (SELECT name FROM sessions WHERE id = m.session), m.kind
FROM memories AS m WHERE m.id = ANY (%s)

-- name: touch
UPDATE memories AS m SET access_count = m.access_count + t.times, accessed = greatest(m.accessed, %s)
FROM (SELECT id, count(*) AS times FROM unnest(%s::text[]) AS u (id) GROUP BY id) AS t
WHERE m.key = (SELECT key FROM memories WHERE id = t.id)

-- name: copy_vectors
COPY vectors (model, memory, part, profile, project, session, kind, embedding, text_hash, previous) FROM STDIN (FORMAT BINARY)

-- name: move_vectors
UPDATE vectors SET profile = %s, project = nullif(%s, 0), session = nullif(%s, 0), kind = %s WHERE memory = %s

-- name: active_vectors
SELECT v.memory, v.embedding FROM vectors AS v, state
WHERE v.memory = ANY (%s) AND v.model = active_model ORDER BY v.memory, v.part

-- name: stored_turns
SELECT id, key, text_hash FROM memories WHERE id = ANY (%s) FOR SHARE

-- name: previous_turns
SELECT v.memory, m.id, m.text_hash FROM vectors AS v JOIN memories AS m ON m.key = v.previous, state
WHERE v.memory = ANY (%s) AND v.model = active_model

-- name: turns_of_model
-- Memories with vectors of a model, and the previous turn in one of them, if there is one.
SELECT v.memory, max(m.id), max(m.text_hash) FROM vectors AS v LEFT JOIN memories AS m ON m.key = v.previous
WHERE v.memory = ANY (%s) AND v.model = %s GROUP BY v.memory

-- name: turns_after
SELECT given.row, found.key
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])
  AS given (row, profile, project, session, position)
JOIN profiles AS p ON p.name = given.profile
CROSS JOIN LATERAL (
  SELECT s.id, s.project, count(*) OVER () AS same_name FROM sessions AS s
  WHERE s.profile = p.id AND s.name = given.session
    AND (given.project IS NULL OR s.project = (SELECT id FROM projects WHERE profile = p.id AND name = given.project))
  ORDER BY s.project NULLS FIRST LIMIT 1
) AS s
CROSS JOIN LATERAL (
  SELECT m.key FROM memories AS m WHERE m.session = s.id AND m.position > given.position::bigint
  ORDER BY m.position LIMIT 1
) AS found
WHERE s.project IS NULL OR s.same_name = 1

-- name: turns_before
-- The key of the memory before each given position in a session, by the number of the row. Without a project it is the
-- session of this name that is in no project, or else the only one.
SELECT given.row, found.key
FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::text[], %s::text[])
  AS given (row, profile, project, session, position)
JOIN profiles AS p ON p.name = given.profile
CROSS JOIN LATERAL (
  SELECT s.id, s.project, count(*) OVER () AS same_name FROM sessions AS s
  WHERE s.profile = p.id AND s.name = given.session
    AND (given.project IS NULL OR s.project = (SELECT id FROM projects WHERE profile = p.id AND name = given.project))
  ORDER BY s.project NULLS FIRST LIMIT 1
) AS s
CROSS JOIN LATERAL (
  SELECT m.key FROM memories AS m WHERE m.session = s.id AND m.position < given.position::bigint
  ORDER BY m.position DESC LIMIT 1
) AS found
WHERE s.project IS NULL OR s.same_name = 1

-- name: active_model
SELECT m.name, m.revision, m.dimension, m.fingerprint FROM state JOIN models AS m ON m.id = active_model

-- name: create_model
INSERT INTO models (name, revision, dimension, fingerprint) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING

-- name: unembedded
SELECT {columns} FROM memories AS m
WHERE NOT EXISTS (
  SELECT 1 FROM vectors AS v
  WHERE v.memory = m.key AND v.model = (SELECT id FROM models WHERE fingerprint = %s AND NOT retired)
)
ORDER BY m.key LIMIT %s

-- name: count_unembedded
SELECT count(*) FROM memories AS m
WHERE NOT EXISTS (
  SELECT 1 FROM vectors AS v
  WHERE v.memory = m.key AND v.model = (SELECT id FROM models WHERE fingerprint = %s AND NOT retired)
)

-- name: has_unembedded
SELECT 1 FROM memories AS m
WHERE NOT EXISTS (
  SELECT 1 FROM vectors AS v
  WHERE v.memory = m.key AND v.model = (SELECT id FROM models WHERE fingerprint = %s AND NOT retired)
) AND m.id <> ALL (%s)
LIMIT 1
