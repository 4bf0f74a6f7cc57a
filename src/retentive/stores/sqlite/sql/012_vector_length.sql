-- A vector has the length of its model: two bytes a number.
CREATE TRIGGER vector_length_on_insert BEFORE INSERT ON vectors
WHEN length(NEW.embedding) <> (SELECT 2 * dimension FROM models WHERE id = NEW.slot >> 40)
BEGIN SELECT RAISE(ABORT, 'a vector must have the length of its model'); END;

CREATE TRIGGER vector_length_on_update BEFORE UPDATE OF embedding ON vectors
WHEN length(NEW.embedding) <> (SELECT 2 * dimension FROM models WHERE id = NEW.slot >> 40)
BEGIN SELECT RAISE(ABORT, 'a vector must have the length of its model'); END;
