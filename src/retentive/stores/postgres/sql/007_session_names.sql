-- A session is identified by its project and its name, so that two projects may have sessions of the same name. To a plain
-- UNIQUE every NULL would be different from every other.
ALTER TABLE sessions DROP CONSTRAINT IF EXISTS sessions_profile_name_key;
CREATE UNIQUE INDEX IF NOT EXISTS sessions_by_name ON sessions (profile, name, coalesce(project, 0));
