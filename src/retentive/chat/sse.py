"""Read the text of a model's answer from its bytes: a whole body, or server-sent events as they arrive."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from retentive.chat.context import message_text

_EVENT_END = re.compile(rb"\n(?:\r\n?|\n)|\r\r\n?")
_LINE_END = re.compile(rb"\r\n|\n|\r")


MAX_EVENT = 4_000_000
"""Bytes of one event."""

MAX_ANSWER = 4_000_000
"""Characters of an answer that are kept; more than a memory can have."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of an answer, and whether it is complete. Tool calls are not text."""

    text: str = ""
    complete: bool = False


NO_ANSWER = Answer()


def read_answer(body: bytes) -> Answer:
    """Return the answer in a whole response body."""
    message = _first_choice(_parse(body)).get("message")
    return Answer(message_text(message), complete=True) if isinstance(message, dict) else NO_ANSWER


class AnswerStream:
    """Reads a stream of server-sent events, cut into pieces at any byte.

    `feed` returns the bytes to pass on: the bytes received, up to the end of the last complete event. The rest is held
    back, because a client cannot use part of an event, and an error event could not follow it.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self.too_large = False
        """Whether an event has more than `MAX_EVENT` bytes; nothing after it is read."""
        self.done = False
        """Whether the model sent [DONE]."""
        self.failed = False
        """Whether the model sent an error."""
        self._finished = False
        self._texts: list[str] = []
        self._characters = 0

    @property
    def rest(self) -> bytes:
        """The bytes after the last complete event."""
        return bytes(self._held)

    @property
    def answer(self) -> Answer:
        """The answer received so far."""
        return Answer("".join(self._texts), complete=(self.done or self._finished) and not self.failed)

    def feed(self, piece: bytes) -> bytes:
        """Add received bytes and return those that can be passed on."""
        held = self._held
        searched = max(0, len(held) - 2)
        held += piece
        start = 0
        for end in list(_EVENT_END.finditer(held, searched)):
            self._read_event(bytes(held[start : end.end()]))
            start = end.end()
        ready = bytes(held[:start])
        del held[:start]
        self.too_large = len(held) > MAX_EVENT
        return ready

    def _read_event(self, event: bytes) -> None:
        lines = [line[5:].removeprefix(b" ") for line in _LINE_END.split(event) if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data.startswith(b"[DONE]"):
            self.done = True
            return
        chunk = _parse(data)
        self.failed = self.failed or bool(chunk.get("error"))
        choice = _first_choice(chunk)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            text = message_text(delta)[: MAX_ANSWER - self._characters]
            self._texts.append(text)
            self._characters += len(text)
        self._finished = self._finished or choice.get("finish_reason") is not None


def _parse(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _first_choice(value: dict[str, Any]) -> dict[str, Any]:
    """Return choice 0; which one a client uses that requests several cannot be known."""
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            return choice
    return {}
