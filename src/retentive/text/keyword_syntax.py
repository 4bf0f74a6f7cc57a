"""The operators of a keyword search: "a phrase", prefix*, -word and OR. Any text is valid.

Words are alternatives, and memories with more of them rank higher. A phrase must occur, or one of several joined by OR.
A word, phrase or prefix after a minus must not occur. A quote without its partner, or a lone minus or star, is ignored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from retentive.text.normal_form import folded_words
from retentive.text.terms import InformativeTerm, index_terms, informative_terms, sequence_terms

_ITEM = re.compile(r'(?P<minus>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"|(?P<word>[^\s"]+))')
_PREFIX = re.compile(r"([^\W_]+)\*+")
_STEM_ENDING = 4
"""A word may be indexed by a stem that is up to this many characters shorter than a prefix of the word."""


@dataclass(frozen=True, slots=True)
class Word:
    """The index terms of a word, of which one must occur."""

    written: str
    terms: frozenset[str]

    def occurs_in(self, document: Document) -> bool:
        return not self.terms.isdisjoint(document.terms)


@dataclass(frozen=True, slots=True)
class Phrase:
    """Terms that follow one another."""

    written: str
    terms: tuple[str, ...]

    def occurs_in(self, document: Document) -> bool:
        size, sequence = len(self.terms), document.sequence
        starts = (at for at, term in enumerate(sequence) if term == self.terms[0])
        return any(tuple(sequence[at : at + size]) == self.terms for at in starts)


@dataclass(frozen=True, slots=True)
class Prefix:
    """The beginning of a word."""

    text: str

    def occurs_in(self, document: Document) -> bool:
        return any(word.startswith(self.text) for word in document.words)

    @property
    def written(self) -> str:
        return f"{self.text}*"

    @property
    def stems(self) -> list[str]:
        """Shorter terms by which a word with this prefix may be indexed: deploym* is found by deploy."""
        return [self.text[:end] for end in range(max(3, len(self.text) - _STEM_ENDING), len(self.text))]


@dataclass(frozen=True)
class Document:
    """A text as index terms, as terms that follow one another, and as words, each computed at first use."""

    text: str

    @cached_property
    def terms(self) -> frozenset[str]:
        return frozenset(index_terms(self.text))

    @cached_property
    def sequence(self) -> list[str]:
        return sequence_terms(self.text)

    @cached_property
    def words(self) -> list[str]:
        return folded_words(self.text)


@dataclass(frozen=True, slots=True)
class KeywordQuery:
    """A query with operators. `text` has the words that retrieve and score."""

    text: str
    any_of: tuple[Word | Prefix, ...]
    required: tuple[tuple[Phrase, ...], ...]
    excluded: tuple[Phrase | Prefix, ...]

    @property
    def prefixes(self) -> list[Prefix]:
        """The prefixes that may occur."""
        return [one for one in self.any_of if isinstance(one, Prefix)]

    @property
    def informative_terms(self) -> tuple[InformativeTerm, ...]:
        """The terms that tell what the query is about: those of its words, and each prefix as one term."""
        prefixes = (InformativeTerm(one.text, is_word=True, is_prefix=True) for one in self.prefixes)
        return tuple(dict.fromkeys((*informative_terms(self.text), *prefixes)))

    def matches(self, text: str) -> bool:
        """Whether a text has what it must have, and nothing that is excluded."""
        document = Document(text)
        if self._forbidden(document) or self._missing(document):
            return False
        return bool(self.required) or any(one.occurs_in(document) for one in self.any_of)

    def unmet_by(self, text: str) -> str | None:
        """What an operator demands and a text does not fulfil, as part of a sentence; None without such an operator."""
        document = Document(text)
        forbidden = self._forbidden(document)
        if forbidden:
            return f"it has {forbidden.written}, and the query excludes it (-{forbidden.written})"
        missing = self._missing(document)
        if missing:
            return f"it does not have {' or '.join(one.written for one in missing)}"
        if self.required or not self.prefixes or any(one.occurs_in(document) for one in self.any_of):
            return None
        return f"it does not have {' or '.join(one.written for one in self.any_of)}"

    def _forbidden(self, document: Document) -> Phrase | Prefix | None:
        """The first operand of an exclusion that occurs."""
        return next((one for one in self.excluded if one.occurs_in(document)), None)

    def _missing(self, document: Document) -> tuple[Phrase, ...]:
        """The first phrases of which one must occur and none does."""
        return next((group for group in self.required if not any(one.occurs_in(document) for one in group)), ())


def parse_keyword_query(text: str) -> KeywordQuery | None:
    """Parse a text with operators; None if it has none."""
    words: list[str] = []
    any_of: list[Word | Prefix] = []
    required: list[tuple[Phrase, ...]] = []
    excluded: list[Phrase | Prefix] = []
    operators = joined = after_phrase = False
    for match in _ITEM.finditer(text):
        word, quoted, minus = match["word"] or "", match["phrase"], bool(match["minus"])
        if word in ("OR", "|") and not minus:
            operators = joined = True
            continue
        prefix = _prefix(word)
        phrase = Phrase(word if quoted is None else f'"{quoted}"', tuple(sequence_terms(word or quoted or "")))
        operators |= quoted is not None or minus or prefix is not None
        if prefix is None and not phrase.terms:
            continue
        if minus:
            excluded.append(prefix or phrase)
        elif quoted is not None:
            required.append((*(required.pop() if joined and after_phrase else ()), phrase))
            words.append(quoted)
        elif prefix is not None:
            any_of.append(prefix)
        else:
            any_of.append(Word(word, frozenset(index_terms(word))))
            words.append(word)
        joined, after_phrase = False, quoted is not None and not minus
    return KeywordQuery(" ".join(words), tuple(any_of), tuple(required), tuple(excluded)) if operators else None


def _prefix(word: str) -> Prefix | None:
    match = _PREFIX.fullmatch(word)
    text = "".join(folded_words(match[1])) if match else ""
    return Prefix(text) if text else None
