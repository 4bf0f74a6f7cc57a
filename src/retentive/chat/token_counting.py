"""How many tokens a text takes in a prompt.

The model that reads the prompt has a tokenizer of its own, which cannot be asked. So a count here is an estimate, and
says by its name what it was made with.
"""

from __future__ import annotations

from typing import Protocol

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.inference.embedders import CountsTokens, tokenizer_of


class TokenCounter(Protocol):
    """Counts tokens. A text in pieces, cut at line ends, never has fewer than in one."""

    @property
    def name(self) -> str:
        """What it counts with."""
        ...

    def count(self, text: str) -> int:
        """How many tokens the text has."""
        ...


class ByBytes:
    """A token for every three bytes of UTF-8: more than there are in most languages, so that a budget holds."""

    name = "a third of the bytes"

    def count(self, text: str) -> int:
        """How many tokens the text has at the most, in all likelihood."""
        return -(-len(text.encode(errors="replace")) // 3)


class ByTokenizer:
    """The tokens of the embedding model."""

    def __init__(self, tokenizer: CountsTokens, *, name: str) -> None:
        self._tokenizer = tokenizer
        self.name = name

    def count(self, text: str) -> int:
        """How many tokens the text has for the embedding model."""
        return self._tokenizer.count_tokens(text)


def token_counter(engine: Engine) -> TokenCounter:
    """The tokenizer of the engine's embedder where it has one, else an estimate by bytes."""
    try:
        tokenizer = tokenizer_of(engine.embeddings.embedder())
    except RetentiveError:  # recall says that the embedder is missing; counting goes on without it
        return ByBytes()
    return (
        ByBytes()
        if tokenizer is None
        else ByTokenizer(tokenizer, name=f"the tokenizer of {engine.settings.embedder.name}")
    )
