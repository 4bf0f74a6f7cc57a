"""VehicleMemBench: what people say in a car for months, and situations that need their preferences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from training.packed import Conversation, Question, Turn
from training.sources.cleaning import content_words
from training.sources.reading import conversation, one_line, read_json

MOST_TURNS = 390
"""Of a history of thousands of turns, as many around the evidence as fit into this number are kept."""

LEAST_AROUND = 10
"""At least this many turns before and after each turn of evidence are kept."""

WITHIN = timedelta(minutes=7)
"""How long after the time that a memory names its turn can be."""

MOST_OF_A_MEMORY = 2
"""How many turns at most are the evidence of one memory."""

LEAST_OF_BEST = 0.75
"""A second turn counts as evidence if it shares this part of the words that the best one shares."""

_SAID = re.compile(r"^\[(?P<time>[^\]]+)\] (?P<speaker>[^:]+): (?P<text>.*)$")
_MEMORY = re.compile(r"\[(?P<date>\w+ \d+, \d+)\](?P<text>.*?)(?=\n\[|$)", re.DOTALL)
_CLOCK = re.compile(r"[Aa]t (\d+:\d+ [AP]M)")


class _Said(NamedTuple):
    """A line of a history."""

    time: datetime
    turn: Turn


def vehiclemem(clone: Path) -> Iterator[Conversation]:
    """Conversations in a car. The evidence is found by the times that the memories behind a question name.

    Of the turns of those minutes the one with most words of the memory is taken, and a second one if it has nearly as
    many.
    """
    folder = clone / "benchmark"
    for number in range(1, len(list((folder / "history").glob("history_*.txt"))) + 1):
        said = _history(folder / "history" / f"history_{number}.txt")
        asked = read_json(folder / "qa_data" / f"qa_{number}.json")["related_to_vehicle_preference"]
        questions = [Question(one_line(one["query"]), _evidence(one["gold_memory"], said)) for one in asked]
        kept = _around({at for one in questions for at in one.gold}, len(said))
        place = {at: new for new, at in enumerate(kept)}
        moved = [Question(one.text, tuple(place[at] for at in one.gold)) for one in questions]
        yield conversation("vehiclemem", str(number), [said[at].turn for at in kept], moved)


def _history(path: Path) -> list[_Said]:
    found = [_SAID.match(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [
        _Said(_time(one["time"], "%Y-%m-%d %H:%M"), Turn(one["speaker"], one_line(one["text"]))) for one in found if one
    ]


def _time(text: str, form: str) -> datetime:
    """A time of the data, which names no zone."""
    return datetime.strptime(text, form).replace(tzinfo=UTC)


def _evidence(memories: str, said: list[_Said]) -> tuple[int, ...]:
    gold: set[int] = set()
    for memory in _MEMORY.finditer(memories):
        words = content_words(memory["text"])
        for clock in _CLOCK.findall(memory["text"]):
            time = _time(f"{memory['date']} {clock}", "%B %d, %Y %I:%M %p")
            shared = {
                at: len(words & content_words(one.turn.text))
                for at, one in enumerate(said)
                if time <= one.time <= time + WITHIN
            }
            best = sorted(shared, key=lambda at: (-shared[at], at))[:MOST_OF_A_MEMORY]
            gold |= {at for at in best if shared[at] >= max(1, LEAST_OF_BEST * shared[best[0]])}
    return tuple(sorted(gold))


def _around(evidence: set[int], count: int) -> list[int]:
    """The evidence and as many turns before and after it, the same number for all, as fit."""
    kept: set[int] = set()
    for distance in range(LEAST_AROUND, count + 1):
        wider = {at for one in evidence for at in range(max(0, one - distance), min(count, one + distance + 1))}
        if kept and (len(wider) > MOST_TURNS or len(wider) == len(kept)):
            break
        kept = wider
    return sorted(kept)
