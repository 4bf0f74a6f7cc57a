"""Splits Markdown and plain text into passages: at headings, then between blocks, then between sentences.

Each passage knows its lines and the headings above it. The caller's `fits` limits the length of a passage;
`passage_limit` makes one for an embedder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING

from retentive.inference.embedders import Embedder
from retentive.text.splitting import split_text
from retentive.transfer.formats.base import Fits

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_CHARACTERS = 1_600
"""The longest passage, whatever the model can read: about 350 tokens of English, one screen of text."""

MAX_TITLE = 200
"""A longer heading is treated as text."""

_SEPARATOR = " › "
_CONTEXT_SHARE = 3
"""The headings above a passage may use one part in this many of its length."""

_PARSED_LINES = 2_000
"""So many lines are parsed at once: the tokens of a whole file of short lines would need gigabytes."""

_MARKER = re.compile(r"\s*(?:[-*+>|]|\d+[.)])")
"""The start of a list item, quotation or table row, which an underline does not make a heading."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a text, with its first and last line counted from 1 and the headings that it is under.

    `context` are the headings that are not in the body itself. It is put before the body, because often only the
    headings name the subject, and a search would not find the body without them.
    """

    body: str
    first: int
    last: int
    headings: tuple[str, ...] = ()
    context: str = ""

    @property
    def text(self) -> str:
        """The text to remember: the context and the body."""
        return f"{self.context}\n\n{self.body}" if self.context else self.body


@dataclass(frozen=True, slots=True)
class Block:
    """Lines that belong together, counted from 0. A heading has a level from 1 to 6, any other block has 0."""

    first: int
    last: int
    level: int = 0
    title: str = ""


@dataclass(slots=True)
class _Section:
    """The blocks from one heading to the next. Headings with nothing between them start one section together."""

    above: tuple[str, ...]
    own: tuple[str, ...]
    level: int
    blocks: list[Block]

    @property
    def only_headings(self) -> bool:
        return all(block.level for block in self.blocks)


def passage_limit(embedder: Embedder | None = None) -> Fits:
    """Return a function that tells whether a text is short enough for a passage and for the model."""
    # The characters are counted first: tokenizing megabytes would be slow.
    return lambda text: len(text) <= MAX_CHARACTERS and (embedder is None or embedder.reads_whole(text))


def split_passages(
    lines: Sequence[str], *, fits: Fits | None = None, first: int = 1, title: str | None = None
) -> Iterator[Passage]:
    """Yield the passages of a text in order. Every visible character is in exactly one of them.

    `first` is the number of the first line, `title` a heading above all others. A section that fits is one passage, and
    no passage spans two sections. A code block or table that fits is not split.
    """
    chosen = fits or passage_limit()
    for section in _sections(split_blocks(lines), title):
        for passage in _pack(section, lines, chosen):
            yield Passage(passage.body, passage.first + first, passage.last + first, passage.headings, passage.context)


def split_blocks(lines: Sequence[str]) -> Iterator[Block]:
    """Yield headings, fenced code, HTML blocks and paragraphs in order. Every visible line is in one of them."""
    at, size = 0, _PARSED_LINES
    while at < len(lines):
        blocks = list(_parse_blocks(lines, at, at + size))
        if at + size >= len(lines):
            yield from blocks
            return
        if len(blocks) < 2:
            size *= 2  # one block fills all lines
            continue
        yield from blocks[:-1]
        at, size = blocks[-1].first, _PARSED_LINES  # the last block may continue after these lines


@cache
def _parser() -> MarkdownIt:
    """Return a parser of block structure alone. Lists and quotations are paragraphs to it."""
    from markdown_it import MarkdownIt  # imported here to keep the start of the program short

    parser = MarkdownIt("zero", {"html": True}).enable(["code", "fence", "heading", "lheading", "html_block"])
    parser.core.ruler.enableOnly(["block"])
    return parser


def _parse_blocks(lines: Sequence[str], start: int, end: int) -> Iterator[Block]:
    tokens = _parser().parse("\n".join(lines[start:end]))
    for number, token in enumerate(tokens):
        if token.map is None or token.level:
            continue
        first, after = start + token.map[0], start + token.map[1]
        if token.type == "heading_open" and (title := _title(token, tokens[number + 1].content, lines[first:after])):
            yield Block(first, after - 1, int(token.tag.removeprefix("h")), title)
        elif token.type in ("fence", "html_block"):
            while not lines[after - 1].strip():
                after -= 1  # without an end, it reaches to the end of the text
            yield Block(first, after - 1)
        else:
            for blank, group in groupby(range(first, after), key=lambda at: not lines[at].strip()):
                if not blank:
                    together = list(group)
                    yield Block(together[0], together[-1])


def _title(token: Token, content: str, lines: Sequence[str]) -> str:
    """Return the title of a heading; empty if it is rather text that happens to look like one."""
    title = content.strip()
    if any(len(line) > MAX_TITLE for line in lines) or not title.strip("#"):
        return ""
    if token.markup in ("=", "-") and (len(lines) != 2 or _MARKER.match(title) or lines[1].strip() == "-"):
        return ""
    return title


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
            above = above[:-1]  # the first heading repeats the title of the front matter
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
    """Yield the blocks of a section, as many in each passage as fit; lines count from 0 here."""
    headings = section.above + section.own
    context = _context(section.above, fits)
    blocks, at = section.blocks, 0
    while at < len(blocks):
        passage = partial(_passage, lines, blocks[at].first, headings=headings, context=context)
        last = _last_that_fits(blocks, at, passage, fits)
        packed = passage(blocks[last].last)
        if fits(packed.text):
            yield packed
        else:
            yield from _split_block(packed, fits)
        at, context = last + 1, _context(headings, fits)


def _last_that_fits(blocks: Sequence[Block], at: int, passage: Callable[[int], Passage], fits: Fits) -> int:
    """Return the last block that fits together with all from `at` on, or `at` itself.

    The steps double and then halve: one by one, a text of a million short lines would be measured a million times.
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


def _split_block(passage: Passage, fits: Fits) -> Iterator[Passage]:
    """Yield a block that does not fit in parts that do, each with its lines."""
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
    """Return the nearest headings, as many as leave enough space for the body."""
    for start in range(len(headings)):
        trail = _SEPARATOR.join(headings[start:])
        if fits(trail * _CONTEXT_SHARE):
            return trail
    return ""
