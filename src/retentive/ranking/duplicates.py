"""Deduplication: leave out hits whose text equals that of a higher hit. Stored memories are not changed."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Sequence

from retentive.models import Hit

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


def normalised(text: str) -> str:
    """Normalise case, white space, punctuation and Unicode form."""
    folded = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    # A text of punctuation alone ("?!") is its own normal form: two different ones are not the same.
    return " ".join(folded.translate(_BLANKS).split()) or folded.strip()


def content_hash(text: str) -> str:
    """A hash of the text that ignores case, white space and punctuation."""
    return hashlib.blake2b(normalised(text).encode(), digest_size=16).hexdigest()


def drop_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Return the first hit of each text, and the others with the reason."""
    first: dict[str, Hit] = {}
    dropped: list[Hit] = []
    for hit in hits:
        # The content hash is of the normalised text, and costs a sixth.
        higher = first.setdefault(hit.memory.content_hash or normalised(hit.memory.text), hit)
        if higher is not hit:
            dropped.append(hit.after("duplicate", hit.score, None, "same text as {}", higher.id))
    return list(first.values()), dropped
