"""The blocks of a Markdown text: headings, fenced code, and what stands between blank lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(\S.*)")
_CLOSING_MARKS = re.compile(r"[ \t]+#+[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_MARKER = re.compile(r"\s*(?:[-*+>|]|\d+[.)])")
_LONGEST_HEADING = 200
"""What is longer names nothing; it is text that happens to begin with #."""


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together, counted from 0. A heading has a level from 1 to 6, anything else 0."""

    first: int
    last: int
    level: int = 0
    title: str = ""


def to_blocks(lines: Sequence[str]) -> Iterator[Block]:
    """The blocks, in order; every line that is not blank is in one of them."""
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        block = _heading(lines, at) or _fenced(lines, at) or _paragraph(lines, at)
        yield block
        at = block.last + 1


def _heading(lines: Sequence[str], at: int) -> Block | None:
    line = lines[at]
    if len(line) > _LONGEST_HEADING:
        return None
    marked = _HEADING.fullmatch(line)
    if marked:
        title = _CLOSING_MARKS.sub("", marked[2]).strip()
        return Block(at, at, len(marked[1]), title) if title.strip("#") else None
    if at + 1 < len(lines) and len(lines[at + 1]) <= _LONGEST_HEADING:
        under = _UNDERLINE.fullmatch(lines[at + 1])
        if under and not _MARKER.match(line) and line.strip("= \t"):
            return Block(at, at + 1, 1 if under[1][0] == "=" else 2, line.strip())
    return None


def _fenced(lines: Sequence[str], at: int) -> Block | None:
    opened = _FENCE.match(lines[at])
    if not opened:
        return None
    fence = opened[1]
    for end in range(at + 1, len(lines)):
        closing = lines[end].strip()
        if len(closing) >= len(fence) and not closing.strip(fence[0]):
            return Block(at, end)
    last = len(lines) - 1
    while not lines[last].strip():
        last -= 1
    return Block(at, last)


def _paragraph(lines: Sequence[str], at: int) -> Block:
    end = at
    while end + 1 < len(lines) and lines[end + 1].strip():
        if _HEADING.fullmatch(lines[end + 1][: _LONGEST_HEADING + 1]) or _FENCE.match(lines[end + 1]):
            break
        end += 1
    return Block(at, end)
