"""Transcripts of Claude Code: a JSONL file of a session, or a folder of them such as `~/.claude/projects`.

Not documented by Anthropic. Relied on, as others found it in their files
(github.com/ticpu/claude-conversation-search-mcp, docs/jsonl-format.md): lines with `type` user or assistant, `uuid`,
`sessionId`, `timestamp`, `cwd` and `message` with `content`, a text or blocks; `isSidechain` marks the work of agents,
`isMeta` and `isCompactSummary` what the program wrote itself, `isApiErrorMessage` failures. Other types of lines
(summary, system, file-history-snapshot, …) are not messages.

A session keeps its id; its project is the last part of the folder it began in. A message that a resumed session repeats
keeps its `uuid`, and so is not stored twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from retentive.errors import Invalid, RetentiveError
from retentive.transfer.formats import Broken, Entry, Item, Noticed, Skipped
from retentive.transfer.formats.claude_blocks import text_of
from retentive.transfer.formats.json_lines import Row, rows
from retentive.transfer.formats.reading import opened
from retentive.transfer.formats.values import given, to_name, to_object, to_when

_COMMANDS = re.compile(r"<(command-name|command-message|local-command-|bash-(input|stdout|stderr)|user-memory-input)")
_REMINDERS = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_LOOKED_AT = 20
"""A transcript may begin with a few lines of bookkeeping."""


class ClaudeCode:
    """Sessions of Claude Code."""

    name = "claude-code"

    def recognises(self, path: Path) -> bool:
        try:
            return any(_is_transcript(file) for file in _transcripts(path)[:_LOOKED_AT])
        except (RetentiveError, OSError):
            return False

    def read(self, path: Path) -> Iterator[Entry]:
        for file in _transcripts(path):
            name = file.name if file == path else file.relative_to(path).as_posix()
            try:
                with opened(file) as opened_file:
                    yield from _session(rows(name, opened_file))
            except Invalid as error:
                if file == path:
                    raise
                yield Broken(name, str(error))  # the others are read all the same


def _transcripts(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*.jsonl") if file.is_file() and not file.is_symlink())
    return [path] if path.suffix.lower() == ".jsonl" else []


def _is_transcript(path: Path) -> bool:
    with opened(path) as file:
        for row in islice(rows(path.name, file), _LOOKED_AT):
            if isinstance(row, Row) and "sessionId" in row.value and ("uuid" in row.value or "type" in row.value):
                return True
    return False


def _session(found: Iterator[Row | Skipped | Noticed | Broken]) -> Iterator[Entry]:
    project: str | None = None
    for row in found:
        if not isinstance(row, Row):
            yield row
            continue
        project = project or _project(row.value.get("cwd"))
        yield from _message(row.where, row.value, project, row.number - 1)


def _project(folder: Any) -> str | None:
    if not isinstance(folder, str):
        return None
    path = PureWindowsPath(folder) if "\\" in folder else PurePosixPath(folder)
    return to_name(path.name)


def _message(where: str, line: Mapping[str, Any], project: str | None, position: int) -> Iterator[Entry]:
    reason = _passed_over(line)
    if reason:
        yield Skipped(where, reason)
        return
    message = to_object(line.get("message"))
    text, passed = text_of(message.get("content"), where)
    yield from passed
    if _COMMANDS.match(text):
        yield Skipped(where, "a command of the program")
        return
    text = _REMINDERS.sub("", text).strip()
    session, key = to_name(line.get("sessionId")), to_name(line.get("uuid"))
    if not text and passed:
        return  # each of its blocks was named
    if not text or session is None or key is None:
        yield Skipped(where, "it has no text" if not text else "a message without a session or an id")
        return
    occurred = to_when(line.get("timestamp"))
    if occurred is None:
        yield Noticed(where, "it has no time that can be understood")
    yield Item(
        given(
            text=text,
            project=project,
            session=f"claude-code:{session}",
            position=position,
            speaker=str(line["type"]),
            occurred=occurred,
            source=f"claude-code:{session}/{key}"[:500],
            metadata=given(model=to_name(message.get("model")), branch=to_name(line.get("gitBranch"))),
        ),
        key,
        where,
    )


def _passed_over(line: Mapping[str, Any]) -> str | None:
    kind = line.get("type")
    if kind not in ("user", "assistant"):
        return f"a line of the type '{kind!s:.40}'"
    if line.get("isSidechain") is True:
        return "the work of an agent on the side"
    if line.get("isMeta") is True or line.get("isCompactSummary") is True:
        return "written by the program itself"
    if line.get("isApiErrorMessage") is True:
        return "a failure of the service"
    return None
