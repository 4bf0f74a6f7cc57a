-- The memory whose text a vector contains beside that of its own memory: the turn before it in its session. The vector
-- is deleted with that memory, and when its text changes.
ALTER TABLE vectors ADD COLUMN IF NOT EXISTS previous bigint REFERENCES memories (key) ON DELETE CASCADE;
CREATE INDEX IF NOT EXISTS vectors_by_previous ON vectors (previous) WHERE previous IS NOT NULL;
