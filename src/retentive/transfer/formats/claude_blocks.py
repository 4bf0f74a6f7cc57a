"""Content blocks of Claude's messages: what was said, apart from thinking and tools."""

from __future__ import annotations

from typing import Any

from retentive.transfer.formats import Skipped

_REASONS = {
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "a call of a tool",
    "server_tool_use": "a call of a tool",
    "tool_result": "what a tool answered",
    "web_search_tool_result": "what a tool answered",
    "image": "an image",
    "document": "a document",
    "token_budget": "a note to the model",
}


def text_of(content: Any, where: str) -> tuple[str, list[Skipped]]:
    """The text of a message's content, and the blocks that are no text, each with its reason."""
    if isinstance(content, str):
        return content.strip(), []
    texts: list[str] = []
    passed: list[Skipped] = []
    for number, block in enumerate(content if isinstance(content, list) else (), 1):
        kind = block.get("type") if isinstance(block, dict) else type(block).__name__
        text = block if isinstance(block, str) else block.get("text") if kind == "text" else None
        if isinstance(text, str):
            texts.append(text.strip())
        else:
            reason = _REASONS.get(str(kind), f"a block of the unknown type '{kind!s:.40}'")
            passed.append(Skipped(f"{where}, block {number}", reason))
    return "\n\n".join(text for text in texts if text), passed
