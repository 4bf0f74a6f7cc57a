-- Times are microseconds since 1970, UTC. Everywhere else, names of profiles, projects and sessions are numbers.
-- Document frequencies and totals are counted by profile, so that what one profile writes does not change the answers of
-- another. The length of a memory is the number of its terms, plus four for its scope.
CREATE TABLE profiles (
  id       INTEGER PRIMARY KEY,
  name     TEXT NOT NULL UNIQUE,
  memories INTEGER NOT NULL DEFAULT 0,
  terms    INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE projects (
  id      INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profiles (id),
  name    TEXT NOT NULL,
  UNIQUE (profile, name)
);

-- A session is identified by its project and its name. To a plain UNIQUE every NULL would be different from every other.
CREATE TABLE sessions (
  id      INTEGER PRIMARY KEY,
  profile INTEGER NOT NULL REFERENCES profiles (id),
  project INTEGER REFERENCES projects (id),
  name    TEXT NOT NULL
);
CREATE UNIQUE INDEX sessions_by_name ON sessions (profile, name, coalesce(project, 0));
CREATE INDEX sessions_by_project ON sessions (project);

-- The project of a memory is that of its session; one index serves both. `terms` is what the keyword index has of it, so
-- that it can be removed from that whatever the tokenizer does by then. `text_hash` is a hash of the text that was
-- indexed, by which a text that was damaged, or changed by another program, is found. `fact_key` is the field `key`.
CREATE TABLE memories (
  key           INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  profile       INTEGER NOT NULL REFERENCES profiles (id),
  project       INTEGER REFERENCES projects (id),
  session       INTEGER REFERENCES sessions (id),
  position      INTEGER,
  kind          INTEGER NOT NULL,
  speaker       TEXT,
  importance    REAL NOT NULL,
  metadata      TEXT,
  source        TEXT,
  created       INTEGER NOT NULL,
  occurred      INTEGER,
  accessed      INTEGER,
  access_count  INTEGER NOT NULL DEFAULT 0,
  evergreen     INTEGER NOT NULL DEFAULT 0,
  content_hash  TEXT NOT NULL,
  text          TEXT NOT NULL,
  terms         TEXT NOT NULL,
  text_hash     TEXT,
  fact_key      TEXT,
  valid_from    INTEGER,
  valid_to      INTEGER,
  superseded_by TEXT,
  reason        TEXT,
  actor         TEXT,
  expires       INTEGER
);
CREATE INDEX memories_by_session ON memories (session, position) WHERE session IS NOT NULL;
CREATE INDEX memories_by_scope ON memories (profile, project);
-- Memories are listed by time. The other columns let a list of a project, session or kind read the index alone.
CREATE INDEX memories_by_time ON memories (profile, coalesce(occurred, created), id, project, session, kind);
-- Every prompt asks for the standing rules of its project, which are few.
CREATE INDEX memories_ruled ON memories (profile, coalesce(occurred, created), id, project, session, kind)
WHERE instr(metadata, '"rule": true');
-- A write that is asked to finds the memories with the text of a new one.
CREATE INDEX memories_by_content ON memories (content_hash);
-- A key has one open memory in a project, or outside all projects.
CREATE UNIQUE INDEX memories_open_keys ON memories (profile, coalesce(project, 0), fact_key)
WHERE fact_key IS NOT NULL AND valid_to IS NULL;
CREATE INDEX memories_by_fact_key ON memories (fact_key, profile) WHERE fact_key IS NOT NULL;
CREATE INDEX memories_by_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_by_expiry ON memories (expires) WHERE expires IS NOT NULL;
-- The memories whose validity has an end or a given start. A search reads all of them into memory, and again after they
-- have changed.
CREATE INDEX memories_dated ON memories (key, valid_from, valid_to, expires)
WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires IS NOT NULL;

-- Our own terms, joined by spaces. The scope is a column of the index, with one token each for profile, project, session
-- and kind, so that a search of a scope reads its entries alone.
CREATE VIRTUAL TABLE words USING fts5 (
  terms, scope,
  content = '',
  tokenize = "ascii tokenchars '-_./:@#+'"
);
-- Deleted words leave the index at once. With contentless_delete = 1 they would only be marked, and could be read in the
-- file until a merge.
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);

CREATE TABLE term_counts (
  profile  INTEGER NOT NULL REFERENCES profiles (id),
  term     TEXT NOT NULL,
  memories INTEGER NOT NULL,
  PRIMARY KEY (profile, term)
) WITHOUT ROWID;

CREATE TABLE models (
  id          INTEGER PRIMARY KEY,
  name        TEXT NOT NULL,
  revision    TEXT NOT NULL,
  dimension   INTEGER NOT NULL,
  fingerprint TEXT NOT NULL UNIQUE,
  next_slot   INTEGER NOT NULL DEFAULT 0
);

-- One row for each part of a memory: its unit vector as float16. A slot is (model << 40) + a running number, and is never
-- used twice. `text_hash` is that of the memory's text. `previous` is the memory whose text the vector contains beside
-- that of its own: the turn before it in its session. The vector is deleted with that memory, and when its text changes.
CREATE TABLE vectors (
  slot      INTEGER PRIMARY KEY,
  memory    INTEGER NOT NULL,
  embedding BLOB NOT NULL,
  text_hash BLOB,
  previous  INTEGER
);
CREATE INDEX vectors_by_memory ON vectors (memory);
CREATE INDEX vectors_by_previous ON vectors (previous) WHERE previous IS NOT NULL;
-- A vector has the length of its model: two bytes a number.
CREATE TRIGGER vector_length_on_insert BEFORE INSERT ON vectors
WHEN length(NEW.embedding) <> (SELECT 2 * dimension FROM models WHERE id = NEW.slot >> 40)
BEGIN SELECT RAISE(ABORT, 'a vector must have the length of its model'); END;
CREATE TRIGGER vector_length_on_update BEFORE UPDATE OF embedding ON vectors
WHEN length(NEW.embedding) <> (SELECT 2 * dimension FROM models WHERE id = NEW.slot >> 40)
BEGIN SELECT RAISE(ABORT, 'a vector must have the length of its model'); END;

-- What a search needs of every slot, 1024 in a row: whose it is, its scope, the signs of its vector. A process reads
-- these few rows instead of all vectors, and after a change only those with a later sequence number.
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

-- One row: the next key of a memory, the sequence number of the last write, and the model whose vectors are searched.
-- `dated` is the sequence number of the last write that changed the validity of memories; `unindexed` that of the last
-- one that removed entries from the keyword index, or replaced them. Until the next one, the index only gets entries with
-- larger keys, so that a process can keep what it has read of it.
CREATE TABLE state (
  next_key     INTEGER NOT NULL,
  sequence     INTEGER NOT NULL,
  active_model INTEGER REFERENCES models (id),
  dated        INTEGER NOT NULL DEFAULT 0,
  unindexed    INTEGER NOT NULL DEFAULT 0
);
INSERT INTO state VALUES (1, 1, NULL, 0, 0);

CREATE TRIGGER memories_dated_added AFTER INSERT ON memories
WHEN new.valid_from IS NOT NULL OR new.valid_to IS NOT NULL OR new.expires IS NOT NULL
BEGIN
  UPDATE state SET dated = sequence;
END;
CREATE TRIGGER memories_dated_removed AFTER DELETE ON memories
WHEN old.valid_from IS NOT NULL OR old.valid_to IS NOT NULL OR old.expires IS NOT NULL
BEGIN
  UPDATE state SET dated = sequence;
END;
CREATE TRIGGER memories_dated_changed AFTER UPDATE OF valid_from, valid_to, expires ON memories
BEGIN
  UPDATE state SET dated = sequence;
END;

-- A judgement is deleted with its memory.
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
CREATE UNIQUE INDEX judgements_once ON judgements (memory, profile, coalesce(project, 0), question);
CREATE INDEX judgements_by_profile ON judgements (profile, id);

-- Idempotency keys, and what their requests wrote.
CREATE TABLE requests (
  name        TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  ids         TEXT NOT NULL,
  made        INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX requests_by_age ON requests (made);

-- Memories that could not be read when the store was repaired, with what was left of them.
CREATE TABLE set_aside (
  key      INTEGER PRIMARY KEY,
  id       TEXT NOT NULL,
  profile  INTEGER,
  project  INTEGER,
  session  INTEGER,
  kind     INTEGER,
  reason   TEXT NOT NULL,
  at       INTEGER NOT NULL,
  contents TEXT NOT NULL
);
