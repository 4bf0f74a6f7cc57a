"""The two ONNX graphs of an embedder with context tokens (`training.context_bert`), written for onnxruntime.

`model.onnx` reads texts alone. `turns.onnx` reads one turn and, through its context tokens, the turn before it, of
which it is given the keys and values of all layers (`past`). It returns the vector of the turn with its context, the
vector of the turn alone, and its own keys and values for the next turn (`present`). Its weights are in the first file,
so that they are stored once.

The range of each product's input is fixed: the vector of a text is the same in both graphs, and does not depend on the
texts that are computed with it. Of the last layer only the first token is computed.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, external_data_helper

from training.graph import EPSILON, HEADS, MICROSOFT, Graph
from training.weights import EMBEDDING_LIMIT, WEIGHT_LIMIT, Weights, layers, quantise

WEIGHTS_FILE = "model.onnx"
STORED_ONCE = 10_000
"""Tensors of more bytes are stored in the first file only."""


class _Writer:
    """Writes the operations that both graphs have."""

    def __init__(self, weights: Weights, heads: int) -> None:
        self.weights, self.heads_count = weights, heads
        self.graph = Graph()
        self.width = weights["embeddings.LayerNorm.bias"].shape[0]
        self.layers = layers(weights)

    def product(self, states: str, name: str) -> str:
        graph, weights = self.graph, self.weights
        factor = weights[f"{name}.factor"]
        if not np.all(factor == 1):
            states = graph.op("Mul", states, graph.constant(f"{name}.smoothing", (1 / factor).astype(np.float32)))
        quantised = quantise(weights[f"{name}.weight"], axis=0, limit=WEIGHT_LIMIT)
        low, high = weights[f"{name}.range"]
        step = (high - low) / 255
        scale = graph.constant(f"{name}.input_scale", np.array(step, np.float32))
        zero = graph.constant(f"{name}.input_zero", np.array(np.rint(-low / step), np.uint8))
        stored = [
            graph.constant(f"{name}.weight", quantised.values),
            scale,
            graph.constant(f"{name}.scale", quantised.scale),
            zero,
            graph.constant(f"{name}.zero", np.zeros(len(quantised.scale), np.int8)),
            graph.constant(f"{name}.bias", weights[f"{name}.bias"]),
        ]
        rounded = graph.op("QuantizeLinear", states, scale, zero)
        return graph.op("MatMulIntegerToFloat", rounded, *stored, domain=MICROSOFT)

    def normalise(self, states: str, name: str) -> str:
        stored = [self.graph.constant(f"{name}.{kind}", self.weights[f"{name}.{kind}"]) for kind in ("weight", "bias")]
        return self.graph.op("LayerNormalization", states, *stored, epsilon=EPSILON)

    def words(self) -> str:
        """The states of a text's tokens at the start."""
        graph, weights = self.graph, self.weights
        name = "embeddings.word_embeddings"
        quantised = quantise(weights[f"{name}.weight"], axis=1, limit=EMBEDDING_LIMIT)
        values = graph.op("Gather", graph.constant(f"{name}.weight", quantised.values), "input_ids")
        scale = graph.op("Gather", graph.constant(f"{name}.scale", quantised.scale[:, None]), "input_ids")
        # There is one kind of text, so the vector of its type is part of every position.
        places = (
            weights["embeddings.position_embeddings.weight"] + weights["embeddings.token_type_embeddings.weight"][0]
        )
        stored = graph.constant("embeddings.positions", places.astype(np.float32))
        length = graph.op("Slice", graph.op("Shape", "input_ids"), *self.ints("length", [1], [2]))
        first = graph.op("Slice", stored, *self.ints("start", [0]), length)
        scaled = graph.op("Mul", graph.op("Cast", values, to=TensorProto.FLOAT), scale)
        return self.normalise(graph.op("Add", scaled, first), "embeddings.LayerNorm")

    def context_tokens(self) -> str:
        """The states of the context tokens at the start."""
        weights = self.weights
        both = weights["embeddings.context_tokens"] + weights["embeddings.token_type_embeddings.weight"][0]
        centred = both - both.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON)
        scaled = scaled * weights["embeddings.LayerNorm.weight"] + weights["embeddings.LayerNorm.bias"]
        return self.graph.constant("embeddings.context_tokens", scaled[None].astype(np.float32))

    def ints(self, name: str, *values: list[int]) -> list[str]:
        return [self.graph.constant(f"{name}.{at}", np.array(one, np.int64)) for at, one in enumerate(values)]

    def part(self, states: str, start: int, end: int) -> str:
        """Some tokens."""
        return self.graph.op("Slice", states, *self.ints(f"part.{start}.{end}", [start], [end], [1]))

    def heads(self, states: str, prefix: str) -> list[str]:
        """Query, key and value."""
        return self.graph.ops("Split", 3, self.product(states, f"{prefix}.attention.self"), axis=-1)

    def attend(self, query: str, key: str, value: str) -> str:
        return self.graph.op("MultiHeadAttention", query, key, value, domain=MICROSOFT, num_heads=self.heads_count)

    def rest(self, states: str, seen: str, prefix: str) -> str:
        """What a layer does after attention."""
        graph = self.graph
        added = graph.op("Add", states, self.product(seen, f"{prefix}.attention.output.dense"))
        states = self.normalise(added, f"{prefix}.attention.output.LayerNorm")
        grown = graph.op("Gelu", self.product(states, f"{prefix}.intermediate.dense"), domain=MICROSOFT)
        added = graph.op("Add", states, self.product(grown, f"{prefix}.output.dense"))
        return self.normalise(added, f"{prefix}.output.LayerNorm")


def write_texts(weights: Weights, *, heads: int = HEADS) -> bytes:
    """The graph that reads texts alone. Texts of one call have the same length."""
    writer = _Writer(weights, heads)
    graph, states = writer.graph, writer.words()
    for at in range(writer.layers):
        prefix = f"encoder.layer.{at}"
        query, key, value = writer.heads(states, prefix)
        if at == writer.layers - 1:
            query, states = writer.part(query, 0, 1), writer.part(states, 0, 1)
        states = writer.rest(states, writer.attend(query, key, value), prefix)
    graph.op("Identity", states, out="last_hidden_state")
    return graph.model({"input_ids": ["texts", "tokens"]}, {"last_hidden_state": ["texts", 1, writer.width]})


def write_turns(weights: Weights, texts: bytes, *, heads: int = HEADS) -> bytes:
    """The graph that reads a turn with the one before it. `texts` is the first file, which has the weights."""
    writer = _Writer(weights, heads)
    graph = writer.graph
    count = len(weights["embeddings.context_tokens"])
    end = np.iinfo(np.int64).max
    states = graph.op("Concat", writer.context_tokens(), writer.words(), axis=1)
    past = graph.ops("Split", 2 * writer.layers, "past", axis=0)
    present = []
    for at in range(writer.layers):
        prefix = f"encoder.layer.{at}"
        query, key, value = writer.heads(states, prefix)
        own_key, own_value = writer.part(key, count, end), writer.part(value, count, end)
        last = at == writer.layers - 1
        own_query = writer.part(query, count, count + 1 if last else end)
        seen = writer.attend(own_query, own_key, own_value)
        keys = graph.op("Concat", key, past[2 * at], axis=1)
        values = graph.op("Concat", value, past[2 * at + 1], axis=1)
        context = writer.attend(writer.part(query, 0, 1 if last else count), keys, values)
        for kind, part in (("key", own_key), ("value", own_value)):
            shift = np.asarray(weights[f"{prefix}.context.{kind}_shift"][None, None], np.float32)
            present.append(graph.op("Add", part, graph.constant(f"{prefix}.context.{kind}_shift", shift)))
        if last:
            states = graph.op("Concat", writer.part(states, 0, 1), writer.part(states, count, count + 1), axis=1)
        states = writer.rest(states, graph.op("Concat", context, seen, axis=1), prefix)
    graph.op("Identity", states, out="last_hidden_state")
    graph.op("Concat", *present, axis=0, out="present")
    shape: list[str | int] = [2 * writer.layers, "tokens", writer.width]
    inputs = {"input_ids": [1, "tokens"], "past": [2 * writer.layers, "past_tokens", writer.width]}
    model = onnx.load_from_string(graph.model(inputs, {"last_hidden_state": [1, 2, writer.width], "present": shape}))
    _refer(model, texts)
    data: bytes = model.SerializeToString()
    return data


def _refer(model: onnx.ModelProto, texts: bytes) -> None:
    """Replace large tensors by the place where the first file has them."""
    for tensor in model.graph.initializer:
        size = len(tensor.raw_data)
        if size <= STORED_ONCE:
            continue
        offset = texts.find(tensor.raw_data)
        if offset < 0 or texts.find(tensor.raw_data, offset + 1) >= 0:
            raise ValueError(f"{tensor.name} is not in {WEIGHTS_FILE} exactly once")
        external_data_helper.set_external_data(tensor, WEIGHTS_FILE, offset=offset, length=size)
        tensor.ClearField("raw_data")
