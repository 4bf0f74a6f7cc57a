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
from functools import lru_cache

import Stemmer

from retentive.text.language import detect

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
_CHUNK = re.compile(
    rf"(?P<cjk>[{_CJK}]+)|(?P<symbol>[{_SYMBOLS}])"
    rf"|(?P<word>[^\W_{_CJK}]+(?:['{_JOINERS}][^\W_{_CJK}]+)*(?:\+\+|#)?)"
)
_ALPHANUMERIC = re.compile(r"[^\W_]+")
_WORD = re.compile(rf"[^\W\d_{_CJK}{_SYMBOLS}]+(?:[\u0300-\u036f\u0900-\u097f\u0b80-\u0bff\u064b-\u0652]+[^\W\d_]*)*")
_DIACRITICS = re.compile("[\u0300-\u036f]")
_SPLIT = re.compile(rf"[{_JOINERS}]+")
_ENDINGS = frozenset(("s", "d", "m", "ll", "re", "ve"))

_STOP_WORDS = """
    a about after again all also am an and any are as at be because been before being but by can could did do does
    doing done dont down during each few for from further get gets got had has have having he her here hers
    herself him himself his how i if in into is it its itself just let like me more most much my myself no nor not
    now of off on once one only or other our ours out over own same she should so some such than that the their
    theirs them themselves then there these they this those through to too under until up us very was we were what
    when where which while who whom whose why will with would you your yours yourself yourselves didnt doesnt isnt
    wasnt arent werent cant couldnt wouldnt shouldnt wont havent hasnt hadnt tell know remember recall please
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that do not tell what a query is about."""


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
    folded = _folded(text)
    for match in _CHUNK.finditer(folded):
        if match.lastgroup == "cjk":
            run = match[0]
            terms.extend(run)
            terms.extend(run[at : at + 2] for at in range(len(run) - 1))
        elif match.lastgroup == "symbol":
            terms.append(match[0])
        else:
            _add_chunk(match[0], terms)
    return terms + _language_terms(text, folded.split())


@lru_cache(maxsize=512)
def query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms of a query in order, without stop words unless there is nothing else."""
    found: dict[str, bool] = {}
    text = text[:MAX_QUERY_LENGTH]
    folded = text.lower() if text.isascii() else _folded(text)
    for match in _CHUNK.finditer(folded):
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
    telling = [term for term, informative in found.items() if informative] or list(found)
    return tuple(dict.fromkeys(telling + _language_terms(text, folded.split())))


def _language_terms(text: str, words: list[str]) -> list[str]:
    """The stems of the words in the text's language, where they differ from the English ones."""
    language = detect(text, words, english=STOP_WORDS)
    if language is None:
        return []
    stems = _other_stems.get(language)
    if stems is None:
        stems = _other_stems.setdefault(language, _Stems(language))
    found = []
    # Stemmers know letters with their diacritics, so words are folded after they are stemmed.
    for word in _WORD.findall(unicodedata.normalize("NFC", text).lower()):
        stem = _folded(stems[word[:MAX_TERM]])
        if stem != _stems[_folded(word)[:MAX_TERM]]:
            found.append(stem)
    return found


def folded_words(text: str) -> list[str]:
    """Return the words of a text with case and diacritics folded, not stemmed."""
    words: list[str] = _ALPHANUMERIC.findall(text.lower() if text.isascii() else _folded(text))
    return words


def _folded(text: str) -> str:
    """Fold case, Unicode form and diacritics."""
    decomposed = unicodedata.normalize("NFKD", text).casefold().replace("\u2019", "'")
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", decomposed))


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
