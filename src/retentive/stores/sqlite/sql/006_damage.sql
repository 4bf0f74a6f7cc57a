-- A hash of the text that was indexed, by which a text that was damaged, or changed by another program, is found. NULL
-- in memories that were written before; `retentive doctor --repair` fills it in.
ALTER TABLE memories ADD COLUMN text_hash TEXT;

-- Memories are listed by time. The other columns let a list of a project, session or kind read the index alone.
CREATE INDEX memories_by_time ON memories (profile, coalesce(occurred, created), id, project, session, kind);

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
