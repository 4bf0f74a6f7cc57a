-- Every prompt asks for the standing rules of its project, which are few.
CREATE INDEX IF NOT EXISTS memories_ruled ON memories (profile, coalesce(occurred, created), id)
WHERE position('"rule": true' IN metadata) > 0;
