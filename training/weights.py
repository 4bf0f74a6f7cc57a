"""The weights of a BERT model: read from a quantised ONNX file as floats, and quantised again.

A model is a dictionary of arrays with the names of the original checkpoints, such as
`encoder.layer.0.attention.self.query.weight`; here a weight is stored input × output, as a matrix product needs it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

Floats = npt.NDArray[np.float32]
Weights = dict[str, Floats]

WEIGHT_LIMIT = 64
"""The largest quantised weight. On processors without VNNI two products are added in 16 bits: 2 × 255 × 64 fits."""

EMBEDDING_LIMIT = 127


class Quantised(NamedTuple):
    """Integers, of 16 bits if the limit is above 127, and the scale of each column (a weight) or row (an embedding)."""

    values: npt.NDArray[np.int8 | np.int16]
    scale: Floats


def quantise(array: Floats, *, axis: int, limit: int) -> Quantised:
    """Quantise symmetrically, with one scale for each index of the other axis; `axis` is the one reduced."""
    largest = np.abs(array).max(axis=axis, keepdims=True)
    scale = np.where(largest > 0, largest / limit, 1.0).astype(np.float32)
    values = np.clip(np.rint(array / scale), -limit, limit).astype(np.int8 if limit <= 127 else np.int16)
    return Quantised(values, scale.squeeze(axis))


def dequantise(values: npt.NDArray[np.generic], scale: Floats, zero_point: npt.NDArray[np.generic]) -> Floats:
    """Floats from integers; scale and zero point are for the whole array or for each column."""
    centred = values.astype(np.float32) - zero_point.astype(np.float32)
    return np.asarray(centred * scale, np.float32)


class Node(NamedTuple):
    """An operation of a graph."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def read_graph(path: Path) -> tuple[list[Node], dict[str, npt.NDArray[np.generic]]]:
    """The operations and the stored tensors of an ONNX file."""
    graph = onnx.load(path).graph
    nodes = [Node(node.op_type, tuple(node.input), tuple(node.output)) for node in graph.node]
    return nodes, {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}


def read_exported(path: Path) -> Weights:
    """The weights of a model that `training.export` has written, as floats; smoothing is undone."""
    _, tensors = read_graph(path)
    found: Weights = {}
    for name, array in tensors.items():
        stem, _, kind = name.rpartition(".")
        if kind not in ("weight", "bias"):
            continue
        values = np.asarray(array, np.float32)
        if array.dtype == np.int8:
            scale = np.asarray(tensors[f"{stem}.scale"], np.float32).ravel()
            values = values * (scale[:, None] if "embeddings" in name else scale[None, :])
        if kind == "weight" and f"{stem}.smoothing" in tensors:
            values = values * tensors[f"{stem}.smoothing"][:, None]
        found |= split_attention(name, values)
    return found


def split_attention(name: str, values: Floats) -> Weights:
    """A weight or bias under its name in the checkpoint; that of query, key and value together as three."""
    stem, _, kind = name.rpartition(".")
    if not stem.endswith(".attention.self"):
        return {name: values}
    parts = zip(("query", "key", "value"), np.split(values, 3, axis=-1), strict=True)
    return {f"{stem}.{part}.{kind}": np.ascontiguousarray(of_part) for part, of_part in parts}


def read_weights(path: Path) -> Weights:
    """The weights of a quantised BERT as floats, under their names in the original checkpoint.

    The exporter of the two models here loses the names of weights, but an operation's output is named after its
    module: `/encoder/layer.0/attention/self/query/MatMul_output_0…`.
    """
    nodes, tensors = read_graph(path)
    found: Weights = {}
    for node in nodes:
        if node.op != "MatMulInteger" or not node.inputs[1].endswith("_quantized"):
            continue
        stem = node.inputs[1].removesuffix("_quantized")
        module = _module(node.outputs[0])
        if f"{stem}_scale" in tensors:
            scale, zero = tensors[f"{stem}_scale"], tensors[f"{stem}_zero_point"]
            found[f"{module}.weight"] = dequantise(tensors[node.inputs[1]], scale.astype(np.float32), zero)
    for name, array in tensors.items():
        stem = name.removesuffix("_quantized")
        if name.endswith("_quantized") and "embeddings." in name:
            scale, zero = tensors[f"{stem}_scale"], tensors[f"{stem}_zero_point"]
            found[stem.removeprefix("bert.")] = dequantise(array, scale.astype(np.float32), zero)
        elif name.endswith((".bias", "LayerNorm.weight")):
            found[name.removeprefix("bert.")] = np.array(array, np.float32)
    return found


def _module(output: str) -> str:
    if output.startswith("logits"):
        return "classifier"
    path = re.sub(r"/(MatMul|Gemm)_output.*", "", output).strip("/").replace("/", ".")
    return path.removeprefix("bert.")


def layers(weights: Weights) -> int:
    """How many layers the model has."""
    return 1 + max(int(name.split(".")[2]) for name in weights if name.startswith("encoder.layer."))
