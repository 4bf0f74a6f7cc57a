"""Laws that hold for every input and every tuning, tried with thousands of them."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.models import Candidate, Memory
from retentive.ranking import Tuning, rank
from retentive.ranking.fusion import fuse, scale_all
from retentive.ranking.lists import RankedList, Ranking
from retentive.ranking.rank import drop_duplicates
from retentive.text.normal_form import normalised
from tests.ranking.build import FUSIONS, NOW, SCALINGS, hit, ids, in_mmr_order, memory, plain, scores, unit

TEXTS = ("Likes tea", "likes tea!", "Lives in Rome", "lives in Rome with a dog", "has a dog", "👍", "")


def a_memory(at: int) -> Memory:
    """One of twelve memories that differ in all that ranking looks at."""
    return memory(
        f"m{at}",
        TEXTS[at % len(TEXTS)],
        created=NOW - timedelta(days=17 * at),
        accessed=NOW - timedelta(days=at) if at % 2 else None,
        importance=(at % 5) / 4,
        kind=("episodic", "semantic", "identity")[at % 3],
        evergreen=at % 4 == 0,
        source=("notes/1", "mail/1", None)[at % 3],
    )


MEMORIES = [a_memory(at) for at in range(12)]
VECTORS = {item.id: unit(math.cos(at), math.sin(at), at % 3) for at, item in enumerate(MEMORIES) if at % 5}

sane = st.floats(-30, 30)
wild = st.one_of(sane, st.sampled_from([math.nan, math.inf, -math.inf]))
weights = st.one_of(st.just(0.0), st.floats(0.01, 5))
limits = st.integers(-1, 14)


@st.composite
def retrievers_of(
    draw: st.DrawFn, name: str, numbers: st.SearchStrategy[float], *, weight: float | None = None
) -> RankedList:
    """A retriever that found some of the memories, best first, and knows true scores of others."""
    found = draw(st.lists(st.sampled_from(MEMORIES), unique_by=lambda item: item.id, max_size=len(MEMORIES)))
    marks = sorted((draw(numbers) for _ in found), key=lambda mark: (math.isnan(mark), -mark))
    elsewhere = draw(st.dictionaries(st.sampled_from([item.id for item in MEMORIES]), numbers, max_size=4))
    chosen = draw(weights) if weight is None else weight
    deeper = (*marks, *draw(st.lists(numbers, max_size=3))) if draw(st.booleans()) else ()
    return RankedList(name, tuple(map(Candidate, found, marks)), chosen, deeper, elsewhere)


def retriever_lists(numbers: st.SearchStrategy[float] = sane) -> st.SearchStrategy[list[RankedList]]:
    """Up to four retrievers of different names."""
    names = st.lists(st.sampled_from(["semantic", "keyword", "graph", "names"]), unique=True, max_size=4)
    return names.flatmap(lambda chosen: st.tuples(*(retrievers_of(name, numbers) for name in chosen)).map(list))


@st.composite
def tunings(draw: st.DrawFn, **fixed: object) -> Tuning:
    """Any tuning whatever, but for the parameters given."""
    parameters: dict[str, object] = {
        "fusion": draw(st.sampled_from(FUSIONS)),
        "rrf_k": draw(st.floats(1, 100)),
        "semantic_scaling": draw(st.sampled_from(SCALINGS)),
        "keyword_scaling": draw(st.sampled_from(SCALINGS)),
        "min_cosine": draw(st.sampled_from([-1.0, 0.0, 0.5])),
        "min_score": draw(st.sampled_from([0.0, 0.0, 0.01, 0.3])),
        "source_weights": draw(st.sampled_from([{}, {"notes/*": 1.5, "*": 0.5}])),
        "decay": draw(st.booleans()),
        "importance_slows_decay": draw(st.sampled_from([0.0, 1.0])),
        "quality": draw(st.sampled_from(["off", "add", "multiply"])),
        "dedup": draw(st.booleans()),
        "diversity": draw(st.sampled_from([0.0, 0.25, 0.75, 1.0])),
    }
    return Tuning(**(parameters | fixed))


# --- Retrievers -------------------------------------------------------------------------------------------------------


@given(retrievers=retriever_lists(), tuning=tunings(), limit=limits, data=st.data())
def test_the_order_of_the_retrievers_never_matters(
    retrievers: list[RankedList], tuning: Tuning, limit: int, data: st.DataObject
):
    shuffled = data.draw(st.permutations(retrievers))

    here, there = (rank(order, tuning, limit=limit, now=NOW, vectors=VECTORS) for order in (retrievers, shuffled))

    assert here == there


@given(retrievers=retriever_lists(), silent=retrievers_of("silent", sane, weight=0.0), tuning=tunings(), limit=limits)
def test_a_retriever_of_weight_0_equals_an_absent_one(
    retrievers: list[RankedList], silent: RankedList, tuning: Tuning, limit: int
):
    with_it, without = (rank(given, tuning, limit=limit, now=NOW) for given in ([*retrievers, silent], retrievers))

    assert with_it == without


@given(retrievers=retriever_lists(), another=retrievers_of("another", sane), tuning=tunings(fusion="rrf"))
def test_adding_a_retriever_never_lowers_the_rrf_score_of_a_memory(
    retrievers: list[RankedList], another: RankedList, tuning: Tuning
):
    before, after = scores(fuse(retrievers, tuning)), scores(fuse([*retrievers, another], tuning))

    # Retrievers are summed by name, so that one more in between may round differently in the last digit.
    assert all(after[id] >= score - 1e-12 for id, score in before.items())


@given(found=retrievers_of("semantic", sane, weight=1.0), tuning=tunings(fusion="rrf"))
def test_rrf_of_a_single_retriever_keeps_its_order(found: RankedList, tuning: Tuning):
    assert ids(fuse([found], tuning)) == [candidate.memory.id for candidate in found.candidates]


# --- Scores ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fusion", FUSIONS)
@given(retrievers=retriever_lists(wild), tuning=tunings(), limit=limits)
def test_scores_are_finite_whatever_the_retrievers_score(
    fusion: str, retrievers: list[RankedList], tuning: Tuning, limit: int
):
    ranking = rank(retrievers, tuning.with_parameters(fusion=fusion), limit=limit, now=NOW, vectors=VECTORS)

    assert all(math.isfinite(hit.score) for hit in (*ranking.hits, *ranking.dropped))


@pytest.mark.parametrize("scaling", SCALINGS)
@given(numbers=st.lists(wild, max_size=12))
def test_every_scaling_is_finite_whatever_comes_in(scaling: str, numbers: list[float]):
    scaled = scale_all(scaling, numbers)

    assert len(scaled) == len(numbers)
    assert all(math.isfinite(number) for number in scaled)


@pytest.mark.parametrize("scaling", ["min-max", "sum", "distribution", "spread", "saturate"])
@given(numbers=st.lists(wild, max_size=12))
def test_scalings_to_0_and_1_stay_between_them(scaling: str, numbers: list[float]):
    assert all(0.0 <= number <= 1.0 for number in scale_all(scaling, numbers))


@pytest.mark.parametrize("scaling", SCALINGS)
@given(numbers=st.lists(st.floats(0, 30), max_size=12))
def test_no_scaling_turns_an_order_round(scaling: str, numbers: list[float]):
    best_first = sorted(numbers, reverse=True)

    scaled = scale_all(scaling, best_first)

    assert scaled == sorted(scaled, reverse=True)


def check_that_the_changes_of_the_reasons_add_up_to_the_score(ranking: Ranking) -> None:
    for found in (*ranking.hits, *ranking.dropped):
        # A z-score may pass through 1e12 on its way; then the sum is as exact as floats of that size are.
        largest = max(1.0, *(abs(reason.score) for reason in found.why))
        total = math.fsum(reason.change for reason in found.why)
        assert abs(total - found.score) <= 1e-9 * max(largest, abs(found.score))
        assert found.why[-1].score == found.score


def check_that_a_score_shown_never_rises_down_the_list(ranking: Ranking) -> None:
    shown = [hit.score for hit in ranking.hits]

    assert shown == sorted(shown, reverse=True)


@given(retrievers=retriever_lists(), tuning=tunings(min_score=0.3, diversity=0.0), limit=limits)
def test_no_hit_is_below_the_score_floor(retrievers: list[RankedList], tuning: Tuning, limit: int):
    ranking = rank(retrievers, tuning, limit=limit, now=NOW, vectors=VECTORS)

    assert all(hit.score >= 0.3 for hit in ranking.hits)


# --- Which memories --------------------------------------------------------------------------------------------------


def findable(retrievers: list[RankedList], floor: float) -> set[str]:
    """The memories that a retriever with weight found, the semantic retriever only from its floor on."""
    return {
        candidate.memory.id
        for found in retrievers
        for candidate in found.candidates
        if found.weight > 0 and (found.name != "semantic" or floor == -1 or candidate.score >= floor)
    }


def check_that_every_memory_found_is_either_a_hit_or_dropped_and_only_once(ranking: Ranking, found: set[str]) -> None:
    everyone = [hit.id for hit in (*ranking.hits, *ranking.dropped)]

    assert len(everyone) == len(set(everyone))
    assert set(everyone) == found


def check_that_a_dropped_memory_has_a_rank_behind_the_limit_or_says_why_it_has_none(
    ranking: Ranking, limit: int
) -> None:
    verdicts = {"duplicate", "floor"}
    late = [hit.rank for hit in ranking.dropped if hit.rank]
    assert late == list(range(limit + 1, limit + 1 + len(late)))
    assert all(hit.why[-1].step in verdicts for hit in ranking.dropped if not hit.rank)
    assert not any(hit.why[-1].step in verdicts for hit in ranking.hits)


def check_that_the_limit_is_kept_and_the_places_are_counted_from_1(ranking: Ranking, limit: int) -> None:
    assert [hit.rank for hit in ranking.hits] == list(range(1, len(ranking.hits) + 1))
    assert limit <= 0 or len(ranking.hits) <= limit


# One test for several laws: to generate the input takes longer than everything else.
@settings(max_examples=200)
@given(retrievers=retriever_lists(), tuning=tunings(), limit=limits)
def test_every_ranking_obeys_the_laws_of_scores_ranks_and_dropped_memories(
    retrievers: list[RankedList], tuning: Tuning, limit: int
):
    ranking = rank(retrievers, tuning, limit=limit, now=NOW, vectors=VECTORS)

    check_that_the_changes_of_the_reasons_add_up_to_the_score(ranking)
    check_that_a_score_shown_never_rises_down_the_list(ranking)
    check_that_every_memory_found_is_either_a_hit_or_dropped_and_only_once(
        ranking, findable(retrievers, tuning.min_cosine)
    )
    check_that_a_dropped_memory_has_a_rank_behind_the_limit_or_says_why_it_has_none(ranking, limit)
    check_that_the_limit_is_kept_and_the_places_are_counted_from_1(ranking, limit)


@given(retrievers=retriever_lists(), tuning=tunings(), limit=st.integers(1, 8))
def test_nothing_is_dropped_for_the_limit_before_the_result_is_full(
    retrievers: list[RankedList], tuning: Tuning, limit: int
):
    ranking = rank(retrievers, tuning, limit=limit, now=NOW, vectors=VECTORS)

    late = [hit for hit in ranking.dropped if hit.rank]
    assert not late or len(ranking.hits) == limit


@given(retrievers=retriever_lists(), tuning=tunings(diversity=0.0), limit=st.integers(1, 8))
def test_a_smaller_limit_gives_the_head_of_the_whole_list(retrievers: list[RankedList], tuning: Tuning, limit: int):
    few, all = (rank(retrievers, tuning, limit=size, now=NOW, vectors=VECTORS).hits for size in (limit, 0))

    assert few == all[:limit]


@given(retrievers=retriever_lists(), tuning=tunings(dedup=True), limit=limits)
def test_no_two_hits_say_the_same(retrievers: list[RankedList], tuning: Tuning, limit: int):
    texts = [normalised(hit.memory.text) for hit in rank(retrievers, tuning, limit=limit, now=NOW).hits]

    assert len(texts) == len(set(texts))


# --- Steps -----------------------------------------------------------------------------------------------------------

hit_lists = st.lists(st.tuples(st.sampled_from(MEMORIES), sane), unique_by=lambda pair: pair[0].id).map(
    lambda pairs: [hit(item, score) for item, score in sorted(pairs, key=lambda pair: -pair[1])]
)


@given(hits=hit_lists, limit=limits)
def test_diversity_0_is_identity(hits: list, limit: int):
    assert in_mmr_order(hits, 0.0, VECTORS, limit=limit) == hits


@given(hits=hit_lists, diversity=st.floats(0, 1), limit=limits)
def test_diversity_only_reorders(hits: list, diversity: float, limit: int):
    assert sorted(ids(in_mmr_order(hits, diversity, VECTORS, limit=limit))) == sorted(ids(hits))


@given(hits=hit_lists)
def test_dropping_duplicates_twice_drops_no_more_than_once(hits: list):
    kept, _ = drop_duplicates(hits)

    assert drop_duplicates(kept) == (kept, [])


@given(text=st.text())
def test_normalising_pays_no_heed_to_surrounding_white_space(text: str):
    assert normalised(f"  {text}\n") == normalised(text)


@given(retrievers=retriever_lists(), limit=limits)
def test_full_fusion_without_true_scores_from_elsewhere_is_relative_fusion(retrievers: list[RankedList], limit: int):
    bare = [replace(found, elsewhere={}) for found in retrievers]

    # Without a floor: what a floor turns away keeps its true score in full fusion.
    tunings = (plain(fusion=fusion, min_cosine=-1) for fusion in ("full", "relative"))
    full, relative = (rank(bare, tuning, limit=limit, now=NOW) for tuning in tunings)

    assert full == relative
