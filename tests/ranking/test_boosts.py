from __future__ import annotations

import pytest

from retentive.ranking.rank import SourceWeights, by_age, by_quality, by_source, days_between
from retentive.ranking.tuning import Tuning
from tests.ranking.build import NOW, applied, days_ago, hit, ids, memory, scores

LONG_AGO = days_ago(500_000)

# --- Source ----------------------------------------------------------------------------------------------------------


def weighed(hits, weights):
    kept, removed = by_source(hits, SourceWeights(weights))
    assert removed == []
    return kept


@pytest.mark.parametrize("pattern", ["MEMORY.md", "*.md", "MEMORY.md#L1-L3", "MEM*"])
@pytest.mark.parametrize("source", ["MEMORY.md#L1-L3", "MEMORY.md#L7", "MEMORY.md"])
def test_a_pattern_matches_a_file_whatever_lines_of_it_a_memory_is_from(source, pattern):
    matches = pattern != "MEMORY.md#L1-L3" or source == pattern

    assert scores(weighed([hit(memory("a", source=source), 0.5)], {pattern: 2.0})) == {"a": 1.0 if matches else 0.5}


def test_a_weight_of_0_removes_the_source_and_says_so():
    hits = [hit(memory("note", source="notes/1.md#L1-L3"), 0.4), hit(memory("mail", source="mail/1"), 0.3)]

    kept, [removed] = by_source(hits, SourceWeights({"*.md": 0.0}))

    assert ids(kept) == ["mail"]
    assert (removed.id, removed.why[-1].note) == ("note", "the weight of *.md is 0")


def test_a_source_pattern_multiplies_the_score():
    hits = [hit(memory("note", source="notes/today.md"), 0.4), hit(memory("mail", source="mail/1"), 0.4)]

    assert scores(weighed(hits, {"notes/*": 1.5})) == {"note": pytest.approx(0.4 * 1.5), "mail": 0.4}


def test_the_first_source_pattern_that_matches_counts():
    hits = [hit(memory("a", source="notes/today.md"), 1.0)]

    assert scores(weighed(hits, {"notes/*": 2.0, "*": 0.1})) == {"a": 2.0}
    assert scores(weighed(hits, {"*": 0.1, "notes/*": 2.0})) == {"a": 0.1}


def test_each_source_is_matched_once():
    matched: list[None] = []
    hits = [hit(memory(f"m{number}", source=f"notes/{number % 3}"), 1.0) for number in range(90)]

    by_source(hits, SourceWeights({"notes/*": 2.0}, lambda: matched.append(None)))

    assert len(matched) == 3


def test_source_patterns_mind_case():
    assert scores(weighed([hit(memory("a", source="Notes/1"), 1.0)], {"notes/*": 2.0})) == {"a": 1.0}


def test_a_memory_without_a_source_matches_only_a_pattern_for_anything():
    hits = [hit(memory("a"), 1.0)]

    assert scores(weighed(hits, {"?*": 2.0})) == {"a": 1.0}
    assert scores(weighed(hits, {"*": 2.0})) == {"a": 2.0}


def test_a_source_weight_is_told_and_only_where_it_applied():
    hits = [hit(memory("note", source="notes/1"), 0.4), hit(memory("mail", source="mail/1"), 0.4)]

    note, mail = weighed(hits, {"notes/*": 1.5})

    assert [(reason.step, reason.note, reason.value) for reason in note.why] == [("source", "× 1.5 for notes/*", 1.5)]
    assert note.why[0].change == pytest.approx(0.6 - 0.4)
    assert mail.why == ()


def test_without_source_weights_nothing_changes():
    hits = [hit(memory("note", source="notes/1"), 0.4)]

    assert by_source(hits, SourceWeights({})) == (hits, [])


# --- Age -------------------------------------------------------------------------------------------------------------


def test_decay_halves_a_score_every_thirty_days():
    hits = [hit(memory(f"{age} days", created=days_ago(age)), 0.8) for age in (0, 30, 60, 15)]

    assert scores(applied(by_age, hits, Tuning(decay=True), now=NOW)) == {
        "0 days": pytest.approx(0.8),
        "30 days": pytest.approx(0.8 * 0.5),
        "60 days": pytest.approx(0.8 * 0.25),
        "15 days": pytest.approx(0.8 * 0.5 ** (15 / 30)),
    }


def test_the_half_life_can_be_set():
    hits = [hit(memory("a", created=days_ago(7)), 1.0)]

    assert scores(applied(by_age, hits, Tuning(decay=True, half_life_days=7), now=NOW)) == {"a": pytest.approx(0.5)}


def test_decay_is_off_by_default():
    hits = [hit(memory("a", created=days_ago(3000)), 0.8)]

    assert applied(by_age, hits, Tuning(), now=NOW) == hits


@pytest.mark.parametrize("fields", [{"kind": "identity"}, {"evergreen": True}])
def test_identity_and_evergreen_memories_never_fade(fields: dict[str, object]):
    hits = [hit(memory("a", created=days_ago(3000), **fields), 0.8)]

    assert applied(by_age, hits, Tuning(decay=True), now=NOW) == hits


@pytest.mark.parametrize("kind", ["episodic", "semantic"])
def test_other_kinds_of_memory_fade(kind: str):
    hits = [hit(memory("a", created=days_ago(30), kind=kind), 0.8)]

    assert scores(applied(by_age, hits, Tuning(decay=True), now=NOW)) == {"a": pytest.approx(0.4)}


def test_age_counts_from_when_it_happened_rather_than_from_when_it_was_stored():
    hits = [hit(memory("a", created=NOW, occurred=days_ago(30)), 1.0)]

    assert scores(applied(by_age, hits, Tuning(decay=True), now=NOW)) == {"a": pytest.approx(0.5)}


def test_a_memory_of_the_future_does_not_grow():
    hits = [hit(memory("a", occurred=days_ago(-30)), 1.0)]

    assert scores(applied(by_age, hits, Tuning(decay=True), now=NOW)) == {"a": pytest.approx(1.0)}


def test_important_memories_can_be_made_to_fade_slower():
    hits = [
        hit(memory("vital", created=days_ago(60), importance=1.0), 1.0),
        hit(memory("trivial", created=days_ago(60), importance=0.0), 1.0),
    ]

    faded = scores(applied(by_age, hits, Tuning(decay=True, importance_slows_decay=1.0), now=NOW))

    assert faded == {"vital": pytest.approx(0.5 ** (60 / (30 * 2))), "trivial": pytest.approx(0.5 ** (60 / 30))}


def test_decay_pays_no_heed_to_importance_unless_asked():
    hits = [hit(memory(name, created=days_ago(30), importance=value), 1.0) for name, value in (("a", 1.0), ("b", 0.0))]

    assert scores(applied(by_age, hits, Tuning(decay=True), now=NOW)) == {
        "a": pytest.approx(0.5),
        "b": pytest.approx(0.5),
    }


def test_decay_is_told_with_its_factor_and_the_age():
    [faded] = applied(by_age, [hit(memory("a", created=days_ago(30)), 0.8)], Tuning(decay=True), now=NOW)

    assert [(reason.step, reason.note) for reason in faded.why] == [("decay", "× 0.500 at 30.0 days")]
    assert faded.why[0].change == pytest.approx(-0.4)
    assert faded.why[0].value == pytest.approx(30)


def test_decay_never_lifts_an_old_memory_over_a_new_one_not_even_below_zero():
    # Z-scores are negative for half of any pool; halving one would move it up.
    hits = [hit(memory("new", created=NOW), -0.8), hit(memory("old", created=days_ago(90)), -0.8)]

    faded = scores(applied(by_age, hits, Tuning(decay=True), now=NOW))

    assert faded["old"] <= faded["new"]


def test_a_favoured_source_is_never_pushed_down_not_even_below_zero():
    hits = [hit(memory("note", source="notes/1"), -0.8)]

    assert scores(weighed(hits, {"notes/*": 1.5}))["note"] >= -0.8


def test_days_between_two_times_are_0_where_the_second_comes_first():
    assert days_between(days_ago(1.5), NOW) == pytest.approx(1.5)
    assert days_between(NOW, days_ago(1.5)) == 0.0


# --- Quality ---------------------------------------------------------------------------------------------------------

ADD, MULTIPLY = Tuning(quality="add"), Tuning(quality="multiply")


def test_added_quality_is_80_percent_relevance_5_recency_and_15_importance():
    hits = [
        hit(memory("best", importance=0.2, accessed=days_ago(30)), 0.5),
        hit(memory("half", importance=1.0, accessed=NOW), 0.25),
    ]

    assert scores(applied(by_quality, hits, ADD, now=NOW)) == {
        "best": pytest.approx(0.80 * 1.0 + 0.05 * 0.5 + 0.15 * 0.2),
        "half": pytest.approx(0.80 * 0.5 + 0.05 * 1.0 + 0.15 * 1.0),
    }


def test_added_quality_divides_relevance_by_the_best_in_the_set():
    small = [hit(memory("a"), 0.02), hit(memory("b"), 0.01)]
    large = [hit(memory("a"), 200.0), hit(memory("b"), 100.0)]

    assert scores(applied(by_quality, small, ADD, now=NOW)) == pytest.approx(
        scores(applied(by_quality, large, ADD, now=NOW))
    )


def test_multiplied_quality_is_relevance_times_80_percent_and_20_of_quality():
    hits = [
        hit(memory("best", importance=0.2, accessed=days_ago(30)), 0.5),
        hit(memory("half", importance=1.0, accessed=NOW), 0.25),
    ]

    quality = (0.05 * 0.5 + 0.15 * 0.2) / 0.20
    assert scores(applied(by_quality, hits, MULTIPLY, now=NOW)) == {
        "best": pytest.approx(0.5 * (0.80 + 0.20 * quality)),
        "half": pytest.approx(0.25 * (0.80 + 0.20 * 1.0)),
    }


def test_multiplied_quality_keeps_the_scale_of_the_scores():
    hits = [hit(memory("a", importance=1.0), 1 / 61), hit(memory("b", importance=0.0, accessed=LONG_AGO), 1 / 61)]

    assert scores(applied(by_quality, hits, MULTIPLY, now=NOW)) == {
        "a": pytest.approx(1 / 61),
        "b": pytest.approx(0.80 * 1 / 61),
    }


def test_quality_is_off_by_default_and_changes_nothing():
    hits = [hit(memory("a", importance=0.3), 0.5)]

    assert applied(by_quality, hits, Tuning(), now=NOW) == hits


def test_adding_floats_an_important_but_irrelevant_memory_up_and_multiplying_does_not():
    hits = [
        hit(memory("relevant", importance=0.0, accessed=LONG_AGO), 1.0),
        hit(memory("important", importance=1.0, accessed=NOW), 0.78),
    ]

    added, multiplied = (scores(applied(by_quality, hits, tuning, now=NOW)) for tuning in (ADD, MULTIPLY))

    assert added == {"relevant": pytest.approx(0.80), "important": pytest.approx(0.80 * 0.78 + 0.20)}
    assert multiplied == {"relevant": pytest.approx(0.80), "important": pytest.approx(0.78)}


def test_a_memory_never_used_is_as_recent_as_its_storing():
    hits = [hit(memory("a", created=days_ago(30), importance=0.0), 1.0)]

    assert scores(applied(by_quality, hits, ADD, now=NOW)) == {"a": pytest.approx(0.80 + 0.05 * 0.5)}


def test_recency_counts_the_last_use_and_not_the_age():
    hits = [hit(memory("a", created=days_ago(900), accessed=NOW, importance=0.0), 1.0)]

    assert scores(applied(by_quality, hits, ADD, now=NOW)) == {"a": pytest.approx(0.80 + 0.05 * 1.0)}


def test_the_half_life_of_recent_use_can_be_set():
    hits = [hit(memory("a", accessed=days_ago(7), importance=0.0), 1.0)]

    scored = scores(applied(by_quality, hits, Tuning(quality="add", access_half_life_days=7), now=NOW))

    assert scored == {"a": pytest.approx(0.80 + 0.05 * 0.5)}


def test_quality_without_any_share_of_recency_or_importance_changes_no_score():
    hits = [hit(memory("a", importance=0.0), 0.5), hit(memory("b", importance=1.0), 0.4)]

    tuning = Tuning(quality="multiply", recency_share=0, importance_share=0)

    assert scores(applied(by_quality, hits, tuning, now=NOW)) == {"a": pytest.approx(0.5), "b": pytest.approx(0.4)}


@pytest.mark.parametrize("quality", ["add", "multiply"])
def test_equal_scores_stay_in_order_through_quality(quality: str):
    hits = [hit(memory(name), 0.5) for name in "zyxabc"]

    assert ids(applied(by_quality, hits, Tuning(quality=quality), now=NOW)) == list("zyxabc")
    assert len(set(scores(applied(by_quality, hits, Tuning(quality=quality), now=NOW)).values())) == 1


@pytest.mark.parametrize("quality", ["add", "multiply"])
@pytest.mark.parametrize("score", [0.0, -1.0])
def test_quality_leaves_a_set_without_a_positive_score_alone(quality: str, score: float):
    hits = [hit(memory("a", importance=1.0), score)]

    assert applied(by_quality, hits, Tuning(quality=quality), now=NOW) == hits
    assert applied(by_quality, [], Tuning(quality=quality), now=NOW) == []


def test_low_quality_pushes_a_score_below_zero_further_down():
    hits = [
        hit(memory("best"), 1.0),
        hit(memory("good", importance=1.0, accessed=NOW), -0.5),
        hit(memory("poor", importance=0.0, accessed=LONG_AGO), -0.5),
    ]

    scored = scores(applied(by_quality, hits, MULTIPLY, now=NOW))

    assert scored["good"] == pytest.approx(-0.5)
    assert scored["poor"] == pytest.approx(-0.5 / 0.80)


def test_quality_is_told():
    [added] = applied(by_quality, [hit(memory("a", importance=1.0), 0.5)], ADD, now=NOW)
    [multiplied] = applied(by_quality, [hit(memory("a", importance=1.0), 0.5)], MULTIPLY, now=NOW)

    assert [(reason.step, reason.note) for reason in added.why] == [("quality", "0.800 + 0.200")]
    assert [(reason.step, reason.note) for reason in multiplied.why] == [("quality", "× 1.000 for quality 1.00")]
    assert added.why[0].change == pytest.approx(1.0 - 0.5)


def test_a_best_score_that_is_all_but_0_makes_no_other_score_infinite():
    added = applied(by_quality, [hit(memory("a"), 2.2e-311), hit(memory("b"), 0.0)], ADD, now=NOW)

    assert all(0 <= found.score <= 1 for found in added)
