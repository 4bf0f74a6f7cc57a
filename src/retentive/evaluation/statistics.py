"""Confidence intervals of means over queries, and a significance test of the difference between two systems."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from retentive.evaluation.metrics import Values

RESAMPLES = 2_000
SHUFFLES = 10_000
SEED = 20_260_601
_CHUNK = 4_000_000
"""How many numbers are drawn at once, to limit memory with many queries."""


class ConfidenceInterval(NamedTuple):
    """The middle 95 % of the means of resampled queries."""

    low: float
    high: float


def intervals(
    values: Mapping[str, Values], *, resamples: int = RESAMPLES, seed: int = SEED
) -> dict[str, ConfidenceInterval]:
    """Return a 95 % percentile bootstrap interval for the mean of each metric, over queries.

    All metrics use the same resamples, and the same seed gives the same intervals.
    """
    names = list(values)
    matrix = np.column_stack([values[name] for name in names])
    count = len(matrix)
    random = np.random.default_rng(seed)
    means = []
    for size in _chunks(resamples, count):
        # A resample is given by how often each query is drawn; the product of these counts with the values is fast.
        counts = random.multinomial(count, np.full(count, 1 / count), size=size).astype(np.float64)
        means.append(counts @ matrix / count)
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5), axis=0)
    return {name: ConfidenceInterval(float(low[index]), float(high[index])) for index, name in enumerate(names)}


def p_value(values: Values, baseline: Values, *, shuffles: int = SHUFFLES, seed: int = SEED) -> float:
    """Return the p-value of a two-sided paired randomisation test of the difference between two means.

    Under the null hypothesis the two values of a query are exchangeable, so the sign of their difference is random.
    Queries without a difference do not affect the result and are left out.
    """
    differences = values - baseline
    differences = differences[differences != 0.0]
    if not len(differences):
        return 1.0
    random = np.random.default_rng(seed)
    observed = abs(float(differences.sum())) - 1e-9
    at_least = 0
    for size in _chunks(shuffles, len(differences)):
        signs = random.integers(0, 2, (size, len(differences)), dtype=np.int8) * 2.0 - 1.0
        at_least += int((np.abs(signs @ differences) >= observed).sum())
    return (at_least + 1) / (shuffles + 1)


def _chunks(total: int, width: int) -> list[int]:
    """Split `total` rows of `width` numbers into chunks of limited size."""
    size = max(1, min(total, _CHUNK // max(width, 1)))
    whole, rest = divmod(total, size)
    return [size] * whole + ([rest] if rest else [])
