"""Text as people write it, from text as tokenizers left it; and how much two texts share."""

from __future__ import annotations

import re

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-LRB-": "(", "-RRB-": ")"}
_TAGS = re.compile(r"\{[a-z]+\}")  # QMSum's marks of sounds and pauses: {vocalsound}, {disfmarker}
_SPLIT_WORDS = re.compile(r"\b(?:gon na|wan na|got ta|gim me|lem me|can not)\b", re.IGNORECASE)
_WORDS = re.compile(r"[a-z0-9]+")
_COMMON = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "did", "do", "does", "for", "from", "had", "has", "have",
    "he", "how", "i", "in", "is", "it", "not", "of", "on", "or", "she", "so", "that", "the", "their", "they", "this",
    "to", "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with", "would", "you",
})  # fmt: skip


def untokenised(text: str) -> str:
    """Put punctuation and contractions back to the words they belong to."""
    for old, new in _BRACKETS.items():
        text = text.replace(old, new)
    text = _TAGS.sub(" ", text).replace("``", '"').replace("''", '"')
    text = re.sub(r"\s+([.,!?;:%)\]])", r"\1", text)
    text = re.sub(r"([(\[$])\s+", r"\1", text)
    text = re.sub(r"\s+(n't|'s|'m|'re|'ve|'ll|'d)\b", r"\1", text)
    text = _SPLIT_WORDS.sub(lambda found: found[0].replace(" ", ""), text)
    text = re.sub(r'"\s*([^"]*?)\s*"', r'"\1"', text)
    return re.sub(r"\s+", " ", text).strip()


def decoded(text: str) -> str:
    """The text as it was before its UTF-8 was read as Latin-1; other texts are left as they are."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


def content_words(text: str) -> set[str]:
    """The words of a text, without the commonest."""
    return {word for word in _WORDS.findall(text.lower()) if word not in _COMMON}
