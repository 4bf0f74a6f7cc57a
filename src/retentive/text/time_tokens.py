"""Turn a text into the words of time in it, in the one of six languages of which it has most words.

A word or phrase of the tables (`time_words`) becomes its sort and value. A number, a date and a sign have their own
sorts: `y` a year, `Y` one that is marked as such, `d` a date, `q` a month of a year, `h` one half, `c` a comma. `x` is
any other word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from typing import NamedTuple

from retentive.text.language import FUNCTION_WORDS, STOP_WORDS
from retentive.text.normal_form import folded_text
from retentive.text.time_words import TABLES, Table

Sorted = tuple[str, float]
"""The sort and the value of a word, as in `time_words`."""


class Word(NamedTuple):
    """A word of a query, with its place in the text."""

    sort: str
    value: float
    start: int
    end: int
    written: str
    date: tuple[int, int, int] = (0, 0, 0)


class Lexicon(NamedTuple):
    """The words of time of a language, its function words, and the longest phrase in words."""

    table: Table
    words: dict[str, tuple[Sorted, ...]]
    functions: frozenset[str]
    longest: int

    def count(self, words: Sequence[str]) -> int:
        """How many words are of this language; those of time count twice."""
        return sum(2 if word in self.words else word in self.functions for word in words)


@cache
def lexicon(language: str) -> Lexicon:
    """The lexicon of a language, made at its first use."""
    table = TABLES[language]
    words: dict[str, tuple[Sorted, ...]] = {}
    for sort, listed in table.enumerations.items():
        first = 0 if sort in "UWSPHD" else 1
        for value, alternatives in enumerate(listed.split(), first):
            words |= dict.fromkeys(alternatives.split("/"), ((sort, value),))
    for sort, listed in table.words.items():
        words |= dict.fromkeys(listed.split(), ((sort, 1.0),))
    for phrase, stands_for in table.phrases.items():
        words[phrase.replace(" ", "_")] = tuple((one[0], float(one[1:] or 0)) for one in stands_for.split())
    words.pop("-", None)
    functions = STOP_WORDS if language == "english" else FUNCTION_WORDS.get(language, "").split()
    return Lexicon(table, words, frozenset(functions), max(word.count("_") for word in words) + 1)


ANCHORS = "MmWwUSPHDRN"
"""Sorts of words without one of which, or a digit, a text has no time."""


@cache
def _anchors() -> tuple[frozenset[str], re.Pattern[str]]:
    """The words of the languages with blanks, and a pattern for those of Chinese."""
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for language in TABLES:
        for word, stands_for in lexicon(language).words.items():
            if any(sort in ANCHORS for sort, _ in stands_for):
                found[language == "chinese"].add(max(word.split("_"), key=len))
    return frozenset(found[False]), re.compile("|".join(map(re.escape, found[True])))


_LETTERS = re.compile(r"[^\W\d_]+")
_CJK = re.compile("[\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff]")
_DATE = (
    r"(?P<date>(?:19|20)\d\d-\d\d?-\d\d?(?!\d)|\d\d?(?P<mark>[./])\d\d?(?P=mark)(?:(?:19|20)?\d\d)(?![\w/%-]|[.,]\d))"
)
_TOKEN = re.compile(
    rf"(?<![\w.,:/$€£-])(?:{_DATE}|(?P<month>(?:19|20)\d\d-\d\d)(?![\w-])"
    r"|(?P<number>\d{1,4})(?P<th>st|nd|rd|th|er|re|eme|[ºª])?(?![\w%:/]|\.\d|,(?!(?:19|20)\d\d)\d|-\w))"
    r"|(?P<word>[^\W\d_]++(?![\d_]))|(?P<chunk>[\w$€£%][^\s,;!?()]*)|(?P<sign>[^\w\s])"
)
_SIGNS = {",": "c", "'": "'", "\u2019": "'", "\u2013": "-", "\u2014": "-"}


class Tokens(NamedTuple):
    """The words of a text, and the table of its language."""

    words: list[Word]
    table: Table


def tokens(text: str, *, month_first: bool) -> Tokens | None:
    """The words of a text; None if it has no word of time. `month_first`: 5/8/2023 is in May."""
    letters = _LETTERS.findall(folded_text(text))
    words, chinese = _anchors()
    if words.isdisjoint(letters) and not any(map(str.isdigit, text)) and (text.isascii() or not chinese.search(text)):
        return None
    language = _language(text, letters)
    return Tokens(_words(text, language, month_first=month_first), lexicon(language).table)


def _language(text: str, words: list[str]) -> str:
    """The language of which the text has most words; English if several have as many."""
    if _CJK.search(text):
        return "chinese"
    return max(TABLES, key=lambda language: lexicon(language).count(words))


def _words(text: str, language: str, *, month_first: bool) -> list[Word]:
    """The words of a text with their sorts; those that mean nothing here are `x`."""
    pieces = list(_pieces(text, language, month_first=month_first))
    _, names, functions, longest = lexicon(language)
    found: list[Word] = []
    at = 0
    while at < len(pieces):
        piece = pieces[at]
        if piece.sort != "x":
            found.append(piece)
            at += 1
            continue
        folded = [folded_text(one.written) for one in pieces[at : at + longest]]
        for size in range(len(folded), 0, -1):
            stands_for = names.get("_".join(folded[:size]))
            if stands_for is not None:
                end, written = pieces[at + size - 1].end, text[piece.start : pieces[at + size - 1].end]
                found += (Word(sort, value, piece.start, end, written) for sort, value in stands_for if sort != "z")
                break
        else:
            size = 1
            found.append(piece._replace(sort="Q") if folded[0] in functions else piece)
        at += size
    return list(_joined(found, language))


def _pieces(text: str, language: str, *, month_first: bool) -> Iterator[Word]:
    """Dates, numbers, words and signs. In Chinese, a word is the longest phrase of the table."""
    pattern = _chinese_token() if language == "chinese" else _TOKEN
    for match in pattern.finditer(text):
        kind, written, (start, end) = match.lastgroup, match[0], match.span()
        if match["date"]:
            day = _numeric_date(match["date"], month_first=month_first)
            yield Word("d" if day else "x", 0, start, end, written, day or (0, 0, 0))
        elif match["month"]:
            yield Word("q", 0, start, end, written, (int(written[:4]), int(written[5:]), 1))
        elif match["number"]:
            number, ordinal = int(match["number"]), bool(match["th"])
            sort = "o" if ordinal else "y" if 1900 <= number < 2100 else "n"
            yield Word(sort, number, start, end, written)
        elif kind == "sign":
            spaced = text[start - 1 : start] == " " and text[end : end + 1] == " "
            sign = "-" if written == "-" and spaced else _SIGNS.get(written, "." if written == "." else "")
            is_part = (written == "-" and not spaced) or (sign == "'" and language != "english")
            if not is_part:  # of a word: "mid-May", "l'été"
                yield Word("x" if sign in ("", "'") else sign, 0, start, end, written)
        else:
            yield Word("x", 0, start, end, written)


@cache
def _chinese_token() -> re.Pattern[str]:
    phrases = sorted(lexicon("chinese").words, key=len, reverse=True)
    return re.compile(
        rf"(?P<word>{'|'.join(map(re.escape, phrases))})|(?<![\w.,:/$-]){_DATE}"
        r"|(?P<month>(?:19|20)\d\d-\d\d)(?![\w-])|(?P<number>\d{1,4})(?P<th>\b\B)?|(?P<chunk>[A-Za-z]\w*)|(?P<sign>\S)"
    )


def _numeric_date(written: str, *, month_first: bool) -> tuple[int, int, int] | None:
    """Year, month and day of 2023-05-08, 8.5.2023 or 8/5/23; None if it is none."""
    a, b, c = (int(number) for number in re.split(r"[./-]", written))
    if a > 31:
        year, month, day = a, b, c
    else:
        american = ("/" in written and month_first and a <= 12) or b > 12
        year, month, day = (c, a, b) if american else (c, b, a)
        year += (2000 if year < 70 else 1900) if year < 100 else 0
    try:
        date(year, month, day)
    except ValueError:
        return None
    return year, month, day


def _joined(words: list[Word], language: str) -> Iterator[Word]:
    """Join "twenty" and "first", and in German a number and the dot after it."""
    at = 0
    while at < len(words):
        word, following = words[at], words[at + 1] if at + 1 < len(words) else None
        at += 1
        if following and word.sort == "n" and following.sort in "no" and _is_compound(word, following):
            written = f"{word.written} {following.written}"
            word = Word(following.sort, word.value + following.value, word.start, following.end, written)
            at += 1
        elif following and language == "german" and word.sort == "n" and following.sort == "." and at + 1 < len(words):
            word = word._replace(sort="o", end=following.end)
            at += 1
        yield word


def _is_compound(tens: Word, ones: Word) -> bool:
    return tens.value in (20, 30) and ones.value < 10 and tens.written.isalpha() and ones.written.isalpha()
