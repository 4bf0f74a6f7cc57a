-- name: find_memory
SELECT m.key, m.profile FROM memories AS m JOIN profiles AS p ON p.id = m.profile
WHERE m.id = %s AND p.name = %s FOR KEY SHARE OF m

-- name: insert_judgement
INSERT INTO judgements (profile, project, question, memory, relevance, asked_at, created)
VALUES (%s, nullif(%s, 0), %s, %s, %s, %s, %s)
ON CONFLICT (memory, profile, coalesce(project, 0), hashtextextended(question, 0), hashtextextended(question, 1))
DO UPDATE SET relevance = excluded.relevance, asked_at = excluded.asked_at, created = excluded.created

-- name: list_judgements
SELECT j.question, m.id, j.relevance, j.created, p.name, r.name, j.asked_at
FROM judgements AS j JOIN profiles AS p ON p.id = j.profile JOIN memories AS m ON m.key = j.memory
LEFT JOIN projects AS r ON r.id = j.project
WHERE p.name = %(profile)s AND (%(project)s::text IS NULL OR r.name = %(project)s)
ORDER BY j.id

-- name: delete_judgement
DELETE FROM judgements AS j USING profiles AS p, memories AS m
WHERE p.name = %(profile)s AND j.profile = p.id AND m.id = %(memory)s AND j.memory = m.key
  AND j.question = %(query)s
  AND coalesce(j.project, 0) = CASE WHEN %(project)s::text IS NULL THEN 0
    ELSE (SELECT r.id FROM projects AS r WHERE r.profile = p.id AND r.name = %(project)s) END

-- name: list_values
SELECT name, value FROM kept WHERE starts_with(name, %s) ORDER BY name

-- name: set_value
INSERT INTO kept VALUES (%s, %s) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: lock_request
SELECT pg_advisory_xact_lock(hashtextextended('retentive.request.' || %s, 0))

-- name: insert_request
INSERT INTO requests (name, fingerprint, ids, made) VALUES (%s, %s, %s, %s)
