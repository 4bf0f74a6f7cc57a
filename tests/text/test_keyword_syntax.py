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
