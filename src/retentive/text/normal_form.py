"""The folded form of a text, which is searched, and the normal form, which tells whether two texts are the same.

The content hash of a memory is made of its normal form.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from itertools import zip_longest

_ALPHANUMERIC = re.compile(r"[^\W_]+")
_DIACRITICS = re.compile("[\u0300-\u036f]")


def folded_words(text: str) -> list[str]:
    """Return the words of a text with case and diacritics folded, not stemmed."""
    words: list[str] = _ALPHANUMERIC.findall(folded_text(text))
    return words


def folded_text(text: str) -> str:
    """Return a text with case, Unicode form and diacritics folded."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text).casefold().replace("\u2019", "'")
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", decomposed))


_MEANINGFUL = "#@%&/\\"
"""Punctuation that changes the meaning: C is not C#."""


class _Blanks(dict[int, str]):
    """Maps punctuation, white space and control characters to spaces. Symbols and marks stay: 👍 is not 👎.

    So does what this Python's version of Unicode does not know: it may be a letter.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        blank = category[0] in "PZC" and category != "Cn" and char not in _MEANINGFUL
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
    folded = _case_folded(text)
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
    return _blanked(_case_folded(text))


def _case_folded(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _blanked(folded: str) -> str:
    # A text of punctuation alone ("?!") is its own normal form: two different ones are not the same.
    return " ".join(folded.translate(_BLANKS).split()) or folded.strip()


def content_hash(text: str) -> str:
    """A hash of the text that ignores case, white space and punctuation."""
    return hashlib.blake2b(without_punctuation(text).encode(), digest_size=16).hexdigest()
