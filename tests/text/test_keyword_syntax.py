"""Phrases, prefixes, exclusions and OR in keyword queries."""

from __future__ import annotations

import pytest

from retentive.text.keyword_syntax import parse_keyword_query

TEXTS = [
    "we drank green tea",
    "the tea was green",
    "black tea with milk",
    "deployment of the auth-service failed",
    "Café in Zürich",
]


def matching(query: str) -> list[str]:
    parsed = parse_keyword_query(query)
    assert parsed is not None
    return [text for text in TEXTS if parsed.matches(text)]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('"green tea"', [0]),
        ('"Green Teas"', [0]),
        ('"green tea" OR "black tea"', [0, 2]),
        ('"green tea" "black tea"', []),
        ('"green tea" milk', [0]),
        ("tea -milk", [0, 1]),
        ('tea -"green tea"', [1, 2]),
        ("tea -gre*", [2]),
        ("deploym*", [3]),
        ("tea OR deploym*", [0, 1, 2, 3]),
        ("milk | failed", [2, 3]),
        ('"auth service"', [3]),
        ("zur*", [4]),
        ("CAF*", [4]),
        ("-tea", []),
    ],
)
def test_each_operator_selects_what_it_says(query, expected):
    assert matching(query) == [TEXTS[at] for at in expected]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("绿茶", "我喜欢绿茶和咖啡"),
        ("緑茶", "私は毎朝緑茶を飲みます"),
        ("녹차", "나는 녹차를 좋아해"),
        ("зелёный чай", "мы пили зелёный чай с молоком"),
        ("die Häuser", "gestern haben wir die Häuser der Stadt gesehen"),
        ("les chevaux", "nous avons vu les chevaux dans le pré"),
        ("الشاي الأخضر", "أحب الشاي الأخضر مع النعناع"),
        ("हरी चाय", "मुझे हरी चाय पसंद है"),
    ],
)
def test_phrases_and_exclusions_work_in_every_language(words, sentence):
    first = sentence.split()[0]

    assert parse_keyword_query(f'"{words}"').matches(sentence)
    assert not parse_keyword_query(f'"{words}"').matches(sentence.replace(words, "…"))
    assert not parse_keyword_query(f'{first} -"{words}"').matches(sentence)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("咖啡 -绿茶", "我喜欢绿茶和咖啡"),
        ("чай -молоком", "чай с молоком"),
        ("haus -häuser", "das Haus und die Häuser"),
    ],
)
def test_an_excluded_word_is_found_as_it_is_written(query, text):
    assert not parse_keyword_query(query).matches(text)


def test_vowel_signs_tell_words_apart():
    parsed = parse_keyword_query("घर -में")

    assert parsed.matches("घर मैं")
    assert not parsed.matches("घर में")


def test_a_word_is_still_found_by_its_stem_beside_an_operator():
    assert parse_keyword_query("молоко -сахар").matches("чай с молоком")


@pytest.mark.parametrize(
    ("query", "text", "unmet"),
    [
        ("tea -milk", "tea with milk", "it has milk, and the query excludes it (-milk)"),
        ('"green tea" OR "black tea"', "white tea", 'it does not have "green tea" or "black tea"'),
        ("deploym*", "we deploy", "it does not have deploym*"),
        ("tea -milk", "green tea", None),
        ("tea -milk", "coffee", None),
    ],
)
def test_an_operator_that_a_text_does_not_fulfil_is_named(query, text, unmet):
    assert parse_keyword_query(query).unmet_by(text) == unmet


def test_what_a_query_is_about_has_no_excluded_words_and_a_prefix_once():
    terms = parse_keyword_query("tea mo* -milk").informative_terms

    assert [term.text for term in terms] == ["tea", "mo"]
    assert [term.occurs("every morning") for term in terms] == [False, True]


@pytest.mark.parametrize("query", ["green tea", "well-known", "3 - 2", "a * b", "or", "what is x-ray?", ""])
def test_a_text_without_operators_is_left_as_it_is(query):
    parsed = parse_keyword_query(query)

    assert parsed is None or not (parsed.excluded or parsed.required or parsed.prefixes)


@pytest.mark.parametrize(
    "query",
    [
        '"',
        '""',
        "-",
        "*",
        "--",
        "OR",
        "OR OR",
        '-""',
        '"a',
        'a"b"c',
        "NEAR(",
        "a:b*",
        "^x",
        "(",
        "AND",
        "-*",
        "\0*",
        "ß*",
    ],
)
def test_no_text_is_a_syntax_error(query):
    parsed = parse_keyword_query(query)

    assert parsed is None or parsed.matches("anything at all") in (True, False)
