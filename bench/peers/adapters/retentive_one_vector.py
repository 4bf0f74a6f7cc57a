"""Retentive with exactly the vectors that the peers get: one for each memory, none of a turn with the one before it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.peers.adapters.retentive import PACKAGES, Retentive
from bench.peers.protocol import PeerMemory, Setup
from retentive.inference.embedders import Embedder
from retentive.inference.embedders.onnx import MEMORY_SMALL
from retentive.models import Model
from retentive.ranking.relevance import FITTED_MODELS

__all__ = ["CONFIGURATION", "PACKAGES", "open"]

CONFIGURATION = "as above, but one vector for each memory, as the peers have; no model is loaded"


class Given(Embedder):
    """The vectors that the runner gave; a long text has one vector."""

    def __init__(self, dimensions: int) -> None:
        # The ranking asks whose vectors they are: those of the default embedder.
        self.model = Model(MEMORY_SMALL, "given", dimensions, *FITTED_MODELS)
        self.vectors: dict[str, Sequence[float]] = {}

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.asarray([self.vectors[text] for text in texts], np.float32)


class OneVector(Retentive):
    def __init__(self, setup: Setup) -> None:
        self._given = Given(setup.dimensions)
        super().__init__(setup.path, self._given)

    def prepare(self, memories: Sequence[PeerMemory]) -> None:
        self._given.vectors = {memory.text: memory.vector for memory in memories}


def open(setup: Setup) -> OneVector:
    return OneVector(setup)
