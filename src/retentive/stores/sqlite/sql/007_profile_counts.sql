-- Document frequencies and totals by profile, so that what one profile writes does not change the answers of another.
ALTER TABLE profiles ADD COLUMN memories INTEGER NOT NULL DEFAULT 0;
ALTER TABLE profiles ADD COLUMN terms INTEGER NOT NULL DEFAULT 0;
-- The length of a memory is the number of its terms, plus four for its scope.
UPDATE profiles SET memories = counted.memories, terms = counted.terms
FROM (
  SELECT profile, count(*) AS memories,
         sum(4 + CASE terms WHEN '' THEN 0 ELSE 1 + length(terms) - length(replace(terms, ' ', '')) END) AS terms
  FROM memories GROUP BY profile
) AS counted
WHERE counted.profile = profiles.id;

CREATE TABLE profile_term_counts (
  profile  INTEGER NOT NULL REFERENCES profiles (id),
  term     TEXT NOT NULL,
  memories INTEGER NOT NULL,
  PRIMARY KEY (profile, term)
) WITHOUT ROWID;
-- The counts of a store with one profile are that profile's. Otherwise all terms are counted again: no term has a space,
-- a quote or a backslash, so that the terms of a memory become a JSON array by replacing the spaces between them.
INSERT INTO profile_term_counts
SELECT p.id, t.term, t.memories FROM term_counts AS t, profiles AS p
WHERE p.memories > 0 AND (SELECT count(*) FROM profiles WHERE memories > 0) = 1;
INSERT INTO profile_term_counts
SELECT m.profile, t.value, count(DISTINCT m.key)
FROM (SELECT key, profile, '["' || replace(terms, ' ', '","') || '"]' AS terms FROM memories WHERE terms <> '') AS m,
     json_each(CASE WHEN json_valid(m.terms) THEN m.terms ELSE '[]' END) AS t -- not valid only if it is damaged
WHERE (SELECT count(*) FROM profiles WHERE memories > 0) > 1
GROUP BY m.profile, t.value;
DROP TABLE term_counts;
ALTER TABLE profile_term_counts RENAME TO term_counts;

ALTER TABLE state DROP COLUMN memories;
ALTER TABLE state DROP COLUMN terms;
