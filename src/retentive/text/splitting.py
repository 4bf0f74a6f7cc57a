"""Split a long text into parts that fit a limit, at natural boundaries.

The limit is a function: of tokens, characters or bytes. It is only assumed that a shorter part is more likely to fit
than a longer one, and every part is checked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator

# The best place to cut first. Each pattern looks at a bounded number of characters or consumes what it has seen, so
# that a text made of nothing but full stops is not read twice. Whitespace belongs to neither part: the cut is where it
# begins. A full stop belongs to the part before the cut.
_BEFORE_BLANK_LINE_OR_HEADING = re.compile(r"\n[^\S\n]*\n|\n(?=#{1,6}[^\S\n])")
_BEFORE_LINE_END = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029]")
_AFTER_SENTENCE = re.compile(r"[.!?…][\"'”’»)\]]{0,3}(?=\s)|[。！？｡][」』”’）】]{0,3}(?![。！？｡」』”’）】])")
_BEFORE_SPACE = re.compile(r"\s")
_LEVELS: tuple[tuple[re.Pattern[str], bool], ...] = (
    (_BEFORE_BLANK_LINE_OR_HEADING, False),
    (_BEFORE_LINE_END, False),
    (_AFTER_SENTENCE, True),
    (_BEFORE_SPACE, False),
)
_LOOK_AHEAD = 8
"""How far past the longest part the patterns may look: a heading's marks and the space after them."""

_FIRST_GUESS = 1024
_NOT_WHITESPACE = re.compile(r"\S")
_ZERO_WIDTH_JOINER = "\u200d"


def split_text(text: str, fits: Callable[[str], bool]) -> list[str]:
    """Split a text into parts that each satisfy `fits`, as few and as long as natural boundaries allow.

    A text that fits is its own only part. Else the parts are cut at blank lines and headings, line ends, sentence ends
    or spaces, the best of these in the second half of what would fit; without one there, at the last one before; only
    a word that does not fit by itself is cut inside. Whitespace at the ends of parts is dropped, and no other
    character is. A single character that does not fit is a part all the same, because there is no smaller one.
    """
    if fits(text):
        return [text]
    return list(_parts(text, fits)) or [text[:1]]


def _parts(text: str, fits: Callable[[str], bool]) -> Iterator[str]:
    start, guess = 0, _FIRST_GUESS
    while (begin := _NOT_WHITESPACE.search(text, start)) is not None:
        start = begin.start()
        end = _longest(text, start, fits=fits, guess=guess)
        cut = _natural_cut(text, start, end)
        if cut != end and not fits(text[start:cut].rstrip()):
            cut = end
        part = text[start:cut].rstrip()
        yield part
        start, guess = cut, len(part)


def _longest(text: str, start: int, *, fits: Callable[[str], bool], guess: int) -> int:
    """The furthest end at which the part from `start` fits, or one character on if none does.

    Exponential search from the guess, which is the length of the previous part, then binary search.
    """

    def fits_up_to(end: int) -> bool:
        return fits(text[start:end].rstrip())

    low, high = start + 1, len(text) + 1
    probe = min(max(start + guess, low), len(text))
    step = max(1, guess // 16)
    if fits_up_to(probe):
        low = probe
        while low + step < high:
            if not fits_up_to(low + step):
                high = low + step
                break
            low, step = low + step, step * 2
    else:
        high = probe
        while high - step > low:
            if fits_up_to(high - step):
                low = high - step
                break
            high, step = high - step, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits_up_to(middle) else (low, middle)
    return low


def _natural_cut(text: str, start: int, end: int) -> int:
    """The best place to end a part that may reach `end` at most."""
    if end == len(text):
        return end
    lasts = [_last_cut(text, start, end, pattern=pattern, after=after) for pattern, after in _LEVELS]
    middle = start + (end - start) // 2
    for last in lasts:
        if last > middle:
            return last
    if max(lasts) > start:
        return max(lasts)
    return _between_characters(text, start, end)


def _last_cut(text: str, start: int, end: int, *, pattern: re.Pattern[str], after: bool) -> int:
    """The last place that the pattern offers between start and end, or start if it offers none."""
    last = start
    for match in pattern.finditer(text, start, min(len(text), end + _LOOK_AHEAD)):
        cut = match.end() if after else match.start()
        if cut > end:
            break
        if not _joined(text, cut):
            last = cut
    return last


def _between_characters(text: str, start: int, end: int) -> int:
    """The last position at or before `end` that does not split a character, or `end` if there is none."""
    for cut in range(end, start, -1):
        if not _joined(text, cut):
            return cut
    return end


def _joined(text: str, cut: int) -> bool:
    """Whether the characters around the cut are displayed as one: marks, emoji sequences, surrogate pairs."""
    if cut >= len(text):
        return False
    before, after = text[cut - 1], text[cut]
    return (
        after == _ZERO_WIDTH_JOINER
        or before == _ZERO_WIDTH_JOINER
        or unicodedata.category(after) in {"Mn", "Mc", "Me"}
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or ("\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff")
    )
