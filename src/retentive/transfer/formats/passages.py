"""Long texts in passages: cut at headings, then between blocks, then at sentences, each with its lines and headings.

Pure: text in, passages out. What a passage may hold is the caller's `fits`; `fitting` makes one for an embedder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, runtime_checkable

from retentive.inference.embedders import Embedder, reading_of
from retentive.text.splitting import split_text
from retentive.transfer.formats import Format
from retentive.transfer.formats.blocks import Block, to_blocks

Fits = Callable[[str], bool]

MOST_CHARACTERS = 1_600
"""A passage is no longer than this, whatever the model could read: about 350 tokens of English, a screen of text."""

_BETWEEN = " › "
_TRAIL_SHARE = 3
"""The headings above a passage take at most one part in so many of its room."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text: what it says, its first and last line counted from 1, and the headings it stands under.

    `context` are the headings that are not in the body itself, as a line to put before it: often they alone name what
    the body is about, so the text that is searched needs them.
    """

    body: str
    first: int
    last: int
    headings: tuple[str, ...] = ()
    context: str = ""

    @property
    def text(self) -> str:
        """What is remembered: the body, led by the headings above it."""
        return f"{self.context}\n\n{self.body}" if self.context else self.body


@dataclass(slots=True)
class _Section:
    """What stands between one heading and the next; headings with nothing between them open one section together."""

    above: tuple[str, ...]
    own: tuple[str, ...]
    level: int
    blocks: list[Block]

    @property
    def only_headings(self) -> bool:
        return all(block.level for block in self.blocks)


@runtime_checkable
class CutsTexts(Protocol):
    """A format that cuts long texts into passages."""

    def cutting(self, fits: Fits) -> Format:
        """The same format with passages that fit."""
        ...


def fitting(embedder: Embedder | None = None) -> Fits:
    """Whether a text is short enough for a passage, and can be read by the model whole."""
    reads = reading_of(embedder)
    # Counting characters first spares the tokenizer a text of megabytes.
    return lambda text: len(text) <= MOST_CHARACTERS and reads(text)


def passages(
    lines: Sequence[str], *, fits: Fits | None = None, first: int = 1, title: str | None = None
) -> Iterator[Passage]:
    """The passages of a text, in order; together they hold every visible character of it, once.

    `first` is the number of the first line, and `title` a heading above all. A section that fits is one passage, and
    no passage reaches from one section into the next. A code block or table that fits is never cut.
    """
    chosen = fits or fitting()
    for section in _sections(to_blocks(lines), title):
        for passage in _pack(section, lines, chosen):
            yield Passage(passage.body, passage.first + first, passage.last + first, passage.headings, passage.context)


def _sections(blocks: Iterator[Block], title: str | None) -> Iterator[_Section]:
    root = (title,) if title else ()
    open_headings: list[tuple[int, str]] = []
    section = _Section(root, (), 0, [])
    for block in blocks:
        if not block.level:
            section.blocks.append(block)
            continue
        while open_headings and open_headings[-1][0] >= block.level:
            open_headings.pop()
        above = root + tuple(heading for _, heading in open_headings)
        if above[-1:] == (block.title,):
            above = above[:-1]  # the title of the front matter, said again by the first heading
        open_headings.append((block.level, block.title))
        if section.blocks and section.only_headings and block.level > section.level:
            section.own = (*section.own, block.title)
            section.level = block.level
            section.blocks.append(block)
            continue
        if section.blocks:
            yield section
        section = _Section(above, (block.title,), block.level, [block])
    if section.blocks:
        yield section


def _pack(section: _Section, lines: Sequence[str], fits: Fits) -> Iterator[Passage]:
    """The blocks of a section, as many in a passage as fit; lines count from 0 here."""
    headings = section.above + section.own
    context = _context(section.above, fits)
    blocks, at = section.blocks, 0
    while at < len(blocks):
        passage = partial(_passage, lines, blocks[at].first, headings=headings, context=context)
        last = _furthest(blocks, at, passage, fits)
        packed = passage(blocks[last].last)
        if fits(packed.text):
            yield packed
        else:
            yield from _cut(packed, fits)
        at, context = last + 1, _context(headings, fits)


def _furthest(blocks: Sequence[Block], at: int, passage: Callable[[int], Passage], fits: Fits) -> int:
    """The last block that still fits with all from `at` on, or `at` itself: by steps that double, then halve.

    One by one, a text of a million short lines would be measured a million times.
    """
    step = 1
    while at + step < len(blocks) and fits(passage(blocks[at + step].last).text):
        at, step = at + step, step * 2
    while step > 1:
        step //= 2
        if at + step < len(blocks) and fits(passage(blocks[at + step].last).text):
            at += step
    return at


def _passage(lines: Sequence[str], first: int, last: int, *, headings: tuple[str, ...], context: str) -> Passage:
    return Passage("\n".join(lines[first : last + 1]), first, last, headings, context)


def _cut(passage: Passage, fits: Fits) -> Iterator[Passage]:
    """A block that does not fit, in pieces that do, each with the lines it is from."""
    text, context = passage.body, passage.context
    parts = split_text(text, lambda part: fits(f"{context}\n\n{part}" if context else part))
    at, line = 0, passage.first
    for part in parts:
        begin = text.index(part, at)
        line += text.count("\n", at, begin)
        last = line + part.count("\n")
        piece = Passage(part, line, last, passage.headings, context)
        yield piece if fits(piece.text) else Passage(part, line, last, passage.headings)
        at, line = begin + len(part), last


def _context(headings: tuple[str, ...], fits: Fits) -> str:
    """The nearest headings, as many as leave room for what stands under them."""
    for start in range(len(headings)):
        trail = _BETWEEN.join(headings[start:])
        if fits(trail * _TRAIL_SHARE):
            return trail
    return ""
