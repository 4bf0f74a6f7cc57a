"""What is measured: engines that answer a query, and those of Retentive's own parts that are measured apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from bench.corpus import Matrix, Query
from retentive.models import Model


class Peer(Protocol):
    """An engine filled with a corpus, in one way of asking it."""

    name: str

    def ask(self, query: Query, *, scoped: bool) -> Any:
        """The best 10 by meaning and words, in the query's session or in all."""
        ...

    def nearest(self, query: Query, *, scoped: bool, limit: int) -> Sequence[int]:
        """The nearest by vector alone, as rows of the corpus."""
        ...


class ReadyEmbedder:
    """Gives vectors that were made before, under the name of the real model, so that only writing is measured."""

    def __init__(self, model: Model, texts: Sequence[str], vectors: Matrix) -> None:
        self._model = model
        self._rows = {text: row for row, text in enumerate(texts)}
        self._vectors = vectors

    @property
    def model(self) -> Model:
        return self._model

    def embed(self, texts: Sequence[str]) -> Matrix:
        return self._vectors[np.fromiter((self._rows[text] for text in texts), np.intp, len(texts))]

    def split(self, text: str) -> list[str]:
        return [text]

    def close(self) -> None:
        """Nothing is open."""
