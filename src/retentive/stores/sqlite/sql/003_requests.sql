-- Writes that named themselves, so that one that is sent again is not carried out again. Kept for a while only.
CREATE TABLE requests (
  name        TEXT PRIMARY KEY,
  fingerprint TEXT NOT NULL,
  ids         TEXT NOT NULL,
  made        INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX requests_by_age ON requests (made);
