"""The `Embedder` protocol, and the optional abilities of embedders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from retentive.models import Model

Matrix = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors of one model.

    `embed` returns one row of length 1 for each text, in order, and the same row for the same text whatever else is in
    the call. It raises `Unavailable` when the model cannot be reached now, and `Refused` when it does not accept one of
    the texts; the caller then sends fewer at once. `split` cuts a text that is too long for the
    model into parts that are not, at natural boundaries, without loss; a text that fits is its own only part.

    An embedder that computes on this machine's cores can have an attribute `in_process = True`: the engine then limits
    how many recalls run at once. See also `EmbedsQueries`, `CountsTokens`, `ChecksLength` and `WrapsEmbedder`.
    """

    @property
    def model(self) -> Model:
        """The model that makes the vectors."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each text."""
        ...

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can read whole."""
        ...

    def close(self) -> None:
        """Release connections and memory."""
        ...


@runtime_checkable
class EmbedsQueries(Protocol):
    """Optional ability of an embedder whose model reads queries in another way than memories."""

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each query, to be compared with those of memories."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """Optional ability of an embedder that has the tokenizer of its model."""

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the text has, also beyond what the model can read at once."""
        ...


@runtime_checkable
class ChecksLength(Protocol):
    """Optional ability of an embedder that can check a length faster than it can split."""

    def reads_whole(self, text: str) -> bool:
        """Whether the model can read the text at once."""
        ...


@runtime_checkable
class ReadsContext(Protocol):
    """Optional ability of an embedder that was trained to read a turn together with the one before it."""

    def in_context(self, text: str, before: str) -> str | None:
        """Return one text to embed for a turn and the turn before it; None if it should only be embedded alone."""
        ...


@runtime_checkable
class WrapsEmbedder(Protocol):
    """Optional ability of an embedder that passes calls on to another one, such as a cache."""

    @property
    def inner(self) -> Embedder:
        """The wrapped embedder."""
        ...


@runtime_checkable
class ReportsOutage(Protocol):
    """Optional ability of an embedder that depends on a service."""

    @property
    def outage(self) -> str | None:
        """Why the last call failed; None if the service has answered since."""
        ...


def embed_queries(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Return one unit vector for each query, by `embed` unless the model reads queries in another way."""
    return embedder.embed_queries(texts) if isinstance(embedder, EmbedsQueries) else embedder.embed(texts)


def tokenizer_of(embedder: Embedder | None) -> CountsTokens | None:
    """Return the embedder that can count tokens: this one or one that it wraps; None if none can."""
    while embedder is not None:
        if isinstance(embedder, CountsTokens):
            return embedder
        embedder = embedder.inner if isinstance(embedder, WrapsEmbedder) else None
    return None


def context_reader(embedder: Embedder | None) -> ReadsContext | None:
    """Return the embedder that can read a turn with the one before it: this one or one that it wraps."""
    while embedder is not None:
        if isinstance(embedder, ReadsContext):
            return embedder
        embedder = embedder.inner if isinstance(embedder, WrapsEmbedder) else None
    return None


def length_check(embedder: Embedder | None) -> Callable[[str], bool]:
    """Return a function that tells whether the model can read a text at once; without an embedder it always can."""
    if embedder is None:
        return lambda text: True
    inner: Embedder | None = embedder
    while inner is not None:
        if isinstance(inner, ChecksLength):
            return inner.reads_whole
        inner = inner.inner if isinstance(inner, WrapsEmbedder) else None
    return lambda text: len(embedder.split(text)) == 1
