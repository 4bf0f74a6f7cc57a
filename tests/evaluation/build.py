"""A tiny evaluation set: two households, a dozen memories, six queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

MEMORIES: list[tuple[str, str, str, str]] = [
    ("a1", "anna", "anna/1", "Anna: The spare key is under the blue pot on the terrace."),
    ("a2", "anna", "anna/1", "Ben: Thanks, and the alarm code is 4711."),
    ("a3", "anna", "anna/1", "Anna: Our cat Minka only eats salmon."),
    ("a4", "anna", "anna/2", "Ben: I booked the dentist for Thursday at nine."),
    ("a5", "anna", "anna/2", "Anna: The plumber repaired the boiler in the cellar."),
    ("a6", "anna", "anna/2", "Ben: He wants to be paid in cash."),
    ("c1", "carl", "carl/1", "Carl: The spare key is with the neighbour, Mrs Okafor."),
    ("c2", "carl", "carl/1", "Dora: My flight to Lisbon leaves at noon."),
    ("c3", "carl", "carl/1", "Carl: The marathon is on the second of May."),
    ("c4", "carl", "carl/1", "Dora: I have been vegetarian since 2019."),
    ("c5", "carl", "carl/1", "Carl: The wifi password is on the fridge."),
    ("c6", "carl", "carl/1", "Dora: We moved the piano to the attic."),
]

QUERIES: list[tuple[str, str, str, str, Sequence[str]]] = [
    ("q1", "anna", "where", "Where is the spare key?", ["a1"]),
    ("q2", "anna", "what", "What food does the pet like?", ["a3"]),
    ("q3", "anna", "what", "What did the tradesman mend, and how is he paid?", ["a5", "a6"]),
    ("q4", "carl", "where", "Where is the spare key?", ["c1"]),
    ("q5", "carl", "when", "When is the race?", ["c3"]),
    ("q6", "carl", "where", "Where is the piano?", ["c6"]),
]


def write_set(
    folder: Path,
    *,
    corpus: Sequence[Any] | None = None,
    queries: Sequence[Any] | None = None,
    qrels: str | None = None,
) -> Path:
    """The tiny set in a folder, with some of its files as given; a line may be an object or text that is no JSON."""
    (folder / "qrels").mkdir(parents=True)
    _write(folder / "corpus.jsonl", MEMORY_LINES if corpus is None else corpus)
    _write(folder / "queries.jsonl", QUERY_LINES if queries is None else queries)
    judged = [f"{query[0]}\t{answer}\t1\n" for query in QUERIES for answer in query[4]]
    text = "query-id\tcorpus-id\tscore\n" + "".join(judged) if qrels is None else qrels
    (folder / "qrels" / "test.tsv").write_text(text, encoding="utf-8")
    return folder


def _write(path: Path, lines: Sequence[Any]) -> None:
    written = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(written) + "\n", encoding="utf-8")


MEMORY_LINES = [
    {
        "_id": id,
        "title": "",
        "text": text,
        "metadata": {
            "project": project,
            "session": session,
            "speaker": text.split(":")[0],
            "occurred_at": "2026-05-08T13:56:00",
        },
    }
    for id, project, session, text in MEMORIES
]

QUERY_LINES = [
    {
        "_id": id,
        "text": text,
        "metadata": {"project": project, "category": category, "asked_at": "2026-05-20T09:00:00"},
    }
    for id, project, category, text, _ in QUERIES
]
