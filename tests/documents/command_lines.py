"""The commands of a block, line by line."""

from __future__ import annotations

import shlex
from typing import IO

from tests.documents.blocks import Block


def commands_of(block: Block) -> list[tuple[str, str]]:
    """The commands of a block, each with the output that is shown below it. Only a console shows any."""
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


def until(word: str, lines: IO[str] | None) -> str:
    """What is said up to the line with this word, or to the end."""
    said = ""
    for line in lines or ():
        said += line
        if word in line:
            break
    return said


def needs_shell(line: str) -> bool:
    """Whether a line has more than one command, or sends its output elsewhere."""
    tokens = shlex.shlex(line, posix=True, punctuation_chars=True)
    tokens.whitespace_split = True
    return any(token and set(token) <= set("|<>&;()") for token in tokens)
