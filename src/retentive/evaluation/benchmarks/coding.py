"""Coding: conversations with coding agents, exported by SpecStory into public repositories, with questions of our own.

`coding.jsonl` names the repositories, their commits and licences, the sessions that are read, and the queries with the
turns that answer them. The conversations are not part of this package: a folder has a checkout of each repository, as
`owner/name`. A turn is a prompt, or everything that the agent writes until the next prompt, without code blocks,
thoughts, and the input and output of tools. A turn is a memory; a repository is a project.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

from retentive.evaluation.benchmarks.base import Benchmark, Builder, parse_time
from retentive.transfer.formats.beir import BeirQuery

NAME = "Coding"
QUERIES = Path(__file__).with_suffix(".jsonl")
USER, ASSISTANT = "User", "Assistant"

_SPEAKER: Final = re.compile(r"^_\*\*(User|Assistant|Agent|)(?: \((.*)\))?\*\*_[ \t]*$", re.MULTILINE)
_STARTED: Final = re.compile(r"\d{4}-\d\d-\d\d_\d\d-\d\d")
_SAID: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")

_HIDDEN: Final = (
    *(re.compile(rf"<{tag}\b.*?(?:</{tag}>|\Z)", re.DOTALL) for tag in ("think", "tool-use", "details", "aside")),
    re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL),
    re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE),
    re.compile(r"^(?:(?:Read|Edit|Create) file|Listed directory|Searched|Grep search)\b.*$|^Cancelled$", re.MULTILINE),
    re.compile(r"^---+[ \t]*$", re.MULTILINE),
)
"""What is not prose: thoughts, tools, comments, code blocks, and what separates turns."""

_BLANK: Final = re.compile(r"\n\s*\n")


class Turn(NamedTuple):
    """A turn of a transcript, and when it was said."""

    speaker: str
    text: str
    said: datetime | None


def is_folder(path: Path) -> bool:
    """Whether this is a folder with one of the repositories."""
    return path.is_dir() and any((path / repository["repository"]).is_dir() for repository, _ in _listed())


def read(path: Path) -> Benchmark:
    """Return the conversations of the repositories in a folder."""
    builder = Builder(NAME)
    for repository, queries in _listed():
        project = repository["repository"]
        if not (path / project).is_dir():
            builder.notes.append(f"{project} is not in the folder; its queries are not used")
            continue
        last = _add_sessions(builder, project, path / project, repository["sessions"])
        for number, query in enumerate(queries):
            relevant = (f"{project}/{turn}" for turn in query.get("evidence", ()))
            builder.add_query(BeirQuery(f"{project}/q{number}", query["text"], project, last, query["kind"]), relevant)
    return builder.build()


def read_transcript(name: str, text: str) -> list[Turn]:
    """Return the turns of a file. Its name starts with the time of the session; newer files have that of each turn."""
    started = _STARTED.match(name)
    said = parse_time(started[0], "%Y-%m-%d_%H-%M") if started else None
    parts = _SPEAKER.split(text)
    turns = []
    for speaker, label, written in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        time = _SAID.search(label or "")
        said = parse_time(time[0], "%Y-%m-%d %H:%M") if time else said
        if prose := _prose(written):
            # The parts of an answer between the tools have no name.
            turns.append(Turn(USER if speaker == "User" else ASSISTANT, prose, said))
    return list(_merged(turns))


def _listed() -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each repository with its queries."""
    lines = [json.loads(line) for line in QUERIES.read_text(encoding="utf-8").splitlines()]
    starts = [at for at, line in enumerate(lines) if "repository" in line]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start], lines[start + 1 : end]


def _add_sessions(builder: Builder, project: str, folder: Path, sessions: Iterable[str]) -> datetime | None:
    """Add the turns of the sessions, and return the time of the last one."""
    last = None
    for session, file in enumerate(sessions, 1):
        text = (folder / file).read_text(encoding="utf-8", errors="replace")
        for number, turn in enumerate(read_transcript(Path(file).name, text), 1):
            last = turn.said or last
            builder.add_memory(
                f"{project}/{session}:{number}",
                turn.text,
                project=project,
                session=f"{project}/{session}",
                speaker=turn.speaker,
                occurred=turn.said,
            )
    return last


def _merged(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Yield the turns, those of one speaker in a row as one."""
    for _, row in groupby(turns, key=lambda turn: turn.speaker):
        first, *others = row
        yield first._replace(text="\n\n".join(turn.text for turn in (first, *others)))


def _prose(text: str) -> str:
    for hidden in _HIDDEN:
        text = hidden.sub("", text)
    return _BLANK.sub("\n\n", text).strip()
