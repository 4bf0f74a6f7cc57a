-- A hash of the text that was indexed, by which a text that was changed by another program is found. NULL in memories
-- that were written before; `retentive doctor --repair` fills it in.
ALTER TABLE memories ADD COLUMN text_hash text;

-- Memories are listed by time.
CREATE INDEX memories_by_time ON memories (profile, (coalesce(occurred, created)), id);
