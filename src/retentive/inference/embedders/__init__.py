"""Embedders turn text into vectors. They are opened by name, with a cache of vectors in memory.

`open_embedder` opens one by name: `memory-small` (the default, local and offline), `multilingual` (an extra, local and
offline too), `local:DIRECTORY` (any ONNX model with its tokenizer), `fastembed:NAME`, an `http://` or `https://`
address of an OpenAI-compatible service, or `none`.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.inference.embedders.base import (
    ChecksLength,
    CountsTokens,
    Embedder,
    EmbedsQueries,
    Matrix,
    ReadsContext,
    ReportsOutage,
    WrapsEmbedder,
    context_reader,
    embed_queries,
    length_check,
    tokenizer_of,
)
from retentive.models import Model

if TYPE_CHECKING:
    from retentive.settings import EmbedderSettings

__all__ = [
    "CachedEmbedder",
    "ChecksLength",
    "CountsTokens",
    "Embedder",
    "EmbedderWrapper",
    "EmbedsQueries",
    "Matrix",
    "ReadsContext",
    "ReportsOutage",
    "WrapsEmbedder",
    "context_reader",
    "embed_queries",
    "length_check",
    "open_embedder",
    "outage_of",
    "tokenizer_of",
]

Row = npt.NDArray[np.float32]
Rows = OrderedDict[str, Row]


def open_embedder(settings: EmbedderSettings) -> Embedder | None:
    """Open the embedder that the settings name, with a cache in memory; return None for `none`."""
    name, _, argument = settings.name.partition(":")
    if name in ("http", "https"):
        name, argument = "remote", settings.name
    if name not in _LOADERS:
        raise Invalid(f"there is no embedder '{settings.name}'; use one of {', '.join(_NAMES)}")
    embedder = _LOADERS[name](argument, settings)
    if embedder is not None and (settings.query_prefix or settings.document_prefix):
        from retentive.inference.embedders.prefixes import PrefixedEmbedder

        embedder = PrefixedEmbedder(embedder, query=settings.query_prefix, document=settings.document_prefix)
    return None if embedder is None else CachedEmbedder(embedder)


def outage_of(embedder: Embedder | None) -> str | None:
    """Return why the service of an embedder could not be reached last; None if it answers, or if there is none."""
    while embedder is not None:
        if isinstance(embedder, ReportsOutage):
            return embedder.outage
        embedder = embedder.inner if isinstance(embedder, WrapsEmbedder) else None
    return None


def _open_memory_small(_: str, _settings: EmbedderSettings) -> Embedder:
    from retentive.inference.embedders.onnx import open_memory_small

    return open_memory_small()


def _open_multilingual(_: str, _settings: EmbedderSettings) -> Embedder:
    from retentive.inference.embedders.multilingual import open_multilingual

    return open_multilingual()


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
    "memory-small": _open_memory_small,
    "multilingual": _open_multilingual,
    "local": _open_local,
    "fastembed": _open_fastembed,
    "remote": _open_remote,
    "none": lambda _argument, _settings: None,
}
_NAMES = ("memory-small", "multilingual", "local:DIRECTORY", "fastembed:MODEL", "http://… or https://…", "none")


class EmbedderWrapper:
    """Passes every call on to another embedder. Subclasses override what they change."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner

    @property
    def model(self) -> Model:
        """The model that makes the vectors."""
        return self.inner.model

    @property
    def in_process(self) -> bool:
        """Whether vectors are computed on this machine's cores."""
        return getattr(self.inner, "in_process", False)

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each text."""
        return self.inner.embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each query."""
        return embed_queries(self.inner, texts)

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can read whole."""
        return self.inner.split(text)

    def close(self) -> None:
        """Close the wrapped embedder."""
        self.inner.close()


class CachedEmbedder(EmbedderWrapper):
    """Calls the wrapped embedder only for texts whose vectors are not cached.

    It holds the `size` texts used last. Its results are read-only, because the rows are shared. A call that fails adds
    nothing. It is thread-safe: the lock is not held while the wrapped embedder works, so two threads that miss the same
    text at once both embed it.
    """

    def __init__(self, inner: Embedder, *, size: int = 4096) -> None:
        if size < 1:
            raise Invalid(f"the cache of an embedder has a size of at least one text, not {size}")
        super().__init__(inner)
        self._size = size
        self._rows: Rows = OrderedDict()
        self._queries: Rows = OrderedDict()
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one read-only unit vector for each text; distinct texts not in the cache are embedded in one call."""
        return self._look_up(texts, self._rows, self.inner.embed)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return one read-only unit vector for each query, as `embed` does."""
        if not isinstance(self.inner, EmbedsQueries):
            return self.embed(texts)
        return self._look_up(texts, self._queries, self.inner.embed_queries)

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can read whole; a cached text was embedded whole."""
        return [text] if text in self._rows else self.inner.split(text)

    def close(self) -> None:
        """Empty the cache and close the wrapped embedder."""
        with self._lock:
            self._rows.clear()
            self._queries.clear()
        self.inner.close()

    def _look_up(self, texts: Sequence[str], cache: Rows, embed: Callable[[Sequence[str]], Matrix]) -> Matrix:
        if not texts:
            return embed(texts)
        rows = self._cached(texts, cache)
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        if missing:
            rows |= self._add(missing, embed(missing), cache)
        if len(texts) == 1:
            return rows[texts[0]][np.newaxis, :]
        matrix = np.stack([rows[text] for text in texts])
        matrix.setflags(write=False)
        return matrix

    def _cached(self, texts: Sequence[str], cache: Rows) -> dict[str, Row]:
        found: dict[str, Row] = {}
        with self._lock:
            for text in texts:
                row = cache.get(text)
                if row is not None:
                    cache.move_to_end(text)
                    found[text] = row
        return found

    def _add(self, texts: Sequence[str], matrix: Matrix, cache: Rows) -> dict[str, Row]:
        # A view of one row would hold the whole matrix of its call in memory for as long as that row is cached.
        rows = {text: row.copy() for text, row in zip(texts, matrix, strict=True)}
        for row in rows.values():
            row.setflags(write=False)
        with self._lock:
            cache.update(rows)
            while len(cache) > self._size:
                cache.popitem(last=False)
        return rows
