"""BM25 with sparse vectors: the weight of a term is stored in the point, its IDF comes from the server.

The server multiplies each term of a query by ln(1 + r), where r is (memories without the term + 0.5) / (memories with
it + 0.5). Every other store uses ln(r), counted within the scope. So the terms of a query are first looked up one by
one in the scope, with the IDF of the whole collection and with that of the scope: the score of a term, divided by its
weight in the point that was found, is its IDF. The weight of the term in the query follows from both, so that the
score does not depend on what is outside the scope.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from qdrant_client import models as q
from qdrant_client.http.models import QueryResponse

from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.text.analysis import MAX_QUERY_TERMS, index_terms, query_terms
from retentive.text.bm25 import K1, MIN_COMMON, B

WORDS = "words"
"""The name of the sparse vector."""

MEAN_LENGTH = 32.0
"""The length in terms that BM25 normalises by. A constant, because weights are written once."""


def number_of(term: str) -> int:
    """Return the index of a term in sparse vectors, a 32-bit hash; terms with the same hash count as one."""
    return int.from_bytes(blake2b(term.encode(), digest_size=4).digest(), "big")


def weights(text: str) -> q.SparseVector | None:
    """Return the BM25 weights of a text's terms, without IDF; None for a text without terms."""
    terms = index_terms(text)
    if not terms:
        return None
    damping = K1 * (1 - B + B * (len(terms) + SCOPE_TOKENS) / MEAN_LENGTH)
    counts = Counter(map(number_of, terms))
    return q.SparseVector(
        indices=list(counts), values=[count * (K1 + 1) / (count + damping) for count in counts.values()]
    )


class QueryWeights(NamedTuple):
    """A query as sparse vectors: of all terms that occur in the scope, and of those that retrieve candidates."""

    scoring: q.SparseVector
    retrieving: q.SparseVector


def term_lookups(text: str, scope: q.Filter) -> list[q.QueryRequest]:
    """Return two queries for each term of a text: for its IDF in the collection, and for that in the scope.

    The second one also returns enough points to tell whether the term is in more than `MIN_COMMON` memories.
    """
    within = q.SearchParams(idf=q.IdfCorpusParams(corpus=scope))
    requests = []
    for term in query_terms(text):
        query = q.NearestQuery(nearest=q.SparseVector(indices=[number_of(term)], values=[1.0]))
        requests += [
            q.QueryRequest(query=query, using=WORDS, limit=1, with_vector=[WORDS], with_payload=False, filter=scope),
            q.QueryRequest(
                query=query, using=WORDS, limit=MIN_COMMON + 1, with_payload=False, filter=scope, params=within
            ),
        ]
    return requests


def query_weights(text: str, lookups: Sequence[QueryResponse], *, common: float) -> QueryWeights | None:
    """Weigh the terms of a query from the responses to `term_lookups`; None if no term occurs in the scope.

    Terms in more than the share `common` of the memories of the scope score, but do not retrieve candidates, as
    `rare_terms` chooses them.
    """
    overall: dict[str, float] = {}
    in_scope: dict[str, float] = {}
    rare = set()
    for term, best, found in zip(query_terms(text), lookups[::2], lookups[1::2], strict=True):
        if best.points and found.points:
            vectors: Any = best.points[0].vector
            stored = vectors[WORDS]
            weight = stored.values[stored.indices.index(number_of(term))]
            overall[term], in_scope[term] = best.points[0].score / weight, found.points[0].score / weight
            if len(found.points) <= MIN_COMMON or math.exp(-in_scope[term]) <= common:
                rare.add(term)
    scoring = sorted(in_scope, key=lambda term: (-round(in_scope[term], 5), term))[:MAX_QUERY_TERMS]
    if not scoring:
        return None
    factors = {term: _bm25_idf(in_scope[term]) / overall[term] for term in scoring}
    retrieving = [term for at, term in enumerate(scoring) if at == 0 or term in rare]
    return QueryWeights(_vector(scoring, factors), _vector(retrieving, factors))


def _bm25_idf(server_idf: float) -> float:
    """Return the IDF as `retentive.text.bm25.BM25` defines it."""
    ratio = math.expm1(server_idf)
    return max(math.log(ratio), 1e-6) if ratio > 1 else 1e-6


def _vector(terms: Sequence[str], factors: Mapping[str, float]) -> q.SparseVector:
    by_number = {number_of(term): factors[term] for term in terms}
    return q.SparseVector(indices=list(by_number), values=list(by_number.values()))
