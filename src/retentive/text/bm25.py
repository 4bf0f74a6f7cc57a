"""BM25, and the choice of query terms that retrieve candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from retentive.text.analysis import MAX_QUERY_TERMS

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


_MANY = 4
"""More terms than this are counted in one pass."""

_SHORT_QUERY = 8
"""Up to this many terms of a query are looked for in the text of a document; it is split for more."""

_LONG_TEXT = 256
"""If texts have more characters than this on average, their terms are counted in one array of all of them."""

_PREFIX = 8
"""Words are compared by a hash of this many first bytes, before they are compared whole."""

_PREFIX_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_PREFIX)] + [(1 << 64) - 1], np.uint64)
_MULTIPLIER, _TO_12_BITS = np.uint64(0x9E3779B97F4A7C15), np.uint64(52)
"""Fibonacci hashing: the upper 12 bits of the product with 2⁶⁴ divided by the golden ratio."""

L = TypeVar("L", float, npt.NDArray[np.float64])


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

    def score_texts(self, texts: Sequence[str], *, extra_length: int = 0) -> list[float]:
        """The scores of documents, each as by `score_text`. That of many long ones takes a third of the time."""
        if not texts or not self._weights or sum(map(len, texts)) <= _LONG_TEXT * len(texts):
            return [self.score_text(text, extra_length=extra_length) for text in texts]
        counts, lengths = _count_terms([term for term, _ in self._weights], texts)
        weights = np.array([weight for _, weight in self._weights])[:, None]
        damping = self._damping((lengths + extra_length).astype(np.float64))
        shares = weights * counts * (self._k1 + 1) / (counts + damping)
        scores: list[float] = np.add.accumulate(shares)[-1].tolist()  # in order, so that sums are equal to the last bit
        return scores

    def _damping(self, length: L) -> L:
        """What is added to a term's count in the divisor, given the length of a document, or an array of lengths."""
        return self._k1 * (1 - self._b + self._b * length / self._mean_length)


def spaced(terms: str) -> str:
    """Terms that were joined by single spaces, each with a space of its own on both sides."""
    return f" {terms.replace(' ', '  ')} "


def _count_terms(terms: Sequence[str], texts: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """How often each term occurs in each text, and how many terms each text has.

    Only words that may be one of the terms become Python objects: those whose first bytes have the hash of a term's.
    """
    number = {term.encode(): at for at, term in enumerate(terms)}
    first = np.array([int.from_bytes(term[:_PREFIX], "little") for term in number], np.uint64)
    encoded = [text.encode() for text in texts]
    data = b" ".join(encoded) + b" " * (1 + _PREFIX)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8)[:-_PREFIX] == ord(" "))
    starts = np.concatenate([[0], ends[:-1] + 1])
    prefixes = np.ndarray(len(data) - _PREFIX + 1, np.dtype("<u8"), data, strides=(1,)).take(starts)
    prefixes &= _PREFIX_MASKS.take(np.minimum(ends - starts, _PREFIX))
    wanted = np.zeros(1 << 12, np.bool_)
    wanted[_hashes(first)] = True
    at = np.flatnonzero(wanted.take(_hashes(prefixes)))
    pairs = zip(starts[at].tolist(), ends[at].tolist(), strict=True)
    found = np.array([number.get(data[start:end], -1) for start, end in pairs], np.int64)
    last = np.cumsum([len(text) + 1 for text in encoded])
    text_of = np.searchsorted(last, starts[at[found >= 0]], "right")
    counts = np.bincount(found[found >= 0] * len(texts) + text_of, minlength=len(terms) * len(texts))
    return counts.reshape(len(terms), len(texts)), np.diff(np.searchsorted(starts, last), prepend=0)


def _hashes(prefixes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (prefixes * _MULTIPLIER) >> _TO_12_BITS
