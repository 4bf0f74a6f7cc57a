-- How relevant somebody found a memory to a question: 0 is not, 1 to 3 more and more. They go with their memory.
CREATE TABLE judgements (
  id        INTEGER PRIMARY KEY,
  profile   INTEGER NOT NULL REFERENCES profiles (id),
  project   INTEGER REFERENCES projects (id),
  question  TEXT NOT NULL,
  memory    INTEGER NOT NULL,
  relevance INTEGER NOT NULL,
  asked_at  INTEGER,
  created   INTEGER NOT NULL
);
-- A question asked of no project in particular is another one than the same words asked of a project; to a plain UNIQUE
-- every NULL would be different from every other.
CREATE UNIQUE INDEX judgements_once ON judgements (memory, profile, coalesce(project, 0), question);
CREATE INDEX judgements_by_profile ON judgements (profile, id);
