"""Splits a block into its commands."""

from __future__ import annotations

import shlex
from typing import IO

from tests.documents.blocks import Block


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a block, each with the output shown below it. Only `console` blocks show output."""
    joined = block.text.replace("\\\n", " ")
    if block.language != "console":
        return [(line, "") for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    found: list[tuple[str, str]] = []
    for line in joined.splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), ""))
        else:
            assert found, f"{block}: output before the first command"
            found[-1] = (found[-1][0], f"{found[-1][1]}{line}\n")
    return found


def read_until(word: str, lines: IO[str] | None) -> str:
    """Read lines up to the first that contains this word, or to the end."""
    read = ""
    for line in lines or ():
        read += line
        if word in line:
            break
    return read


def needs_shell(line: str) -> bool:
    """Whether a line has more than one command, or redirects its output."""
    tokens = shlex.shlex(line, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    return any(token and set(token) <= set("|<>&;()") for token in tokens)
