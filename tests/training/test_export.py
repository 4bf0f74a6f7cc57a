"""Weights through quantising, the ONNX file and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from training.graph import Graph, write_model
from training.smoothing import factors, forward, plain_product
from training.weight_files import load_weights, save_weights
from training.weights import Weights, dequantise, layers, quantise, read_exported, read_graph, read_weights

from tests.training.conftest import HEADS, WIDTH

IDS, TYPES = [1, 7, 30, 12, 2, 40, 3], [0, 0, 0, 0, 0, 1, 1]


def _run(model: bytes, rows: list[list[int]], types: list[list[int]], mask: list[list[int]]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    feed = {"input_ids": rows, "attention_mask": mask, "token_type_ids": types}
    return session.run(None, {name: np.array(value, np.int64) for name, value in feed.items()})[0]


def test_quantised_weights_are_within_half_a_step_of_each_column_and_never_beyond_the_limit() -> None:
    weight = np.random.default_rng(1).normal(0, [0.01, 1.0, 30.0], (40, 3)).astype(np.float32)
    quantised = quantise(weight, axis=0, limit=64)
    assert np.abs(quantised.values).max() == 64
    back = dequantise(quantised.values, quantised.scale, np.zeros(3, np.int8))
    assert (np.abs(back - weight) <= quantised.scale / 2 + 1e-6).all()


def test_a_column_of_zeros_stays_zero() -> None:
    quantised = quantise(np.zeros((4, 2), np.float32), axis=0, limit=64)
    assert not dequantise(quantised.values, quantised.scale, np.zeros(2)).any()


def test_dequantising_takes_the_zero_point_into_account() -> None:
    values = np.array([[70, 80], [60, 70]], np.uint8)
    found = dequantise(values, np.float32(0.5), np.uint8(70))
    assert found.tolist() == [[0.0, 5.0], [-5.0, 0.0]]


@pytest.mark.parametrize("smoothed", [False, True])
def test_the_exported_embedder_computes_the_first_state_of_the_model_in_floats(
    embedder: Weights, smoothed: bool
) -> None:
    scale = factors(embedder, [(IDS, TYPES)], heads=HEADS) if smoothed else None
    found = _run(write_model(embedder, heads=HEADS, factors=scale), [IDS], [TYPES], [[1] * len(IDS)])
    expected = forward(embedder, IDS, TYPES, plain_product, heads=HEADS)[0]
    assert found.shape == (1, 1, WIDTH)
    cosine = found[0, 0] @ expected / np.linalg.norm(found) / np.linalg.norm(expected)
    assert cosine > 0.998


def test_padding_that_is_masked_changes_little(embedder: Weights) -> None:
    model = write_model(embedder, heads=HEADS)
    alone = _run(model, [IDS], [TYPES], [[1] * len(IDS)])[0, 0]
    padded = _run(model, [[*IDS, 0, 0]], [[*TYPES, 0, 0]], [[1] * len(IDS) + [0, 0]])[0, 0]
    unmasked = _run(model, [[*IDS, 0, 0]], [[*TYPES, 0, 0]], [[1] * (len(IDS) + 2)])[0, 0]
    assert np.abs(padded - alone).max() < 0.1 < np.abs(unmasked - alone).max()


def test_the_exported_cross_encoder_returns_the_logit_of_each_pair(cross_encoder: Weights) -> None:
    found = _run(write_model(cross_encoder, heads=HEADS), [IDS], [TYPES], [[1] * len(IDS)])
    state = forward(cross_encoder, IDS, TYPES, plain_product, heads=HEADS)[0]
    pooled = np.tanh(state @ cross_encoder["pooler.dense.weight"] + cross_encoder["pooler.dense.bias"])
    expected = pooled @ cross_encoder["classifier.weight"] + cross_encoder["classifier.bias"]
    assert found.shape == (1, 1)
    assert found[0, 0] == pytest.approx(float(expected[0]), abs=0.1)


def test_smoothing_leaves_the_product_in_floats_as_it_was(embedder: Weights) -> None:
    scale = factors(embedder, [(IDS, TYPES)], heads=HEADS)

    def smoothed(states: np.ndarray, name: str, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        factor = scale.get(name, np.ones(len(weight), np.float32))
        return plain_product(states / factor, name, weight * factor[:, None], bias)

    expected = forward(embedder, IDS, TYPES, plain_product, heads=HEADS)
    assert len(scale) == 3 * layers(embedder)
    assert forward(embedder, IDS, TYPES, smoothed, heads=HEADS) == pytest.approx(expected, abs=1e-4)


def test_an_exported_file_has_the_quantised_weights_in_one_graph(embedder: Weights, tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(write_model(embedder, heads=HEADS))
    nodes, tensors = read_graph(tmp_path / "model.onnx")
    name = "encoder.layer.1.intermediate.dense"
    assert np.array_equal(tensors[f"{name}.weight"], quantise(embedder[f"{name}.weight"], axis=0, limit=64).values)
    assert sum(node.op == "DynamicQuantizeMatMul" for node in nodes) == 4 * layers(embedder)


def test_weights_are_read_from_a_quantised_graph_by_the_names_of_their_modules(tmp_path: Path) -> None:
    graph = Graph()
    weight = graph.constant("onnx::MatMul_15_quantized", np.array([[64, -64], [32, 0]], np.int8))
    graph.constant("onnx::MatMul_15_scale", np.array([0.5, 0.25], np.float32))
    graph.constant("onnx::MatMul_15_zero_point", np.zeros(2, np.int8))
    graph.constant("bert.embeddings.word_embeddings.weight_quantized", np.array([[70, 72]], np.uint8))
    graph.constant("bert.embeddings.word_embeddings.weight_scale", np.array(0.5, np.float32))
    graph.constant("bert.embeddings.word_embeddings.weight_zero_point", np.array(70, np.uint8))
    graph.constant("bert.encoder.layer.0.output.LayerNorm.weight", np.array([1.0, 2.0], np.float32))
    out = "/bert/encoder/layer.0/attention/self/query/MatMul_output_0_output_quantized"
    graph.op("MatMulInteger", "input", weight, out=out)
    (tmp_path / "model.onnx").write_bytes(graph.model({"input": ["n"]}, {out: ["n"]}))
    found = read_weights(tmp_path / "model.onnx")
    assert found["encoder.layer.0.attention.self.query.weight"].tolist() == [[32.0, -16.0], [16.0, 0.0]]
    assert found["embeddings.word_embeddings.weight"].tolist() == [[0.0, 1.0]]
    assert found["encoder.layer.0.output.LayerNorm.weight"].tolist() == [1.0, 2.0]


def test_weights_saved_in_parts_are_exported_as_if_they_had_not_been(embedder: Weights, tmp_path: Path) -> None:
    save_weights(tmp_path, "embedder", embedder)
    loaded = load_weights(tmp_path, "embedder")
    assert loaded.keys() == embedder.keys()
    assert write_model(loaded, heads=HEADS)[:200] == write_model(embedder, heads=HEADS)[:200]
    for name in embedder:
        if name.endswith("dense.weight"):
            again = quantise(loaded[name], axis=0, limit=64).values
            assert np.array_equal(again, quantise(embedder[name], axis=0, limit=64).values)


def test_an_exported_model_is_read_back_as_it_was(embedder: Weights, tmp_path: Path) -> None:
    scale = factors(embedder, [(IDS, TYPES)], heads=HEADS)
    (tmp_path / "model.onnx").write_bytes(write_model(embedder, heads=HEADS, factors=scale))

    back = read_exported(tmp_path / "model.onnx")

    assert back.keys() == embedder.keys()
    for name, array in embedder.items():
        assert np.abs(back[name] - array).max() < np.abs(array).max() / 16, name
