-- When a memory is valid, what replaced it and why. `fact_key` is its field `key`. Times are microseconds since 1970.
ALTER TABLE memories ADD COLUMN fact_key TEXT;
ALTER TABLE memories ADD COLUMN valid_from INTEGER;
ALTER TABLE memories ADD COLUMN valid_to INTEGER;
ALTER TABLE memories ADD COLUMN superseded_by TEXT;
ALTER TABLE memories ADD COLUMN reason TEXT;
ALTER TABLE memories ADD COLUMN actor TEXT;
ALTER TABLE memories ADD COLUMN expires INTEGER;

-- A key has one open memory in a project, or outside all projects.
CREATE UNIQUE INDEX memories_open_keys ON memories (profile, coalesce(project, 0), fact_key)
WHERE fact_key IS NOT NULL AND valid_to IS NULL;
CREATE INDEX memories_by_fact_key ON memories (fact_key, profile) WHERE fact_key IS NOT NULL;
CREATE INDEX memories_by_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX memories_by_expiry ON memories (expires) WHERE expires IS NOT NULL;

-- The memories whose validity has an end or a given start. A search reads all of them into memory, and again after they
-- have changed: `dated` is the sequence number of the last change.
CREATE INDEX memories_dated ON memories (key, valid_from, valid_to, expires)
WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires IS NOT NULL;
ALTER TABLE state ADD COLUMN dated INTEGER NOT NULL DEFAULT 0;
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
