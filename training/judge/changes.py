"""Pairs of statements, an older and a newer one, and what the newer one does to the older one.

`changes.jsonl.xz` has the pairs. A statement that is a turn of the packed conversations is stored by its place only.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from training.judge.pieces import FOLDER, SEED, Piece, Split, Turn, split_of
from training.packed import Conversation, read

LABELS = ("replaces", "ends", "adds", "restates", "unrelated")
NO_CHANGE = len(LABELS)
"""The label of pairs of which only this is known: the newer one neither replaces nor ends the older one."""

ATTRIBUTES = (
    "home", "job", "employer", "school", "phone", "email", "partner", "family", "friend", "pet", "car", "diet",
    "allergy", "medication", "health", "drink", "food", "hobby", "sport", "music", "reading", "language", "plan",
    "trip", "date", "time", "price", "budget", "owner", "tool", "database", "version", "port", "branch", "path",
    "host", "style", "rule", "name", "status", "size", "other",
)  # fmt: skip
NEAR = 4
"""For each piece, this many pairs of turns that share words are taken as pairs without a change."""


class Statement(NamedTuple):
    """A memory as the model reads it: who said it, the text, and the turn before."""

    speaker: str
    text: str
    before: str = ""


class Pair(NamedTuple):
    """Two statements; `label` is a number in LABELS or NO_CHANGE, `attribute` one in ATTRIBUTES or -1."""

    older: Statement
    newer: Statement
    label: int
    attribute: int
    weight: float
    split: Split


def written_pairs(conversations: Mapping[tuple[str, str], Conversation]) -> Iterator[Pair]:
    """The pairs that were labelled by reading them."""
    for line in read(FOLDER / "changes.jsonl.xz"):
        older, newer = (_statement(line[name], conversations) for name in ("older", "newer"))
        attribute = ATTRIBUTES.index(line["attribute"]) if line.get("attribute") in ATTRIBUTES else -1
        split = _split(line, older)
        yield Pair(older, newer, LABELS.index(line["label"]), attribute, 1.0, split)


def _split(line: Mapping[str, Any], older: Statement) -> Split:
    """A tenth for development and a tenth that is measured once; turns of a conversation go with their pieces."""
    if "source" in line["older"]:
        split = split_of(line["older"]["source"], line["older"]["conversation"])
        return "train" if split == "train" else "dev"
    digest = hashlib.sha256(f"{SEED}/{older.text}".encode()).digest()
    return ("dev", "test", *["train"] * 8)[digest[0] % 10]  # type: ignore[return-value]


def _statement(line: Mapping[str, Any], conversations: Mapping[tuple[str, str], Conversation]) -> Statement:
    if "source" not in line:
        return Statement(line.get("speaker", ""), line["text"], line.get("before", ""))
    turns = conversations[line["source"], line["conversation"]].turns
    speaker, text = turns[line["turn"]][:2]
    before = turns[line["turn"] - 1].text if line["turn"] and len(text.split()) < 12 else ""
    speaker = line.get("names", {}).get(speaker, speaker)
    return Statement(speaker, Turn(speaker, text).words, before)


def of_another_person(pairs: Iterable[Pair], names: Sequence[str], chance: random.Random) -> Iterator[Pair]:
    """Changes that somebody else speaks of, which makes them no change of the older statement."""
    for pair in pairs:
        if pair.label > 1 or pair.older.speaker in ("", "User", "Assistant"):
            continue
        of_self = re.search(r"\b(I|my|I'm|I've|mine)\b", pair.newer.text)
        if of_self and not re.search(r"\b([Ww]e|[Oo]ur|us|team)\b", pair.newer.text) and chance.random() < 0.6:
            other = chance.choice([name for name in names if name != pair.older.speaker])
            newer = pair.newer._replace(speaker=other)
            yield pair._replace(newer=newer, label=NO_CHANGE, attribute=-1, weight=0.7)


def of_pieces(pieces: Iterable[Piece], chance: random.Random) -> Iterator[Pair]:
    """The changes that queries of the pieces name, and pairs of turns that share words, which are hardly ever one."""
    for piece in pieces:
        changed = {(query.weak[0], query.gold[0]) for query in piece.queries if query.kind == "change" and query.weak}
        for older, newer in changed:
            if older < newer:
                yield Pair(_read(piece, older), _read(piece, newer), 0, -1, 0.7, piece.split)
        words = [set(re.findall(r"\w{4,}", turn.words.lower())) for turn in piece.turns]
        for newer in chance.sample(range(1, len(words)), min(NEAR, len(words) - 1)):
            older = max(range(newer), key=lambda at: len(words[at] & words[newer]) / (1 + len(words[at]) ** 0.5))
            if (older, newer) not in changed:
                yield Pair(_read(piece, older), _read(piece, newer), NO_CHANGE, -1, 0.4, piece.split)


def _read(piece: Piece, at: int) -> Statement:
    turn = piece.turns[at]
    before = piece.turns[at - 1].words if at and len(turn.words.split()) < 12 else ""
    return Statement(turn.speaker, turn.words, before)
