"""Maximal marginal relevance (MMR): choose each next hit by its relevance minus its similarity to the chosen ones.

Off by default: it halves the recall of queries that need several memories.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from retentive.models import Hit
from retentive.text.analysis import normalised

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
    similarity = _similarity(hits, vectors)
    closest = np.zeros(len(hits))
    left = list(range(len(hits)))
    chosen: list[Hit] = []
    ceiling = hits[0].score
    while left and (limit <= 0 or len(chosen) < limit):
        worth = (1.0 - diversity) * relevance[left] - diversity * closest[left]
        at = left.pop(int(np.argmax(worth)))
        # A later choice may be worth more than an earlier one; the displayed scores must not increase.
        ceiling = min(ceiling, float(hits[at].score - diversity * closest[at] * best))
        like = float(closest[at])
        chosen.append(hits[at].after("diversity", ceiling, like, "similarity {:.2f} to a higher hit", like))
        closest = np.maximum(closest, similarity[at])
    return chosen, [hits[at] for at in left]


def _similarity(hits: Sequence[Hit], vectors: Vectors) -> npt.NDArray[np.float64]:
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
