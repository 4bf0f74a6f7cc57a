"""Both searches of a recall in one statement, with the memories they found and what each thinks of the other's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from retentive.models import Memory
from retentive.stores import Found
from retentive.stores.at_once import Asked, Both, Seen
from retentive.stores.postgres.pools import Connection
from retentive.stores.postgres.rows import COLUMNS
from retentive.stores.postgres.search_stats import ActiveModel, Extension, ResolvedScope, SearchStats, score
from retentive.stores.postgres.type_adapters import Half, Single
from retentive.stores.postgres.vector_index import EXACT, near, round_up
from retentive.stores.sql_codec import to_memory
from retentive.text.analysis import BM25, K1, B

ORDERING = 12
"""So many of the query's terms, the rarest, decide which memories are looked at closely where many match."""

# Not all of BM25: how often a term occurs in a memory is left out. What it orders is scored anew.
_BY_WORDS = """
    {name} AS MATERIALIZED (
      SELECT key FROM memories
      WHERE words @@ %(searched)s::tsquery {without}
      ORDER BY ({presence}) / (1 + %(per_memory)s::float8 + %(per_term)s::float8 * length) DESC, key LIMIT {most}
    )"""

# By the BM25 of an extension. Some of its best may hold only terms that do not search. If too few are left, or the cut
# goes through memories that it finds equally good, our own way chooses too: of equals, the first to be stored wins.
_BY_EXTENSION = """
    ranked AS MATERIALIZED (
      SELECT key, score, row_number() OVER (ORDER BY score, key) AS place
      FROM (
        SELECT key, id, words,
          terms OPERATOR({schema}.<@>) {schema}.to_bm25query(%(query)s::text, %(index)s::text) AS score
        FROM memories ORDER BY score LIMIT {most}
      ) AS best
      WHERE words @@ %(searched)s::tsquery {without}
    ),
    {ours},
    by_words AS MATERIALIZED (
      SELECT key FROM ranked
      UNION
      SELECT key FROM ours
      WHERE (
        SELECT count(*) < %(limit)s OR max(score) = max(score) FILTER (WHERE place <= %(limit)s) FROM ranked
      )
    )"""

_WITHOUT = "AND id <> ALL (%(exclude)s)"

_NO_WORDS = "by_words AS (SELECT NULL::bigint AS key WHERE false)"
_NO_NEAR = "near AS (SELECT NULL::bigint AS memory, NULL::float8 AS score WHERE false)"

_SCORE = """(
    SELECT max(-(v.embedding::vector <#> %(vector)s)) FROM vectors AS v
    WHERE v.memory = wanted.key AND v.model = {model}
)"""

# Memories that are found only far down by vector give no more than their score.
_BOTH = """
    WITH {by_words}, {near},
    wanted AS (
      SELECT coalesce(w.key, n.memory) AS key, w.key IS NOT NULL AS by_words, n.memory IS NOT NULL AS near, n.score,
        w.key IS NOT NULL OR n.place <= %(limit)s AS entire
      FROM by_words AS w
      FULL JOIN (SELECT memory, score, row_number() OVER (ORDER BY score DESC, memory) AS place FROM near) AS n
        ON n.memory = w.key
    )
    SELECT wanted.key, wanted.by_words, wanted.near, coalesce(wanted.score, {score}), found.*
    FROM wanted
    LEFT JOIN LATERAL (
      SELECT m.terms, {columns} FROM memories AS m WHERE m.key = CASE WHEN wanted.entire THEN wanted.key END
    ) AS found ON true
"""

_LOOK = """
    SELECT wanted.key, {score}, m.terms, {columns}
    FROM unnest(%(keys)s::bigint[]) AS wanted (key) JOIN memories AS m ON m.key = wanted.key
"""


class PreparedSearch(NamedTuple):
    """What is asked, and what there is to know about it."""

    asked: Asked
    footing: SearchStats
    scorer: BM25 | None

    @property
    def serving(self) -> ActiveModel | None:
        """The model of the query's vector, if it has one that can be compared."""
        serving = self.footing.serving
        vector = self.asked.vector
        return None if vector is None or serving is None or serving.model.dimension != len(vector) else serving

    @property
    def lacks_index(self) -> bool:
        """Whether every vector of a large scope has to be looked at."""
        serving, reach = self.serving, self.footing.reach
        return serving is not None and reach is not None and not serving.indexed and reach.memories > EXACT


def search_both(connection: Connection, ground: PreparedSearch, extension: Extension | None = None) -> Both:
    """What the two searches find. One that is not asked for finds nothing. An extension may choose what is scored."""
    asked, footing, scorer = ground
    reach, serving = footing.reach, ground.serving
    searched = footing.searched(asked.common) if asked.query is not None else []
    if reach is None or asked.limit <= 0 or (not searched and serving is None):
        return Both([], [], Seen())
    values: dict[str, Any] = {**reach.parameters, "exclude": list(asked.exclude), "limit": asked.limit}
    words = _words_part(searched, ground, reach, scorer, values, extension) if searched and scorer else _NO_WORDS
    vectors, score_part = _NO_NEAR, "NULL::float8"
    if serving is not None and asked.vector is not None:
        values |= {"vector": Single(asked.vector), "half": Half(asked.vector)}
        vectors = near(
            serving, reach, depth=round_up(asked.depth), least=round_up(asked.limit), excluding=bool(asked.exclude)
        )
        score_part = _SCORE.format(model=serving.number)
    statement = _BOTH.format(by_words=words, near=vectors, score=score_part, columns=COLUMNS)
    rows = connection.execute(statement.encode(), values, binary=True).fetchall()
    return _told_apart(rows, asked, scorer)


def _words_part(
    searched: Sequence[str],
    ground: PreparedSearch,
    reach: ResolvedScope,
    scorer: BM25,
    values: dict[str, Any],
    extension: Extension | None,
) -> str:
    """The search by words as a part of a statement, whose values it adds."""
    asked, footing = ground.asked, ground.footing
    any_of = " | ".join(map(_quoted, searched))
    values["searched"] = f"({any_of}) & {reach.query}" if reach.query else any_of
    values["per_memory"] = K1 * (1 - B)
    values["per_term"] = K1 * B / max(footing.mean_length, 1e-9)
    presence = []
    for at, term in enumerate(list(footing.everywhere)[:ORDERING]):
        values[f"term{at}"] = _quoted(term)
        values[f"rarity{at}"] = scorer([term])  # of a memory that says nothing else
        presence.append(f"CASE WHEN words @@ %(term{at})s::tsquery THEN %(rarity{at})s::float8 ELSE 0 END")
    most = round_up(2 * asked.limit)
    without = _WITHOUT if asked.exclude else ""
    name = "by_words" if extension is None else "ours"
    ours = _BY_WORDS.format(name=name, presence=" + ".join(presence), most=most, without=without)
    if extension is None:
        return ours
    values |= {"query": " ".join(_telling(footing)), "index": extension.index}
    return _BY_EXTENSION.format(
        schema=extension.schema.replace("%", "%%"),
        most=round_up(2 * asked.limit + len(asked.exclude)),
        without=without,
        ours=ours,
    )


def _telling(footing: SearchStats) -> list[str]:
    """The terms for an extension to go by. Words of every third memory it takes more seriously than we do."""
    terms = list(footing.everywhere)
    return [term for term in terms if 3 * footing.everywhere[term] <= footing.memories] or terms[:1]


def _quoted(term: str) -> str:
    # Terms hold neither quotes nor backslashes (see retentive.text.analysis), so quoting them makes any text a safe query.
    return f"'{term}'"


def _told_apart(rows: Sequence[Sequence[Any]], asked: Asked, scorer: BM25 | None) -> Both:
    words: list[Found] = []
    vectors: list[Found] = []
    seen = Seen()
    for key, by_words, is_near, by_vector, terms, *memory in rows:
        if is_near:
            vectors.append(Found(key, by_vector))
        if terms is None:
            continue
        _note(seen, key, to_memory(memory), by_vector, terms, scorer)
        if by_words:
            words.append(Found(key, seen.by_words[key]))
    words.sort(key=lambda found: (-found.score, found.key))
    vectors.sort(key=lambda found: (-found.score, found.key))
    return Both(words[: asked.limit], vectors[: asked.depth], seen)


def look(connection: Connection, ground: PreparedSearch, keys: Sequence[int]) -> Seen:
    """The memories behind these keys that exist, scored by the searches that are asked for."""
    seen = Seen()
    if not keys:
        return seen
    serving, vector = ground.serving, ground.asked.vector
    values: dict[str, Any] = {"keys": list(keys)}
    score_part = "NULL::float8"
    if serving is not None and vector is not None:
        score_part = _SCORE.format(model=serving.number)
        values["vector"] = Single(vector)
    statement = _LOOK.format(score=score_part, columns=COLUMNS)
    for key, by_vector, terms, *memory in connection.execute(statement.encode(), values, binary=True):
        _note(seen, key, to_memory(memory), by_vector, terms, ground.scorer)
    return seen


def _note(seen: Seen, key: int, memory: Memory, by_vector: float | None, terms: str, scorer: BM25 | None) -> None:
    seen.memories[key] = memory
    if scorer is not None:
        seen.by_words[key] = score(scorer, terms)
    if by_vector is not None:
        seen.by_vector[key] = by_vector
