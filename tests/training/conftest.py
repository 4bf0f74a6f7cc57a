"""A tiny BERT with made-up weights."""

from __future__ import annotations

import numpy as np
import pytest
from training.weights import Weights

WIDTH, INNER, HEADS, WORDS = 16, 24, 2, 50


def made_up(*, layers: int = 2, classifier: bool = False) -> Weights:
    chance = np.random.default_rng(7)

    def array(*shape: int) -> np.ndarray:
        return chance.normal(0, 0.3, shape).astype(np.float32)

    weights = {
        "embeddings.word_embeddings.weight": array(WORDS, WIDTH),
        "embeddings.position_embeddings.weight": array(32, WIDTH),
        "embeddings.token_type_embeddings.weight": array(2, WIDTH),
    }
    sizes = {f"attention.self.{name}": (WIDTH, WIDTH) for name in ("query", "key", "value")}
    sizes |= {"attention.output.dense": (WIDTH, WIDTH), "intermediate.dense": (WIDTH, INNER)}
    sizes["output.dense"] = (INNER, WIDTH)
    norms = ["embeddings.LayerNorm"]
    for number in range(layers):
        prefix = f"encoder.layer.{number}"
        for name, (rows, columns) in sizes.items():
            weights[f"{prefix}.{name}.weight"] = array(rows, columns)
            weights[f"{prefix}.{name}.bias"] = array(columns)
        norms += [f"{prefix}.attention.output.LayerNorm", f"{prefix}.output.LayerNorm"]
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = array(WIDTH) + 1, array(WIDTH)
    if classifier:
        weights |= {"pooler.dense.weight": array(WIDTH, WIDTH), "pooler.dense.bias": array(WIDTH)}
        weights |= {"classifier.weight": array(WIDTH, 1), "classifier.bias": array(1)}
    return weights


@pytest.fixture
def embedder() -> Weights:
    return made_up()


@pytest.fixture
def cross_encoder() -> Weights:
    return made_up(classifier=True)
