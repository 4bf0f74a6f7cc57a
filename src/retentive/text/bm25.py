"""BM25, and the choice of query terms that retrieve candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from retentive.native import library
from retentive.text.terms import MAX_QUERY_TERMS

K1, B = 0.6, 0.75
"""BM25's term saturation and length normalisation. A repeated word adds little (see docs/ranking.md)."""

MAX_POSTINGS = 3_000
"""A query reads at least this many postings of the index; a 50th of the number of memories if that is more."""


MIN_COMMON = 10
"""A term in up to this many memories retrieves candidates, whatever its share."""


def rare_terms(terms: Iterable[str], frequencies: Mapping[str, int], *, memories: int, common: float) -> list[str]:
    """Return the known terms, rarest first, without those in more than the share `common` of all memories.

    Common terms cost most of the time of a search and find little. The rarest known term is always included. The share
    is smoothed as in the IDF, so that it can be computed from an IDF alone.
    """
    known = sorted((term for term in terms if frequencies.get(term, 0) > 0), key=lambda term: (frequencies[term], term))
    most = max(common * (memories + 1) - 0.5, MIN_COMMON)
    return [term for at, term in enumerate(known) if at == 0 or frequencies[term] <= most][:MAX_QUERY_TERMS]


def searching_terms(terms: Iterable[str], frequencies: Mapping[str, int], *, memories: int, common: float) -> list[str]:
    """Return the rare terms, rarest first, whose postings together do not exceed the number that a query may read."""
    chosen: list[str] = []
    postings, most = 0, max(MAX_POSTINGS, memories // 50)
    for term in rare_terms(terms, frequencies, memories=memories, common=common):
        postings += frequencies[term]
        if not chosen or postings <= most:
            chosen.append(term)
    return chosen


MIN_SCORED = 100
"""At least so many of the memories that match are scored."""

MIN_ORDERING, MAX_ORDERING = 2, 12
"""How many terms, the rarest, decide which memories are scored where many match."""


def count_scored(limit: int) -> int:
    """How many of the memories that match are scored to find the best: twice as many as are wanted, in hundreds.

    Every store scores those with the best approximation of BM25 (`BM25.approximation`), so that all find the same.
    """
    return -(-max(2 * limit, 1) // MIN_SCORED) * MIN_SCORED


def ordering_terms(scoring: Sequence[str], retrieving: Sequence[str]) -> list[str]:
    """Return the terms that the approximation of BM25 counts: those that retrieve, or at least the rarest of all."""
    others = [term for term in scoring if term not in retrieving]
    return [*retrieving, *others[: max(MIN_ORDERING - len(retrieving), 0)]][:MAX_ORDERING]


_MANY = 4
"""More terms than this are counted in one pass."""

_SHORT_QUERY = 8
"""Up to this many terms of a query are looked for in the text of a document; it is split for more."""


_BEHIND = "\n" + 8 * " "
"""What the compiled library may read behind the last word."""


class BM25:
    """Scores documents for the terms of one query; larger is better. With k1 = 1.2 it is the formula of SQLite's FTS5.

    `frequencies` are document frequencies, and `memories` is the number of documents they were counted in.
    """

    def __init__(
        self,
        terms: Iterable[str],
        frequencies: Mapping[str, int],
        *,
        memories: int,
        mean_length: float,
        k1: float = K1,
        b: float = B,
    ) -> None:
        self._k1, self._b = k1, b
        self._weights: list[tuple[str, float]] = []
        for term in terms if memories > 0 else ():  # in a scope without memories no term tells anything
            frequency = min(frequencies.get(term, 0), memories)
            self._weights.append((term, max(math.log((memories - frequency + 0.5) / (frequency + 0.5)), 1e-6)))
        self._idf = dict(self._weights)
        self._terms = frozenset(self._idf)
        self._mean_length = max(mean_length, 1e-9)

    @property
    def weights(self) -> Sequence[tuple[str, float]]:
        """The terms with their IDF, in the order in which their scores are added up."""
        return self._weights

    def __call__(self, document: Sequence[str], *, extra_length: int = 0) -> float:
        """The score of a document's terms; 0 if it has none of the query's."""
        found = list(filter(self._terms.__contains__, document))
        if not found:
            return 0.0
        counts = Counter(found) if len(found) > _MANY else {term: found.count(term) for term in found}
        damping = self._damping(len(document) + extra_length)
        score = 0.0
        for term, weight in self._weights:
            if term in counts:
                score += weight * counts[term] * (self._k1 + 1) / (counts[term] + damping)
        return score

    def score_text(self, terms: str, *, extra_length: int = 0) -> float:
        """The score of a document's terms, joined by single spaces; for a short query without splitting them."""
        if len(self._weights) > _SHORT_QUERY:
            return self(terms.split(" ") if terms else (), extra_length=extra_length)
        padded, score, damping = "", 0.0, 0.0
        for term, weight in self._weights:
            if term in terms:  # or a part of another term
                if not padded:
                    padded, damping = spaced(terms), self._damping(terms.count(" ") + 1 + extra_length)
                count = padded.count(f" {term} ")
                if count:
                    score += weight * count * (self._k1 + 1) / (count + damping)
        return score

    def score_alone(self, term: str) -> float:
        """The score of a document that has only this term, which is one of the query's."""
        return self._idf[term] * (self._k1 + 1) / (1 + self._damping(1))

    def approximation(self, document: Sequence[str], terms: Iterable[str], *, extra_length: int = 0) -> float:
        """The score of these terms of a document, each as if it occurred once in a shorter one."""
        weight = 0.0
        for term in terms:
            weight += self.score_alone(term) if term in document else 0.0
        per_memory, per_term = 1 + self._k1 * (1 - self._b), self._k1 * self._b / self._mean_length
        return weight / (per_memory + per_term * (len(document) + extra_length))

    def score_texts(self, texts: Sequence[str], *, extra_length: int = 0) -> list[float]:
        """The scores of documents, each as by `score_text`; the compiled library takes a fifth of the time."""
        scores = self._by_library(texts, extra_length)
        return [self.score_text(text, extra_length=extra_length) for text in texts] if scores is None else scores

    def _by_library(self, texts: Sequence[str], extra_length: int) -> list[float] | None:
        """The same by the compiled library, which reads the terms and the texts as lines; None if it cannot."""
        found, count = library(), len(self._weights)
        terms, lines = "\n".join(term for term, _ in self._weights), "\n".join(texts)
        if found is None or not texts or terms.count("\n") >= count or lines.count("\n") >= len(texts):
            return None
        weights, scores = np.array([weight for _, weight in self._weights]), np.empty(len(texts))
        too_many = found.bm25_scores(
            (terms + _BEHIND).encode(),
            weights,
            count,
            (lines + _BEHIND).encode(),
            len(texts),
            self._k1,
            self._b,
            self._mean_length,
            extra_length,
            scores,
        )
        return None if too_many else scores.tolist()

    def _damping(self, length: float) -> float:
        """What is added to a term's count in the divisor, given the length of a document."""
        return self._k1 * (1 - self._b + self._b * length / self._mean_length)


def spaced(terms: str) -> str:
    """Terms that were joined by single spaces, each with a space of its own on both sides."""
    return f" {terms.replace(' ', '  ')} "
