-- A write that is asked to finds the memories with the text of a new one.
CREATE INDEX memories_by_content ON memories (content_hash);
