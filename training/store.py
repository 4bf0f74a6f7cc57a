"""Files between the steps of training: candidates with their scores, and quantised weights in parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from training.candidates import Candidates
from training.weights import EMBEDDING_LIMIT, WEIGHT_LIMIT, Weights, quantise

PART = 14_000_000
"""The most bytes of weights in one file."""


def save_candidates(path: Path, queries: Candidates, passages: Candidates) -> None:
    """Write the candidates and the teacher's scores."""
    arrays = {}
    for name, one in (("queries", queries), ("passages", passages)):
        arrays[f"{name}_number"] = one.number.cpu().numpy().astype(np.int32)
        arrays[f"{name}_gold"] = np.packbits(one.gold.cpu().numpy())
        arrays[f"{name}_beside"] = np.packbits(one.beside.cpu().numpy())
        arrays[f"{name}_alone"] = one.alone.cpu().numpy().astype(np.float16)
        arrays[f"{name}_context"] = one.context.cpu().numpy().astype(np.float16)
    np.savez_compressed(path, **arrays)


def load_candidates(path: Path, device: str) -> tuple[Candidates, Candidates]:
    """Read the candidates of queries and of passages."""
    found = []
    with np.load(path) as arrays:
        for name in ("queries", "passages"):
            number = torch.from_numpy(arrays[f"{name}_number"].astype(np.int64)).to(device)

            def mask(kind: str, name: str = name, number: torch.Tensor = number) -> torch.Tensor:
                bits = np.unpackbits(arrays[f"{name}_{kind}"])[: number.numel()].astype(bool)
                return torch.from_numpy(bits.reshape(number.shape)).to(device)

            one = Candidates(number, mask("gold"), mask("beside"))
            one.alone = torch.from_numpy(arrays[f"{name}_alone"].astype(np.float32)).to(device)
            one.context = torch.from_numpy(arrays[f"{name}_context"].astype(np.float32)).to(device)
            found.append(one)
    return found[0], found[1]


def save_weights(folder: Path, name: str, weights: Weights, *, limit: int = WEIGHT_LIMIT) -> None:
    """Write the weights, matrices as integers up to the limit with a scale for each row or column, in files of limited size."""
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
        if scale is not None:
            scale = scale[:, None] if "embeddings" in key else scale[None, :]
            array = array.astype(np.float32) * scale
        found[key] = np.asarray(array, np.float32)
    return found
