from __future__ import annotations

import unicodedata

import pytest

from retentive.pipeline.remember import content_hash
from retentive.ranking.rank import drop_duplicates
from retentive.text.normal_form import normalised
from tests.ranking.build import hit, ids, memory


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Likes Tea", "likes tea"),
        ("STRASSE", "straße"),
        ("likes  tea\n", "\tlikes tea"),
        ("likes\u00a0tea", "likes tea"),
        ("Likes tea!", "“likes tea …”"),
        ("likes_tea", "likes tea"),
        (unicodedata.normalize("NFD", "Café"), unicodedata.normalize("NFC", "café")),
        ("ｆｕｌｌ ｗｉｄｔｈ", "full width"),
        ("ﬁne", "fine"),
        ("東京。", "東京"),
    ],
)
def test_case_white_space_punctuation_and_unicode_form_make_no_difference(one: str, other: str):
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("likes tea", "likes teas"),
        ("likes tea", "tea likes"),
        ("café", "cafe"),
        ("paid 100", "paid 1000"),
        ("東京", "京都"),
        ("👍", "👎"),
        ("?!", "..."),
        ("", "👍"),
    ],
)
def test_texts_that_say_different_things_stay_different(one: str, other: str):
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Great 👍", "Great 👎"),
        ("I write C", "I write C++"),
        ("paid 5 $", "paid 5 €"),
    ],
)
def test_a_symbol_is_no_punctuation_and_makes_a_difference(one: str, other: str):
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ฉันรักป่า", "ฉันรักป้า"),  # Thai tone marks: I love the forest, I love my aunt
        ("राम का", "राम की"),  # Devanagari vowel signs
    ],
)
def test_a_vowel_sign_or_tone_mark_is_part_of_the_word(one: str, other: str):
    assert normalised(one) != normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It was -5 degrees", "It was 5 degrees"),
        ("It was \u22125 degrees", "It was 5 degrees"),
        ("balance: -$5", "balance: $5"),
        ("x != y", "x = y"),
        ("!done", "done"),
        ("run it with -v", "run it with v"),
        ("take 3.5 mg", "take 3-5 mg"),
        ("take .5 mg", "take 5 mg"),
        ("at 10:30", "at 10 30"),
        ("2*3", "2 3"),
        ("Great :)", "Great :("),
    ],
)
def test_punctuation_that_changes_the_meaning_makes_a_difference(one: str, other: str):
    texts = [memory("a", one), memory("b", other)]
    stored = [one._replace(content_hash=content_hash(one.text)) for one in texts]

    for memories in (texts, stored):
        assert ids(drop_duplicates([hit(memory, 0.5) for memory in memories])[0]) == ["a", "b"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It was -5 degrees!", "it was -5 degrees"),
        ("- milk and bread", "milk, and bread"),
        ("* milk **and** bread", "milk and bread"),
        ("a well-known place", "a well known place"),
        ("Wait! What?", "wait what"),
        ("he said: no - never", "he said no never"),
    ],
)
def test_a_bullet_a_hyphen_or_an_exclamation_mark_makes_none(one: str, other: str):
    assert ids(drop_duplicates([hit(memory("a", one), 0.9), hit(memory("b", other), 0.5)])[0]) == ["a"]


def test_a_hit_that_repeats_a_higher_one_is_left_out_and_the_order_kept():
    hits = [
        hit(memory("a", "Likes tea."), 0.9),
        hit(memory("b", "Lives in Rome"), 0.8),
        hit(memory("c", "likes TEA"), 0.7),
        hit(memory("d", "Has a dog"), 0.6),
    ]

    kept, dropped = drop_duplicates(hits)

    assert ids(kept) == ["a", "b", "d"]
    assert ids(dropped) == ["c"]


def test_a_hit_left_out_says_whom_it_repeats_and_keeps_its_score():
    _, [dropped] = drop_duplicates([hit(memory("a", "Tea"), 0.9), hit(memory("b", "tea"), 0.7)])

    assert (dropped.score, dropped.why[-1].step, dropped.why[-1].change) == (0.7, "duplicate", 0.0)
    assert dropped.why[-1].note == "same text as a"


def test_all_repetitions_of_one_text_point_to_the_highest():
    _, dropped = drop_duplicates([hit(memory(name, "Tea"), 0.5) for name in "abc"])

    assert [drop.why[-1].note for drop in dropped] == ["same text as a"] * 2


def test_hits_that_all_differ_are_all_kept_as_they_are():
    hits = [hit("a", 0.9), hit("b", 0.8)]

    assert drop_duplicates(hits) == (hits, [])
    assert drop_duplicates([]) == ([], [])
