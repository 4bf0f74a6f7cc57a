"""The documents and their fenced blocks.

A comment directly before a block, which readers of the page do not see, tells how the block is tested:

    <!-- file: notes.jsonl -->   the block is the contents of that file, in the folder in which the page's commands run
    <!-- output -->              the block is the output of the block before it
    <!-- exits: 2 -->            the commands of the block exit with this code
    <!-- shown: REASON -->       the block is not run; the allowed reasons are listed and counted in test_docs.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("docs/cli-reference.md", "docs/settings.md")
OTHER_RUNNERS = {"docs/recipes/": "tests/**/test_*recipes*.py"}
"""Folders of pages whose blocks another test runs, and that test."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n+)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its position, language and text, and the comment before it."""

    page: str
    line: int
    language: str
    text: str
    note: str = ""

    def option(self, name: str) -> str | None:
        """The value of `name: value` in the comment; None if the comment is another one."""
        key, _, value = self.note.partition(":")
        return value.strip() if key.strip() == name else None

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def pages() -> list[str]:
    """The paths of all documents, relative to the root."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def has_other_runner(page: str) -> bool:
    """Whether another test runs the blocks of this page."""
    return page.startswith(tuple(OTHER_RUNNERS))


def text_of(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The blocks of a page, in order."""
    text = text_of(page) if text is None else text
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["language"], found["text"], found["note"] or "")
        for found in _BLOCK.finditer(text)
    ]
