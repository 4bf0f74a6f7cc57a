"""How far a mean over queries can be trusted, and whether two systems differ by more than chance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from retentive.evaluation.metrics import Values

RESAMPLES = 2_000
SHUFFLES = 10_000
SEED = 20_260_601
_AT_ONCE = 4_000_000
"""How many numbers are drawn at once, so that a set of many queries does not fill the memory."""


class Interval(NamedTuple):
    """The middle 95 % of the means of resampled queries."""

    low: float
    high: float


def intervals(values: Mapping[str, Values], *, resamples: int = RESAMPLES, seed: int = SEED) -> dict[str, Interval]:
    """A 95 % percentile bootstrap interval for the mean of each metric, over queries.

    Every metric sees the same resamples, and the same seed gives the same intervals.
    """
    names = list(values)
    matrix = np.column_stack([values[name] for name in names])
    count = len(matrix)
    random = np.random.default_rng(seed)
    means = []
    for size in _chunks(resamples, count):
        # How often each query is drawn says as much as which ones are, and its product with the values is fast.
        drawn = random.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)
        means.append(drawn @ matrix / count)
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5), axis=0)
    return {name: Interval(float(low[at]), float(high[at])) for at, name in enumerate(names)}


def p_value(values: Values, baseline: Values, *, shuffles: int = SHUFFLES, seed: int = SEED) -> float:
    """How often chance alone parts two systems' means this far: a two-sided paired randomisation test.

    Under chance it does not matter which system gave which of a query's two values, so their differences change
    sign at random. Queries on which they agree say nothing and are left out.
    """
    differences = values - baseline
    differences = differences[differences != 0.0]
    if not len(differences):
        return 1.0
    random = np.random.default_rng(seed)
    observed = abs(float(differences.sum())) - 1e-9
    beyond = 0
    for size in _chunks(shuffles, len(differences)):
        signs = random.integers(0, 2, (size, len(differences)), dtype=np.int8) * 2.0 - 1.0
        beyond += int((np.abs(signs @ differences) >= observed).sum())
    return (beyond + 1) / (shuffles + 1)


def _chunks(total: int, width: int) -> list[int]:
    """`total` in parts of which each, times `width`, is not too much at once."""
    size = max(1, min(total, _AT_ONCE // max(width, 1)))
    whole, rest = divmod(total, size)
    return [size] * whole + ([rest] if rest else [])
