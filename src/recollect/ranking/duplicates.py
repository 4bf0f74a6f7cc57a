"""Hits that say the same thing as a higher hit are left out of the result. Nothing stored is touched."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from recollect.models import Hit

_NOT_WORDS = re.compile(r"[\W_]+")


def normalised(text: str) -> str:
    """Text without differences of case, white space, punctuation and Unicode form."""
    folded = text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    words = _NOT_WORDS.sub(" ", folded).strip()
    # A text of symbols alone (an emoji, "?!") is its own normal form: two different ones are not the same.
    return words or folded.strip()


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
