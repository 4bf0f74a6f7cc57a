-- Memories are counted by profile, so that what one profile writes does not change the answers of another. In a profile, '='
-- counts its memories and adds up their lengths; the other names are as before. Profile 0 has only '=', the whole store.
CREATE TABLE profile_counts (
  profile  integer NOT NULL,
  name     text COLLATE "C" NOT NULL,
  memories bigint NOT NULL,
  length   bigint NOT NULL,
  PRIMARY KEY (profile, name)
) WITH (fillfactor = 80);
INSERT INTO profile_counts
SELECT coalesce(profile, 0), '=', count(*), CASE WHEN profile IS NULL THEN 0 ELSE sum(length) END
FROM memories GROUP BY GROUPING SETS ((profile), ()) HAVING count(*) > 0;
INSERT INTO profile_counts
SELECT profile, '=p' || profile::text || 'k' || kind::text, count(*), 0 FROM memories GROUP BY profile, kind;
INSERT INTO profile_counts
SELECT profile, '=r' || project::text || 'k' || kind::text, count(*), 0
FROM memories WHERE project IS NOT NULL GROUP BY profile, project, kind;
INSERT INTO profile_counts
SELECT profile, '=s' || session::text || 'k' || kind::text, count(*), 0
FROM memories WHERE session IS NOT NULL GROUP BY profile, session, kind;
-- The counts of a store with one profile are that profile's. Otherwise all terms are counted again.
INSERT INTO profile_counts
SELECT p.profile, c.name, sum(c.memories), 0
FROM (TABLE counts UNION ALL TABLE count_changes) AS c, profile_counts AS p
WHERE p.profile <> 0 AND p.name = '=' AND c.name NOT LIKE '=%'
  AND (SELECT count(*) FROM profile_counts WHERE name = '=') = 2
GROUP BY p.profile, c.name HAVING sum(c.memories) <> 0;
INSERT INTO profile_counts
SELECT m.profile, t.term, count(*), 0
FROM memories AS m, LATERAL (SELECT DISTINCT term FROM string_to_table(m.terms, ' ') AS u (term) WHERE term <> '') AS t
WHERE (SELECT count(*) FROM profile_counts WHERE name = '=') > 2
GROUP BY m.profile, t.term;
DROP TABLE counts;
ALTER TABLE profile_counts RENAME TO counts;
ALTER INDEX profile_counts_pkey RENAME TO counts_pkey;

DROP TABLE count_changes;
CREATE TABLE count_changes (
  profile  integer NOT NULL,
  name     text COLLATE "C" NOT NULL,
  memories bigint NOT NULL,
  length   bigint NOT NULL
);
CREATE INDEX count_changes_by_name ON count_changes (profile, name);
