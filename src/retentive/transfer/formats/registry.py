"""The formats by name, and which of them a file looks like."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from retentive.errors import Invalid, MissingExtra, NotFound
from retentive.transfer.formats import Format


def find_format(name: str) -> Format:
    """The format of that name."""
    loader = _LOADERS.get(name.lower())
    if loader is None:
        raise Invalid(f"there is no format '{name}'; there are {', '.join(_LOADERS)}")
    return loader()


def recognise(path: Path) -> Format:
    """The format that a file or folder looks like."""
    if not path.exists():
        raise NotFound(f"there is no {path}")
    missing: MissingExtra | None = None
    for loader in _LOADERS.values():
        try:
            format = loader()
        except MissingExtra as error:
            missing = error  # it may be one of those that need nothing
            continue
        if format.recognises(path):
            return format
    if missing is not None:
        raise missing
    raise Invalid(f"{path} looks like none of the formats; name one with --format: {', '.join(_LOADERS)}")


def _jsonl() -> Format:
    from retentive.transfer.formats.jsonl import Jsonl

    return Jsonl()


def _chatgpt() -> Format:
    from retentive.transfer.formats.chatgpt import ChatGpt

    return ChatGpt()


def _claude() -> Format:
    from retentive.transfer.formats.claude import Claude

    return Claude()


def _claude_code() -> Format:
    from retentive.transfer.formats.claude_code import ClaudeCode

    return ClaudeCode()


def _mem0() -> Format:
    from retentive.transfer.formats.mem0 import Mem0

    return Mem0()


def _memini() -> Format:
    from retentive.transfer.formats.memini import Memini

    return Memini()


def _beir() -> Format:
    from retentive.transfer.formats.beir_set import BeirSet

    return BeirSet()


def _openclaw() -> Format:
    from retentive.transfer.formats.openclaw import OpenClaw

    return OpenClaw()


def _markdown() -> Format:
    from retentive.transfer.formats.markdown import MarkdownFolder

    return MarkdownFolder()


_LOADERS: dict[str, Callable[[], Format]] = {
    "jsonl": _jsonl,
    "chatgpt": _chatgpt,
    "claude": _claude,
    "claude-code": _claude_code,
    "mem0": _mem0,
    "memini": _memini,
    "beir": _beir,
    "openclaw": _openclaw,
    "markdown": _markdown,
}
"""In this order a file is asked about: what is told by its own marks first, any folder of notes last."""

FORMATS = tuple(_LOADERS)
