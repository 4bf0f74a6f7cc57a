"""Relevance: the arithmetic of the estimate, the threshold, and what carries no information."""

from __future__ import annotations

from math import exp, log

import pytest

from retentive.models import Hit, Reason
from retentive.ranking import rank
from retentive.ranking.fusion import fit, fuse
from retentive.ranking.lists import Context, Ranking
from retentive.ranking.rank import pick
from retentive.ranking.relevance import FAR, Calibration, Coefficients, Relevance
from retentive.text.terms import informative_terms
from tests.ranking.build import NOW, memory, plain, retriever

COEFFICIENTS = Coefficients(
    intercept=-10.0, cosine=20.0, background=-8.0, coverage=4.0, missing=-2.0, size=-0.5, own=0.25,
    unrelated=0.5, spread=0.05,
)  # fmt: skip
CALIBRATION = Calibration(COEFFICIENTS, background=0.5)


def hit(id: str, text: str, cosine: float, score: float = 1.0) -> Hit:
    return Hit(memory(id, text), score, (Reason("semantic", score, score, 1, cosine, ""),))


def estimate(query: str, hits: list[Hit], calibration: Calibration = CALIBRATION) -> Relevance:
    cosines = sorted((one.why[0].value or 0.0 for one in hits), reverse=True)
    return Relevance(informative_terms(query), hits, cosines, calibration)


def odds(probability: float) -> float:
    return log(probability / (1 - probability))


HITS = [hit("near", "Mara mended the boat", 0.8, 0.9), hit("far", "nothing of the kind", 0.7, 0.5)]


def test_the_relevance_of_an_answer_is_the_formula_of_its_best_cosine_and_coverage():
    found = estimate("who mended the boat?", HITS)

    # Both informative terms, of two and one more; no name; two memories compared.
    logit = -10.0 + 20.0 * 0.8 - 8.0 * 0.5 + 4.0 * 2 / 3 - 0.5 * log(3)
    assert found.answer == pytest.approx(1 / (1 + exp(-logit)))
    assert found.of(HITS[0]).relevance == pytest.approx(found.answer)


def test_a_hit_with_less_evidence_has_less_relevance_and_its_reason_tells_why():
    found = estimate("who mended the boat?", HITS)

    rated = found.of(HITS[1])

    lag = 20.0 * 0.1 + 4.0 * 2 / 3
    assert odds(rated.relevance or 0) == pytest.approx(odds(found.answer) - 0.25 * lag - max(lag - FAR, 0))
    assert rated.why[-1].step == "relevance"
    assert rated.why[-1].change == 0.0
    assert "cosine 0.70, the best 0.80, unrelated texts 0.50; 0 of 2 terms" in rated.why[-1].note


def test_no_hit_is_more_relevant_than_the_answer():
    hits = [hit("a", "the boat", 0.6), hit("b", "Mara mended it", 0.9), hit("c", "boat and boats mended", 0.3)]
    found = estimate("who mended the boat?", hits)

    assert all((found.of(one).relevance or 1) <= found.answer for one in hits)


def test_a_name_in_the_query_that_no_hit_contains_lowers_the_relevance():
    known, unknown = estimate("has Mara mended the boat?", HITS), estimate("has Tove mended the boat?", HITS)

    # The name counts as a term of the query, too: three terms and one more instead of two found.
    assert odds(known.answer) - odds(unknown.answer) == pytest.approx(2.0 + 4.0 * (3 / 4 - 2 / 4))


@pytest.mark.parametrize("shift", [-0.3, 0.15])
def test_for_another_model_only_the_distance_from_unrelated_texts_counts(shift):
    half = [hit("near", "Mara mended the boat", 0.5 + 0.15 + shift), hit("far", "nothing", 0.5 + 0.1 + shift)]
    other = Calibration(COEFFICIENTS, background=0.5 + shift, scale=2.0)

    same = [hit("near", "Mara mended the boat", 0.8), hit("far", "nothing", 0.7)]
    assert estimate("who mended the boat?", half, other).answer == pytest.approx(
        estimate("who mended the boat?", same).answer
    )


def test_hits_below_min_relevance_are_dropped_and_the_reason_says_so():
    found = estimate("who mended the boat?", HITS)
    least = (found.answer + (found.of(HITS[1]).relevance or 0)) / 2

    ranking = pick(Ranking(tuple(HITS)), plain(min_relevance=least), limit=5, relevance=found)

    assert [one.id for one in ranking.hits] == ["near"]
    [dropped] = ranking.dropped
    assert dropped.rank == 0
    assert dropped.why[-1].step == "min_relevance"
    assert dropped.why[-1].note == f"min_relevance is {least:g}"


def test_a_dropped_hit_makes_room_for_a_relevant_one_after_the_limit():
    hits = [hit("odd", "nothing", 0.2, 0.9), hit("right", "Mara mended the boat", 0.8, 0.4)]
    found = estimate("who mended the boat?", hits)

    ranking = pick(Ranking(tuple(hits)), plain(min_relevance=0.3), limit=1, relevance=found)

    assert [one.id for one in ranking.hits] == ["right"]


def test_in_a_script_without_blanks_half_of_the_overlapping_pairs_cover_a_query():
    terms = informative_terms("表姐多大年纪")

    assert [term.text for term in terms] == ["表姐", "姐多", "多大", "大年", "年纪"]
    assert sum(term.words for term in terms) == 3

    def coverage(text: str) -> float:
        return estimate("表姐多大年纪", [hit("a", text, 0.7)]).features.coverage

    assert coverage("我表姐的年纪") == 2 / 4
    assert coverage("表姐多大年纪了") == 3 / 4  # as three words of three would be


def test_greetings_and_stop_words_are_no_informative_terms():
    assert [term.text for term in informative_terms("hello, how do I get into the house?")] == ["hous"]
    assert informative_terms("thanks!") == informative_terms("is it on") == informative_terms("你好") == ()
    assert [term.text for term in informative_terms("有没有狗？")] == ["狗"]


def test_a_term_is_found_with_another_ending_but_not_inside_a_longer_word():
    [boat] = informative_terms("boats")

    assert boat.occurs("two boats, mended")
    assert not boat.occurs("the lifeboat")
    assert not boat.occurs("boatbuilding")


def test_a_neighbour_below_the_semantic_floor_does_not_enter():
    found, beside = memory("found", session="s", position=0), memory("beside", session="s", position=1)
    semantic = retriever("semantic", (found, 0.9), elsewhere={"beside": 0.1})
    context = Context((beside,), {"found": (None, "beside"), "beside": ("found", None)})
    tuning = plain(fusion="full", neighbour_weight=0.5, session_weight=0.5)

    def ids(floor: float) -> list[str]:
        wanted = tuning.with_parameters(min_cosine=floor)
        return [one.id for one in rank([semantic], wanted, limit=5, now=NOW, context=context).hits]

    assert ids(0.05) == ["found", "beside"]
    assert ids(0.2) == ["found"]


def test_the_only_memory_of_a_store_does_not_score_zero():
    assert fit("spread", [0.6], min_score_range=0.12)(0.6) == 1.0
    assert fit("spread", [0.6, 0.57], min_score_range=0.12)(0.57) == pytest.approx(0.75)


def test_terms_that_most_memories_have_carry_no_weight_and_the_reason_shows_the_factor():
    common = [(f"k{at}", 1e-6 * (1 + at / 20)) for at in range(12, 0, -1)]
    semantic = retriever("semantic", *((f"k{at}", at / 12) for at in range(12, 0, -1)))
    tuning = plain(fusion="full", min_lead=0.4)

    hits = fuse([semantic, retriever("keyword", *common)], tuning)

    assert all(reason.change == 0.0 for one in hits for reason in one.why if reason.step == "keyword")


def test_the_factor_of_the_keyword_weight_is_in_the_reason_and_the_changes_add_up():
    alike = retriever("keyword", *((f"k{at}", 5.0 if at == 1 else 4.5) for at in range(1, 13)))
    semantic = retriever("semantic", ("k3", 0.9), ("k1", 0.4))
    tuning = plain(fusion="full", min_lead=0.4, keyword_scaling="max")

    hits = fuse([semantic, alike], tuning)

    first = next(one for one in hits if one.id == "k1")
    [reason] = [one for one in first.why if one.step == "keyword"]
    assert reason.change == pytest.approx(0.5 * 0.25 * 1.0)  # (1 − 4.5 / 5) / 0.4
    assert reason.note == "0.50 × 0.25 for how specific the terms are × 1.000, from 5.000"
    assert all(one.score == pytest.approx(sum(reason.change for reason in one.why)) for one in hits)


def test_the_reasons_of_a_score_come_before_that_of_the_relevance_which_changes_nothing():
    ranking = pick(Ranking(tuple(HITS)), plain(), limit=5, relevance=estimate("who mended the boat?", HITS))

    for hit, given in zip(ranking.hits, HITS, strict=True):
        assert [reason.step for reason in hit.why] == [*(reason.step for reason in given.why), "relevance"]
        assert hit.why[-1].score == hit.score
