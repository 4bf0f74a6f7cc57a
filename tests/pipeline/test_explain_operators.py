"""Explanations and relevance of keyword queries with operators."""

from __future__ import annotations

import pytest

from retentive import Engine


@pytest.fixture
def engine(open_engine) -> Engine:
    return open_engine(None)


def relevance(engine: Engine, query: str) -> float:
    return engine.recall(query, tuning="keyword-only").relevance


def test_a_memory_that_an_exclusion_removed_is_told_so(engine: Engine):
    engine.remember("green tea")
    milk = engine.remember("tea with milk")

    seen = engine.explain("tea -milk", milk.id, tuning="keyword-only")

    assert (seen.query, seen.outcome) == ("tea -milk", "excluded")
    assert seen.sentence == "An operator of the query removed it: it has milk, and the query excludes it (-milk)."


def test_a_memory_without_the_phrase_is_told_so(engine: Engine):
    black = engine.remember("black tea")

    seen = engine.explain('"green tea"', black.id, tuning="keyword-only")

    assert (seen.outcome, 'it does not have "green tea"' in seen.sentence) == ("excluded", True)


def test_a_hyphen_is_no_operator_where_both_retrievers_run(engine: Engine):
    milk = engine.remember("tea with milk")

    assert engine.explain("tea -milk", milk.id).outcome == "hit"


def test_a_standing_is_that_of_the_query_that_was_searched(engine: Engine):
    morning = engine.remember("a walk every morning")
    engine.remember("a walk at night")

    seen = engine.explain("mo*", morning.id, tuning="keyword-only")

    found = next(one for one in seen.retriever_ranks if one.retriever == "keyword")
    assert (seen.outcome, found.rank, found.note) == ("hit", 1, "")
    assert found.score > 0


def test_a_rank_below_the_pool_does_not_count_what_the_operators_remove(engine: Engine):
    engine.remember_many([{"text": f"tea tea with milk {at}"} for at in range(40)])
    kept = [one.id for one in engine.remember_many([{"text": f"tea and {'x ' * at} y{at}"} for at in range(1, 60)])]
    tuning = {"semantic_weight": 0, "min_candidates": 5}

    seen = engine.explain("tea -milk", kept[-1], limit=1, tuning=tuning)

    found = next(one for one in seen.retriever_ranks if one.retriever == "keyword")
    assert found.rank == len(kept)


def test_an_excluded_word_is_not_missing_in_the_relevance(engine: Engine):
    engine.remember("green tea")

    assert relevance(engine, "tea -milk") == relevance(engine, "tea") > 0.9


def test_a_prefix_is_one_term_of_the_relevance(engine: Engine):
    engine.remember("a walk along the river")
    engine.remember("a waltz by the wall, and a walnut in a walled garden")

    assert relevance(engine, "wal*") == relevance(engine, "walk") > 0.9


def test_a_period_that_is_excluded_raises_nothing(engine: Engine):
    engine.remember("tea with Ana")

    hit = engine.recall("tea -yesterday", tuning={"semantic_weight": 0, "time_weight": 1}).hits[0]

    assert "time" not in {reason.step for reason in hit.why}
