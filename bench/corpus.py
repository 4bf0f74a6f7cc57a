"""Generates texts with the statistics of English, and queries about them; the same for the same seed.

Sentences of ordinary function words are filled with invented words, drawn by Zipf's law. So common words occur in half
of all memories and rare ones in two or three, as in real text.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]

VOCABULARY = 30_000
SESSIONS = 100
QUERY_WORDS = 4
_SLOTS = 11
_NAMES = ["Ada", "Ben", "Carla", "Dmitri", "Elena", "Farid", "Greta", "Hana", "Ivan", "Joana", "Kofi", "Lena", "Marco"]
_STARTS = [*"bdfghklmnprstvz", "br", "st", "tr"]
_TEMPLATES = (
    "{name} said that the {} {} was not the {} we had before, because {} and {} {} the {} {} of {} {} {}",
    "when I asked about {} and {}, {name} told me to use the {} {} with {} {} for {} {} in the {} {} {}",
    "we have moved the {} {} from {} to {}, so that {} can {} {} without the {} {} which {name} had {} {}",
    "I do not like {} {} after {}, but {name} thinks the {} {} should {} with {} {} and {} {} for {}",
    "{name} will {} the {} {} on {} if {} {} is there, and then we can go to {} for {} {} {} {}",
    "the {} of {} was {} by {name} in {} and it took {} {} until the {} {} could {} again at {} {}",
    "remember that {name} has a {} {} in {}, where {} and {} {} every {} with a {} {} of {} {}",
    "there were {} {} in the {} this week, and {name} had to {} each {} {} before {} {} got {} {} {}",
)
_QUERIES = (
    "what did {name} say about {} and {} with {} or {}?",
    "when was the {} {} in {} and {}?",
    "who told us about the {} of {} for {} {}?",
    "where did we use {} with {} before the {} {}?",
)


@dataclass(frozen=True, slots=True)
class BenchQuery:
    """A query with words of its target, and a vector near that of the target."""

    text: str
    target: int
    session: str
    vector: Matrix


@dataclass(frozen=True, slots=True)
class Corpus:
    """Memories with their sessions and vectors, and the queries about them."""

    texts: list[str]
    sessions: list[str]
    vectors: Matrix
    queries: list[BenchQuery]


class Writer:
    """Writes texts, and queries about them."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng([seed, 1])
        self._vocabulary = _vocabulary(np.random.default_rng([seed, 0]))
        chances = 1 / (np.arange(VOCABULARY) + 2.7)  # Zipf and Mandelbrot
        self._chances = np.cumsum(chances / chances.sum())

    def texts(self, count: int) -> tuple[list[str], list[list[str]]]:
        """Return distinct texts of about 24 words, and the invented words of each."""
        ranks = np.searchsorted(self._chances, self._random.random((count, _SLOTS)))
        choices = self._random.integers(0, len(_TEMPLATES) * len(_NAMES), count).tolist()
        texts: dict[str, list[str]] = {}
        for row, choice in zip(ranks.tolist(), choices, strict=True):
            words = [self._vocabulary[min(rank, VOCABULARY - 1)] for rank in row]
            texts[_filled(_TEMPLATES, choice, words)] = words
        if len(texts) < count:  # two are equal: never seen with eleven random words
            more, their_words = self.texts(count - len(texts))
            texts |= dict(zip(more, their_words, strict=True))
        return list(texts), list(texts.values())

    def query(self, words: list[str]) -> str:
        """Return a query with some of these words."""
        chosen = self._random.choice(words, QUERY_WORDS, replace=False).tolist()
        return _filled(_QUERIES, int(self._random.integers(0, len(_QUERIES) * len(_NAMES))), chosen)

    def targets(self, texts: int, count: int) -> list[int]:
        """Return the indices of the texts that the queries are about."""
        return [int(at) for at in self._random.choice(texts, count, replace=texts < count)]


def session_of(row: int) -> str:
    """Return the session of a row. Sessions alternate, so that the memories of one are spread over the whole store."""
    return f"s{row % SESSIONS}"


def _filled(templates: tuple[str, ...], choice: int, words: list[str]) -> str:
    return templates[choice % len(templates)].format(*words, name=_NAMES[choice // len(templates)])


def _vocabulary(random: np.random.Generator) -> list[str]:
    """Invented words, shortest first: common words are short."""
    syllables = [start + vowel for start in _STARTS for vowel in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        length = int(random.integers(2, 5))
        words["".join(random.choice(syllables, length).tolist()) + str(random.choice(["", "n", "r", "l", "x"]))] = None
    return sorted(words, key=len)
