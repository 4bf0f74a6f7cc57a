"""Embedders turn text into vectors: their base class, opening one by name, and a cache of vectors in memory.

`open_embedder` opens one by name: `memory-small` (the default, local and offline), `multilingual` (an extra, local and
offline too), `local:DIRECTORY` (any ONNX model with its tokenizer), `fastembed:NAME`, an `http://` or `https://`
address of an OpenAI-compatible service, or `none`.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.models import Model

if TYPE_CHECKING:
    from retentive.settings import EmbedderSettings

Matrix = npt.NDArray[np.float32]
Rows = OrderedDict[str, Matrix]


class LocalSessions:
    """How many threads of a process compute a local model at once.

    Each takes 40 MB for a session of onnxruntime, or 5 MB in the library of this package.
    """

    default: ClassVar[int] = os.cpu_count() or 1
    """One for each core. A process that shares the cores with others sets it before it opens an embedder."""


class Embedder(ABC):
    """Turns texts into unit vectors of one model: the base class of every embedder.

    A subclass sets `model` and defines `embed`. The other methods and attributes are for what its model or service can
    do besides; the defaults are those of an embedder that reads texts of any length and treats all alike.
    """

    in_process = False
    """Whether it computes on this machine's cores: the engine then limits how many recalls run at once."""

    reads_context = False
    """Whether its model was trained to read a turn together with the one before it (`in_context`)."""

    has_tokenizer = False
    """Whether `count_tokens` is of the model's tokenizer."""

    query_prefix = ""
    """What stands before each query. It is no part of the model's fingerprint."""

    @cached_property
    def model(self) -> Model:
        """The model that makes the vectors. `Unavailable` if it must be asked and cannot be reached."""
        raise NotImplementedError

    @property
    def separates_queries(self) -> bool:
        """Whether a query has another vector than a memory with the same text."""
        return type(self).embed_queries is not Embedder.embed_queries

    @property
    def runtime(self) -> str | None:
        """What computes the model in this process; None if another process does."""
        return None

    @property
    def outage(self) -> str | None:
        """Why the last call to the service failed; None if it has answered since, or if there is no service."""
        return None

    @abstractmethod
    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one row of length 1 for each text, in order: the same for a text whatever else is in the call.

        `Unavailable` if the model cannot be reached now, `Refused` if it does not accept one of the texts; the caller
        then sends fewer at once.
        """

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each query, to be compared with those of memories."""
        return self.embed(texts)

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can read whole, cut at natural boundaries and without loss.

        A text that the model can read is its own only part.
        """
        return [text]

    def reads_whole(self, text: str) -> bool:
        """Whether the model can read the text at once."""
        return len(self.split(text)) == 1

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the text has, also beyond what the model can read; by default an overestimate."""
        return estimated_tokens(text)

    def in_context(self, text: str, before: str) -> str | None:  # noqa: ARG002 - the default ignores them
        """Return one text to embed for a turn and the turn before it; None if it should only be embedded alone."""
        return None

    def reads_alone(self, text: str) -> bool:  # noqa: ARG002 - as above
        """Whether a turn that is embedded with the one before it is also embedded alone."""
        return True

    def close(self) -> None:  # noqa: B027 - there may be nothing to release
        """Release connections and memory."""


def estimated_tokens(text: str) -> int:
    """Return a third of the bytes of UTF-8: more tokens than most texts have in most languages."""
    return -(-len(text.encode(errors="replace")) // 3)


def open_embedder(settings: EmbedderSettings) -> Embedder | None:
    """Open the embedder that the settings name, with a cache in memory; return None for `none`."""
    if settings.name == "none":
        return None
    embedder = _open(settings)
    if settings.query_prefix or settings.document_prefix:
        from retentive.inference.embedders.prefixes import PrefixedEmbedder

        embedder = PrefixedEmbedder(embedder, query=settings.query_prefix, document=settings.document_prefix)
    return CachedEmbedder(embedder)


def _open(settings: EmbedderSettings) -> Embedder:
    name, _, argument = settings.name.partition(":")
    match name:
        case "memory-small":
            from retentive.inference.embedders.onnx import open_memory_small

            return open_memory_small()
        case "multilingual":
            from retentive.inference.embedders.multilingual import open_multilingual

            return open_multilingual()
        case "local":
            from retentive.inference.embedders.onnx import OnnxEmbedder

            return OnnxEmbedder(argument, pooling=settings.pooling)
        case "fastembed":
            from retentive.inference.embedders.fastembed import FastembedEmbedder

            return FastembedEmbedder(argument, path=settings.path)
        case "http" | "https":
            from retentive.inference.embedders.remote import open_remote

            return open_remote(settings)
    raise Invalid(f"there is no embedder '{settings.name}'; use one of {', '.join(_NAMES)}")


_NAMES = ("memory-small", "multilingual", "local:DIRECTORY", "fastembed:MODEL", "http://… or https://…", "none")


class EmbedderWrapper(Embedder):
    """Passes every call on to another embedder. Subclasses override what they change."""

    def __init__(self, inner: Embedder) -> None:
        self.inner = inner
        self.in_process = inner.in_process
        self.reads_context = inner.reads_context
        self.has_tokenizer = inner.has_tokenizer
        self.query_prefix = inner.query_prefix

    @cached_property
    def model(self) -> Model:
        return self.inner.model

    @property
    def separates_queries(self) -> bool:
        return self.inner.separates_queries

    @property
    def runtime(self) -> str | None:
        return self.inner.runtime

    @property
    def outage(self) -> str | None:
        return self.inner.outage

    def embed(self, texts: Sequence[str]) -> Matrix:
        return self.inner.embed(texts)

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        return self.inner.embed_queries(texts) if self.separates_queries else self.embed(texts)

    def split(self, text: str) -> list[str]:
        return self.inner.split(text)

    def reads_whole(self, text: str) -> bool:
        return self.inner.reads_whole(text)

    def count_tokens(self, text: str) -> int:
        return self.inner.count_tokens(text)

    def in_context(self, text: str, before: str) -> str | None:
        return self.inner.in_context(text, before)

    def reads_alone(self, text: str) -> bool:
        return self.inner.reads_alone(text)

    def close(self) -> None:
        self.inner.close()


class CachedEmbedder(EmbedderWrapper):
    """Calls the wrapped embedder only for texts whose vectors are not cached.

    It holds the `size` texts used last. Its results are read-only, because the rows are shared. A call that fails adds
    nothing. It is thread-safe: the lock is not held while the wrapped embedder works, so two threads that miss the same
    text at once both embed it.
    """

    def __init__(self, inner: Embedder, *, size: int = 4096) -> None:
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
        if not self.separates_queries:
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

    def _cached(self, texts: Sequence[str], cache: Rows) -> dict[str, Matrix]:
        found: dict[str, Matrix] = {}
        with self._lock:
            for text in texts:
                row = cache.get(text)
                if row is not None:
                    cache.move_to_end(text)
                    found[text] = row
        return found

    def _add(self, texts: Sequence[str], matrix: Matrix, cache: Rows) -> dict[str, Matrix]:
        # A view of one row would hold the whole matrix of its call in memory for as long as that row is cached.
        rows = {text: row.copy() for text, row in zip(texts, matrix, strict=True)}
        for row in rows.values():
            row.setflags(write=False)
        with self._lock:
            cache.update(rows)
            while len(cache) > self._size:
                cache.popitem(last=False)
        return rows
