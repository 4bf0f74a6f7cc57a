"""What several readers need: files, texts on one line, choices that do not depend on chance, and conversations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from training.packed import Conversation, Question, Turn

Chosen = TypeVar("Chosen")
SHORTEST_TEXT = 4
LONGEST_TEXT = 120
Line = dict[str, str]
"""A passage (`question`, `passage`) or a text (`text`); the builder adds its source."""


def read_json(path: Path) -> Any:
    """The value of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def read_json_lines(path: Path) -> list[Any]:
    """The values of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def one_line(text: str) -> str:
    """The text with one blank between words, and no line breaks."""
    return " ".join(text.split())


def distinct(values: Iterable[Hashable]) -> list[Any]:
    """The values without repetition, in order of their first occurrence."""
    return list(dict.fromkeys(values))


def some(items: Iterable[Chosen], count: int, *, key: Callable[[Chosen], str] = repr) -> list[Chosen]:
    """At most this many items, in their order, chosen by a hash of each: the same ones in every run."""
    listed = list(items)
    chosen = set(sorted(range(len(listed)), key=lambda at: digest(key(listed[at])))[:count])
    return [item for at, item in enumerate(listed) if at in chosen]


def digest(text: str) -> bytes:
    """A hash of a text that is the same in every process."""
    return hashlib.sha256(text.encode()).digest()


def distinct_texts(texts: Iterable[str]) -> Iterator[Line]:
    """Texts of 4 to 120 words on one line, each once; texts that differ in case only count as one."""
    known: set[str] = set()
    for text in map(one_line, texts):
        if SHORTEST_TEXT <= len(text.split()) <= LONGEST_TEXT and text.lower() not in known:
            known.add(text.lower())
            yield {"text": text}


def conversation(source: str, id: str, turns: Sequence[Turn], questions: Iterable[Question]) -> Conversation:
    """A conversation without empty turns, and with the questions that have evidence."""
    kept = [at for at, turn in enumerate(turns) if turn.text]
    numbers = {at: new for new, at in enumerate(kept)}
    moved = [Question(one.text, tuple(numbers[at] for at in one.gold if at in numbers)) for one in questions]
    return Conversation(source, id, tuple(turns[at] for at in kept), tuple(one for one in moved if one.gold))
