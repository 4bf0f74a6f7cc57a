"""File formats that can be imported, one module each. `find_format` and `detect_format` choose one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from retentive.errors import Invalid, MissingExtra, NotFound
from retentive.transfer.formats.base import Format


def find_format(name: str) -> Format:
    """Return the format of that name."""
    loader = _LOADERS.get(name.lower())
    if loader is None:
        if name.lower() == DATABASE_FORMAT:
            raise Invalid("the format postgres reads a database; give its address: postgresql://user@host/database")
        raise Invalid(f"unknown format '{name}'; the formats are {', '.join(FORMATS)} and {DATABASE_FORMAT}")
    return loader()


def detect_format(path: Path) -> Format:
    """Return the format that a file or folder looks like."""
    if not path.exists():
        raise NotFound(f"there is no {path}")
    missing: MissingExtra | None = None
    for loader in _LOADERS.values():
        try:
            format = loader()
        except MissingExtra as error:
            missing = error  # formats that need no extra are still tried
            continue
        if format.recognises(path):
            return format
    if missing is not None:
        raise missing
    raise Invalid(f"the format of {path} was not recognised; name it with --format: {', '.join(FORMATS)}")


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
    from retentive.transfer.formats.beir import Beir

    return Beir()


def _openclaw() -> Format:
    from retentive.transfer.formats.openclaw import OpenClaw

    return OpenClaw()


def _sqlite() -> Format:
    from retentive.transfer.formats.sqlite_tables import SqliteTables

    return SqliteTables()


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
    "sqlite": _sqlite,
    "openclaw": _openclaw,
    "markdown": _markdown,
}
"""In the order of detection: formats with a distinctive structure first, any folder of Markdown last."""

FORMATS = tuple(_LOADERS)

DATABASE_FORMAT = "postgres"
"""The format that is read from an address instead of a file."""
