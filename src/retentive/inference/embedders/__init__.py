"""Embedders turn text into vectors.

`open_embedder` opens one by name: `bge-small` (the default, local and offline), `local:DIRECTORY` (any ONNX model with
its tokenizer), `fastembed:NAME`, an `http://` or `https://` address of an OpenAI-compatible service, or `none`.
"""

from __future__ import annotations

from collections.abc import Callable

from retentive.errors import Invalid
from retentive.inference.embedders.base import (
    ChecksLength,
    CountsTokens,
    Embedder,
    Matrix,
    WrapsEmbedder,
    reading_of,
    tokenizer_of,
)
from retentive.settings import EmbedderSettings

__all__ = [
    "ChecksLength",
    "CountsTokens",
    "Embedder",
    "Matrix",
    "WrapsEmbedder",
    "open_embedder",
    "reading_of",
    "tokenizer_of",
]


def open_embedder(settings: EmbedderSettings) -> Embedder | None:
    """Open the embedder that the settings name, with a cache in memory; return None for `none`."""
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
    from retentive.inference.embedders.fastembed import FastembedEmbedder

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
