"""Temporal Memory Dataset: conversations of two people with questions about a day, a month, a session.

A turn is a memory with its own time; a conversation is a project. The first wording of each question is asked, at the
time of the last turn. The questions that need the turns before them (`ambiguous_time_qs`) are not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, parse_time
from retentive.evaluation.benchmarks.locomo import sessions
from retentive.transfer.formats.beir import BeirQuery

NAME = "Temporal Memory"
CONVERSATIONS, QUESTIONS = "ConversationData", ("TestData/time_qs", "TestData/content_time_qs")


def is_folder(path: Path) -> bool:
    """Whether this is the folder of the dataset."""
    return (path / CONVERSATIONS).is_dir() and (path / QUESTIONS[0]).is_dir()


def read(path: Path) -> Benchmark:
    """Return the conversations of a folder, with their questions."""
    builder = Builder(NAME)
    ends = {}
    for file in sorted((path / CONVERSATIONS).glob("*.json")):
        ends[file.stem] = _add_turns(builder, file.stem, json.loads(file.read_text(encoding="utf-8")))
    for file in sorted(file for folder in QUESTIONS for file in (path / folder).glob("*.json")):
        kind = file.stem.removeprefix("test_")
        asked = json.loads(file.read_text(encoding="utf-8"))
        for project, last in ends.items():
            for number, question in enumerate(asked.get(f"file_{project}", ())):
                query = BeirQuery(f"{project}/{kind}/{number}", question["questions"][0].strip(), project, last, kind)
                builder.add_query(query, (f"{project}/{turn}" for turn in question["relevant_docs"]))
    return builder.build()


def _add_turns(builder: Builder, project: str, conversation: Mapping[str, Any]) -> datetime | None:
    """Add the turns of a conversation, and return the time of the last one."""
    occurred = None
    for name, turns in sessions(conversation):
        for turn in turns:
            occurred = parse_time(turn["date_time"], "%I:%M:%S %p on %A %d %B, %Y")
            caption = f" [image: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
            builder.add_memory(
                f"{project}/{turn['response_number']}",
                f"{turn['text']}{caption}",
                project=project,
                session=f"{project}/{name}",
                speaker=turn["speaker"],
                occurred=occurred,
            )
    return occurred
