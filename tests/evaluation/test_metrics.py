"""Each metric against arithmetic written out."""

from __future__ import annotations

import re
import sys
from math import log2

import pytest

from retentive.errors import MissingExtra
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.metrics import METRICS, measure
from retentive.extras import pip_install


def measured(relevance: dict[str, int], found: list[str]) -> dict[str, float]:
    values = measure([EvaluationQuery("q", "?", relevance)], {"q": found})
    return {name: float(of_queries[0]) for name, of_queries in values.items()}


def test_one_of_two_relevant_documents_at_rank_two():
    values = measured({"a": 1, "b": 1}, ["x", "a", "y"])

    assert values == {
        "any@1": 0,
        "any@5": 1,
        "any@10": 1,
        "all@5": 0,
        "R@5": 0.5,
        "R@10": 0.5,
        "nDCG@10": pytest.approx((1 / log2(3)) / (1 / log2(2) + 1 / log2(3))),
        "MRR": 0.5,
    }


def test_two_relevant_documents_one_of_them_after_rank_five():
    values = measured({"a": 1, "b": 1}, ["a", "x1", "x2", "x3", "x4", "b"])

    assert (values["any@1"], values["all@5"], values["R@5"], values["R@10"]) == (1, 0, 0.5, 1)


def test_grades_count_in_ndcg_and_only_there():
    values = measured({"a": 1, "b": 3}, ["a", "b"])

    assert values["nDCG@10"] == pytest.approx((1 + 3 / log2(3)) / (3 + 1 / log2(3)))
    assert (values["all@5"], values["MRR"]) == (1, 1)


def test_all_at_five_is_always_0_with_six_relevant_documents():
    answers = [f"a{at}" for at in range(6)]

    values = measured(dict.fromkeys(answers, 1), answers)

    assert (values["all@5"], values["R@5"], values["R@10"]) == (0, pytest.approx(5 / 6), 1)


def test_a_query_without_results_has_0_in_every_metric():
    assert set(measured({"a": 1}, []).values()) == {0}


def test_ranks_decide_and_not_the_ids_of_documents():
    for found in (["a", "z"], ["z", "a"]):
        assert measured({found[0]: 1}, found)["any@1"] == 1


def test_values_have_the_order_of_the_queries():
    queries = [EvaluationQuery(id, "?", {"a": 1}) for id in ("q2", "q10", "q1")]

    values = measure(queries, {"q1": ["x", "a"], "q2": ["a"]})

    assert list(values) == list(METRICS)
    assert values["MRR"].tolist() == [1, 0, 0.5]


def test_without_the_library_the_error_names_the_package_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ir_measures", None)

    with pytest.raises(MissingExtra, match=re.escape(pip_install("eval"))):
        measure([EvaluationQuery("q", "?", {"a": 1})], {})
