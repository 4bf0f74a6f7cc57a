"""File formats that can be imported, one module each. `find_format` and `detect_format` choose one."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from retentive.errors import Invalid, MissingExtra, NotFound
from retentive.transfer.formats.base import Format


def find_format(name: str) -> Format:
    """Return the format of that name."""
    wanted = name.lower()
    if wanted == DATABASE_FORMAT:
        raise Invalid("the format postgres reads a database; give its address: postgresql://user@host/database")
    if wanted not in _PLACES:
        raise Invalid(f"unknown format '{name}'; the formats are {', '.join(FORMATS)} and {DATABASE_FORMAT}")
    return _load(wanted)


def detect_format(path: Path) -> Format:
    """Return the format that a file or folder looks like."""
    if not path.exists():
        raise NotFound(f"there is no {path}")
    missing: MissingExtra | None = None
    for name in FORMATS:
        try:
            format = _load(name)
        except MissingExtra as error:
            missing = error  # formats that need no extra are still tried
            continue
        if format.recognises(path):
            return format
    if missing is not None:
        raise missing
    raise Invalid(f"the format of {path} was not recognised; name it with --format: {', '.join(FORMATS)}")


def _load(name: str) -> Format:
    module, kind = _PLACES[name]
    format: Format = getattr(import_module(f"{__name__}.{module}"), kind)()
    return format


_PLACES = {
    "jsonl": ("jsonl", "Jsonl"),
    "chatgpt": ("chatgpt", "ChatGpt"),
    "claude": ("claude", "Claude"),
    "claude-code": ("claude_code", "ClaudeCode"),
    "mem0": ("mem0", "Mem0"),
    "memini": ("memini", "Memini"),
    "beir": ("beir", "Beir"),
    "sqlite": ("sqlite_tables", "SqliteTables"),
    "openclaw": ("openclaw", "OpenClaw"),
    "markdown": ("markdown", "MarkdownFolder"),
}
"""Module and class of each format, in the order of detection: formats with a distinctive structure first, any folder of
Markdown last."""

FORMATS = tuple(_PLACES)

DATABASE_FORMAT = "postgres"
"""The format that is read from an address instead of a file."""
