-- Every prompt asks for the standing rules of its project, which are few.
CREATE INDEX memories_ruled ON memories (profile, coalesce(occurred, created), id, project, session, kind)
WHERE instr(metadata, '"rule": true');
