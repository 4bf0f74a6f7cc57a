"""What a model said, read from the bytes of its answer as they pass by."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from retentive.chat.context import text_of

_EVENT_END = re.compile(rb"\n(?:\r\n?|\n)|\r\r\n?")
_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class Answer:
    """The text of an answer, and whether it is all of it. Calls of tools are no text."""

    text: str = ""
    complete: bool = False


NO_ANSWER = Answer()


def read_answer(body: bytes) -> Answer:
    """The answer in a whole response."""
    choice = _first_choice(_parsed(body))
    message = choice.get("message")
    return Answer(text_of(message), complete=True) if isinstance(message, dict) else NO_ANSWER


class AnswerStream:
    """A stream of server-sent events, read as it comes, in pieces that may be cut anywhere.

    `feed` gives back what may be passed on: the very bytes that came, up to the end of the last whole event. The
    beginning of an event is held back, because a client cannot use it, and an error could not be told behind it.
    """

    def __init__(self) -> None:
        self.rest = b""
        self.done = False
        """Whether the model said that this is all."""
        self.failed = False
        """Whether the model itself sent an error."""
        self._finished = False
        self._texts: list[str] = []

    @property
    def answer(self) -> Answer:
        """What was said up to now."""
        return Answer("".join(self._texts), complete=(self.done or self._finished) and not self.failed)

    def feed(self, piece: bytes) -> bytes:
        """The bytes that can be passed on."""
        seen = max(0, len(self.rest) - 2)
        held = self.rest + piece
        start = 0
        for end in _EVENT_END.finditer(held, seen):
            self._read(held[start : end.end()])
            start = end.end()
        self.rest = held[start:]
        return held[:start]

    def _read(self, event: bytes) -> None:
        lines = [line[5:].removeprefix(b" ") for line in _LINE_END.split(event) if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data.startswith(b"[DONE]"):
            self.done = True
            return
        chunk = _parsed(data)
        self.failed = self.failed or bool(chunk.get("error"))
        choice = _first_choice(chunk)
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._texts.append(text_of(delta))
        self._finished = self._finished or choice.get("finish_reason") is not None


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _first_choice(value: dict[str, Any]) -> dict[str, Any]:
    """The first of the answers asked for; a client that asks for several chooses one we cannot know of."""
    choices = value.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index", 0) == 0:
            return choice
    return {}
