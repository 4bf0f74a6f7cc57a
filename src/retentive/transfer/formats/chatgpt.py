"""ChatGPT's data export: the zip archive, or the `conversations.json` in it (or `conversations-000.json` etc.).

OpenAI does not document it. The fields used here follow github.com/mitkury/chatgpt-export-parser,
docs/chatgpt-data-export-format.md: an array of conversations with `conversation_id` or `id`, `title`, `create_time`,
`current_node` and `mapping`, a tree of nodes with `parent`, `children` and `message`; messages with `id`,
`author.role`, `author.name`, `create_time`, `recipient`, `content.content_type` with `parts` or `text`,
`metadata.model_slug` and `metadata.is_visually_hidden_from_conversation`. Times are seconds since 1970.

Each conversation is a session, named by its title. Its memories are the messages on the branch that ends at
`current_node`, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from retentive.transfer.formats.base import ImportEntry, ImportItem, ReadWarning, Skipped
from retentive.transfer.formats.json_documents import Heading, document_shape, read_documents, session_names
from retentive.transfer.formats.json_lines import parse_time, to_list, to_name, to_object, to_text, without_none

_FILES = r"(^|/)conversations(-\d+)?\.json$"
_TOOL_RESULTS = ("execution_output", "tether_quote", "tether_browsing_display", "system_error", "computer_output")
_THINKING = ("thoughts", "reasoning_recap")
_INSTRUCTIONS = ("user_editable_context", "model_editable_context")
_KNOWN_TEXT = ("text", "multimodal_text", "code")


class ChatGpt:
    """Conversations exported from ChatGPT."""

    name = "chatgpt"

    def recognises(self, path: Path) -> bool:
        shape = document_shape(path, names=_FILES)
        return "mapping" in shape.inner or {"mapping", "current_node"} <= shape.outer

    def read(self, path: Path) -> Iterator[ImportEntry]:
        convert = partial(_conversation, session_names(path, _heading, names=_FILES, lists=("conversations",)))
        yield from read_documents(path, convert, names=_FILES, lists=("conversations",))


def _heading(conversation: Mapping[str, Any]) -> Heading:
    return Heading(_id(conversation), conversation.get("title"), parse_time(conversation.get("create_time")))


def _id(conversation: Mapping[str, Any]) -> str | None:
    return to_name(conversation.get("conversation_id")) or to_name(conversation.get("id"))


def _conversation(names: Mapping[str, str], where: str, conversation: Mapping[str, Any]) -> Iterator[ImportEntry]:
    id = _id(conversation)
    nodes = to_object(conversation.get("mapping"))
    if id is None or not nodes:
        yield Skipped(where, "a conversation without an id" if id is None else "a conversation without messages")
        return
    leaf = to_text(conversation.get("current_node"))
    if leaf not in nodes:
        leaf = _latest_leaf(nodes)
        yield ReadWarning(where, "current_node does not exist; the branch with the latest message was read")
    branch = _branch(nodes, leaf)
    shared = {"session": f"chatgpt:{names.get(id, id)}", "title": to_text(conversation.get("title"))}
    when = parse_time(conversation.get("create_time"))
    for at, node in enumerate(branch):
        message = to_object(to_object(nodes[node]).get("message"))
        when = parse_time(message.get("create_time")) or when  # without a time, that of the message before it
        if message:
            yield from _message(f"{where}, message {node:.80}", message, f"{id}/{node}", at, shared, when)
    for node in nodes.keys() - set(branch):
        message = to_object(to_object(nodes[node]).get("message"))
        if to_object(message.get("author")).get("role") in ("user", "assistant"):
            yield Skipped(f"{where}, message {node:.80}", "not on the current branch")


def _branch(nodes: Mapping[str, Any], leaf: str | None) -> list[str]:
    """Return the nodes from the root to a leaf. A cycle of nodes is followed once."""
    path: dict[str, None] = {}
    while leaf is not None and leaf in nodes and leaf not in path:
        path[leaf] = None
        leaf = to_text(to_object(nodes[leaf]).get("parent"))
    return list(reversed(path))


def _latest_leaf(nodes: Mapping[str, Any]) -> str | None:
    def created(node: str) -> float:
        time = to_object(to_object(nodes[node]).get("message")).get("create_time")
        return float(time) if isinstance(time, int | float) else 0.0

    leaves = [node for node in nodes if not to_list(to_object(nodes[node]).get("children"))]
    return max(leaves or nodes, key=created, default=None)


def _message(
    where: str, message: Mapping[str, Any], key: str, position: int, shared: Mapping[str, Any], when: datetime | None
) -> Iterator[ImportEntry]:
    author, content = to_object(message.get("author")), to_object(message.get("content"))
    metadata, kind = to_object(message.get("metadata")), content.get("content_type")
    reason = _reason_to_skip(message, author, metadata, kind)
    if reason:
        yield Skipped(where, reason)
        return
    text, left_out = _text(content)
    if left_out:
        yield ReadWarning(where, f"left out: {', '.join(left_out)}")
    if kind not in _KNOWN_TEXT and text:
        yield ReadWarning(where, f"content of the unknown type '{kind!s:.40}' was read as text")
    if not text:
        yield Skipped(where, "no text")
        return
    if when is None:
        yield ReadWarning(where, "no valid time")
    yield ImportItem(
        without_none(
            text=text,
            session=shared["session"],
            position=position,
            speaker=to_name(author.get("name")) or to_name(author.get("role")),
            occurred=when,
            source=f"chatgpt:{key}"[:500],
            metadata=without_none(title=shared["title"], model=to_name(metadata.get("model_slug"))),
        ),
        key,
        where,
    )


def _reason_to_skip(
    message: Mapping[str, Any], author: Mapping[str, Any], metadata: Mapping[str, Any], kind: Any
) -> str | None:
    role = author.get("role")
    if role == "tool" or kind in _TOOL_RESULTS:
        return "a tool result"
    if role == "system":
        return "a system prompt"
    if role not in ("user", "assistant"):
        return f"a message of the unknown role '{role!s:.40}'"
    if kind in _THINKING:
        return "thinking"
    if kind in _INSTRUCTIONS:
        return "custom instructions"
    if message.get("recipient") not in (None, "all"):
        return "a tool call"
    if metadata.get("is_visually_hidden_from_conversation") is True:
        return "a message hidden in ChatGPT"
    return None


def _text(content: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the text of a message, and the types of its parts that are not text."""
    texts: list[str] = []
    left_out: list[str] = []
    for part in to_list(content.get("parts")) or [content.get("text")]:
        text = part if isinstance(part, str) else to_object(part).get("text")
        if isinstance(text, str):
            texts.append(text)
        elif part is not None:
            left_out.append(str(to_object(part).get("content_type") or type(part).__name__)[:40])
    return "\n".join(text for text in texts if text.strip()).strip(), left_out
