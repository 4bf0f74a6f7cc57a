"""RealMem: `*_dialogues_256k.json`, all sessions of one person a file, with queries among the turns.

It judges sessions, so a session is a memory; a person is a project. A query's own turn and the answer to it are left
out of their session. Later sessions are searched too, where the benchmark searches only those before the query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from retentive.evaluation.benchmarks.base import Benchmark, Builder, Contents, parse_time
from retentive.transfer.formats.beir import BeirQuery

NAME = "RealMem"


def recognises(value: Any) -> bool:
    """Whether these are the sessions of one person."""
    return isinstance(value, dict) and "dialogues" in value


def read(files: Sequence[Contents]) -> Benchmark:
    """Return the sessions of the files."""
    builder = Builder(NAME)
    builder.notes.append("a memory is a session; sessions after a query are searched too")
    for file in files:
        person = file.name.partition("_dialogues")[0]
        for number, session in enumerate(file.value["dialogues"]):
            _add_session(builder, person, number, session)
    return builder.build()


def _add_session(builder: Builder, person: str, number: int, session: Mapping[str, Any]) -> None:
    occurred = parse_time(session["current_time"].partition(" ")[0], "%Y-%m-%d")
    told: list[str] = []
    query: BeirQuery | None = None
    for position, turn in enumerate(session["dialogue_turns"]):
        if turn.get("is_query"):
            id, kind = f"{person}/{number}/{position}", turn.get("category_name")
            query = BeirQuery(id, turn["content"], person, occurred, kind or None)
        elif query is not None:
            relevant = (f"{person}/{uuid}" for uuid in turn.get("memory_session_uuids") or [])
            builder.add_query(query, relevant, answer=turn["content"])
            query = None
        else:
            told.append(f"{turn['speaker']}: {turn['content']}")
    builder.add_memory(f"{person}/{session['session_uuid']}", "\n".join(told), project=person, occurred=occurred)
