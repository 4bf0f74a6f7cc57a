-- name: lock_keys
SELECT pg_advisory_xact_lock(id) FROM unnest(%s::bigint[]) AS u (id)

-- name: of_key
SELECT {columns} FROM memories AS m
WHERE m.fact_key = %s AND m.profile = %s AND coalesce(m.project, 0) = %s ORDER BY m.key

-- name: retire
UPDATE memories SET valid_to = %s, superseded_by = %s, reason = %s, actor = %s WHERE id = %s

-- name: date_vectors
UPDATE vectors AS v SET valid_from = m.valid_from, valid_until = least(m.valid_to, m.expires)
FROM memories AS m
WHERE m.id = ANY (%s) AND v.memory = m.key
  AND (v.valid_from IS DISTINCT FROM m.valid_from OR v.valid_until IS DISTINCT FROM least(m.valid_to, m.expires))

-- name: superseded
SELECT {columns} FROM memories AS m WHERE m.superseded_by = ANY (%(ids)s) OR m.key IN (
  SELECT other.key FROM memories AS one JOIN memories AS other
    ON other.fact_key = one.fact_key AND other.profile = one.profile AND other.project IS NOT DISTINCT FROM one.project
  WHERE one.id = ANY (%(ids)s) AND one.fact_key IS NOT NULL
)
ORDER BY m.key

-- name: expired
SELECT id FROM memories
WHERE expires <= %(before)s
  AND (%(profile)s::text IS NULL OR profile = (SELECT id FROM profiles WHERE name = %(profile)s::text))
ORDER BY expires, key LIMIT %(limit)s
FOR UPDATE

-- name: keyed
SELECT {columns} FROM memories AS m WHERE m.session = %s AND m.fact_key IS NOT NULL ORDER BY m.key FOR UPDATE OF m

-- name: lock_replacements
SELECT pg_advisory_xact_lock(hashtextextended('retentive.replacements.' || current_schema(), 0))
