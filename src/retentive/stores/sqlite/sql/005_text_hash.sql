-- The hash of the text that a vector was made of. Vectors of earlier versions have none and are taken to be right.
ALTER TABLE vectors ADD COLUMN text_hash BLOB;
