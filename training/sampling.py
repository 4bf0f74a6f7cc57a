"""Which turns are candidates of a query, and which queries are in a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SOURCE_WEIGHT = {
    "realmem": 0.6,
    "crd3-weak": 0.35,
    "synthetic-persona-chat-weak": 0.35,
    "sgd-template": 0.35,
    "asked": 0.35,
    "about": 0.35,
}
"""How often a query of a source is seen, against one with a human label. Weak labels and templates favour words."""

EVIDENCE_WEIGHT = {
    "realmem": 0.5,
    "crd3-weak": 0.3,
    "synthetic-persona-chat-weak": 0.5,
    "sgd-template": 0.5,
    "asked": 0.0,
    "about": 0.0,
}
"""How much the label of a query counts."""

PER_QUERY = 32
"""How many candidates a query of a conversation has."""

NEAREST = 18
"""Of a long conversation's candidates, how many are the nearest by the untrained model; the rest are random."""

PER_VISIT = 6
"""How many queries of a conversation are in a step together: they share the vectors of its turns."""


def weights_of(sources: npt.NDArray[np.str_], source: npt.NDArray[np.int32], table: dict[str, float]) -> np.ndarray:
    """The weight of each query by the name of its source; 1 for a source that the table does not name."""
    by_number = np.array([table.get(str(name), 1.0) for name in sources])
    return np.asarray(by_number[source])


class QuerySampler:
    """Draws queries, several of one conversation together, each about as often as its weight says."""

    def __init__(self, conversation: npt.NDArray[np.int32], weight: np.ndarray, *, seed: int) -> None:
        self._chance = np.random.default_rng(seed)
        usable = np.flatnonzero(weight > 0)
        order = usable[np.argsort(conversation[usable], kind="stable")]
        starts = np.flatnonzero(np.diff(conversation[order], prepend=-1))
        self._groups = np.split(order, starts[1:])
        self._weights = [weight[group] / weight[group].sum() for group in self._groups]
        # A visit takes several queries of a long group and all of a short one: visits must make up for that.
        visits = np.array([weight[group].sum() / min(len(group), PER_VISIT) for group in self._groups])
        self._visits = visits / visits.sum()

    def draw(self, count: int) -> np.ndarray:
        """About `count` queries."""
        found: list[np.ndarray] = []
        while sum(map(len, found)) < count:
            at = self._chance.choice(len(self._groups), p=self._visits)
            group = self._groups[at]
            size = min(len(group), PER_VISIT)
            found.append(self._chance.choice(group, size, replace=False, p=self._weights[at]))
        return np.unique(np.concatenate(found))


def choose(
    near: np.ndarray, gold: list[int], without: list[int], first: int, size: int, chance: np.random.Generator
) -> np.ndarray:
    """Candidates of one query: its evidence and the turns beside it, the nearest, then random ones.

    `near` is the order of the conversation's turns by the untrained model; numbers are counted from its first turn.
    """
    count = len(near)
    beside = [turn + step for turn in gold for step in (-1, 1) if 0 <= turn + step < count]
    rest = chance.permutation(count)
    ordered = list(dict.fromkeys([*gold[:4], *beside[:4], *near[:NEAREST].tolist(), *rest.tolist()]))
    kept = [turn for turn in ordered if turn not in without][:size]
    found = np.full(size, -1, np.int64)
    found[: len(kept)] = np.array(kept, np.int64) + first
    return found
