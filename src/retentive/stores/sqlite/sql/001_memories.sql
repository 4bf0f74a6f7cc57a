-- Times are microseconds since 1970, UTC. Names of profiles, projects and sessions are numbers everywhere but here.
CREATE TABLE profiles (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
);

CREATE TABLE projects (
  id      INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profiles (id),
  name    TEXT NOT NULL,
  UNIQUE (profile, name)
);

CREATE TABLE sessions (
  id      INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profiles (id),
  project INTEGER REFERENCES projects (id),
  name    TEXT NOT NULL,
  UNIQUE (profile, name)
);
CREATE INDEX sessions_by_project ON sessions (project);

-- A memory's project is that of its session, kept here too so that one index answers for both.
-- `terms` is what the word index holds of it, so that it can be taken out again whatever the tokeniser does by then.
CREATE TABLE memories (
  key          INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  profile      INTEGER NOT NULL REFERENCES profiles (id),
  project      INTEGER REFERENCES projects (id),
  session      INTEGER REFERENCES sessions (id),
  position     INTEGER,
  kind         INTEGER NOT NULL,
  speaker      TEXT,
  importance   REAL NOT NULL,
  metadata     TEXT,
  source       TEXT,
  created      INTEGER NOT NULL,
  occurred     INTEGER,
  accessed     INTEGER,
  access_count INTEGER NOT NULL DEFAULT 0,
  evergreen    INTEGER NOT NULL DEFAULT 0,
  content_hash TEXT NOT NULL,
  text         TEXT NOT NULL,
  terms        TEXT NOT NULL
);
CREATE INDEX memories_by_session ON memories (session, position) WHERE session IS NOT NULL;
CREATE INDEX memories_by_scope ON memories (profile, project);

-- Our own terms, joined by spaces. The scope is a column of the index, one token each for profile, project, session
-- and kind, so that a scoped search reads the scope's rows alone.
CREATE VIRTUAL TABLE words USING fts5 (
  terms, scope,
  content = '',
  tokenize = "ascii tokenchars '-_./:@#+'"
);
-- Forgotten words leave the index at once. With contentless_delete = 1 they would only be marked, and stay readable in
-- the file until a merge happens to come by.
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);

-- In how many memories each term occurs: tells common words from rare ones without reading their postings.
CREATE TABLE term_counts (
  term     TEXT PRIMARY KEY,
  memories INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE models (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  revision    TEXT NOT NULL,
  dimension   INTEGER NOT NULL,
  fingerprint TEXT NOT NULL UNIQUE,
  next_slot   INTEGER NOT NULL DEFAULT 0
);

-- One row a part of a memory: its unit vector as float16. A slot is (model << 40) + a running number, never used twice.
CREATE TABLE vectors (
  slot      INTEGER PRIMARY KEY,
  memory    INTEGER NOT NULL,
  embedding BLOB NOT NULL
);
CREATE INDEX vectors_by_memory ON vectors (memory);

-- What a search needs of every slot, 1024 to a row: whose it is, its scope, the signs of its vector. A process reads
-- these few rows instead of all vectors, and after a change only those whose sequence is new to it.
CREATE TABLE blocks (
  id       INTEGER PRIMARY KEY,
  model    INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  slots    BLOB NOT NULL
);
CREATE INDEX blocks_by_model ON blocks (model, sequence);

CREATE TABLE kept (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- One row: running numbers, totals, and the model whose vectors are searched.
CREATE TABLE state (
  next_key     INTEGER NOT NULL,
  sequence     INTEGER NOT NULL,
  memories     INTEGER NOT NULL,
  terms        INTEGER NOT NULL,
  active_model INTEGER REFERENCES models (id)
);
INSERT INTO state VALUES (1, 1, 0, 0, NULL);

-- A memory as the rest of the program sees it, with names for numbers.
CREATE VIEW memory_rows AS
SELECT
  m.key, m.id, m.text, m.created, p.name, r.name, s.name, m.position, m.kind, m.speaker, m.importance, m.metadata,
  m.source, m.occurred, m.accessed, m.access_count, m.evergreen, m.content_hash
FROM memories AS m
JOIN profiles AS p ON p.id = m.profile
LEFT JOIN projects AS r ON r.id = m.project
LEFT JOIN sessions AS s ON s.id = m.session;
