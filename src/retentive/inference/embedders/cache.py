"""A cache of vectors in memory, in front of another embedder."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.inference.embedders.base import Embedder, Matrix
from retentive.models import Model

Row = npt.NDArray[np.float32]


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
        self._rows: OrderedDict[str, Row] = OrderedDict()
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return one read-only unit vector for each text; distinct texts not in the cache are embedded in one call."""
        if not texts:
            return self.inner.embed(texts)
        rows = self._cached(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        if missing:
            rows |= self._add(missing, self.inner.embed(missing))
        if len(texts) == 1:
            return rows[texts[0]][np.newaxis, :]
        matrix = np.stack([rows[text] for text in texts])
        matrix.setflags(write=False)
        return matrix

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can read whole; a cached text was embedded whole."""
        return [text] if text in self._rows else self.inner.split(text)

    def close(self) -> None:
        """Empty the cache and close the wrapped embedder."""
        with self._lock:
            self._rows.clear()
        self.inner.close()

    def _cached(self, texts: Sequence[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        with self._lock:
            for text in texts:
                row = self._rows.get(text)
                if row is not None:
                    self._rows.move_to_end(text)
                    found[text] = row
        return found

    def _add(self, texts: Sequence[str], matrix: Matrix) -> dict[str, Row]:
        # A view of one row would hold the whole matrix of its call in memory for as long as that row is cached.
        rows = {text: row.copy() for text, row in zip(texts, matrix, strict=True)}
        for row in rows.values():
            row.setflags(write=False)
        with self._lock:
            self._rows.update(rows)
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)
        return rows
