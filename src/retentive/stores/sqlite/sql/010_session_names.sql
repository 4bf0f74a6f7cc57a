-- A session is identified by its project and its name, so that two projects may have sessions of the same name. SQLite
-- cannot drop a constraint of a table, so that the table is written again; ids stay as they are.
CREATE TABLE sessions_by_identity (
  id      INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profiles (id),
  project INTEGER REFERENCES projects (id),
  name    TEXT NOT NULL
);
INSERT INTO sessions_by_identity SELECT id, profile, project, name FROM sessions;
DROP TABLE sessions;
ALTER TABLE sessions_by_identity RENAME TO sessions;
-- To a plain UNIQUE every NULL would be different from every other.
CREATE UNIQUE INDEX sessions_by_name ON sessions (profile, name, coalesce(project, 0));
CREATE INDEX sessions_by_project ON sessions (project);
