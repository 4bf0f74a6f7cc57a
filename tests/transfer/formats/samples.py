"""Files as other programs write them, made up for tests: every name and sentence in them is invented."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw

from retentive.transfer.formats.base import (
    Format,
    ImportEntry,
    ImportItem,
    ReadWarning,
    Skipped,
    StoredMemory,
    Truncated,
)

BEGAN = 1_780_000_000.0  # 2026-05-28T20:26:40Z


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_lines(path: Path, lines: Iterable[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    return path


def write_database(path: Path, script: str) -> Path:
    """A SQLite file."""
    connection = apsw.Connection(str(path))
    connection.execute(script)
    connection.close()
    return path


def write_zip(path: Path, members: Mapping[str, bytes | str], packed: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", packed) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def chatgpt_node(id: str, parent: str | None, role: str, text: Any, **fields: Any) -> dict[str, Any]:
    """A node of a conversation's tree; `text` is a text, or the whole content."""
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message = {"id": id, "author": {"role": role}, "create_time": BEGAN + len(id), "content": content, **fields}
    return {"id": id, "message": message, "parent": parent, "children": []}


def chatgpt_conversation(
    *nodes: dict[str, Any], id: str = "c1", current: str | None = None, **fields: Any
) -> dict[str, Any]:
    mapping = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    mapping |= {node["id"]: node for node in nodes}
    for node in nodes:
        if node["parent"] in mapping:
            mapping[node["parent"]]["children"].append(node["id"])
    return {
        "title": "The kitchen",
        "create_time": BEGAN,
        "mapping": mapping,
        "current_node": current or nodes[-1]["id"],
        "conversation_id": id,
        **fields,
    }


def a_chatgpt_conversation(id: str = "c1") -> dict[str, Any]:
    return chatgpt_conversation(
        chatgpt_node("m1", "root", "user", "Gas or induction for the kitchen?"),
        chatgpt_node("m22", "m1", "assistant", "Induction, if the board has room.", metadata={"model_slug": "gpt-x"}),
        chatgpt_node("m333", "m22", "user", "It has 16 A left."),
        id=id,
    )


def claude_message(uuid: str, sender: str, text: str, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "sender": sender,
        "text": text,
        "content": [{"type": "text", "text": text}],
        "created_at": "2026-05-28T20:26:40.123456Z",
        "attachments": [],
        "files": [],
        **fields,
    }


def claude_conversation(*messages: dict[str, Any], uuid: str = "u1", **fields: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": "Garden",
        "created_at": "2026-05-28T20:00:00Z",
        "updated_at": "2026-05-28T21:00:00Z",
        "account": {"uuid": "a1"},
        "chat_messages": list(messages),
        **fields,
    }


def code_line(uuid: str, kind: str, content: Any, **fields: Any) -> dict[str, Any]:
    """A line of a transcript of Claude Code."""
    return {
        "type": kind,
        "uuid": uuid,
        "parentUuid": None,
        "sessionId": "s1",
        "timestamp": "2026-05-28T20:26:40.123Z",
        "cwd": "/home/sam/work/lighthouse",
        "isSidechain": False,
        "message": {"role": kind, "content": content},
        **fields,
    }


def entries(format: Format, path: Path) -> list[ImportEntry]:
    return list(format.read(path))


def items(found: Iterable[ImportEntry]) -> list[ImportItem]:
    return [entry for entry in found if isinstance(entry, ImportItem)]


def texts(found: Iterable[ImportEntry]) -> list[str]:
    return [
        entry.draft["text"] if isinstance(entry, ImportItem) else entry.memory.text
        for entry in found
        if isinstance(entry, ImportItem | StoredMemory)
    ]


def reasons(found: Iterable[ImportEntry]) -> list[str]:
    return [entry.reason for entry in found if isinstance(entry, Skipped)]


def warnings(found: Iterable[ImportEntry]) -> list[str]:
    return [entry.reason for entry in found if isinstance(entry, ReadWarning)]


def truncated(found: Iterable[ImportEntry]) -> list[str]:
    return [entry.reason for entry in found if isinstance(entry, Truncated)]


def as_file(data: bytes) -> io.BytesIO:
    return io.BytesIO(data)
