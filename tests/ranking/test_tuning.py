from __future__ import annotations

import json
import math

import pytest

from retentive.errors import Invalid
from retentive.models import ALL, Query, Scope
from retentive.ranking import PRESETS, Tuning, parse_tuning
from tests.conftest import NOW


def asked(tuning: Tuning, limit: int) -> Query:
    return Query("", Scope(), tuning, NOW, limit)


@pytest.mark.parametrize("parameter", ["semantic_weight", "keyword_weight"])
def test_weights_run_from_0_to_5(parameter: str):
    assert getattr(parse_tuning({parameter: 0}), parameter) == 0
    assert getattr(parse_tuning({parameter: 5}), parameter) == 5
    for outside in (-0.01, 5.01):
        with pytest.raises(Invalid, match=parameter):
            parse_tuning({parameter: outside})


def test_the_semantic_weight_is_1_by_default():
    assert Tuning().semantic_weight == 1.0


@pytest.mark.parametrize(
    ("parameter", "outside"),
    [
        ("rrf_k", -1),
        ("rrf_k", 1001),
        ("max_document_frequency", 0),
        ("min_cosine", -1.1),
        ("min_cosine", 1.1),
        ("min_score", -0.1),
        ("half_life_days", 0),
        ("importance_slows_decay", -1),
        ("recency_share", -0.1),
        ("importance_share", 1.1),
        ("access_half_life_days", 0),
        ("diversity", -0.1),
        ("diversity", 1.1),
        ("fusion", "borda"),
        ("semantic_scaling", "softmax"),
        ("keyword_scaling", "softmax"),
        ("quality", "divide"),
    ],
)
def test_a_value_out_of_range_is_refused_by_the_name_of_its_parameter(parameter: str, outside: object):
    with pytest.raises(Invalid, match=f"^{parameter}: .*not {outside!r}"):
        parse_tuning({parameter: outside})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    "parameter", [name for name, declared in Tuning.model_fields.items() if declared.annotation == "float"]
)
def test_no_parameter_takes_nan_or_infinity(parameter: str, value: float):
    with pytest.raises(Invalid, match=parameter):
        parse_tuning({parameter: value})


@pytest.mark.parametrize("weight", [math.nan, math.inf, -1.0])
def test_a_source_weight_is_a_finite_number_of_0_or_more(weight: float):
    with pytest.raises(Invalid, match="source_weights"):
        parse_tuning({"source_weights": {"notes/*": weight}})


def test_an_unknown_parameter_is_answered_with_the_one_that_is_like_it():
    with pytest.raises(Invalid, match=r"no parameter 'keyword_wieght'; did you mean 'keyword_weight'\?"):
        parse_tuning({"keyword_wieght": 1})


@pytest.mark.parametrize(
    ("former", "present"),
    [
        ("match_least", "'min_match'"),
        ("pool_floor", "'min_candidates'"),
        ("rank_base", "rrf_k"),
        ("pool_factor", "fixed"),
    ],
)
def test_a_parameter_of_an_earlier_version_is_answered_with_its_present_name(former: str, present: str):
    with pytest.raises(Invalid, match=f"no parameter '{former}'.*{present}"):
        parse_tuning({former: 1})


def test_everything_wrong_is_named_at_once():
    with pytest.raises(Invalid) as caught:
        parse_tuning({"semantic_weight": 9, "fusion": 7, "mystery": 1})

    assert all(name in str(caught.value) for name in ("semantic_weight", "fusion", "mystery"))


@pytest.mark.parametrize("spelling", ["keyword_weight", "keywordWeight", "keyword-weight"])
def test_a_parameter_may_be_spelled_as_in_python_json_or_on_the_command_line(spelling: str):
    assert parse_tuning({spelling: 2.5}).keyword_weight == 2.5
    assert Tuning().with_parameters(**{spelling: 2.5}).keyword_weight == 2.5


def test_turning_a_parameter_gives_a_new_tuning_and_keeps_the_other_parameters():
    before = Tuning(rrf_k=7, source_weights={"notes/*": 2.0})

    after = before.with_parameters(keyword_weight=2.0)

    assert before.keyword_weight == Tuning().keyword_weight
    assert after == Tuning(rrf_k=7, source_weights={"notes/*": 2.0}, keyword_weight=2.0)


def test_turning_a_parameter_too_far_is_refused():
    with pytest.raises(Invalid, match="keyword_weight"):
        Tuning().with_parameters(keyword_weight=6)


def test_a_tuning_cannot_be_changed_in_place():
    with pytest.raises(AttributeError, match="frozen"):
        Tuning().keyword_weight = 2.0


@pytest.mark.parametrize("by_alias", [True, False])
def test_a_tuning_survives_being_written_as_json(by_alias: bool):
    tuning = Tuning(fusion="rrf", rrf_k=5, source_weights={"notes/*": 1.5}, decay=True)

    assert parse_tuning(json.loads(tuning.model_dump_json(by_alias=by_alias))) == tuning


def test_every_parameter_tells_what_it_does():
    assert [name for name, declared in Tuning.model_fields.items() if not declared.description] == []


@pytest.mark.parametrize(("limit", "pool"), [(1, 30), (10, 30), (20, 60), (100, 300)])
def test_each_retriever_fetches_three_times_the_limit_and_at_least_thirty(limit: int, pool: int):
    assert asked(Tuning(), limit).pool == pool == max(3 * limit, 30)


@pytest.mark.parametrize(("limit", "pool"), [(1, 50), (10, 50), (20, 100), (100, 500)])
def test_where_absence_from_a_retriever_counts_each_retriever_fetches_five_times_the_limit(limit: int, pool: int):
    assert asked(PRESETS["classic-rrf"], limit).pool == asked(PRESETS["relative-score"], limit).pool == pool


def test_a_retriever_never_fetches_less_than_three_times_the_limit():
    assert asked(parse_tuning({"min_candidates": 1}), 20).pool == 3 * 20


@pytest.mark.parametrize("limit", [0, -1])
def test_without_a_limit_each_retriever_fetches_everything(limit: int):
    assert asked(Tuning(), limit).pool == ALL


def test_off_by_default_are_decay_diversity_and_the_score_floor():
    tuning = Tuning()

    assert (tuning.decay, tuning.diversity, tuning.min_score) == (False, 0.0, 0.0)


def test_the_classic_shares_and_half_lives_are_the_defaults():
    tuning = Tuning()

    assert (tuning.recency_share, tuning.importance_share) == (0.05, 0.15)
    assert (tuning.half_life_days, tuning.access_half_life_days) == (30, 30)


@pytest.mark.parametrize(("fusion", "depth"), [("full", 100), ("relative", 100), ("rrf", 50), ("weighted", 50)])
def test_only_where_scores_are_scaled_the_crowd_behind_the_pool_is_looked_at(fusion, depth):
    assert asked(Tuning(fusion=fusion), 10).depth == depth
    assert asked(Tuning(fusion=fusion), 60).depth == max(depth, asked(Tuning(fusion=fusion), 60).pool)


def test_equal_tunings_have_one_version_and_one_hash_however_their_numbers_are_written():
    one, other = parse_tuning({"rrf_k": 60.0, "source_weights": {"a": 1}}), parse_tuning({"source_weights": {"a": 1.0}})

    assert one == other
    assert one.version == other.version
    assert len({one, other}) == 1
    assert one.version != Tuning().version


@pytest.mark.parametrize("whole", [{"preset": "classic-rrf"}, {"hybrid": {"rrfK": 9}}])
def test_a_preset_or_block_leaves_the_threshold_of_relevance_as_it_is(whole: dict[str, object]):
    assert parse_tuning({"min_relevance": 0.4}).with_parameters(**whole).min_relevance == 0.4
    assert Tuning().with_parameters(**whole, min_relevance=0.2).min_relevance == 0.2
