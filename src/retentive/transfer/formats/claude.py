"""Claude's data export: the zip archive, or the `conversations.json` in it.

Anthropic does not document it. The fields used here follow the description in github.com/Sinity/polylogue,
docs/providers/claude-ai.md: an array of conversations with `uuid`, `name`, `created_at` and `chat_messages`; messages
with `uuid`, `sender` (human or assistant), `created_at`, `text`, and `content` as blocks of the types text, thinking,
tool_use, tool_result; `attachments` and `files` with `file_name`, and `extracted_content` for text files. Times are
ISO 8601.

Each conversation is a session, named by its title. The text of a message is that of its text blocks, or else `text`.
Long pasted text, which Claude exports as an attachment, is a memory of its own before the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from retentive.transfer.formats.base import ImportEntry, ImportItem, ReadWarning, Skipped
from retentive.transfer.formats.claude_code import content_text
from retentive.transfer.formats.json_documents import Heading, document_shape, read_documents, session_names
from retentive.transfer.formats.json_lines import parse_time, to_list, to_name, to_object, to_text, without_none

_FILES = r"(^|/)conversations(-\d+)?\.json$"
_SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant"}


class Claude:
    """Conversations exported from Claude."""

    name = "claude"

    def recognises(self, path: Path) -> bool:
        shape = document_shape(path, names=_FILES)
        return "chat_messages" in shape.inner | shape.outer

    def read(self, path: Path) -> Iterator[ImportEntry]:
        convert = partial(_conversation, session_names(path, _heading, names=_FILES, lists=("conversations",)))
        yield from read_documents(path, convert, names=_FILES, lists=("conversations",))


def _heading(conversation: Mapping[str, Any]) -> Heading:
    return Heading(_id(conversation), conversation.get("name"), parse_time(conversation.get("created_at")))


def _id(conversation: Mapping[str, Any]) -> str | None:
    return to_name(conversation.get("uuid")) or to_name(conversation.get("id"))


def _conversation(names: Mapping[str, str], where: str, conversation: Mapping[str, Any]) -> Iterator[ImportEntry]:
    id = _id(conversation)
    messages = to_list(conversation.get("chat_messages"))
    if id is None or not messages:
        yield Skipped(where, "a conversation without an id" if id is None else "a conversation without messages")
        return
    title, when = to_text(conversation.get("name")), parse_time(conversation.get("created_at"))
    pasted = 0  # each pasted text takes a position before its message
    for at, message in enumerate(messages):
        place = f"{where}, message {at + 1}"
        if not isinstance(message, dict):
            yield Skipped(place, "a message that is not an object")
            continue
        when = parse_time(message.get("created_at")) or when  # without a time, that of the message before it
        shared = without_none(session=f"claude:{names.get(id, id)}", occurred=when, metadata=without_none(title=title))
        for entry in _message(place, message, f"{id}/{to_name(message.get('uuid')) or at}", shared):
            if isinstance(entry, ImportItem):
                yield replace(entry, draft={**entry.draft, "position": at + pasted})
                pasted += "attachment" in entry.draft["metadata"]
            else:
                yield entry


def _message(where: str, message: Mapping[str, Any], key: str, shared: Mapping[str, Any]) -> Iterator[ImportEntry]:
    """Yield the text pasted into a message, then the text of the message."""
    speaker = _SPEAKERS.get(str(message.get("sender")))
    if speaker is None:
        yield Skipped(where, f"a message of the unknown sender '{message.get('sender')!s:.40}'")
        return
    if "occurred" not in shared:
        yield ReadWarning(where, "no valid time")
    draft = {**shared, "speaker": speaker, "source": f"claude:{key}"[:500]}
    pasted = 0
    for number, one in enumerate((*to_list(message.get("attachments")), *to_list(message.get("files"))), 1):
        name, content = to_object(one).get("file_name"), to_text(to_object(one).get("extracted_content"))
        if content is None:
            yield ReadWarning(where, f"left out: the attachment '{name!s:.80}'")
            continue
        pasted += 1
        metadata = {**shared["metadata"], "attachment": to_name(name) or "pasted text"}
        at = f"{where}, attachment {number}"
        yield ImportItem({**draft, "text": content.strip(), "metadata": metadata}, f"{key}/attachment {number}", at)
    text, skipped = content_text(message.get("content"), where)
    yield from skipped
    text = text or (to_text(message.get("text")) or "").strip()
    if text:
        yield ImportItem({**draft, "text": text}, key, where)
    elif not pasted:
        yield Skipped(where, "no text")
