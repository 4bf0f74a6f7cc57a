"""Embedders turn text into vectors: the `Embedder` protocol, opening one by name, and a cache of vectors in memory.

`open_embedder` opens one by name: `memory-small` (the default, local and offline), `multilingual` (an extra, local and
offline too), `local:DIRECTORY` (any ONNX model with its tokenizer), `fastembed:NAME`, an `http://` or `https://`
address of an OpenAI-compatible service, or `none`.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.models import Model

if TYPE_CHECKING:
    from retentive.settings import EmbedderSettings

Matrix = npt.NDArray[np.float32]
Row = npt.NDArray[np.float32]
Rows = OrderedDict[str, Row]


class LocalSessions:
    """How many threads of a process compute a local model at once.

    Each takes 40 MB for a session of onnxruntime, or 5 MB in the library of this package.
    """

    default: ClassVar[int] = os.cpu_count() or 1
    """One for each core. A process that shares the cores with others sets it before it opens an embedder."""


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

    def reads_alone(self, text: str) -> bool:
        """Whether a turn that is embedded with the one before it is also embedded alone."""
        ...


@runtime_checkable
class NamesRuntime(Protocol):
    """Optional ability of an embedder that computes in this process."""

    @property
    def runtime(self) -> str:
        """What computes the model."""
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


def unwrap(embedder: Embedder | None) -> Iterator[Embedder]:
    """Yield an embedder, then the one that it wraps, and so on."""
    while embedder is not None:
        yield embedder
        embedder = embedder.inner if isinstance(embedder, WrapsEmbedder) else None


def tokenizer_of(embedder: Embedder | None) -> CountsTokens | None:
    """Return the embedder that can count tokens: this one or one that it wraps; None if none can."""
    return next((one for one in unwrap(embedder) if isinstance(one, CountsTokens)), None)


def context_reader(embedder: Embedder | None) -> ReadsContext | None:
    """Return the embedder that can read a turn with the one before it: this one or one that it wraps."""
    return next((one for one in unwrap(embedder) if isinstance(one, ReadsContext)), None)


def length_check(embedder: Embedder | None) -> Callable[[str], bool]:
    """Return a function that tells whether the model can read a text at once; without an embedder it always can."""
    if embedder is None:
        return lambda text: True
    checking = next((one for one in unwrap(embedder) if isinstance(one, ChecksLength)), None)
    if checking is not None:
        return checking.reads_whole
    return lambda text: len(embedder.split(text)) == 1


def runtime_of(embedder: Embedder | None) -> str | None:
    """Return what computes the model in this process; None if another process does, or if there is none."""
    naming = next((one for one in unwrap(embedder) if isinstance(one, NamesRuntime)), None)
    return None if naming is None else naming.runtime


def outage_of(embedder: Embedder | None) -> str | None:
    """Return why the service of an embedder could not be reached last; None if it answers, or if there is none."""
    reporting = next((one for one in unwrap(embedder) if isinstance(one, ReportsOutage)), None)
    return None if reporting is None else reporting.outage


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
        """Return one unit vector for each query; by `embed` if the wrapped embedder makes no difference."""
        return self.inner.embed_queries(texts) if isinstance(self.inner, EmbedsQueries) else self.embed(texts)

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
