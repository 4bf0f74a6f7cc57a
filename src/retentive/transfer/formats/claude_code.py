"""Transcripts of Claude Code: the JSON Lines file of a session, or a folder of them such as `~/.claude/projects`.

Anthropic does not document them. The fields used here follow github.com/ticpu/claude-conversation-search-mcp,
docs/jsonl-format.md: lines with `type` user or assistant, `uuid`, `sessionId`, `timestamp`, `cwd` and `message` with
`content`, a text or blocks; `isSidechain` marks the work of subagents, `isMeta` and `isCompactSummary` text of the
program itself, `isApiErrorMessage` failures. Lines of other types (summary, system, file-history-snapshot, …) are not
messages.

A session keeps its id; its project is the last part of the folder in which it began. A resumed session repeats messages
with the same `uuid`, so they are stored once. The user's lines have a `promptId`, which hooks get as `prompt_id`: the
messages of a turn that hooks have stored are not stored again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from retentive.errors import Invalid, RetentiveError
from retentive.transfer.formats.base import ImportEntry, ImportIssue, ImportItem, ReadWarning, Skipped, Truncated
from retentive.transfer.formats.json_lines import (
    JsonRow,
    parse_time,
    read_rows,
    to_list,
    to_name,
    to_object,
    without_none,
)
from retentive.transfer.formats.streams import open_file

_COMMANDS = re.compile(r"<(command-name|command-message|local-command-|bash-(input|stdout|stderr)|user-memory-input)")
_REMINDERS = re.compile(r"<system-reminder>.*?</system-reminder>", re.DOTALL)
_LINES_TO_DETECT = 20
"""A transcript may begin with a few lines that are not messages."""

_FILES_TO_DETECT = 20


class ClaudeCode:
    """Sessions of Claude Code."""

    name = "claude-code"

    def recognises(self, path: Path) -> bool:
        try:
            return any(_is_transcript(file) for file in _transcripts(path)[:_FILES_TO_DETECT])
        except (RetentiveError, OSError):
            return False

    def read(self, path: Path) -> Iterator[ImportEntry]:
        for file in _transcripts(path):
            name = file.name if file == path else file.relative_to(path).as_posix()
            try:
                with open_file(file) as opened:
                    yield from _session(read_rows(name, opened))
            except Invalid as error:
                if file == path:
                    raise
                yield Truncated(name, str(error))  # the other files are still read


def _transcripts(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*.jsonl") if file.is_file() and not file.is_symlink())
    return [path] if path.suffix.lower() == ".jsonl" else []


def _is_transcript(path: Path) -> bool:
    with open_file(path) as file:
        for row in islice(read_rows(path.name, file), _LINES_TO_DETECT):
            if isinstance(row, JsonRow) and "sessionId" in row.value and ("uuid" in row.value or "type" in row.value):
                return True
    return False


def _session(rows: Iterator[JsonRow | ImportIssue]) -> Iterator[ImportEntry]:
    project: str | None = None
    prompt: str | None = None
    for row in rows:
        if not isinstance(row, JsonRow):
            yield row
            continue
        project = project or _project(row.value.get("cwd"))
        prompt = to_name(row.value.get("promptId")) or prompt
        yield from _message(row.where, row.value, project, row.number - 1, prompt)


def _project(folder: Any) -> str | None:
    if not isinstance(folder, str):
        return None
    path = PureWindowsPath(folder) if "\\" in folder else PurePosixPath(folder)
    return to_name(path.name)


def _message(
    where: str, line: Mapping[str, Any], project: str | None, position: int, prompt: str | None
) -> Iterator[ImportEntry]:
    reason = _reason_to_skip(line)
    if reason:
        yield Skipped(where, reason)
        return
    message = to_object(line.get("message"))
    text, skipped = content_text(message.get("content"), where)
    yield from skipped
    if _COMMANDS.match(text):
        yield Skipped(where, "a command of the program")
        return
    text = _REMINDERS.sub("", text).strip()
    session, key = to_name(line.get("sessionId")), to_name(line.get("uuid"))
    if not text and skipped:
        return  # each of its blocks was reported
    if not text or session is None or key is None:
        yield Skipped(where, "no text" if not text else "a message without a session or an id")
        return
    occurred = parse_time(line.get("timestamp"))
    if occurred is None:
        yield ReadWarning(where, "no valid time")
    yield ImportItem(
        without_none(
            text=text,
            project=project,
            session=f"claude-code:{session}",
            position=position,
            speaker=str(line["type"]),
            occurred=occurred,
            source=f"claude-code:{session}/{key}"[:500],
            metadata=without_none(model=to_name(message.get("model")), branch=to_name(line.get("gitBranch"))),
        ),
        key,
        where,
        turn=prompt and f"claude-code:{session}/{prompt}"[:500],
    )


def _reason_to_skip(line: Mapping[str, Any]) -> str | None:
    kind = line.get("type")
    if kind not in ("user", "assistant"):
        return f"a line of the type '{kind!s:.40}'"
    if line.get("isSidechain") is True:
        return "the work of a subagent"
    if line.get("isMeta") is True or line.get("isCompactSummary") is True:
        return "written by the program itself"
    if line.get("isApiErrorMessage") is True:
        return "an error of the service"
    return None


_BLOCK_NAMES = {
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "a tool call",
    "server_tool_use": "a tool call",
    "tool_result": "a tool result",
    "web_search_tool_result": "a tool result",
    "image": "an image",
    "document": "a document",
    "token_budget": "a note to the model",
}


def content_text(content: Any, where: str) -> tuple[str, list[Skipped]]:
    """Return the text of a Claude message's content, which is a text or blocks, and the blocks that are not text."""
    if isinstance(content, str):
        return content.strip(), []
    texts: list[str] = []
    skipped: list[Skipped] = []
    for number, block in enumerate(to_list(content), 1):
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        text = block if isinstance(block, str) else block.get("text") if kind == "text" else None
        if isinstance(text, str):
            texts.append(text.strip())
        else:
            reason = _BLOCK_NAMES.get(str(kind), f"a block of the unknown type '{kind!s:.40}'")
            skipped.append(Skipped(f"{where}, block {number}", reason))
    return "\n\n".join(text for text in texts if text), skipped
