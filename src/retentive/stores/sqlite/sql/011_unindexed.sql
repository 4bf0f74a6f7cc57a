-- The sequence number of the last write that removed entries from the keyword index, or replaced them. Until the next
-- one, the index only gets entries with larger keys, so that a process can keep what it has read of it.
ALTER TABLE state ADD COLUMN unindexed INTEGER NOT NULL DEFAULT 0;
