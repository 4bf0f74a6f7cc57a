"""BM25 with sparse vectors: the weight of a term is stored in the point, its IDF comes from the server.

The server multiplies each term of a query by ln(1 + r), where r is (memories without the term + 0.5) / (memories with
it + 0.5). Every other store uses ln(r), counted within the scope. So the terms of a query are first looked up one by
one, in the whole collection and in the scope: the score of a term, divided by its weight in the point that was found,
is its IDF. Document frequency and the weight of the term in the query follow from that.
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
from retentive.text.analysis import index_terms, query_terms
from retentive.text.bm25 import K1, B, rare_terms

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
    """Return the queries that find the IDF of each term of a text: in the collection, and in the scope."""
    within = q.SearchParams(idf=q.IdfCorpusParams(corpus=scope))
    requests = []
    for term in query_terms(text):
        query = q.NearestQuery(nearest=q.SparseVector(indices=[number_of(term)], values=[1.0]))
        requests += [
            q.QueryRequest(query=query, using=WORDS, limit=1, with_vector=[WORDS], with_payload=False),
            q.QueryRequest(
                query=query, using=WORDS, limit=1, with_vector=[WORDS], with_payload=False, filter=scope, params=within
            ),
        ]
    return requests


def query_weights(text: str, lookups: Sequence[QueryResponse], *, memories: int, common: float) -> QueryWeights | None:
    """Weigh the terms of a query from the responses to `term_lookups`; None if no term occurs in the scope.

    Terms in more than the share `common` of all memories score, but do not retrieve candidates.
    """
    terms = query_terms(text)
    overall, in_scope = _idf(terms, lookups[::2]), _idf(terms, lookups[1::2])
    frequencies = {term: max(round((memories + 1) * math.exp(-idf) - 0.5), 1) for term, idf in overall.items()}
    known = rare_terms(terms, frequencies, memories=memories, common=1.0)
    rare = rare_terms(known, frequencies, memories=memories, common=common)
    scoring, retrieving = ([term for term in some if term in in_scope] for some in (known, rare))
    if not scoring:
        return None
    factors = {term: _bm25_idf(in_scope[term]) / overall[term] for term in scoring}
    return QueryWeights(_vector(scoring, factors), _vector(retrieving, factors))


def _idf(terms: Sequence[str], lookups: Sequence[QueryResponse]) -> dict[str, float]:
    """Return the server's IDF of each term that was found."""
    found = {}
    for term, response in zip(terms, lookups, strict=True):
        for point in response.points:
            vectors: Any = point.vector
            stored = vectors[WORDS]
            found[term] = point.score / stored.values[stored.indices.index(number_of(term))]
    return found


def _bm25_idf(server_idf: float) -> float:
    """Return the IDF as `retentive.text.bm25.BM25` defines it."""
    ratio = math.expm1(server_idf)
    return max(math.log(ratio), 1e-6) if ratio > 1 else 1e-6


def _vector(terms: Sequence[str], factors: Mapping[str, float]) -> q.SparseVector:
    by_number = {number_of(term): factors[term] for term in terms}
    return q.SparseVector(indices=list(by_number), values=list(by_number.values()))
