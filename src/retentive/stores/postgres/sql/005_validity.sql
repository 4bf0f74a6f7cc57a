-- When a memory is valid, what replaced it and why. `fact_key` is its field `key`. Times are microseconds since 1970.
ALTER TABLE memories
  ADD COLUMN IF NOT EXISTS fact_key text COLLATE "C",
  ADD COLUMN IF NOT EXISTS valid_from bigint,
  ADD COLUMN IF NOT EXISTS valid_to bigint,
  ADD COLUMN IF NOT EXISTS superseded_by text COLLATE "C",
  ADD COLUMN IF NOT EXISTS reason text,
  ADD COLUMN IF NOT EXISTS actor text,
  ADD COLUMN IF NOT EXISTS expires bigint;

-- A key has one open memory in a project, or outside all projects.
CREATE UNIQUE INDEX IF NOT EXISTS memories_open_keys ON memories (profile, coalesce(project, 0), fact_key)
WHERE fact_key IS NOT NULL AND valid_to IS NULL;
CREATE INDEX IF NOT EXISTS memories_by_fact_key ON memories (fact_key, profile) WHERE fact_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS memories_by_superseded ON memories (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE INDEX IF NOT EXISTS memories_by_expiry ON memories (expires) WHERE expires IS NOT NULL;
CREATE INDEX IF NOT EXISTS memories_dated ON memories (profile)
WHERE valid_from IS NOT NULL OR valid_to IS NOT NULL OR expires IS NOT NULL;

-- The validity is repeated beside the vectors, as the scope is. `valid_until` is when it ends or expires.
ALTER TABLE vectors ADD COLUMN IF NOT EXISTS valid_from bigint, ADD COLUMN IF NOT EXISTS valid_until bigint;
