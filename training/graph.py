"""The graph of a quantised BERT as an ONNX file, written for onnxruntime.

One graph without batch or cache variants. A matrix product quantises its input at run time and has int8 weights with a
scale for each column; embeddings are int8 with a scale for each row. Of the last layer only the first token is
computed, because nothing else is read: the embedder's vector and the cross-encoder's logit come from it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, helper, numpy_helper

from training.smoothing import joined_attention
from training.weights import EMBEDDING_LIMIT, WEIGHT_LIMIT, Floats, Weights, layers, quantise

HEADS = 12
EPSILON = 1e-12
MICROSOFT = "com.microsoft"
OPSETS = {"": 17, MICROSOFT: 1}
IR_VERSION = 8
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class Graph:
    """Collects operations and stored tensors."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._tensors: dict[str, TensorProto] = {}

    def constant(self, name: str, array: npt.NDArray[np.generic]) -> str:
        """Store a tensor; return its name."""
        self._tensors[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def op(
        self, kind: str, *inputs: str, domain: str = "", out: str = "", **attributes: int | float | list[int]
    ) -> str:
        """Add an operation with one output; return its name."""
        return self.ops(kind, 1, *inputs, domain=domain, out=out, **attributes)[0]

    def ops(
        self,
        kind: str,
        count: int,
        *inputs: str,
        domain: str = "",
        out: str = "",
        **attributes: int | float | list[int],
    ) -> list[str]:
        """Add an operation with several outputs; return their names."""
        name = f"{kind}_{len(self._nodes) + 1}"
        names = [out or f"{name}_{number}" for number in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, names, name=name, domain=domain or None, **attributes))
        return names

    def model(self, inputs: Mapping[str, list[str | int]], outputs: dict[str, list[str | int]]) -> bytes:
        """The whole file."""
        graph = helper.make_graph(
            self._nodes,
            "bert",
            [
                helper.make_tensor_value_info(name, TensorProto.FLOAT if name == "past" else TensorProto.INT64, dims)
                for name, dims in inputs.items()
            ],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs.items()],
            list(self._tensors.values()),
        )
        opsets = [helper.make_opsetid(domain, number) for domain, number in OPSETS.items()]
        model = helper.make_model(
            graph, producer_name="retentive.training", opset_imports=opsets, ir_version=IR_VERSION
        )
        data: bytes = model.SerializeToString()
        return data


class _Writer:
    """Writes the operations of a model."""

    def __init__(self, weights: Weights, heads: int, limit: int, factors: dict[str, Floats]) -> None:
        self.weights, self.heads, self.limit, self.factors = weights, heads, limit, factors
        self.graph = Graph()

    def linear(self, states: str, name: str, weight: Floats, bias: Floats) -> str:
        factor = self.factors.get(name)
        if factor is not None:
            states = self.graph.op("Mul", states, self.graph.constant(f"{name}.smoothing", 1 / factor))
            weight = weight * factor[:, None]
        quantised = quantise(weight, axis=0, limit=self.limit)
        stored = [
            self.graph.constant(f"{name}.weight", quantised.values),
            self.graph.constant(f"{name}.scale", quantised.scale),
            self.graph.constant(f"{name}.zero", np.zeros(len(quantised.scale), np.int8)),
            self.graph.constant(f"{name}.bias", bias),
        ]
        return self.graph.op("DynamicQuantizeMatMul", states, *stored, domain=MICROSOFT)

    def module(self, states: str, name: str) -> str:
        return self.linear(states, name, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def add_and_normalise(self, states: str, added: str, name: str) -> str:
        stored = [self.graph.constant(f"{name}.{kind}", self.weights[f"{name}.{kind}"]) for kind in ("weight", "bias")]
        # One fused operation for both exists, and takes 8 % longer.
        both = self.graph.op("Add", states, added)
        return self.graph.op("LayerNormalization", both, *stored, epsilon=EPSILON)

    def embedding(self, ids: str, name: str) -> str:
        quantised = quantise(self.weights[f"{name}.weight"], axis=1, limit=EMBEDDING_LIMIT)
        values = self.graph.op("Gather", self.graph.constant(f"{name}.weight", quantised.values), ids)
        scale = self.graph.op("Gather", self.graph.constant(f"{name}.scale", quantised.scale[:, None]), ids)
        return self.graph.op("Mul", self.graph.op("Cast", values, to=TensorProto.FLOAT), scale)

    def embeddings(self) -> str:
        graph = self.graph
        name = "embeddings.position_embeddings"
        length = graph.op("Slice", graph.op("Shape", INPUTS[0]), *self._ints("length", [1], [2]))
        positions = graph.constant(f"{name}.weight", self.weights[f"{name}.weight"])
        first = graph.op("Slice", positions, graph.constant("zero", np.zeros(1, np.int64)), length)
        both = graph.op("Add", self.embedding(INPUTS[0], "embeddings.word_embeddings"), first)
        types = self.embedding(INPUTS[2], "embeddings.token_type_embeddings")
        return self.add_and_normalise(both, types, "embeddings.LayerNorm")

    def layer(self, states: str, prefix: str, mask: str, *, last: bool) -> str:
        """One layer; of the last one, only the first token."""
        graph = self.graph
        qkv = self.linear(states, f"{prefix}.attention.self", *joined_attention(self.weights, prefix))
        query, key, value = graph.ops("Split", 3, qkv, axis=-1)
        if last:
            query, states = self.first(query), self.first(states)
        seen = graph.op("MultiHeadAttention", query, key, value, "", mask, domain=MICROSOFT, num_heads=self.heads)
        out = self.module(seen, f"{prefix}.attention.output.dense")
        states = self.add_and_normalise(states, out, f"{prefix}.attention.output.LayerNorm")
        grown = graph.op("Gelu", self.module(states, f"{prefix}.intermediate.dense"), domain=MICROSOFT)
        return self.add_and_normalise(
            states, self.module(grown, f"{prefix}.output.dense"), f"{prefix}.output.LayerNorm"
        )

    def first(self, states: str) -> str:
        return self.graph.op("Slice", states, *self._ints("first", [0], [1], [1]))

    def _ints(self, name: str, *values: list[int]) -> list[str]:
        return [self.graph.constant(f"{name}.{at}", np.array(one, np.int64)) for at, one in enumerate(values)]


def write_model(
    weights: Weights, *, heads: int = HEADS, limit: int = WEIGHT_LIMIT, factors: dict[str, Floats] | None = None
) -> bytes:
    """The ONNX file of a model: a cross-encoder with its logits if it has a classifier, an embedder otherwise.

    The embedder's output has one token of each text, the first. `factors` are those of `training.smoothing`.
    """
    writer = _Writer(weights, heads, limit, factors or {})
    graph = writer.graph
    inputs = {name: ["batch", "tokens"] for name in INPUTS}
    mask = graph.op("Cast", INPUTS[1], to=TensorProto.INT32)
    states = writer.embeddings()
    count = layers(weights)
    for number in range(count):
        states = writer.layer(states, f"encoder.layer.{number}", mask, last=number == count - 1)
    if "classifier.weight" not in weights:
        graph.op("Identity", states, out="last_hidden_state")
        width = weights["embeddings.LayerNorm.bias"].shape[0]
        return graph.model(inputs, {"last_hidden_state": ["batch", 1, width]})
    states = graph.op("Squeeze", states, graph.constant("squeezed", np.array([1], np.int64)))
    pooled = states
    for name in ("pooler.dense", "classifier"):
        product = graph.op("MatMul", pooled, graph.constant(f"{name}.weight", weights[f"{name}.weight"]))
        out = "" if name == "pooler.dense" else "logits"
        pooled = graph.op("Add", product, graph.constant(f"{name}.bias", weights[f"{name}.bias"]), out=out)
        if name == "pooler.dense":
            pooled = graph.op("Tanh", pooled)
    return graph.model(inputs, {"logits": ["batch", len(weights["classifier.bias"])]})
