"""Builds an int8 ONNX graph of a BERT encoder from its float weights.

Matrices are quantised per output channel and symmetrically, word vectors per row; activations are quantised when the
graph runs. The graph reads one text at a time (`input_ids` of shape 1 × length) and returns the states of its tokens.
It needs the package `onnx`, which only building needs: running the graph does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

OPSET = 20
IR_VERSION = 9


@dataclass(frozen=True, slots=True)
class BertShape:
    """The sizes of a BERT encoder."""

    hidden: int
    layers: int
    heads: int
    epsilon: float = 1e-12


@dataclass(slots=True)
class _Graph:
    """Nodes and constants of a graph under construction; every method adds a step and returns its output's name."""

    nodes: list[Any] = field(default_factory=list)
    constants: dict[str, Array] = field(default_factory=dict)

    def constant(self, name: str, value: Array) -> str:
        self.constants[name] = value
        return name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        from onnx import helper

        names = [f"{operator}_{len(self.nodes)}_{at}" for at in range(outputs)]
        self.nodes.append(helper.make_node(operator, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def linear(self, name: str, inputs: str, weight: Array, bias: Array) -> str:
        """A quantised layer: `weight` has shape inputs × outputs."""
        values, scale = quantise(weight, axis=0)
        quantised, input_scale, zero = self.add("DynamicQuantizeLinear", inputs, outputs=3)
        product = self.add("MatMulInteger", quantised, self.constant(f"{name}.weight", values), zero)
        both = self.add("Mul", input_scale, self.constant(f"{name}.scale", scale))
        scaled = self.add("Mul", self.add("Cast", product, to=1), both)
        return str(self.add("Add", scaled, self.constant(f"{name}.bias", bias)))

    def normalise(self, name: str, inputs: str, weight: Array, bias: Array, epsilon: float) -> str:
        scale, shift = self.constant(f"{name}.weight", weight), self.constant(f"{name}.bias", bias)
        return str(self.add("LayerNormalization", inputs, scale, shift, axis=-1, epsilon=epsilon))


def quantise(weight: Array, *, axis: int) -> tuple[Array, Array]:
    """Round a matrix to int8, with one scale for all values along the axis."""
    largest = np.abs(weight).max(axis=axis)
    scale = (np.where(largest > 0, largest, 1.0) / 127).astype(np.float32)
    values = np.rint(weight / np.expand_dims(scale, axis)).clip(-127, 127).astype(np.int8)
    return values, scale


def build(weights: Mapping[str, Array], shape: BertShape) -> bytes:
    """The serialised graph.

    The names of the weights: `word`, `position` and `type` (rows), `norm.weight`, `norm.bias`, and in each layer N
    `N.query`, `N.key`, `N.value`, `N.output`, `N.up`, `N.down`, each with `.weight` (inputs × outputs) and `.bias`, and
    `N.attention_norm` and `N.norm` with `.weight` and `.bias`.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    graph = _Graph()
    states = _embed(graph, weights, shape)
    for layer in range(shape.layers):
        states = _attend(graph, f"{layer}", weights, shape, states)
        wide = graph.linear(f"{layer}.up", states, *_pair(weights, f"{layer}.up"))
        narrow = graph.linear(f"{layer}.down", graph.add("Gelu", wide), *_pair(weights, f"{layer}.down"))
        total = graph.add("Add", states, narrow)
        states = graph.normalise(f"{layer}.norm", total, *_pair(weights, f"{layer}.norm"), shape.epsilon)
    graph.nodes[-1].output[0] = "last_hidden_state"
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "bert",
            [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, "length"])],
            [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [1, "length", shape.hidden])],
            [numpy_helper.from_array(np.ascontiguousarray(value), name) for name, value in graph.constants.items()],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="retentive",
    )
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


def _pair(weights: Mapping[str, Array], name: str) -> tuple[Array, Array]:
    return weights[f"{name}.weight"], weights[f"{name}.bias"]


def _embed(graph: _Graph, weights: Mapping[str, Array], shape: BertShape) -> str:
    """Word vectors, positions and the type of the only segment."""
    values, scale = quantise(weights["word"], axis=1)
    words = graph.add("Cast", graph.add("Gather", graph.constant("word", values), "input_ids"), to=1)
    scales = graph.add("Gather", graph.constant("word.scale", scale[:, None]), "input_ids")
    # The single segment's type vector is the same everywhere, so it is part of the positions.
    places = graph.constant("position", (weights["position"] + weights["type"][0])[None].astype(np.float32))
    one, zero = graph.constant("one", np.array([1], np.int64)), graph.constant("zero", np.array([0], np.int64))
    length = graph.add("Slice", graph.add("Shape", "input_ids"), one, graph.constant("two", np.array([2], np.int64)))
    positions = graph.add("Slice", places, zero, length, one)
    total = graph.add("Add", graph.add("Mul", words, scales), positions)
    return graph.normalise("norm", total, *_pair(weights, "norm"), shape.epsilon)


def _attend(graph: _Graph, layer: str, weights: Mapping[str, Array], shape: BertShape, states: str) -> str:
    """Self-attention with its residual connection. Query, key and value are one product of one quantised input."""
    size = shape.hidden // shape.heads
    split = graph.constant("heads", np.array([1, -1, shape.heads, size], np.int64))
    joined = graph.constant("joined", np.array([1, -1, shape.hidden], np.int64))
    matrices, biases = zip(*_projections(layer, weights, size), strict=True)
    all_three = graph.linear(f"{layer}.projection", states, np.concatenate(matrices, 1), np.concatenate(biases))
    query, key, value = graph.add("Split", all_three, outputs=3, axis=-1, num_outputs=3)
    query = graph.add("Transpose", graph.add("Reshape", query, split), perm=[0, 2, 1, 3])
    key = graph.add("Transpose", graph.add("Reshape", key, split), perm=[0, 2, 3, 1])
    value = graph.add("Transpose", graph.add("Reshape", value, split), perm=[0, 2, 1, 3])
    shares = graph.add("Softmax", graph.add("MatMul", query, key), axis=-1)
    context = graph.add("Transpose", graph.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    output = graph.linear(f"{layer}.output", graph.add("Reshape", context, joined), *_pair(weights, f"{layer}.output"))
    total = graph.add("Add", states, output)
    norm = f"{layer}.attention_norm"
    return graph.normalise(norm, total, *_pair(weights, norm), shape.epsilon)


def _projections(layer: str, weights: Mapping[str, Array], size: int) -> Iterator[tuple[Array, Array]]:
    """Query, key and value. The query's is divided by the root of the head's size, which attention divides by."""
    for name, factor in (("query", size**-0.5), ("key", 1.0), ("value", 1.0)):
        weight, bias = _pair(weights, f"{layer}.{name}")
        yield (weight * factor).astype(np.float32), (bias * factor).astype(np.float32)
