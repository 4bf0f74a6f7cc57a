"""Claude's data export: the zip, or the `conversations.json` in it.

Anthropic does not document it. Relied on, as others describe it (github.com/Sinity/polylogue,
docs/providers/claude-ai.md): an array of conversations with `uuid`, `name`, `created_at` and `chat_messages`; of a
message `uuid`, `sender` (human or assistant), `created_at`, `text`, and `content`, blocks of the types text, thinking,
tool_use, tool_result; `attachments` and `files` with `file_name`, and `extracted_content` where it was text. Times are
ISO 8601.

A conversation is a session. Where a message has blocks of text they are its text, else `text` is. What was pasted into
a message, which Claude keeps as an attachment when it is long, is a memory of its own before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from retentive.transfer.formats import Entry, Item, Noticed, Skipped
from retentive.transfer.formats.claude_blocks import text_of
from retentive.transfer.formats.documents import looks, read_each
from retentive.transfer.formats.values import given, to_list, to_name, to_object, to_text, to_when

_FILES = r"(^|/)conversations(-\d+)?\.json$"
_SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant"}


class Claude:
    """Conversations as Claude exports them."""

    name = "claude"

    def recognises(self, path: Path) -> bool:
        shape = looks(path, inside=_FILES)
        return "chat_messages" in shape.inner | shape.outer

    def read(self, path: Path) -> Iterator[Entry]:
        return read_each(path, _conversation, inside=_FILES, lists=("conversations",))


def _conversation(where: str, conversation: Mapping[str, Any]) -> Iterator[Entry]:
    id = to_name(conversation.get("uuid")) or to_name(conversation.get("id"))
    messages = to_list(conversation.get("chat_messages"))
    if id is None or not messages:
        yield Skipped(where, "a conversation without an id" if id is None else "a conversation without messages")
        return
    title, when = to_text(conversation.get("name")), to_when(conversation.get("created_at"))
    pasted = 0  # what was pasted stands before the message it came with
    for at, message in enumerate(messages):
        place = f"{where}, message {at + 1}"
        if not isinstance(message, dict):
            yield Skipped(place, "a message that is not an object")
            continue
        when = to_when(message.get("created_at")) or when  # without a time, it came with the one before it
        shared = given(session=f"claude:{id}", occurred=when, metadata=given(title=title))
        for entry in _message(place, message, f"{id}/{to_name(message.get('uuid')) or at}", shared):
            if isinstance(entry, Item):
                yield replace(entry, draft={**entry.draft, "position": at + pasted})
                pasted += "attachment" in entry.draft["metadata"]
            else:
                yield entry


def _message(where: str, message: Mapping[str, Any], key: str, shared: Mapping[str, Any]) -> Iterator[Entry]:
    """What was pasted into a message, and what it says itself."""
    speaker = _SPEAKERS.get(str(message.get("sender")))
    if speaker is None:
        yield Skipped(where, f"a message of the unknown sender '{message.get('sender')!s:.40}'")
        return
    if "occurred" not in shared:
        yield Noticed(where, "it has no time that can be understood")
    draft = {**shared, "speaker": speaker, "source": f"claude:{key}"[:500]}
    pasted = 0
    for number, one in enumerate((*to_list(message.get("attachments")), *to_list(message.get("files"))), 1):
        name, content = to_object(one).get("file_name"), to_text(to_object(one).get("extracted_content"))
        if content is None:
            yield Noticed(where, f"left out: the attachment '{name!s:.80}'")
            continue
        pasted += 1
        metadata = {**shared["metadata"], "attachment": to_name(name) or "pasted text"}
        at = f"{where}, attachment {number}"
        yield Item({**draft, "text": content.strip(), "metadata": metadata}, f"{key}/attachment {number}", at)
    text, passed = text_of(message.get("content"), where)
    yield from passed
    text = text or (to_text(message.get("text")) or "").strip()
    if text:
        yield Item({**draft, "text": text}, key, where)
    elif not pasted:
        yield Skipped(where, "it has no text")
