"""The files of a trained model between training and export: quantised weights, in parts of limited size."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.weights import EMBEDDING_LIMIT, WEIGHT_LIMIT, Weights, quantise

SAVED_LIMIT = 32_767
"""Weights saved with 16 bits leave the choice of the rounding to the export."""

PART = 14_000_000
"""The most bytes of weights in one file."""


def save_weights(folder: Path, name: str, weights: Weights, *, limit: int = WEIGHT_LIMIT) -> None:
    """Write the weights: matrices as integers up to the limit, with a scale for each row or column."""
    parts: list[dict[str, np.ndarray]] = [{}]
    size = 0
    for key, array in weights.items():
        arrays = _packed(key, array, limit)
        added = sum(one.nbytes for one in arrays.values())
        if size + added > PART:
            parts.append({})
            size = 0
        parts[-1] |= arrays
        size += added
    for at, part in enumerate(parts):
        np.savez(folder / f"{name}-{at}.npz", **part)


def _packed(key: str, array: np.ndarray, limit: int) -> dict[str, np.ndarray]:
    if array.ndim < 2 or array.shape[1] == 1:
        return {key: array}
    embedding = "embeddings" in key
    quantised = quantise(array, axis=1 if embedding else 0, limit=EMBEDDING_LIMIT if embedding else limit)
    return {key: quantised.values, f"{key}/scale": quantised.scale}


def load_weights(folder: Path, name: str) -> Weights:
    """Read the weights as floats."""
    arrays: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob(f"{name}-*.npz")):
        with np.load(path) as part:
            arrays |= {key: part[key] for key in part.files}
    found: Weights = {}
    for key, array in arrays.items():
        if key.endswith("/scale"):
            continue
        scale = arrays.get(f"{key}/scale")
        if scale is None:
            found[key] = np.asarray(array, np.float32)
        else:
            by = scale[:, None] if "embeddings" in key else scale[None, :]
            found[key] = np.asarray(array.astype(np.float32) * by, np.float32)
    return found
