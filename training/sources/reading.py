"""What several readers need: files, texts on one line, choices that do not depend on chance, and conversations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from training.packed import Conversation, Question, Turn

Chosen = TypeVar("Chosen")
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


def some(items: Iterable[Chosen], count: int) -> list[Chosen]:
    """At most this many items, chosen by a hash of each: the same ones in every run, whatever the order."""
    listed = list(items)
    if len(listed) <= count:
        return listed
    chosen = set(sorted(range(len(listed)), key=lambda at: _hash(listed[at]))[:count])
    return [item for at, item in enumerate(listed) if at in chosen]


def _hash(item: object) -> bytes:
    return hashlib.sha256(repr(item).encode()).digest()


def distinct_texts(texts: Iterable[str], *, shortest: int = 0, longest: int = 10_000) -> Iterator[Line]:
    """Texts on one line, each once, with a number of characters between two bounds."""
    for text in distinct(one_line(text) for text in texts):
        if shortest <= len(text) <= longest:
            yield {"text": text}


def conversation(source: str, id: str, turns: Iterable[Turn], questions: Iterable[Question]) -> Conversation:
    """A conversation with the questions that have evidence."""
    return Conversation(source, id, tuple(turns), tuple(one for one in questions if one.gold))
