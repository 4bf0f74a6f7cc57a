"""Claude's data export: the zip, or the `conversations.json` in it.

Anthropic does not document it. Relied on, as others describe it (github.com/Sinity/polylogue,
docs/providers/claude-ai.md): an array of conversations with `uuid`, `name`, `created_at` and `chat_messages`; of a
message `uuid`, `sender` (human or assistant), `created_at`, `text`, and `content`, blocks of the types text, thinking,
tool_use, tool_result; `attachments` and `files` with `file_name`. Times are ISO 8601.

A conversation is a session. Where a message has blocks of text they are its text, else `text` is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from recollect.formats import Entry, Item, Noticed, Skipped
from recollect.formats.claude_blocks import text_of
from recollect.formats.documents import looks, read_each
from recollect.formats.values import given, to_list, to_name, to_object, to_text, to_when

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
    title, began = to_text(conversation.get("name")), to_when(conversation.get("created_at"))
    for at, message in enumerate(messages):
        place = f"{where}, message {at + 1}"
        if isinstance(message, dict):
            yield from _message(place, message, id, at, title, began)
        else:
            yield Skipped(place, "a message that is not an object")


def _message(
    where: str, message: Mapping[str, Any], conversation: str, at: int, title: str | None, began: datetime | None
) -> Iterator[Entry]:
    speaker = _SPEAKERS.get(str(message.get("sender")))
    if speaker is None:
        yield Skipped(where, f"a message of the unknown sender '{message.get('sender')!s:.40}'")
        return
    text, passed = text_of(message.get("content"), where)
    yield from passed
    text = text or (to_text(message.get("text")) or "").strip()
    for one in (*to_list(message.get("attachments")), *to_list(message.get("files"))):
        yield Noticed(where, f"left out: the attachment '{to_object(one).get('file_name')!s:.80}'")
    if not text:
        yield Skipped(where, "it has no text")
        return
    occurred = to_when(message.get("created_at")) or began
    if occurred is None:
        yield Noticed(where, "it has no time that can be understood")
    key = f"{conversation}/{to_name(message.get('uuid')) or at}"
    yield Item(
        given(
            text=text,
            session=f"claude:{conversation}",
            position=at,
            speaker=speaker,
            occurred=occurred,
            source=f"claude:{key}"[:500],
            metadata=given(title=title),
        ),
        key,
        where,
    )
