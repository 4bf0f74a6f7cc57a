"""Maximal marginal relevance: each next hit is worth its relevance less its likeness to what is already chosen.

Off by default: it halves the recall of queries that need several memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from retentive.models import Hit
from retentive.ranking.duplicates import normalised

Vectors = Mapping[str, npt.NDArray[np.float32]]


def diversify(hits: Sequence[Hit], diversity: float, vectors: Vectors, *, limit: int) -> tuple[list[Hit], list[Hit]]:
    """The hits that MMR picks, in its order, and the rest; 0 picks the first ones as they are.

    Relevance is divided by the best first, so that the trade means the same for every fusion. Likeness is the cosine
    of the memories' vectors, and the overlap of their words where a vector is missing.
    """
    if diversity <= 0 or len(hits) < 2:
        last = len(hits) if limit <= 0 else limit
        return list(hits[:last]), list(hits[last:])
    best = max(hits[0].score, 1e-12)
    relevance = np.array([max(hit.score, 0.0) / best for hit in hits])
    likeness = _likeness(hits, vectors)
    closest = np.zeros(len(hits))
    left = list(range(len(hits)))
    chosen: list[Hit] = []
    ceiling = hits[0].score
    while left and (limit <= 0 or len(chosen) < limit):
        worth = (1.0 - diversity) * relevance[left] - diversity * closest[left]
        at = left.pop(int(np.argmax(worth)))
        # Later picks may be worth more than earlier ones; a score shown must not rise down the list.
        ceiling = min(ceiling, float(hits[at].score - diversity * closest[at] * best))
        like = float(closest[at])
        chosen.append(hits[at].after("diversity", ceiling, like, "likeness {:.2f} to a higher hit", like))
        closest = np.maximum(closest, likeness[at])
    return chosen, [hits[at] for at in left]


def _likeness(hits: Sequence[Hit], vectors: Vectors) -> npt.NDArray[np.float64]:
    size = len(hits)
    matrix = np.zeros((size, size))
    words = [frozenset(normalised(hit.memory.text).split()) for hit in hits]
    for row in range(size):
        for column in range(row):
            a, b = vectors.get(hits[row].id), vectors.get(hits[column].id)
            if a is not None and b is not None:
                like = float(np.dot(a, b))
            else:
                like = len(words[row] & words[column]) / max(len(words[row] | words[column]), 1)
            matrix[row, column] = matrix[column, row] = max(like, 0.0)
    return matrix
