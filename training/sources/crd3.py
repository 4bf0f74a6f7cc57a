"""CRD3: people who play a role-playing game, with summaries of each episode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from training.packed import Conversation, Question, Turn
from training.sources.cleaning import content_words
from training.sources.reading import Line, conversation, distinct_texts, one_line, read_json, some

EPISODES = 120
WINDOW = 200
STEP = 50
"""Of an episode, the 200 turns with most statements are taken; they begin at a multiple of 50."""

STATEMENTS = 12
WORDS = range(8, 41)
"""How many words a statement can have."""

LEAST_SHARED = 0.5
FEWEST_SHARED = 4
"""How many of the words of a statement its turn must have: this part of them, and this many."""

TEXTS = 13_173
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


class _Statement(NamedTuple):
    """A sentence of a summary, the turn that tells the same, and which part of the sentence's words the turn has."""

    text: str
    turn: int
    shared: float


def _episodes(clone: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Summaries in pieces of two sentences, each aligned to turns of the transcript."""
    files = sorted((clone / "data" / "aligned data" / "c=2").glob("*_2_0.json"))
    for path in some(files, EPISODES, key=lambda path: path.name):
        yield path.stem, read_json(path)


def _turns(pieces: list[dict[str, Any]]) -> list[Turn]:
    by_number = {one["NUMBER"]: one for piece in pieces for one in piece["TURNS"]}
    return [
        Turn(by_number[at]["NAMES"][0].title(), one_line(" ".join(by_number[at]["UTTERANCES"])))
        for at in sorted(by_number)
    ]


def crd3(clone: Path) -> Iterator[Conversation]:
    """Parts of episodes. Sentences of the summary stand for questions.

    The evidence of a sentence is the turn with most of its words, of those that its piece was aligned to.
    """
    for name, pieces in _episodes(clone):
        turns = _turns(pieces)
        statements = list(_statements(pieces, turns))
        first = max(range(0, len(turns), STEP), key=lambda at: sum(at <= one.turn < at + WINDOW for one in statements))
        inside = [one for one in statements if first <= one.turn < first + WINDOW]
        best = sorted(inside, key=lambda one: -one.shared)[:STATEMENTS]
        questions = [Question(one.text, (one.turn - first,)) for one in inside if one in best]
        yield conversation("crd3-weak", name, turns[first : first + WINDOW], questions)


def _statements(pieces: list[dict[str, Any]], turns: list[Turn]) -> Iterator[_Statement]:
    known: set[str] = set()
    for piece in pieces:
        aligned = piece["ALIGNMENT"]
        places = range(aligned["TURN START"], min(aligned["TURN END"] + 1, len(turns)))
        for sentence in _SENTENCE_END.split(one_line(piece["CHUNK"])):
            words = content_words(sentence)
            shared = {at: len(words & content_words(turns[at].text)) for at in places}
            best = max(shared, key=lambda at: shared[at], default=None)
            if best is None or sentence in known or len(sentence.split()) not in WORDS:
                continue
            known.add(sentence)
            if shared[best] >= max(FEWEST_SHARED, LEAST_SHARED * len(words)):
                yield _Statement(sentence, best, shared[best] / len(words))


def crd3_texts(clone: Path) -> Iterator[Line]:
    """Turns of the same episodes."""
    said = (turn.text for _, pieces in _episodes(clone) for turn in _turns(pieces))
    yield from some(distinct_texts(said), TEXTS)
