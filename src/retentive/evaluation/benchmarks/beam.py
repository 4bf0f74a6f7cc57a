"""BEAM: a folder such as `chats/100K`, with a folder for each conversation: `chat.json` and its probing questions.

A message is a memory; a conversation is a project, and one of its batches a session. The messages in `source_chat_ids`
are relevant. The chats of 10 million tokens have another form and are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, parse_time
from retentive.transfer.formats.beir import BeirQuery

NAME = "BEAM"
CHAT, QUESTIONS = "chat.json", "probing_questions/probing_questions.json"
_ANSWERS = ("answer", "ideal_answer", "ideal_response", "ideal_summary", "expected_compliance")

_MARK = re.compile(r"\s*->->\s*[\d,\s]*$")
"""What the program that made the messages left at their ends."""


def is_folder(path: Path) -> bool:
    """Whether this is the folder of a conversation, or a folder of such folders."""
    return path.is_dir() and any(_folders(path))


def read(path: Path) -> Benchmark:
    """Return the conversations of a folder."""
    builder = Builder(NAME)
    for folder in sorted(_folders(path), key=lambda folder: (len(folder.name), folder.name)):
        project = folder.name
        last = _add_messages(builder, project, json.loads((folder / CHAT).read_text(encoding="utf-8")))
        kinds = json.loads((folder / QUESTIONS).read_text(encoding="utf-8"))
        for kind, questions in kinds.items():
            for number, question in enumerate(questions):
                query = BeirQuery(f"{project}/{kind}/{number}", question["question"], project, last, kind)
                answer = next((question[name] for name in _ANSWERS if question.get(name)), None)
                relevant = (f"{project}/{id}" for id in _ids(question.get("source_chat_ids", [])))
                builder.add_query(query, relevant, answer=answer)
    return builder.build()


def _folders(path: Path) -> Iterator[Path]:
    for folder in (path, *(path.iterdir() if path.is_dir() else ())):
        if (folder / CHAT).is_file() and (folder / QUESTIONS).is_file():
            yield folder


def _add_messages(builder: Builder, project: str, batches: list[Mapping[str, Any]]) -> datetime | None:
    """Add the messages of a conversation, and return the time of the last ones."""
    occurred = None
    for batch in batches:
        occurred = _time(batch.get("time_anchor")) or occurred
        for message in (message for turn in batch["turns"] for message in turn):
            occurred = _time(message.get("time_anchor")) or occurred
            builder.add_memory(
                f"{project}/{message['id']}",
                _MARK.sub("", message["content"]),
                project=project,
                session=f"{project}/{batch['batch_number']}",
                speaker=message["role"],
                occurred=occurred,
            )
    return occurred


def _time(anchor: str | None) -> datetime | None:
    return parse_time(anchor, "%B-%d-%Y") if anchor else None


def _ids(value: object) -> Iterator[object]:
    """Yield the ids in a list, or in the lists of an object."""
    if isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _ids(part)
    else:
        yield value
