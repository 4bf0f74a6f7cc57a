-- name: rows
SELECT m.terms, m.profile, coalesce(m.project, 0), coalesce(m.session, 0), m.kind, {columns} FROM memories AS m
WHERE m.key = ANY (%s)

-- name: lock
LOCK TABLE memories, vectors IN SHARE ROW EXCLUSIVE MODE

-- name: lock_counts
SELECT pg_advisory_xact_lock(hashtextextended('retentive.compact.' || current_schema(), 0))

-- name: update
UPDATE memories SET terms = %s, length = %s, content_hash = %s, text_hash = %s WHERE key = %s

-- name: move_vectors
UPDATE vectors AS v SET profile = m.profile, project = m.project, session = m.session, kind = m.kind
FROM memories AS m
WHERE m.key = v.memory AND (
  (v.profile, v.kind) <> (m.profile, m.kind)
  OR v.project IS DISTINCT FROM m.project OR v.session IS DISTINCT FROM m.session
)

-- name: remove_vectors
DELETE FROM vectors AS v USING models AS m
WHERE m.id = v.model AND vector_dims(v.embedding) <> m.dimension
