"""Count the tokens that a text takes in a prompt.

The tokenizer of the model that reads the prompt is not known here, so every count is an estimate. Its name says how it
was made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.inference.embedders import estimated_tokens

MAX_TOKENISED = 100_000
"""A tokenizer reads this much of a text. The rest is estimated: a request must not take the time of many."""


@dataclass(frozen=True, slots=True)
class TokenCounter:
    """Counts tokens. The counts of a text's lines add up to at least the count of the whole text."""

    name: str
    """How it counts."""
    count: Callable[[str], int]


BYTE_COUNTER = TokenCounter("a third of the bytes", estimated_tokens)
"""An overestimate for most languages, so that a budget holds."""


def token_counter(engine: Engine) -> TokenCounter:
    """Return a counter with the tokenizer of the engine's embedder, or one that counts bytes if it has none."""
    try:
        embedder = engine.embeddings.embedder()
    except RetentiveError:  # the recall reports that the embedder is missing
        return BYTE_COUNTER
    if embedder is None or not embedder.has_tokenizer:
        return BYTE_COUNTER
    tokens = embedder.count_tokens
    name = f"the tokenizer of {engine.settings.embedder.name}"
    return TokenCounter(name, lambda text: tokens(text[:MAX_TOKENISED]) + estimated_tokens(text[MAX_TOKENISED:]))
