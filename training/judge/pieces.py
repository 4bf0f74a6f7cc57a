"""Pieces of conversations with labelled queries: what the judge is trained and measured on.

A piece is a window of a conversation of the packed data, or a text written for this purpose. `windows.jsonl.xz` has the
queries about windows, with the source, the conversation and the numbers of the turns, but not the turns themselves,
which the packed data has. `written.jsonl.xz` has whole pieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from training.packed import Conversation, read, read_conversations

FOLDER = Path(__file__).parent
Kind = Literal["answer", "never", "prompt", "idle", "change"]
Split = Literal["train", "dev", "test"]
SEED = 7


class Turn(NamedTuple):
    """What one speaker said, or a note without a speaker."""

    speaker: str
    text: str
    date: str = ""

    @property
    def words(self) -> str:
        """The text without the speaker's name before it."""
        return self.text.removeprefix(f"{self.speaker}:").lstrip() if self.speaker else self.text


class Query(NamedTuple):
    """A query about a piece. `gold` answers it or helps; `weak` only looks like it, or helps a little."""

    kind: Kind
    text: str
    gold: tuple[int, ...]
    weak: tuple[int, ...]


class Piece(NamedTuple):
    """Turns in order, and queries about them. `rules` are the turns that state a standing rule."""

    source: str
    id: str
    split: Split
    turns: tuple[Turn, ...]
    queries: tuple[Query, ...]
    rules: tuple[int, ...] = ()
    language: str = "en"


def split_of(source: str, conversation: str) -> Split:
    """The part that a conversation is in: three fifths train, one is for development, one is measured once."""
    digest = hashlib.sha256(f"{SEED}/{source}/{conversation}".encode()).digest()
    parts: tuple[Split, ...] = ("train", "train", "train", "dev", "test")
    return parts[int.from_bytes(digest[:4]) % len(parts)]


def pieces(data: Path) -> Iterator[Piece]:
    """All pieces. `data` is the folder of the packed conversations."""
    conversations = {(one.source, one.id): one for one in read_conversations(data)}
    for line in read(FOLDER / "windows.jsonl.xz"):
        yield _of_window(line, conversations[line["source"], line["conversation"]])
    for line in read(FOLDER / "written.jsonl.xz"):
        turns = tuple(Turn(turn.get("speaker", ""), turn["text"], turn.get("date", "")) for turn in line["turns"])
        yield Piece(
            line["source"], line["id"], line["split"], turns, _queries(line, len(turns)),
            tuple(line.get("rules", ())), line.get("lang", "en"),
        )  # fmt: skip


def _of_window(line: Mapping[str, Any], conversation: Conversation) -> Piece:
    names = line.get("names", {})
    window = conversation.turns[line["start"] : line["start"] + line["turns"]]
    turns = tuple(Turn(names.get(turn.speaker, turn.speaker), turn.text) for turn in window)
    id = f"{line['conversation']}@{line['start']}"
    return Piece(line["source"], id, line["split"], turns, _queries(line, len(turns)))


def _queries(line: Mapping[str, Any], count: int) -> tuple[Query, ...]:
    found = []
    for one in line["queries"]:
        gold = tuple(at for at in one["gold"] if 0 <= at < count)
        weak = tuple(at for at in one["weak"] if 0 <= at < count and at not in gold)
        if gold or one["kind"] in ("never", "idle"):
            found.append(Query(one["kind"], one["text"], gold, weak))
    return tuple(found)
