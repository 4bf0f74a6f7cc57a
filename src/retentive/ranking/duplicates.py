"""Hits that say the same thing as a higher hit are left out of the result. Nothing stored is touched."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from retentive.models import Hit

_TELLING = "#@%&/\\"
"""Punctuation that changes what is meant: C is not C#."""


class _Blanks(dict[int, str]):
    """Punctuation, white space and control characters as blanks. Symbols and marks stay: 👍 is not 👎, का is not की."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        blank = unicodedata.category(char)[0] in "PZC" and char not in _TELLING
        self[code] = " " if blank else char
        return self[code]


_BLANKS = _Blanks()


def normalised(text: str) -> str:
    """Text without differences of case, white space, punctuation and Unicode form."""
    folded = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    # A text of punctuation alone ("?!") is its own normal form: two different ones are not the same.
    return " ".join(folded.translate(_BLANKS).split()) or folded.strip()


def drop_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """The first hit of each text in the order given, and those left out with the reason."""
    first: dict[str, Hit] = {}
    dropped: list[Hit] = []
    for hit in hits:
        # The hash is of the normalised text, and a sixth of the work.
        higher = first.setdefault(hit.memory.content_hash or normalised(hit.memory.text), hit)
        if higher is not hit:
            dropped.append(hit.after("duplicate", hit.score, None, "says the same as {}", higher.id))
    return list(first.values()), dropped
