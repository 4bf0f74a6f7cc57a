-- name: create
-- Entries are only appended, so that no writer waits for another.
CREATE TABLE IF NOT EXISTS vector_changes (
  entry  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  memory bigint NOT NULL
);
CREATE TABLE IF NOT EXISTS vector_index (name text NOT NULL, stamp bigint NOT NULL);
INSERT INTO vector_index SELECT left(md5(gen_random_uuid()::text), 12), 0 WHERE NOT EXISTS (SELECT 1 FROM vector_index);

-- The vectors of a model that is not used any more are removed whole.
CREATE OR REPLACE FUNCTION note_vector_change() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF TG_OP <> 'DELETE' THEN
    INSERT INTO vector_changes (memory) VALUES (NEW.memory);
  ELSIF EXISTS (SELECT FROM models WHERE id = OLD.model AND NOT retired) THEN
    INSERT INTO vector_changes (memory) VALUES (OLD.memory);
  END IF;
  RETURN NULL;
END
$$;
CREATE OR REPLACE TRIGGER vector_index AFTER INSERT OR UPDATE OR DELETE ON vectors
FOR EACH ROW EXECUTE FUNCTION note_vector_change();

-- name: stamp
UPDATE vector_index SET stamp = greatest(stamp + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
RETURNING stamp

-- name: entries
SELECT entry, memory FROM vector_changes ORDER BY entry LIMIT %s

-- name: models
SELECT id, name, revision, dimension, fingerprint FROM models WHERE NOT retired ORDER BY id

-- name: points
SELECT memory, profile, coalesce(project, 0), coalesce(session, 0), kind, coalesce(valid_from, 0),
  coalesce(valid_until, {far}), embedding
FROM vectors WHERE memory = ANY (%s) AND model = %s ORDER BY memory, part

-- name: add_all
INSERT INTO vector_changes (memory)
SELECT DISTINCT memory FROM vectors WHERE model = %s
