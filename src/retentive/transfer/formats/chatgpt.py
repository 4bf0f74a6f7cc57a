"""ChatGPT's data export: the zip, or the `conversations.json` in it (newer ones: `conversations-000.json` and on).

OpenAI does not document it. Relied on, as the parsers of others describe it (github.com/mitkury/chatgpt-export-parser,
docs/chatgpt-data-export-format.md): an array of conversations with `conversation_id` or `id`, `title`, `create_time`,
`current_node` and `mapping`, a tree of nodes with `parent`, `children` and `message`; of a message `id`,
`author.role`, `author.name`, `create_time`, `recipient`, `content.content_type` with `parts` or `text`,
`metadata.model_slug` and `metadata.is_visually_hidden_from_conversation`. Times are seconds since 1970.

A conversation is a session, the messages on the branch that ends at `current_node` are its memories, in their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from retentive.transfer.formats import Entry, Item, Noticed, Skipped
from retentive.transfer.formats.documents import looks, read_each
from retentive.transfer.formats.values import given, to_list, to_name, to_object, to_text, to_when

_FILES = r"(^|/)conversations(-\d+)?\.json$"
_TOOLS = ("execution_output", "tether_quote", "tether_browsing_display", "system_error", "computer_output")
_THOUGHTS = ("thoughts", "reasoning_recap")
_INSTRUCTIONS = ("user_editable_context", "model_editable_context")
_READ = ("text", "multimodal_text", "code")


class ChatGpt:
    """Conversations as ChatGPT exports them."""

    name = "chatgpt"

    def recognises(self, path: Path) -> bool:
        shape = looks(path, inside=_FILES)
        return "mapping" in shape.inner or {"mapping", "current_node"} <= shape.outer

    def read(self, path: Path) -> Iterator[Entry]:
        return read_each(path, _conversation, inside=_FILES, lists=("conversations",))


def _conversation(where: str, conversation: Mapping[str, Any]) -> Iterator[Entry]:
    id = to_name(conversation.get("conversation_id")) or to_name(conversation.get("id"))
    nodes = to_object(conversation.get("mapping"))
    if id is None or not nodes:
        yield Skipped(where, "a conversation without an id" if id is None else "a conversation without messages")
        return
    leaf = to_text(conversation.get("current_node"))
    if leaf not in nodes:
        leaf = _last_leaf(nodes)
        yield Noticed(where, "current_node leads nowhere; the branch with the latest message was taken")
    branch = _branch(nodes, leaf)
    shared = {"session": f"chatgpt:{id}", "title": to_text(conversation.get("title"))}
    when = to_when(conversation.get("create_time"))
    for at, node in enumerate(branch):
        message = to_object(to_object(nodes[node]).get("message"))
        when = to_when(message.get("create_time")) or when  # without a time, it came with the one before it
        if message:
            yield from _message(f"{where}, message {node:.80}", message, f"{id}/{node}", at, shared, when)
    for node in nodes.keys() - set(branch):
        message = to_object(to_object(nodes[node]).get("message"))
        if to_object(message.get("author")).get("role") in ("user", "assistant"):
            yield Skipped(f"{where}, message {node:.80}", "it is not on the current branch")


def _branch(nodes: Mapping[str, Any], leaf: str | None) -> list[str]:
    """The way from the beginning to a leaf. A tree that leads back to itself is followed once."""
    way: dict[str, None] = {}
    while leaf is not None and leaf in nodes and leaf not in way:
        way[leaf] = None
        leaf = to_text(to_object(nodes[leaf]).get("parent"))
    return list(reversed(way))


def _last_leaf(nodes: Mapping[str, Any]) -> str | None:
    def written(node: str) -> float:
        time = to_object(to_object(nodes[node]).get("message")).get("create_time")
        return float(time) if isinstance(time, int | float) else 0.0

    leaves = [node for node in nodes if not to_list(to_object(nodes[node]).get("children"))]
    return max(leaves or nodes, key=written, default=None)


def _message(
    where: str, message: Mapping[str, Any], key: str, position: int, shared: Mapping[str, Any], when: datetime | None
) -> Iterator[Entry]:
    author, content = to_object(message.get("author")), to_object(message.get("content"))
    metadata, kind = to_object(message.get("metadata")), content.get("content_type")
    reason = _passed_over(message, author, metadata, kind)
    if reason:
        yield Skipped(where, reason)
        return
    text, left_out = _text(content)
    if left_out:
        yield Noticed(where, f"left out: {', '.join(left_out)}")
    if kind not in _READ and text:
        yield Noticed(where, f"content of the unknown type '{kind!s:.40}' was read as text")
    if not text:
        yield Skipped(where, "it has no text")
        return
    if when is None:
        yield Noticed(where, "it has no time that can be understood")
    yield Item(
        given(
            text=text,
            session=shared["session"],
            position=position,
            speaker=to_name(author.get("name")) or to_name(author.get("role")),
            occurred=when,
            source=f"chatgpt:{key}"[:500],
            metadata=given(title=shared["title"], model=to_name(metadata.get("model_slug"))),
        ),
        key,
        where,
    )


def _passed_over(
    message: Mapping[str, Any], author: Mapping[str, Any], metadata: Mapping[str, Any], kind: Any
) -> str | None:
    role = author.get("role")
    if role == "tool" or kind in _TOOLS:
        return "what a tool answered"
    if role == "system":
        return "a system prompt"
    if role not in ("user", "assistant"):
        return f"a message of the unknown role '{role!s:.40}'"
    if kind in _THOUGHTS:
        return "thinking"
    if kind in _INSTRUCTIONS:
        return "custom instructions"
    if message.get("recipient") not in (None, "all"):
        return "a call of a tool"
    if metadata.get("is_visually_hidden_from_conversation") is True:
        return "a message that ChatGPT does not show"
    return None


def _text(content: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The text of a message, and the kinds of parts that are none."""
    texts: list[str] = []
    left_out: list[str] = []
    for part in to_list(content.get("parts")) or [content.get("text")]:
        spoken = part if isinstance(part, str) else to_object(part).get("text")
        if isinstance(spoken, str):
            texts.append(spoken)
        elif part is not None:
            left_out.append(str(to_object(part).get("content_type") or type(part).__name__)[:40])
    return "\n".join(text for text in texts if text.strip()).strip(), left_out
