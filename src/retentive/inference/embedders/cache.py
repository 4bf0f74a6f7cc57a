"""Remembers the vectors of the texts seen last, so that a text asked for again is not embedded again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from retentive.errors import Invalid
from retentive.inference.embedders import Embedder, Matrix
from retentive.models import Model

Row = npt.NDArray[np.float32]


class CachedEmbedder:
    """An embedder that asks another one only for texts it does not remember.

    It remembers the `size` texts used last. What it gives cannot be written to, because the rows are its own. A call
    that fails leaves nothing behind. Threads may share it: the lock is never held while the other embedder works, so
    two threads that miss the same text at once both embed it.
    """

    def __init__(self, inner: Embedder, *, size: int = 4096) -> None:
        if size < 1:
            raise Invalid(f"The cache of an embedder needs room for at least one text, not {size}.")
        self._inner = inner
        self.in_process: bool = getattr(inner, "in_process", False)
        self._size = size
        self._rows: OrderedDict[str, Row] = OrderedDict()
        self._lock = threading.Lock()

    @property
    def inner(self) -> Embedder:
        """The embedder behind."""
        return self._inner

    @property
    def model(self) -> Model:
        """Whose vectors these are."""
        return self._inner.model

    def embed(self, texts: Sequence[str]) -> Matrix:
        """One unit vector a text, read-only; only distinct texts not remembered reach the embedder, in one call."""
        if not texts:
            return self._inner.embed(texts)
        rows = self._remembered(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in rows]
        if missing:
            rows |= self._remember(missing, self._inner.embed(missing))
        if len(texts) == 1:
            return rows[texts[0]][np.newaxis, :]
        matrix = np.stack([rows[text] for text in texts])
        matrix.setflags(write=False)
        return matrix

    def split(self, text: str) -> list[str]:
        """The text in parts that the model can read whole."""
        return self._inner.split(text)

    def close(self) -> None:
        """Forget every vector and close the embedder behind."""
        with self._lock:
            self._rows.clear()
        self._inner.close()

    def _remembered(self, texts: Sequence[str]) -> dict[str, Row]:
        found: dict[str, Row] = {}
        with self._lock:
            for text in texts:
                row = self._rows.get(text)
                if row is not None:
                    self._rows.move_to_end(text)
                    found[text] = row
        return found

    def _remember(self, texts: Sequence[str], matrix: Matrix) -> dict[str, Row]:
        # A view of one row would keep the whole matrix of its call in memory for as long as that row is remembered.
        rows = {text: row.copy() for text, row in zip(texts, matrix, strict=True)}
        for row in rows.values():
            row.setflags(write=False)
        with self._lock:
            self._rows.update(rows)
            while len(self._rows) > self._size:
                self._rows.popitem(last=False)
        return rows
