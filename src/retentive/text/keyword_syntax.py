"""The operators of a keyword search: "a phrase", prefix*, -word and OR. Any text is valid.

Words are alternatives, and memories with more of them rank higher. A phrase must occur, or one of several joined by OR.
A word, phrase or prefix after a minus must not occur. A quote without its partner, or a lone minus or star, is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retentive.text.analysis import folded_words, index_terms

_ITEM = re.compile(r'(?P<minus>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
_PREFIX = re.compile(r"([^\W_]+)\*+")
_STEM_ENDING = 4
"""A word may be indexed by a stem that is up to this many characters shorter than a prefix of the word."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Terms that follow one another."""

    terms: tuple[str, ...]

    def occurs_in(self, document: Document) -> bool:
        size = len(self.terms)
        starts = (at for at, term in enumerate(document.terms) if term == self.terms[0])
        return any(tuple(document.terms[at : at + size]) == self.terms for at in starts)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a word."""

    text: str

    def occurs_in(self, document: Document) -> bool:
        return any(word.startswith(self.text) for word in document.words)

    @property
    def stems(self) -> list[str]:
        """Shorter terms by which a word with this prefix may be indexed: deploym* is found by deploy."""
        return [self.text[:end] for end in range(max(3, len(self.text) - _STEM_ENDING), len(self.text))]


@dataclass(frozen=True, slots=True)
class Document:
    """A text as index terms in order, and as words."""

    terms: Sequence[str]
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """A query with operators. `text` has the words that retrieve and score."""

    text: str
    any_of: tuple[Phrase | Prefix, ...]
    required: tuple[tuple[Phrase, ...], ...]
    excluded: tuple[Phrase | Prefix, ...]

    @property
    def prefixes(self) -> list[Prefix]:
        """The prefixes that may occur."""
        return [one for one in self.any_of if isinstance(one, Prefix)]

    def matches(self, text: str) -> bool:
        """Whether a text has what it must have, and nothing that is excluded."""
        document = Document(index_terms(text), folded_words(text))
        if any(one.occurs_in(document) for one in self.excluded):
            return False
        if self.required:
            return all(any(one.occurs_in(document) for one in group) for group in self.required)
        return any(one.occurs_in(document) for one in self.any_of)


def parse_keyword_query(text: str) -> KeywordQuery | None:
    """Parse a text with operators; None if it has none."""
    words: list[str] = []
    any_of: list[Phrase | Prefix] = []
    required: list[tuple[Phrase, ...]] = []
    excluded: list[Phrase | Prefix] = []
    operators = joined = after_phrase = False
    for match in _ITEM.finditer(text):
        word, quoted, minus = match["word"] or "", match["phrase"], bool(match["minus"])
        if word in ("OR", "|") and not minus:
            operators = joined = True
            continue
        prefix = _prefix(word)
        terms = tuple(index_terms(word if quoted is None else quoted))
        operators |= quoted is not None or minus or prefix is not None
        if prefix is None and not terms:
            continue
        if minus:
            excluded.append(prefix or Phrase(terms))
        elif quoted is not None:
            required.append((*(required.pop() if joined and after_phrase else ()), Phrase(terms)))
            words.append(quoted)
        elif prefix is not None:
            any_of.append(prefix)
        else:
            any_of += [Phrase((term,)) for term in terms]
            words.append(word)
        joined, after_phrase = False, quoted is not None and not minus
    return KeywordQuery(" ".join(words), tuple(any_of), tuple(required), tuple(excluded)) if operators else None


def _prefix(word: str) -> Prefix | None:
    match = _PREFIX.fullmatch(word)
    text = "".join(folded_words(match[1])) if match else ""
    return Prefix(text) if text else None
