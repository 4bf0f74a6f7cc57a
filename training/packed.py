"""The packed form of the training data, and the conversations that are kept out of it.

Three files of JSON lines, packed with xz: `conversations` (turns, and questions with their evidence), `passages`
(questions and the passages that answer them) and `texts` (utterances without labels).
"""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HELD_OUT_SHARE = 0.2
HELD_OUT_SEED = 15
"""Which fifth is kept out. Never change it: a model is measured on what none of its versions was trained on."""


class Turn(NamedTuple):
    """What one speaker said."""

    speaker: str
    text: str

    @property
    def indexed_text(self) -> str:
        """The text as the product embeds it: after its speaker."""
        return self.text if self.text.startswith(f"{self.speaker}:") else f"{self.speaker}: {self.text}"


class Question(NamedTuple):
    """A question about a conversation, and the numbers of the turns that answer it."""

    text: str
    gold: tuple[int, ...]


class Conversation(NamedTuple):
    """The turns of one conversation, in order, and questions about it."""

    source: str
    id: str
    turns: tuple[Turn, ...]
    questions: tuple[Question, ...]

    @classmethod
    def from_dict(cls, line: dict[str, Any]) -> Conversation:
        """Read one line of the packed form."""
        turns = tuple(Turn(turn["speaker"], turn["text"]) for turn in line["turns"])
        questions = tuple(Question(one["text"], tuple(one["gold"])) for one in line["questions"])
        return cls(line["source"], line["id"], turns, questions)

    def to_dict(self) -> dict[str, Any]:
        """The line of the packed form."""
        turns = [turn._asdict() for turn in self.turns]
        questions = [{"text": one.text, "gold": list(one.gold)} for one in self.questions]
        return {"source": self.source, "id": self.id, "turns": turns, "questions": questions}


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a packed file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def write(path: Path, lines: Iterable[dict[str, Any]]) -> int:
    """Write a packed file; return how many lines it has."""
    count = 0
    with lzma.open(path, "wt", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    return count


def read_conversations(folder: Path) -> list[Conversation]:
    """All conversations, those kept out included."""
    return [Conversation.from_dict(line) for line in read(folder / "conversations.jsonl.xz")]


def _episode(id: str) -> str:
    """`dev/s01_e23_c06/0` → `s01_e23`: the scenes of an episode tell one story."""
    return "_".join(id.split("/")[1].split("_")[:2])


def _meeting_series(id: str) -> str:
    """`test/ES2004b#1` → `ES2004`: the meetings of a series have the same people and subject."""
    return re.sub(r"(?<=\d)[a-z]$", "", _meeting(id))


def _meeting(id: str) -> str:
    return id.rsplit("/", maxsplit=1)[-1].split("#", maxsplit=1)[0]


GROUP: dict[str, Callable[[str], str]] = {"friendsqa": _episode, "qmsum": _meeting_series}
"""The sources with a part that is kept out: what is kept out together, by the id of a conversation."""

PROJECT: dict[str, Callable[[str], str]] = {"friendsqa": _episode, "qmsum": _meeting}
"""What becomes one project of the evaluation set."""


def held_out_groups(conversations: Iterable[Conversation], *, seed: int = HELD_OUT_SEED) -> dict[str, set[str]]:
    """For each source, the groups that are kept out of training: a share of its questions, at least one group.

    A group is chosen by a hash of its name, so that the choice does not depend on order or on the other groups' names.
    """
    sizes: dict[str, dict[str, int]] = {}
    for one in conversations:
        if one.source in GROUP:
            group = GROUP[one.source](one.id)
            of_source = sizes.setdefault(one.source, {})
            of_source[group] = of_source.get(group, 0) + len(one.questions)
    return {source: _some(groups, seed=seed) for source, groups in sizes.items()}


def _some(sizes: dict[str, int], *, seed: int) -> set[str]:
    wanted = HELD_OUT_SHARE * sum(sizes.values())
    chosen: set[str] = set()
    for group in sorted(sizes, key=lambda name: hashlib.sha256(f"{seed}/{name}".encode()).digest()):
        if sum(sizes[name] for name in chosen) >= wanted:
            break
        chosen.add(group)
    return chosen


def split_held_out(conversations: list[Conversation]) -> tuple[list[Conversation], list[Conversation]]:
    """The conversations to train on, and those kept out."""
    groups = held_out_groups(conversations)
    train: list[Conversation] = []
    kept: list[Conversation] = []
    for one in conversations:
        out = one.source in groups and GROUP[one.source](one.id) in groups[one.source]
        (kept if out else train).append(one)
    return train, kept
