"""Embedders turn text into vectors, behind one small interface.

`open_embedder` knows them by name: `bge-small` (the default, local and offline), `local:DIRECTORY` (any ONNX model with
its tokenizer), `fastembed:NAME`, an `http://` or `https://` address of an OpenAI-compatible service, and `none`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.models import Model
from retentive.settings import EmbedderSettings

Matrix = npt.NDArray[np.float32]


class Embedder(Protocol):
    """Turns texts into unit vectors of one model.

    `embed` gives one row of length 1 for each text, in order, and the same row for the same text whatever else is in
    the call. It raises `Unavailable` when the model cannot be reached now. `split` cuts a text that is too long for the
    model into parts that are not, at natural boundaries, losing nothing; a text that fits is its own only part.
    """

    @property
    def model(self) -> Model:
        """Whose vectors these are."""
        ...

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit vector a text."""
        ...

    def split(self, text: str) -> list[str]:
        """The text in parts that the model can read whole."""
        ...

    def close(self) -> None:
        """Let go of connections and memory."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """What an embedder can do besides if it has its model's own tokenizer at hand."""

    def count_tokens(self, text: str) -> int:
        """How many tokens the text has, also beyond what the model can read at once."""
        ...


@runtime_checkable
class KnowsItsLength(Protocol):
    """What an embedder can do besides if asking costs it less than splitting."""

    def reads_whole(self, text: str) -> bool:
        """Whether the model can read the text at once: its only part is then the text itself."""
        ...


@runtime_checkable
class Wraps(Protocol):
    """An embedder that stands before another one."""

    @property
    def inner(self) -> Embedder:
        """The one behind."""
        ...


def tokenizer_of(embedder: Embedder | None) -> CountsTokens | None:
    """The embedder that can count tokens: this one or one behind it, None if none can."""
    while embedder is not None:
        if isinstance(embedder, CountsTokens):
            return embedder
        embedder = embedder.inner if isinstance(embedder, Wraps) else None
    return None


def reading_of(embedder: Embedder | None) -> Callable[[str], bool]:
    """Whether an embedder can read a text at once; without an embedder any text can be."""
    if embedder is None:
        return lambda text: True
    inner: Embedder | None = embedder
    while inner is not None:
        if isinstance(inner, KnowsItsLength):
            return inner.reads_whole
        inner = inner.inner if isinstance(inner, Wraps) else None
    return lambda text: len(embedder.split(text)) == 1


def open_embedder(settings: EmbedderSettings) -> Embedder | None:
    """The embedder that the settings name, with a cache before it; None for `none`."""
    from retentive.inference.embedders.cache import CachedEmbedder

    name, _, argument = settings.name.partition(":")
    if name in ("http", "https"):
        name, argument = "remote", settings.name
    if name not in _LOADERS:
        raise Invalid(f"there is no embedder '{settings.name}'; use one of {', '.join(_NAMES)}")
    embedder = _LOADERS[name](argument, settings)
    return None if embedder is None else CachedEmbedder(embedder)


def _open_bge_small(_: str, _settings: EmbedderSettings) -> Embedder:
    from retentive.inference.embedders.onnx import open_bge_small

    return open_bge_small()


def _open_local(directory: str, settings: EmbedderSettings) -> Embedder:
    from retentive.inference.embedders.onnx import OnnxEmbedder

    return OnnxEmbedder(directory, pooling=settings.pooling)


def _open_fastembed(name: str, settings: EmbedderSettings) -> Embedder:
    from retentive.inference.embedders.hub import FastembedEmbedder

    return FastembedEmbedder(name, path=settings.path)


def _open_remote(url: str, settings: EmbedderSettings) -> Embedder:
    from retentive.inference.embedders.remote import RemoteEmbedder

    if not settings.model:
        raise Invalid(f"the embedder at {url} needs a model name: set embedder.model or RETENTIVE_EMBEDDER_MODEL")
    key = settings.api_key.get_secret_value() if settings.api_key else None
    return RemoteEmbedder(url, model=settings.model, api_key=key, timeout=settings.timeout, retries=settings.retries)


_LOADERS: dict[str, Callable[[str, EmbedderSettings], Embedder | None]] = {
    "bge-small": _open_bge_small,
    "local": _open_local,
    "fastembed": _open_fastembed,
    "remote": _open_remote,
    "none": lambda _argument, _settings: None,
}
_NAMES = ("bge-small", "local:DIRECTORY", "fastembed:MODEL", "http://… or https://…", "none")
