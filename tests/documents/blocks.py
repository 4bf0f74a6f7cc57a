"""The documents, and the fenced blocks in them.

A comment just before a block says what is special about it, and a reader of the page does not see it:

    <!-- file: notes.jsonl -->   the block is that file, in the folder in which the page's commands run
    <!-- output -->              the block is what the block before it printed or was answered
    <!-- exits: 2 -->            the commands of the block end with this code
    <!-- shown: REASON -->       the block is not run; the reasons are a closed list, and counted
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("docs/cli-reference.md", "docs/settings.md")
OWN_RUNNERS = {"docs/recipes/": "tests/**/test_*recipes*.py"}
"""Folders and pages whose blocks another test runs, and that test."""

_BLOCK = re.compile(
    r"(?:^<!-- (?P<note>[^\n]*?) -->\n+)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: where it stands, its language, its text, and what the comment before it says."""

    page: str
    line: int
    language: str
    text: str
    note: str = ""

    def said(self, name: str) -> str | None:
        """What the comment says under this name; None if it does not."""
        key, _, value = self.note.partition(":")
        return value.strip() if key.strip() == name else None

    def __str__(self) -> str:
        return f"{self.page}, line {self.line}"


def pages() -> list[str]:
    """Every document, by its path from the root."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(str(page.relative_to(ROOT)) for page in found)


def run_elsewhere(page: str) -> bool:
    """Whether another test runs the blocks of this page."""
    return page.startswith(tuple(OWN_RUNNERS))


def text_of(page: str) -> str:
    """What stands on a page."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str, text: str | None = None) -> list[Block]:
    """The blocks of a page, in order."""
    text = text_of(page) if text is None else text
    return [
        Block(page, text.count("\n", 0, found.start()) + 1, found["language"], found["text"], found["note"] or "")
        for found in _BLOCK.finditer(text)
    ]
