"""Words as sparse vectors: BM25's weights at the points, the rarity of each term from the server's own counts.

The server multiplies each term of a query by its IDF, ln(1 + r), where r is (memories without the term + 0.5) /
(memories with it + 0.5). Every other store counts ln(r), and counts it within the scope. So a query's terms are
first looked up one by one, in the whole collection and in the scope: what a term scores, divided by its weight in the
point that was found, is its IDF. From that follow how common it is and how much it is to count for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, cast

from qdrant_client import models as q
from qdrant_client.http.models import QueryResponse

from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.text.analysis import K1, B, index_terms, query_terms, rare_terms

WORDS = "words"
"""The name of the sparse vector."""

MEAN_LENGTH = 32.0
"""What counts as a memory of middling length, in terms. Fixed, because weights are written once."""


def number_of(term: str) -> int:
    """A term's place in the sparse vectors. Two terms in four billion share one, and then count as the same."""
    return int.from_bytes(blake2b(term.encode(), digest_size=4).digest(), "big")


def weights(text: str) -> q.SparseVector | None:
    """What each term of a text weighs in BM25, before its rarity; None for a text without terms."""
    terms = index_terms(text)
    if not terms:
        return None
    damping = K1 * (1 - B + B * (len(terms) + SCOPE_TOKENS) / MEAN_LENGTH)
    counts = Counter(map(number_of, terms))
    return q.SparseVector(
        indices=list(counts), values=[count * (K1 + 1) / (count + damping) for count in counts.values()]
    )


class QueryWeights(NamedTuple):
    """A query as sparse vectors: the terms that search, and all that score."""

    searched: q.SparseVector
    scored: q.SparseVector

    @property
    def same(self) -> bool:
        """Whether there is no term that only scores."""
        return len(self.searched.indices) == len(self.scored.indices)


def lookups(query: str, scope: q.Filter) -> list[q.QueryRequest]:
    """The requests that tell how common the terms of a query are: in the collection, and in the scope."""
    inside = q.SearchParams(idf=q.IdfCorpusParams(corpus=scope))
    found = []
    for term in query_terms(query):
        alone = q.NearestQuery(nearest=q.SparseVector(indices=[number_of(term)], values=[1.0]))
        found += [
            q.QueryRequest(query=alone, using=WORDS, limit=1, with_vector=[WORDS], with_payload=False),
            q.QueryRequest(
                query=alone, using=WORDS, limit=1, with_vector=[WORDS], with_payload=False, filter=scope, params=inside
            ),
        ]
    return found


def weigh(query: str, answers: Sequence[QueryResponse], *, memories: int, common: float) -> QueryWeights | None:
    """The query as the answers to `lookups` tell; None if none of its terms is in the scope."""
    terms = query_terms(query)
    everywhere = _rarities(terms, answers[::2])
    inside = _rarities(terms, answers[1::2])
    found_in = {term: max(round((memories + 1) * math.exp(-rarity) - 0.5), 1) for term, rarity in everywhere.items()}
    known = rare_terms(terms, found_in, memories=memories, common=1.0)
    rare = rare_terms(known, found_in, memories=memories, common=common)
    scored, searched = ([term for term in some if term in inside] for some in (known, rare))
    if not searched:
        return None
    counting = {term: _rarity(inside[term]) / everywhere[term] for term in scored}
    return QueryWeights(_vector(searched, counting), _vector(scored, counting))


def _rarities(terms: Sequence[str], answers: Sequence[QueryResponse]) -> dict[str, float]:
    """The server's IDF of each term that was found."""
    found = {}
    for term, answer in zip(terms, answers, strict=True):
        for point in answer.points:
            vector = cast("Mapping[str, q.SparseVector]", point.vector)[WORDS]
            found[term] = point.score / vector.values[vector.indices.index(number_of(term))]
    return found


def _rarity(idf: float) -> float:
    """`retentive.text.analysis.BM25`'s rarity of a term, from the server's."""
    without = math.expm1(idf)
    return max(math.log(without), 1e-6) if without > 1 else 1e-6


def _vector(terms: Sequence[str], counting: Mapping[str, float]) -> q.SparseVector:
    by_number = {number_of(term): counting[term] for term in terms}
    return q.SparseVector(indices=list(by_number), values=list(by_number.values()))
