"""Count the tokens that a text takes in a prompt.

The tokenizer of the model that reads the prompt is not known here, so every count is an estimate. Its name says how it
was made.
"""

from __future__ import annotations

from typing import Protocol

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.inference.embedders import CountsTokens, tokenizer_of

MAX_TOKENISED = 100_000
"""A tokenizer reads this much of a text. The rest is estimated: a request must not take the time of many."""


class TokenCounter(Protocol):
    """Counts tokens. The counts of a text's lines add up to at least the count of the whole text."""

    @property
    def name(self) -> str:
        """How it counts."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens of a text."""
        ...


class ByteCounter:
    """One token for three bytes of UTF-8: an overestimate for most languages, so that a budget holds."""

    name = "a third of the bytes"

    def count(self, text: str) -> int:
        """Return the number of bytes divided by 3, rounded up."""
        return _estimate(text)


def _estimate(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // 3)


class TokenizerCounter:
    """Counts with the tokenizer of the embedding model."""

    def __init__(self, tokenizer: CountsTokens, *, name: str) -> None:
        self._tokenizer = tokenizer
        self.name = name

    def count(self, text: str) -> int:
        """Return the number of tokens of the embedding model; after `MAX_TOKENISED` characters an estimate."""
        return self._tokenizer.count_tokens(text[:MAX_TOKENISED]) + _estimate(text[MAX_TOKENISED:])


def token_counter(engine: Engine) -> TokenCounter:
    """Return a counter with the tokenizer of the engine's embedder, or one that counts bytes if it has none."""
    try:
        tokenizer = tokenizer_of(engine.embeddings.embedder())
    except RetentiveError:  # the recall reports that the embedder is missing
        return ByteCounter()
    if tokenizer is None:
        return ByteCounter()
    return TokenizerCounter(tokenizer, name=f"the tokenizer of {engine.settings.embedder.name}")
