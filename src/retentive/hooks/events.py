"""What the clients send to a hook, and the form of the answer that each of them reads.

The documents that describe these forms are listed in docs/hooks.md.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # the module `typing` takes a tenth of the time of a hook to import
if TYPE_CHECKING:
    from typing import Any

CONTEXT_STAYS = {"claude-code": True, "codex": True, "openclaw": False, "cursor": True}
"""Whether what a hook adds stays in the history of a session, or lasts for one turn."""

CLIENTS = tuple(CONTEXT_STAYS)
EVENTS = ("session-start", "prompt", "turn-end", "session-end")

MAX_CAPTURED = 20_000
"""Of a longer message, the beginning is stored: it is mostly a pasted file or log."""

MAX_ANSWER = 9_800
"""Claude Code and Codex write longer context into a file and pass on only its beginning."""

_REMINDER = ("<system-reminder>", "</system-reminder>")
_BLOCK = "Notes from memory follow, between two marker lines"
"""The beginning of the introduction of our own block: `chat.prompt_block` takes too long to import."""

_BLOCK_END = "\n</memory "
_HEAD = 2000
"""The introduction is shorter than this."""

_COMMANDS = ("<command-name", "<command-message", "<local-command-", "<bash-", "<user-memory-input")
_NAMES = {"session-start": "SessionStart", "prompt": "UserPromptSubmit"}


class HookEvent:
    """An event of a client. Empty texts mean that the client did not send them."""

    def __init__(self, session: str, folder: str, prompt: str, answer: str, turn: str, *, fresh: bool) -> None:
        self.session, self.folder = session, folder
        self.prompt, self.answer, self.turn = prompt, answer, turn
        self.fresh = fresh

    @property
    def project(self) -> str | None:
        """The last part of the folder, as in imported transcripts."""
        return self.folder.replace("\\", "/").rstrip("/").rpartition("/")[2].strip()[:500] or None


def parse_event(client: str, sent: dict[str, Any]) -> HookEvent | None:
    """Return the event in a client's JSON, or None if it names no session."""
    session = _text(sent, "session_id") or _text(sent, "conversation_id") or _text(sent, "sessionId")
    if not session:
        return None
    roots = sent.get("workspace_roots")
    folder = _text(sent, "cwd") or _text(sent, "workspaceDir")
    if not folder and isinstance(roots, list) and roots and isinstance(roots[0], str):
        folder = roots[0]
    prompt, answer = _text(sent, "prompt"), _text(sent, "last_assistant_message") or _text(sent, "text")
    if client == "openclaw" and isinstance(sent.get("messages"), list):
        prompt, answer = _last_turn(sent["messages"])
    return HookEvent(
        session=f"{client}:{session}"[:500],
        folder=folder or os.environ.get("CURSOR_PROJECT_DIR", ""),
        prompt=_clean(prompt),
        answer=_clean(answer),
        turn=_text(sent, "prompt_id") or _text(sent, "turn_id") or _text(sent, "generation_id") or _text(sent, "runId"),
        # A resumed session has its context; after a compaction the earlier notes may be lost.
        fresh=sent.get("source") != "resume",
    )


def format_answer(client: str, event: str, context: str) -> dict[str, Any] | None:
    """Return the answer that adds a context to the conversation; None if the client reads none at this event."""
    if client == "cursor":
        # Its prompt hook can stop a prompt and adds nothing to it.
        if event == "prompt":
            return {"continue": True}
        return {"additional_context": context} if event == "session-start" and context else None
    if not context or event not in _NAMES:
        return None
    if client == "openclaw":
        return {"prependContext": context}
    return {"hookSpecificOutput": {"hookEventName": _NAMES[event], "additionalContext": context}}


def _text(sent: dict[str, Any], name: str) -> str:
    value = sent.get(name)
    return value if isinstance(value, str) else ""


def _clean(text: str) -> str:
    """Return what a person or the model wrote, without the program's own additions and commands."""
    text = _without_blocks(_without_reminders(text))
    text = text.encode(errors="replace").decode().strip()
    if text.startswith(_COMMANDS):
        return ""
    return text if len(text) <= MAX_CAPTURED else f"{text[:MAX_CAPTURED]} …"


def _without_reminders(text: str) -> str:
    """Cut what a client adds to a message between two tags; a tag that nothing closes stays."""
    opening, closing = _REMINDER
    kept: list[str] = []
    at = 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start)) >= 0:
        kept.append(text[at:start])
        at = end + len(closing)
    return "".join([*kept, text[at:]])


def _without_blocks(text: str) -> str:
    """Cut our own blocks, from the introduction to the closing marker line: some clients put them into the message."""
    kept: list[str] = []
    at = 0
    while (close := text.find(_BLOCK_END, at)) >= 0:
        end = close + len(_BLOCK_END)
        nonce, closed, _ = text[end : end + 100].partition(">")
        opening = text.rfind(f"\n<memory {nonce}>\n", at, close)  # a note contains no "<", but perhaps our sentence
        start = text.rfind(_BLOCK, max(at, opening - _HEAD), max(opening, 0))
        if closed and start >= 0:
            kept.append(text[at:start])
            at = end + len(nonce) + 1
        else:
            kept.append(text[at:end])
            at = end
    return "".join([*kept, text[at:]])


def _last_turn(messages: list[Any]) -> tuple[str, str]:
    """Return the user's last message, and the text of the model after it, without tool calls and their results."""
    prompt = ""
    answers: list[str] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        text = _content(message.get("content")) if role in ("user", "assistant") else ""
        if role == "user" and text:
            prompt, answers = text, []
        elif text:
            answers.append(text)
    return prompt, "\n\n".join(answers)


def _content(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = [one.get("text") for one in blocks if isinstance(one, dict) and one.get("type") == "text"]
    return "\n\n".join(text for text in texts if isinstance(text, str))
