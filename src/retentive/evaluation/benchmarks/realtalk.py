"""REALTALK: `Chat_*.json`, a conversation of two real people each, with questions and the messages that answer them.

A message is a memory; a conversation is a project. A question is asked at the time of the last message. Evidence is
written in several ways; a range such as "D12:3-D12:5" is each of its messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, Contents, parse_time
from retentive.evaluation.benchmarks.locomo import named_turns, sessions
from retentive.transfer.formats.beir import BeirQuery

NAME = "REALTALK"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "commonsense"}

_RANGE = re.compile(r"D(\d+):(\d+)\s*-\s*D?(?:\1:)?(\d+)(?![\d:])")


def recognises(value: Any) -> bool:
    """Whether this is one conversation."""
    return isinstance(value, dict) and {"qa", "session_1", "name"} <= {*value}


def read(files: Sequence[Contents]) -> Benchmark:
    """Return the conversations of the files."""
    builder = Builder(NAME)
    for file in files:
        last = None
        for name, messages in sessions(file.value):
            for message in messages:
                last = parse_time(message["date_time"], "%d.%m.%Y, %H:%M:%S")
                builder.add_memory(
                    f"{file.name}/{message['dia_id']}",
                    message["clean_text"],
                    project=file.name,
                    session=f"{file.name}/{name}",
                    speaker=message["speaker"],
                    occurred=last,
                )
        for number, question in enumerate(file.value["qa"]):
            category = CATEGORIES.get(question["category"], str(question["category"]))
            query = BeirQuery(f"{file.name}/q{number}", question["question"], file.name, last, category)
            named = [turn for evidence in question["evidence"] for turn in _messages(str(evidence))]
            builder.add_query(query, (f"{file.name}/{turn}" for turn in named), answer=question.get("answer"))
    return builder.build()


def _messages(evidence: str) -> Iterator[str]:
    for session, first, last in _RANGE.findall(evidence):
        for number in range(int(first), int(last) + 1):
            yield f"D{int(session)}:{number}"
    yield from named_turns(_RANGE.sub(" ", evidence))
