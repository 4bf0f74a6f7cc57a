"""Bootstrap intervals and the randomisation test."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from retentive.evaluation import statistics
from retentive.evaluation.statistics import intervals, p_value


def test_an_interval_is_as_wide_as_theory_says():
    values = np.array([0.0, 1.0] * 200)

    low, high = intervals({"m": values}, resamples=4000)["m"]

    # 0.5 ± 1.96 × √(0.25 / 400)
    assert low == pytest.approx(0.5 - 0.049, abs=0.006)
    assert high == pytest.approx(0.5 + 0.049, abs=0.006)


def test_the_interval_of_equal_values_is_empty():
    assert intervals({"m": np.full(7, 0.25)})["m"] == (pytest.approx(0.25), pytest.approx(0.25))


def test_the_same_seed_gives_the_same_figures_whatever_the_size_of_a_chunk(monkeypatch):
    values = np.random.default_rng(1).random(50)
    other = np.random.default_rng(2).random(50)
    before = intervals({"m": values}), p_value(values, other)

    monkeypatch.setattr(statistics, "_CHUNK", 500)

    assert (intervals({"m": values}), p_value(values, other)) == before
    assert intervals({"m": values}, seed=1) != before[0]


def test_the_p_value_is_near_that_of_all_sign_changes():
    values, baseline = np.array([0.9, 0.8, 0.4, 0.7, 0.3, 1.0]), np.array([0.5, 0.6, 0.5, 0.2, 0.3, 0.4])
    differences = values - baseline
    sums = [abs(sum(d * s for d, s in zip(differences, signs, strict=True))) for signs in product((1, -1), repeat=6)]
    exact = sum(total >= abs(differences.sum()) - 1e-9 for total in sums) / len(sums)

    assert p_value(values, baseline) == pytest.approx(exact, abs=0.01)


def test_systems_that_agree_on_every_query_do_not_differ():
    assert p_value(np.array([1.0, 0.5]), np.array([1.0, 0.5])) == 1.0


def test_a_difference_on_every_query_is_significant_in_either_direction():
    better, worse = np.ones(40), np.zeros(40)

    assert p_value(better, worse) == p_value(worse, better) == pytest.approx(1 / 10_001)


def test_one_query_is_never_significant():
    assert p_value(np.array([1.0]), np.array([0.0])) == 1.0
