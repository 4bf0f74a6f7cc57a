"""Long texts are cut where a reader would cut them, and nothing is lost."""

from __future__ import annotations

import math
import unicodedata
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retentive.text import splitting
from retentive.text.splitting import split_text

TEXTS = st.text(alphabet=st.sampled_from("ab.!?。！」#\n\r\t 　é\u0301\u200d👩💻🏽\ud83d\udc69"), max_size=120)
CLUSTERS = st.lists(
    st.sampled_from(["a", "b", " ", "e\u0301", "👩\u200d💻", "👍🏽", "❤\ufe0f", "\ud83d\udc69"]), max_size=60
)


def at_most(limit: int) -> Callable[[str], bool]:
    return lambda part: len(part) <= limit


def visible(text: str) -> str:
    return "".join(text.split())


@given(TEXTS, st.integers(1, 40))
def test_every_part_fits_and_no_visible_character_is_lost(text: str, limit: int) -> None:
    parts = split_text(text, at_most(limit))
    assert all(len(part) <= limit for part in parts)
    assert visible("".join(parts)) == visible(text)


@given(TEXTS)
def test_a_text_that_fits_is_returned_untouched(text: str) -> None:
    assert split_text(text, at_most(len(text))) == [text]


@given(TEXTS, st.integers(0, 2**32 - 1))
def test_a_fits_that_follows_no_rule_still_ends_with_parts_that_fit_or_are_single_characters(
    text: str, seed: int
) -> None:
    def fits(part: str) -> bool:
        return zlib.crc32(part.encode("utf-8", "surrogatepass"), seed) % 3 == 0

    parts = split_text(text, fits)
    assert all(fits(part) or len(part) <= 1 for part in parts)
    assert visible("".join(parts)) == visible(text)


@given(TEXTS.filter(lambda text: text != ""))
def test_when_nothing_fits_every_visible_character_is_its_own_part(text: str) -> None:
    parts = split_text(text, lambda part: False)
    assert parts == (list(visible(text)) or [text[0]])


@given(CLUSTERS, st.integers(3, 12))
def test_a_cut_never_falls_inside_a_character_that_fits(clusters: list[str], limit: int) -> None:
    for part in split_text("".join(clusters), at_most(limit)):
        assert not part or unicodedata.category(part[0]) not in {"Mn", "Cf"}
        assert part[:1] not in {"🏽", "\udc69"}
        assert not part.endswith("\u200d")


@given(st.lists(st.text("abc", min_size=1, max_size=8), min_size=1, max_size=60), st.integers(8, 40))
def test_words_are_packed_until_the_next_one_would_not_fit(words: list[str], limit: int) -> None:
    parts = split_text(" ".join(words), at_most(limit))
    assert " ".join(parts).split() == words
    for part, following in pairwise(parts):
        assert len(part) + 1 + len(following.split()[0]) > limit


def test_a_word_longer_than_the_limit_is_cut_into_full_parts() -> None:
    assert split_text("x" * 25, at_most(10)) == ["x" * 10, "x" * 10, "x" * 5]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One two three.\n\nFour.\nFive six seven", ["One two three.", "Four.\nFive six seven"]),
        ("Intro here we go\n# Title\nbody of it", ["Intro here we go", "# Title\nbody of it"]),
        ("first line of it\nsecond one. third", ["first line of it", "second one. third"]),
        ("It rained a lot. We left early", ["It rained a lot.", "We left early"]),
        ('He said "no." Then he went', ['He said "no."', "Then he went"]),
        (
            "今日は雨でした。明日は晴れるでしょうか？はい、そうです",
            ["今日は雨でした。明日は晴れるでしょうか？", "はい、そうです"],
        ),
        ("a b c d e f g h i j k l m", ["a b c d e f g h i j", "k l m"]),
    ],
)
def test_the_best_boundary_in_the_second_half_is_taken(text: str, parts: list[str]) -> None:
    assert split_text(text, at_most(20)) == parts


def test_a_closing_quote_stays_with_its_sentence() -> None:
    assert split_text("「今日は雨でした。」そして明日", at_most(12)) == ["「今日は雨でした。」", "そして明日"]


def test_a_blank_line_near_the_start_does_not_make_a_tiny_part() -> None:
    assert split_text("Hi\n\n" + "word " * 20, at_most(50))[0] == "Hi\n\n" + "word " * 8 + "word"


def test_a_space_near_the_start_is_taken_before_a_word_is_torn() -> None:
    assert split_text("see https://example.org/a/b", at_most(24)) == ["see", "https://example.org/a/b"]


def test_whitespace_alone_that_does_not_fit_gives_one_part() -> None:
    assert split_text(" \n" * 50, at_most(10)) == [" "]


@settings(max_examples=20)
@given(st.sampled_from(["x", "word ", "Ein Satz. ", "Absatz.\n\n", "。", "a\n ", "e\u0301"]), st.integers(20, 3000))
def test_fits_is_asked_a_logarithmic_number_of_times_a_part(unit: str, limit: int) -> None:
    text = unit * (60_000 // len(unit))
    asked = 0

    def fits(part: str) -> bool:
        nonlocal asked
        asked += 1
        return len(part) <= limit

    parts = split_text(text, fits)
    assert asked <= len(parts) * 2 * math.log2(len(text))


@pytest.mark.parametrize("unit", ["x", ".", "\u0301", "One more sentence of prose. ", "para\n\n", "\n ", "。"])
def test_four_times_the_text_takes_about_four_times_the_work(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = 0

    def counted(function: Callable[..., Any], cost: Callable[..., int]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            nonlocal done
            done += cost(*given)
            return function(*given, **options)

        return call

    def work(size: int) -> int:
        """The characters that `fits` and the patterns are given, and the places that are looked at one by one."""
        nonlocal done
        text, done = "a" + unit * (size // len(unit)) + "z", 0
        parts = split_text(text, counted(at_most(1500), len))
        assert visible("".join(parts)) == visible(text)
        return done

    monkeypatch.setattr(splitting, "_last_cut", counted(splitting._last_cut, lambda text, start, end: end - start))
    monkeypatch.setattr(splitting, "_joined", counted(splitting._joined, lambda text, cut: 1))

    assert work(1_000_000) < 5 * work(250_000)
