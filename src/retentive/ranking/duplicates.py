"""Deduplication: leave out hits whose text equals that of a higher hit. Stored memories are not changed."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest

from retentive.models import Hit, Memory

_MEANINGFUL = "#@%&/\\"
"""Punctuation that changes the meaning: C is not C#."""


class _Blanks(dict[int, str]):
    """Maps punctuation, white space and control characters to spaces. Symbols and marks stay: 👍 is not 👎."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        blank = unicodedata.category(char)[0] in "PZC" and char not in _MEANINGFUL
        self[code] = " " if blank else char
        return self[code]


_BLANKS = _Blanks()


_SIGNS = re.compile(
    r"(?<![^\W_])[-\u2013\u2212]+(?=[.$€£]?[^\W_])"  # a minus or an option, but no hyphen and no bullet
    r"|(?<=\d)[-.,:\u2013](?=\d)"  # 3.5 is not 3-5
    r"|(?<![^\W_])\.(?=\d)"  # .5 is not 5
    r"|!(?==)|(?<![^\W_])!(?=[^\W_]|\()"  # x != y is not x = y, and !done is not done
    r"|(?<=[^\W_])\*{1,2}(?=\d)|(?<=\d)\*{1,2}(?=[^\W_])"  # 2*3
    r"|[:;]-?[()]"  # :) is not :(
)
"""Punctuation that changes the meaning where it stands."""

_DASHES = str.maketrans("\u2013\u2212", "--")


def normalised(text: str) -> str:
    """Normalise case, white space, punctuation and Unicode form. Punctuation that changes the meaning is kept."""
    folded = _folded(text)
    parts = _SIGNS.split(folded)
    if len(parts) == 1:
        return _blanked(folded)
    signs = [sign.translate(_DASHES) for sign in _SIGNS.findall(folded)]
    kept = "".join(part.translate(_BLANKS) + sign for part, sign in zip_longest(parts, signs, fillvalue=""))
    return " ".join(kept.split())


def without_punctuation(text: str) -> str:
    """Normalise case, white space, all punctuation and Unicode form; texts that differ here differ when `normalised`.

    The content hash of stored memories is made of this form.
    """
    return _blanked(_folded(text))


def _folded(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _blanked(folded: str) -> str:
    # A text of punctuation alone ("?!") is its own normal form: two different ones are not the same.
    return " ".join(folded.translate(_BLANKS).split()) or folded.strip()


def content_hash(text: str) -> str:
    """A hash of the text that ignores case, white space and punctuation."""
    return hashlib.blake2b(without_punctuation(text).encode(), digest_size=16).hexdigest()


def drop_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Return the first hit of each text, and the others with the reason."""
    seen = Texts()
    kept: list[Hit] = []
    dropped: list[Hit] = []
    for hit in hits:
        higher = seen.first(hit.memory)
        if higher is hit.memory:
            kept.append(hit)
        else:
            dropped.append(hit.after("duplicate", hit.score, None, "same text as {}", higher.id))
    return kept, dropped


class Texts:
    """The texts of the memories seen so far.

    Texts are compared only if their content hashes are equal, because the hash costs a sixth of the comparison.
    """

    def __init__(self) -> None:
        self._first: dict[str, Memory] = {}
        self._alike: dict[str, dict[str, Memory]] = {}

    def first(self, memory: Memory) -> Memory:
        """The first memory seen with the same text, which may be this one."""
        hash = memory.content_hash or without_punctuation(memory.text)
        first = self._first.setdefault(hash, memory)
        if first is memory:
            return memory
        alike = self._alike.setdefault(hash, {normalised(first.text): first})
        return alike.setdefault(normalised(memory.text), memory)
