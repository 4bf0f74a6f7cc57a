"""Turn text into index terms and query terms, the same for every store.

Case and diacritics are folded and English words stemmed. Words of a text in another language have a second term, their
stem in that language, beside the English one: both sides of a match need not be detected. An identifier
(`ERR_CONN_42`, `v2.13.0`, `auth-service/login`) is one term as typed, beside its pieces. Runs of CJK give single
characters and pairs, an emoji is a term of its own. A term contains no white space and no quote, so it can be handed to
any full-text engine as one token.
"""

from __future__ import annotations

import re
import threading
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

import Stemmer

from retentive.text.language import STOP_WORDS, detect
from retentive.text.normal_form import folded_text, folded_words

MAX_TERM = 100
MAX_QUERY_TERMS = 64
MAX_QUERY_LENGTH = 20_000

LAST = chr(0x10FFFF)
"""Sorts after every character of a term."""

_JOINERS = r"\-_./:@#+"
_CJK = (
    "\u1100-\u11ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Hangul letters; Thai, Lao, Burmese, Khmer: no spaces
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_SYMBOLS = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_ASCII_CHUNK = re.compile(rf"[a-z0-9]+(?:['{_JOINERS}][a-z0-9]+)*(?:\+\+|#)?")
_WRITTEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_SPLIT = re.compile(rf"[{_JOINERS}]+")
_ENDINGS = frozenset(("s", "d", "m", "ll", "re", "ve"))


class _Stems(dict[str, str]):
    """The stems of words in one language, computed at first use. The stemmer itself is not thread-safe."""

    def __init__(self, language: str) -> None:
        self._stemmer = Stemmer.Stemmer(language, 0)
        self._lock = threading.Lock()

    def __missing__(self, word: str) -> str:
        with self._lock:
            stem: str = self._stemmer.stemWord(word)
        if len(self) > 200_000:
            self.clear()
        self[word] = stem
        return stem


# Patterns with many ranges of characters take as long to compile as a recall; a text in ASCII needs none of them.


@cache
def _any_chunk() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<cjk>[{_CJK}]+)|(?P<symbol>[{_SYMBOLS}])"
        rf"|(?P<word>[^\W_{_CJK}]+(?:['{_JOINERS}][^\W_{_CJK}]+)*(?:\+\+|#)?)"
    )


@cache
def _any_whole_chunk() -> re.Pattern[str]:
    """As `_any_chunk`, with the combining marks of a word inside it: vowel signs do not split words."""
    marks = "".join(mark for mark in map(chr, range(0x370, 0xFE00)) if unicodedata.category(mark) in ("Mn", "Mc"))
    letters = rf"[^\W_{_CJK}]+(?:[{marks}]+[^\W_{_CJK}]*)*"
    return re.compile(
        rf"(?P<cjk>[{_CJK}]+)|(?P<symbol>[{_SYMBOLS}])|(?P<word>{letters}(?:['{_JOINERS}]{letters})*(?:\+\+|#)?)"
    )


@cache
def _cjk_run() -> re.Pattern[str]:
    return re.compile(rf"[{_CJK}]{{2}}")


@cache
def _word_pattern() -> re.Pattern[str]:
    marks = r"\u0300-\u036f\u0900-\u097f\u0b80-\u0bff\u064b-\u0652"
    return re.compile(rf"[^\W\d_{_CJK}{_SYMBOLS}]+(?:[{marks}]+[^\W\d_]*)*")


def _chunks(folded: str) -> Iterator[re.Match[str]]:
    """The runs of a folded text: the last group of a match is `cjk`, `symbol`, or else a word."""
    return (_ASCII_CHUNK if folded.isascii() else _any_chunk()).finditer(folded)


_stems = _Stems("english")
_other_stems: dict[str, _Stems] = {}


def index_terms(text: str) -> list[str]:
    """Return every term of a text in order, as a store indexes it."""
    terms: list[str] = []
    if text.isascii():
        chunks = _ASCII_CHUNK.findall(text.lower())
        for chunk in chunks:
            if chunk.isalpha():
                terms.append(_stems[chunk[:MAX_TERM]])
            else:
                _add_chunk(chunk, terms)
        return terms + _language_terms(text, chunks)
    folded = folded_text(text)
    for match in _chunks(folded):
        if match.lastgroup == "cjk":
            run = match[0]
            terms.extend(run)
            terms.extend(run[at : at + 2] for at in range(len(run) - 1))
        elif match.lastgroup == "symbol":
            terms.append(match[0])
        else:
            _add_chunk(match[0], terms)
    return terms + _language_terms(text, folded.split())


def sequence_terms(text: str) -> list[str]:
    """Return the terms of a text as they follow one another: no pairs of CJK characters, no stems by language.

    Part of a text gives the same terms as it does inside the text. No store keeps these.
    """
    folded = folded_text(text)
    terms: list[str] = []
    for match in (_ASCII_CHUNK if folded.isascii() else _any_whole_chunk()).finditer(folded):
        if match.lastgroup == "cjk":
            terms.extend(match[0])
        elif match.lastgroup == "symbol":
            terms.append(match[0])
        else:
            _add_chunk(match[0], terms)
    return terms


@lru_cache(maxsize=512)
def query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms of a query in order, without stop words unless there is nothing else."""
    found: dict[str, bool] = {}
    text = text[:MAX_QUERY_LENGTH]
    folded = folded_text(text)
    for match in _chunks(folded):
        chunk = match[0]
        if match.lastgroup == "cjk" and len(chunk) > 1:
            found.update((chunk[at : at + 2], True) for at in range(len(chunk) - 1))
        elif match.lastgroup in ("cjk", "symbol"):
            found[chunk] = True
        else:
            terms: list[str] = []
            _add_chunk(chunk, terms)
            informative = any(piece not in STOP_WORDS for piece in _split_apostrophes(chunk))
            found.update((term, informative or found.get(term, False)) for term in terms)
        if len(found) >= 8 * MAX_QUERY_TERMS:
            break
    specific = [term for term, informative in found.items() if informative] or list(found)
    return tuple(dict.fromkeys(specific + _language_terms(text, folded.split())))


_SOCIAL_WORDS = """
    hello hi hey thanks thank thx ok okay yes yeah yep nope bye goodbye good great morning evening night sorry cheers
    welcome nice cool sure hmm haha lol
"""
SOCIAL_WORDS = frozenset(_SOCIAL_WORDS.split())
"""English words of greetings and thanks, which ask for nothing."""

MOST_KEYWORDS = 4


def is_keywords(text: str) -> bool:
    """Whether a query is a few words of content, such as "plumber appointment": no question and no instruction."""
    words = folded_words(text)
    plain = text.isascii() and "?" not in text and 0 < len(words) <= MOST_KEYWORDS
    return plain and not any(word in STOP_WORDS or word in SOCIAL_WORDS for word in words)


_FUNCTION_CHARACTERS = re.compile(
    "[的了吗呢吧啊呀么是我你您他她它们这那哪谁什怎几何请和与就都也很还要会能可把被在有没不个为所以谢好]"
)
"""Chinese characters that alone do not tell what a query is about."""

_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]+")
"""In a query, a capital after a word and a blank."""

_TOKEN = re.compile(r"\w+(?:[-_./#]\w+)*")
_QUANTITY = re.compile(r"\d{1,4}(?:[^\W\d_]{1,3}|(?:-[^\W\d_]+)+)?|\d{1,4}[-./]\d{1,4}(?:[-./]\d{2,4})?")
"""Numbers that are no identifiers: `42`, `21st`, `5pm`, `2-year-old`, `3.5`, `2026-05-08`."""

MAX_ENDING = 4
"""The longest ending after a stem: `run` in `running`."""


class InformativeTerm(NamedTuple):
    """A term that tells what a query is about: the start of a word, or characters that may stand anywhere.

    A name is a word with a capital that does not begin a sentence. `words` is how many words of the query it stands
    for: in a script without blanks, terms are overlapping pairs of characters, about two for each word. A prefix is
    followed by any ending.
    """

    text: str
    is_word: bool
    is_name: bool = False
    words: float = 1.0
    is_prefix: bool = False

    def occurs(self, folded: str) -> bool:
        """Whether it is in a folded text: as a word with any ending of a few letters, or as characters."""
        text = self.text
        at = folded.find(text)
        if not self.is_word:
            return at >= 0
        while at >= 0:
            end = at + len(text)
            ending = folded[end : end + MAX_ENDING + 1]
            is_long = len(ending) > MAX_ENDING and ending.isalnum()
            if not (at and folded[at - 1].isalnum()) and (self.is_prefix or not is_long):
                return True
            at = folded.find(text, at + 1)
        return False


@lru_cache(maxsize=512)
def informative_terms(text: str) -> tuple[InformativeTerm, ...]:
    """Return the distinct terms of a query that tell what it is about: no stop words, no greetings."""
    found: dict[InformativeTerm, None] = {}
    names = {name.lower() for name in _NAME.findall(text[:MAX_QUERY_LENGTH])}
    for match in _chunks(folded_text(text[:MAX_QUERY_LENGTH])):
        chunk = match[0]
        if match.lastgroup == "cjk":
            for run in _FUNCTION_CHARACTERS.split(chunk):
                pairs = [run[at : at + 2] for at in range(len(run) - 1)] or [run]
                words = max(len(run) / 2, 1.0) / len(pairs)
                found.update((InformativeTerm(pair, False, words=words), None) for pair in pairs if pair)
        elif match.lastgroup == "symbol":
            found[InformativeTerm(chunk, False)] = None
        else:
            for piece in _split_apostrophes(chunk):
                if piece not in STOP_WORDS and piece not in SOCIAL_WORDS:
                    stem = _stems[piece[:MAX_TERM]] if piece.isalpha() else piece[:MAX_TERM]
                    # A stem that ends in i stands for words in y, too.
                    stem = stem[:-1] if len(stem) > 3 and stem[-1] == "i" else stem
                    found[InformativeTerm(stem, True, piece in names)] = None
        if len(found) >= MAX_QUERY_TERMS:
            break
    return tuple(found)


def has_specific_terms(text: str) -> bool:
    """Whether a keyword match means much even in a short memory.

    It does if the query is one word, has an identifier such as ERR_CONN_42 or v2.13.0, or is in another language than
    English: the semantic retriever knows these less well. In a script without blanks, terms are pairs of characters.
    """
    text = text[:MAX_QUERY_LENGTH]
    tokens = _TOKEN.findall(text)
    if len(tokens) == 1 or any(_is_identifier(token) for token in tokens):
        return True
    if not text.isascii() and _cjk_run().search(text):
        return True
    return detect(text, folded_text(text).split()) is not None


def _is_identifier(token: str) -> bool:
    return ("_" in token.strip("_") or any(map(str.isdigit, token))) and not _QUANTITY.fullmatch(token)


def _language_terms(text: str, words: list[str]) -> list[str]:
    """The stems of the words in the text's language, where they differ from the English ones."""
    language = detect(text, words)
    if language is None:
        return []
    stems = _other_stems.get(language)
    if stems is None:
        stems = _other_stems.setdefault(language, _Stems(language))
    found = []
    # Stemmers know letters with their diacritics, so words are folded after they are stemmed.
    for word in _word_pattern().findall(unicodedata.normalize("NFC", text).lower()):
        stem = folded_text(stems[word[:MAX_TERM]])
        if stem != _stems[folded_text(word)[:MAX_TERM]]:
            found += stem.split()  # one character may fold to several words
    return found


def written_words(text: str) -> dict[str, str]:
    """Return the terms of single words, each with the first word that it is of, as written; a CJK term is itself."""
    found: dict[str, str] = {}
    for word in _WRITTEN.findall(text):
        is_cjk = not word.isascii() and _cjk_run().search(word)
        for term in index_terms(word):
            found.setdefault(term, term if is_cjk else word)
    return found


def _add_chunk(chunk: str, terms: list[str]) -> None:
    """Add the terms of one run of letters, digits and joiners: the run itself, and its pieces if it has any."""
    if "'" in chunk:
        for piece in _split_apostrophes(chunk):
            _add_chunk(piece, terms)
        return
    if chunk.isalpha():
        terms.append(_stems[chunk[:MAX_TERM]])
        return
    terms.append(chunk[:MAX_TERM])
    pieces = [piece for piece in _SPLIT.split(chunk) if piece]
    if len(pieces) > 1 or pieces[0] != chunk:
        terms.extend(_stems[piece[:MAX_TERM]] if piece.isalpha() else piece[:MAX_TERM] for piece in pieces)


def _split_apostrophes(chunk: str) -> list[str]:
    """Split at apostrophes: `caroline's` gives caroline, `don't` gives dont, `l'amour` gives two words."""
    head, *tails = chunk.split("'")
    pieces = [head]
    for tail in tails:
        if tail == "t":
            pieces[-1] += tail
        elif tail not in _ENDINGS:
            pieces.append(tail)
    return [piece for piece in pieces if piece]
