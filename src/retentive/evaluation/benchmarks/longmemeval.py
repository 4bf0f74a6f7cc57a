"""LongMemEval: `longmemeval_s.json`, `_m.json` or `_oracle.json`, a list of questions with a chat history each.

A turn is a memory; the history of a question is a project. Turns with `has_answer` are relevant. The oracle file has
the sessions with the answer only: there all sessions are one project, so that there is something to search.
Sessions are numbered, because the ids of those with the answer tell that they have it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, Contents, parse_time
from retentive.transfer.formats.beir import BeirQuery

NAME = "LongMemEval"
POOL = "pool"

_WEEKDAY = re.compile(r"\s*\(\w+\)")


def recognises(value: Any) -> bool:
    """Whether this is a list of questions with their histories."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "haystack_sessions" in value[0]


def read(files: Sequence[Contents]) -> Benchmark:
    """Return the questions of the files."""
    builder = Builder(NAME)
    questions = [question for file in files for question in file.value]
    pooled = all({*one["haystack_session_ids"]} <= {*one["answer_session_ids"]} for one in questions)
    if pooled:
        builder.notes.append("the file has the sessions with the answer only; all of them are searched together")
    numbers: dict[str, int] = {}
    for question in questions:
        project = POOL if pooled else question["question_id"]
        relevant = _add_history(builder, project, question, numbers)
        category = question["question_type"] + ("-abstention" if question["question_id"].endswith("_abs") else "")
        asked_at = _time(question["question_date"])
        query = BeirQuery(question["question_id"], question["question"], project, asked_at, category)
        builder.add_query(query, [] if category.endswith("-abstention") else relevant, answer=question["answer"])
    return builder.build()


def _add_history(builder: Builder, project: str, question: Mapping[str, Any], numbers: dict[str, int]) -> list[str]:
    """Add the turns of a question's history, and return the ids of the relevant ones."""
    relevant = []
    parts = (question["haystack_session_ids"], question["haystack_dates"], question["haystack_sessions"])
    # In a pool the sessions are numbered over all questions, and one that several questions have is added once.
    own = numbers if project == POOL else {}
    for name, date, turns in zip(*parts, strict=True):
        session = f"{project}/s{own.setdefault(name, len(own))}"
        for position, turn in enumerate(turns):
            id = f"{session}/{position}"
            if not builder.has_memory(id):
                builder.add_memory(
                    id, turn["content"], project=project, session=session, speaker=turn["role"], occurred=_time(date)
                )
            if turn.get("has_answer"):
                relevant.append(id)
    return relevant


def _time(text: str) -> datetime:
    return parse_time(_WEEKDAY.sub("", text), "%Y/%m/%d %H:%M")
