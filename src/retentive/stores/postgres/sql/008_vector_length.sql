-- A vector has the dimension of its model. One that had not would make every search of its model fail. A memory that
-- loses its vectors waits to be embedded.
DELETE FROM vectors WHERE (memory, model) IN (
  SELECT v.memory, v.model FROM vectors AS v JOIN models AS m ON m.id = v.model
  WHERE vector_dims(v.embedding) <> m.dimension
);

CREATE OR REPLACE FUNCTION check_vector_length() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
  IF vector_dims(NEW.embedding) <> (SELECT dimension FROM models WHERE id = NEW.model) THEN
    RAISE check_violation USING MESSAGE = 'a vector must have the dimension of its model';
  END IF;
  RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER vector_length BEFORE INSERT OR UPDATE OF embedding ON vectors
FOR EACH ROW EXECUTE FUNCTION check_vector_length();
