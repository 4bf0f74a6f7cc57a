"""Maximal marginal relevance (MMR): choose each next hit by its relevance minus its similarity to the chosen ones.

Off by default: it halves the recall of queries that need several memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from retentive.models import Hit
from retentive.text.normal_form import normalised

Vectors = Mapping[str, npt.NDArray[np.float32]]


def diversify(hits: Sequence[Hit], diversity: float, vectors: Vectors, *, limit: int) -> tuple[list[Hit], list[Hit]]:
    """Return the hits that MMR chooses, in its order, and the rest; with diversity 0, the first hits unchanged.

    Relevance is divided by the best, so that diversity means the same for every fusion. Similarity is the cosine of the
    memories' vectors, or the overlap of their words if a vector is missing.
    """
    if diversity <= 0 or len(hits) < 2:
        last = len(hits) if limit <= 0 else limit
        return list(hits[:last]), list(hits[last:])
    best = max(hits[0].score, 1e-12)
    relevance = np.array([max(hit.score, 0.0) / best for hit in hits])
    similarity = _Similarity(hits, vectors)
    closest = np.zeros(len(hits))
    is_left = np.ones(len(hits), dtype=bool)
    chosen: list[Hit] = []
    ceiling = hits[0].score
    for _ in range(len(hits) if limit <= 0 else min(limit, len(hits))):
        worth = (1.0 - diversity) * relevance - diversity * closest
        chosen_row = int(np.argmax(np.where(is_left, worth, -np.inf)))
        is_left[chosen_row] = False
        # A later choice may be worth more than an earlier one; the displayed scores must not increase.
        ceiling = min(ceiling, float(hits[chosen_row].score - diversity * closest[chosen_row] * best))
        like = float(closest[chosen_row])
        chosen.append(hits[chosen_row].after("diversity", ceiling, like, "similarity {:.2f} to a higher hit", like))
        closest = np.maximum(closest, similarity.to(chosen_row))
    return chosen, [hits[row] for row in np.flatnonzero(is_left).tolist()]


class _Similarity:
    """The similarities of hits: a row at a time, because those of all pairs of a long list take much memory."""

    def __init__(self, hits: Sequence[Hit], vectors: Vectors) -> None:
        self._has_vector = np.array([hit.id in vectors for hit in hits])
        rows = [vectors[hit.id] for hit in hits if hit.id in vectors]
        self._vectors = np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)
        self._row = np.cumsum(self._has_vector) - 1
        self._hits = hits
        self._words: _CommonWords | None = None if len(rows) == len(hits) else _CommonWords(hits)

    def to(self, row: int) -> npt.NDArray[np.float64]:
        """The similarity of each hit to one of them, from 0 to 1."""
        like = np.zeros(len(self._hits)) if self._words is None else self._words.overlap(row)
        if self._has_vector[row]:
            like[self._has_vector] = self._vectors @ self._vectors[self._row[row]]
        return np.maximum(like, 0.0)


class _CommonWords:
    """Which words hits have in common."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        self._words = [frozenset(normalised(hit.memory.text).split()) for hit in hits]
        self._sizes = np.array([len(words) for words in self._words])
        with_word: dict[str, list[int]] = {}
        for row, words in enumerate(self._words):
            for word in words:
                with_word.setdefault(word, []).append(row)
        self._with_word = {word: np.array(places) for word, places in with_word.items()}

    def overlap(self, row: int) -> npt.NDArray[np.float64]:
        """The words that each hit has in common with one of them, as a share of the words of both."""
        places = [self._with_word[word] for word in self._words[row]]
        common = np.bincount(np.concatenate(places), minlength=len(self._words)) if places else np.zeros(1)
        shares: npt.NDArray[np.float64] = common / np.maximum(self._sizes + self._sizes[row] - common, 1)
        return shares
