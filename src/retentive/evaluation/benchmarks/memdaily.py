"""MemDaily: `memdaily.json`, or the files of `messages_and_QAs`: short runs of a user's messages with a question each.

A message is a memory, and a run of about nine messages a session. A question searches fifty runs of its kind: in its
own run alone, nearly every message would be among the first ten.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, Contents
from retentive.transfer.formats.beir import BeirQuery

NAME = "MemDaily"

_TIME = re.compile(r"(\d+)年(\d+)月(\d+)日\D*(\d+):(\d+)")
_NUMBER = re.compile(r"^\d+_")
POOL = 50
"""So many runs are searched together."""

_FAILED = {"[ERRORQ]", "[ERRORA]"}
"""What the benchmark has in place of a question or an answer that could not be made."""


def recognises(value: Any) -> bool:
    """Whether this is a list of runs, or an object of such lists."""
    while isinstance(value, dict | list) and value and not (isinstance(value, dict) and "message_list" in value):
        value = next(iter(value.values())) if isinstance(value, dict) else value[0]
    return isinstance(value, dict) and "message_list" in value


def read(files: Sequence[Contents]) -> Benchmark:
    """Return the runs of the files."""
    builder = Builder(NAME)
    builder.notes.append(f"a question searches {POOL} runs of its kind, about nine messages each")
    for file in files:
        for kind, runs in _lists(_NUMBER.sub("", file.name), file.value):
            for number, run in enumerate(runs):
                _add_run(builder, f"{kind} {number // POOL + 1}", kind, f"{kind}/{number}", run)
    return builder.build()


def _lists(name: str, value: Any) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
    if isinstance(value, list):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _lists(key if name == "memdaily" else f"{name}_{key}", part)


def _add_run(builder: Builder, project: str, kind: str, session: str, run: Mapping[str, Any]) -> None:
    questions = run["question_list"] if "question_list" in run else [run["QA"]]
    for message in run["message_list"]:
        id, occurred = f"{session}/{message['mid']}", _time(message["time"])
        builder.add_memory(id, message["message"], project=project, session=session, occurred=occurred)
    for question in questions:
        if {question["question"], str(question["answer"])} & _FAILED:
            continue
        id, asked_at = f"{session}/q{question['qid']}", _time(question["time"])
        query = BeirQuery(id, question["question"], project, asked_at, kind.rpartition("_")[0])
        relevant = (f"{session}/{step}" for step in question["target_step_id"])
        builder.add_query(query, relevant, answer=question["answer"])


def _time(text: str) -> datetime:
    found = _TIME.search(text)
    if found is None:
        raise ValueError(f"'{text}' is not a time")
    year, month, day, hour, minute = map(int, found.groups())
    return datetime(year, month, day, hour, minute, tzinfo=UTC)
