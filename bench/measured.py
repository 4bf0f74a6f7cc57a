"""The interface of a measured engine, and an embedder with prepared vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from bench.corpus import BenchQuery, Matrix
from retentive.inference.embedders import Embedder
from retentive.models import Model


class Peer(Protocol):
    """An engine with a corpus and one configuration of its search."""

    name: str

    def search(self, query: BenchQuery, *, scoped: bool) -> Any:
        """Return the best 10 by hybrid search, in the query's session or in all."""
        ...

    def nearest(self, query: BenchQuery, *, scoped: bool, limit: int) -> Sequence[int]:
        """Return the nearest by vector only, as rows of the corpus."""
        ...


class ReadyEmbedder(Embedder):
    """Returns prepared vectors as those of the real model, so that only writing is measured."""

    def __init__(self, model: Model, texts: Sequence[str], vectors: Matrix) -> None:
        self.model = model
        self._rows = {text: row for row, text in enumerate(texts)}
        self._vectors = vectors

    def embed(self, texts: Sequence[str]) -> Matrix:
        return self._vectors[np.fromiter((self._rows[text] for text in texts), np.intp, len(texts))]
