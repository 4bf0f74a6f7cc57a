-- name: find_profiles
SELECT name, id FROM profiles WHERE name = ANY (%s)

-- name: create_profiles
-- New names are inserted in the same order by every writer: two that create the same ones wait but do not deadlock.
INSERT INTO profiles (name) SELECT unnest(%s::text[]) ON CONFLICT DO NOTHING

-- name: find_projects
SELECT p.profile, p.name, p.id
FROM projects AS p JOIN unnest(%s::integer[], %s::text[]) AS wanted (profile, name)
  ON p.profile = wanted.profile AND p.name = wanted.name

-- name: create_projects
INSERT INTO projects (profile, name) SELECT * FROM unnest(%s::integer[], %s::text[]) ON CONFLICT DO NOTHING

-- name: lock_sessions
SELECT s.profile, s.name, s.id, coalesce(s.project, 0)
FROM sessions AS s JOIN unnest(%s::integer[], %s::text[]) AS wanted (profile, name)
  ON s.profile = wanted.profile AND s.name = wanted.name
ORDER BY s.id FOR NO KEY UPDATE OF s

-- name: create_sessions
INSERT INTO sessions (profile, name, project)
SELECT profile, name, nullif(project, 0)
FROM unnest(%s::integer[], %s::text[], %s::integer[]) AS new (profile, name, project)
ON CONFLICT DO NOTHING

-- name: last_positions
SELECT session, coalesce((SELECT max(position) FROM memories AS m WHERE m.session = wanted.session), -1)
FROM unnest(%s::integer[]) AS wanted (session)

-- name: sessions
SELECT s.name, p.name, r.name, count(m.key),
       min(coalesce(m.occurred, m.created)), max(coalesce(m.occurred, m.created))
FROM sessions AS s JOIN profiles AS p ON p.id = s.profile
LEFT JOIN projects AS r ON r.id = s.project LEFT JOIN memories AS m ON m.session = s.id
WHERE p.name = %(profile)s AND (%(project)s::text IS NULL OR r.name = %(project)s)
  AND (%(session)s::text IS NULL OR s.name = %(session)s)
GROUP BY s.id, p.name, r.name ORDER BY s.name

-- name: projects
SELECT r.name, p.name, (SELECT count(*) FROM sessions AS s WHERE s.project = r.id),
       (SELECT count(*) FROM memories AS m WHERE m.profile = p.id AND m.project = r.id)
FROM projects AS r JOIN profiles AS p ON p.id = r.profile WHERE p.name = %s ORDER BY r.name

-- name: profiles
SELECT p.name, (SELECT count(*) FROM projects AS r WHERE r.profile = p.id),
       (SELECT count(*) FROM sessions AS s WHERE s.profile = p.id), m.memories
FROM profiles AS p JOIN (SELECT profile, count(*) AS memories FROM memories GROUP BY profile) AS m ON m.profile = p.id
ORDER BY p.name

-- name: days
-- Days since 1970, rounded down also before it.
SELECT (floor(coalesce(m.occurred, m.created) / 86400000000.0))::bigint AS day, m.kind, count(*)
FROM memories AS m JOIN profiles AS p ON p.id = m.profile LEFT JOIN projects AS r ON r.id = m.project
WHERE p.name = %(profile)s AND (%(project)s::text IS NULL OR r.name = %(project)s)
GROUP BY 1, 2 ORDER BY 1, 2

-- name: totals
SELECT
  (SELECT count(*) FROM profiles), (SELECT count(*) FROM projects), (SELECT count(*) FROM sessions),
  (SELECT count(*) FROM vectors, state WHERE model = active_model),
  (SELECT count(DISTINCT memory) FROM vectors, state WHERE model = active_model),
  (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
   WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'),
  (SELECT created FROM memories ORDER BY key DESC LIMIT 1)

-- name: lock_session
SELECT s.id, p.id, coalesce(s.project, 0) FROM sessions AS s JOIN profiles AS p ON p.id = s.profile
WHERE p.name = %s AND s.name = %s FOR NO KEY UPDATE OF s
