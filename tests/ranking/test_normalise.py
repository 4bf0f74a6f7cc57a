from __future__ import annotations

import math
from statistics import pstdev

import pytest

from retentive.errors import Invalid
from retentive.ranking.fusion import fit, saturate, scale_all
from tests.ranking.build import SCALINGS

INF, NAN = math.inf, math.nan


def test_min_max_puts_the_best_at_1_and_the_worst_at_0():
    assert scale_all("min-max", [8.0, 5.0, 4.0]) == [1.0, (5 - 4) / (8 - 4), 0.0]


def test_min_max_holds_scores_from_elsewhere_between_0_and_1():
    scale = fit("min-max", [8.0, 4.0])

    assert (scale(2.0), scale(9.0)) == (0.0, 1.0)


def test_z_score_counts_deviations_from_the_mean():
    assert scale_all("z-score", [3.0, 2.0, 1.0]) == pytest.approx([1 / pstdev([3, 2, 1]), 0.0, -1 / pstdev([3, 2, 1])])
    assert pstdev([3, 2, 1]) == pytest.approx(math.sqrt(2 / 3))


def test_sum_scaling_adds_up_to_1_above_the_worst():
    assert scale_all("sum", [7.0, 4.0, 3.0]) == pytest.approx([4 / 5, 1 / 5, 0.0])


def test_max_scaling_divides_by_the_best_and_keeps_proportions():
    assert scale_all("max", [8.0, 4.0, 2.0]) == [1.0, 0.5, 0.25]


def test_l2_scaling_divides_by_the_length_of_all_scores():
    assert scale_all("l2", [4.0, 3.0]) == pytest.approx([4 / 5, 3 / 5])


def test_distribution_scaling_puts_the_mean_in_the_middle_and_three_sigmas_at_the_ends():
    scale = fit("distribution", [3.0, 1.0])  # mean 2, deviation 1

    assert [scale(score) for score in (2.0, 3.0, 1.0)] == pytest.approx([0.5, 4 / 6, 2 / 6])
    assert [scale(2 + 3), scale(2 - 3), scale(99.0), scale(-99.0)] == pytest.approx([1.0, 0.0, 1.0, 0.0])


def test_spread_scaling_takes_the_score_at_its_depth_as_zero():
    scores = [float(300 - at) for at in range(120)]

    scaled = scale_all("spread", scores)

    assert (scaled[0], scaled[33], scaled[99], scaled[119]) == pytest.approx((1.0, (267 - 201) / (300 - 201), 0.0, 0.0))


def test_spread_scaling_of_a_list_shorter_than_its_depth_is_min_max():
    assert scale_all("spread", [8.0, 5.0, 4.0]) == scale_all("min-max", [8.0, 5.0, 4.0])


def test_saturate_scaling_maps_each_score_by_itself():
    assert scale_all("saturate", [4.0, 1.0, 0.0]) == pytest.approx([4 / 5, 1 / 2, 0.0])


def test_no_scaling_leaves_scores_as_they_are():
    assert scale_all("none", [8.0, -5.0]) == [8.0, -5.0]


@pytest.mark.parametrize("scaling", ["min-max", "sum", "max", "l2", "distribution", "spread"])
def test_one_result_alone_is_the_best_there_is(scaling: str):
    assert scale_all(scaling, [0.3]) == [1.0]


@pytest.mark.parametrize("scaling", ["min-max", "sum", "max", "spread"])
@pytest.mark.parametrize("score", [0.1, 3.0, 0.0])
def test_equal_scores_are_all_the_best_there_is(scaling: str, score: float):
    assert scale_all(scaling, [score] * 3) == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("score", [0.1, 0.05, 3.0, 0.0])
def test_equal_scores_are_all_the_best_there_is_for_distribution_scaling_too(score: float):
    # fmean([0.1] * 3) is 0.10000000000000002, a hair above every score.
    assert scale_all("distribution", [score] * 3) == [1.0, 1.0, 1.0]


def test_equal_scores_share_the_length_in_l2_scaling():
    assert scale_all("l2", [2.0, 2.0]) == pytest.approx([1 / math.sqrt(2)] * 2)


@pytest.mark.parametrize("scores", [[0.3], [0.1, 0.1, 0.1]])
def test_z_score_of_one_result_or_equal_scores_is_0(scores: list[float]):
    assert scale_all("z-score", scores) == [0.0] * len(scores)


@pytest.mark.parametrize("scaling", ["min-max", "sum", "spread"])
def test_a_score_from_elsewhere_below_equal_scores_is_0(scaling: str):
    assert fit(scaling, [2.0, 2.0])(1.0) == 0.0


@pytest.mark.parametrize("scaling", SCALINGS)
def test_an_empty_list_scales_to_an_empty_list(scaling: str):
    assert scale_all(scaling, []) == []
    assert fit(scaling, [])(0.7) == 0.0


@pytest.mark.parametrize("scaling", SCALINGS)
def test_nan_counts_as_the_worst_score(scaling: str):
    high, nan, low = scale_all(scaling, [4.0, NAN, 1.0])

    assert nan == low < high


@pytest.mark.parametrize("scaling", SCALINGS)
def test_infinity_counts_as_the_best_finite_score_and_minus_infinity_as_the_worst(scaling: str):
    top, high, low, bottom = scale_all(scaling, [INF, 4.0, 1.0, -INF])

    assert top == high > low == bottom


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("scores", [[NAN], [INF], [-INF], [NAN, INF, -INF]])
def test_a_list_without_one_finite_score_is_all_0(scaling: str, scores: list[float]):
    assert scale_all(scaling, scores) == [0.0] * len(scores)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_the_best_keeps_its_place_on_every_scale(scaling: str):
    scaled = scale_all(scaling, [9.0, 3.0, 2.0, 1.0])

    assert scaled == sorted(scaled, reverse=True)
    assert scaled[0] > scaled[-1]


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(
    "scores", [[1e308, 1e308, 0.0], [1.7e308] * 3, [1e308, 1e308, -1e308], [1.7e308, -1.7e308], [5e-324, 0.0]]
)
def test_scores_at_the_edge_of_what_floats_can_hold_scale_to_finite_ones(scaling: str, scores: list[float]):
    assert all(math.isfinite(scaled) for scaled in scale_all(scaling, scores))


@pytest.mark.parametrize("scaling", ["sum", "min-max", "l2", "max", "z-score", "distribution"])
@pytest.mark.parametrize("factor", [1e-3, 1e200, 1e306])
def test_scores_scale_alike_whatever_their_size(scaling: str, factor: float):
    huge = scale_all(scaling, [100 * factor, 70 * factor, 0.0, -100 * factor])

    assert huge == pytest.approx(scale_all(scaling, [100, 70, 0, -100]))


def test_saturation_is_r_over_1_plus_r():
    assert [saturate(score) for score in (0.0, 1.0, 3.0, 9.0)] == pytest.approx([0, 1 / 2, 3 / 4, 9 / 10])


@pytest.mark.parametrize("score", [NAN, INF, -INF, 1e308, -1e308])
def test_saturation_stays_between_0_and_1_whatever_comes_in(score: float):
    assert 0.0 <= saturate(score) <= 1.0


def test_an_unknown_scaling_is_answered_with_the_known_ones():
    with pytest.raises(Invalid, match=r"no scaling 'softmax'.*min-max.*z-score.*distribution"):
        fit("softmax", [1.0])
