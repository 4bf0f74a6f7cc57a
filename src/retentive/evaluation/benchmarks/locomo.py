"""LoCoMo: `locomo10.json`, a list of conversations of two people with questions and the turns that answer them.

A turn is a memory, with the caption of its picture; a conversation is a project. A question is asked at the time of the
last session. Evidence is written in several ways ("D8:6; D9:17", "D:11:26"); all turns that it names are relevant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, Contents, parse_time
from retentive.transfer.formats.beir import BeirQuery

NAME = "LoCoMo"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}

_TURN = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")


def recognises(value: Any) -> bool:
    """Whether this is a list of conversations."""
    return (
        isinstance(value, list) and bool(value) and isinstance(value[0], dict) and {"conversation", "qa"} <= {*value[0]}
    )


def read(files: Sequence[Contents]) -> Benchmark:
    """Return all conversations of the files."""
    builder = Builder(NAME)
    for file in files:
        for sample in file.value:
            last = _add_turns(builder, sample["sample_id"], sample["conversation"])
            for number, question in enumerate(sample["qa"]):
                _add_question(builder, sample["sample_id"], number, question, last)
    return builder.build()


def sessions(conversation: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]]]]:
    """Yield the name and the turns of each session, in their order."""
    names = [name for name in conversation if _SESSION.fullmatch(name)]
    for name in sorted(names, key=lambda name: int(name.removeprefix("session_"))):
        yield name, conversation[name]


def named_turns(evidence: object) -> Iterator[str]:
    """Yield the turns that a piece of evidence names, written as in the conversation."""
    for session, turn in _TURN.findall(str(evidence)):
        yield f"D{int(session)}:{int(turn)}"


def _add_turns(builder: Builder, project: str, conversation: Mapping[str, Any]) -> datetime | None:
    """Add the turns of a conversation, and return the time of its last session."""
    occurred = None
    for name, turns in sessions(conversation):
        occurred = parse_time(conversation[f"{name}_date_time"], "%I:%M %p on %d %B, %Y")
        for turn in turns:
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            builder.add_memory(
                f"{project}/{turn['dia_id']}",
                f"{turn['text']}{caption}",
                project=project,
                session=f"{project}/{name}",
                speaker=turn["speaker"],
                occurred=occurred,
            )
    return occurred


def _add_question(
    builder: Builder, project: str, number: int, question: Mapping[str, Any], asked_at: datetime | None
) -> None:
    category = CATEGORIES.get(question["category"], str(question["category"]))
    query = BeirQuery(f"{project}/q{number}", question["question"], project, asked_at, category)
    named = [turn for evidence in question["evidence"] for turn in named_turns(evidence)]
    # An adversarial question has no answer in the conversation; `adversarial_answer` is the wrong one.
    builder.add_query(query, (f"{project}/{turn}" for turn in named), answer=question.get("answer"))
