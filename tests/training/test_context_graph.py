"""The graphs of an embedder that reads a turn once for both of its vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from training.context_graph import write_texts, write_turns
from training.smoothing import forward, joined_attention, plain_product
from training.weight_files import load_products, save_products
from training.weights import Weights, layers

from tests.training.conftest import HEADS, WIDTH
from training import context_graph

TURN, BEFORE, OTHER = [1, 7, 30, 12, 2], [1, 9, 44, 2], [1, 21, 5, 33, 18, 2]
TOKENS = 3
SITES = ("attention.self", "attention.output.dense", "intermediate.dense", "output.dense")


@pytest.fixture
def reader(embedder: Weights) -> Weights:
    """An embedder with context tokens, and the ranges of its products."""
    chance = np.random.default_rng(3)
    found = dict(embedder)
    found["embeddings.context_tokens"] = chance.normal(0, 0.3, (TOKENS, WIDTH)).astype(np.float32)
    for at in range(layers(embedder)):
        prefix = f"encoder.layer.{at}"
        for name in ("key_shift", "value_shift"):
            found[f"{prefix}.context.{name}"] = chance.normal(0, 0.3, WIDTH).astype(np.float32)
        weight, bias = joined_attention(embedder, prefix)
        found |= {f"{prefix}.attention.self.weight": weight, f"{prefix}.attention.self.bias": bias}
        for site in SITES:
            factor = chance.uniform(0.5, 2, len(found[f"{prefix}.{site}.weight"])).astype(np.float32)
            found[f"{prefix}.{site}.weight"] = found[f"{prefix}.{site}.weight"] * factor[:, None]
            found[f"{prefix}.{site}.factor"] = factor
            found[f"{prefix}.{site}.range"] = np.array([-9.0, 9.0], np.float32)
    return found


@pytest.fixture
def folder(reader: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(context_graph, "STORED_ONCE", 300)
    texts = write_texts(reader, heads=HEADS)
    (tmp_path / "model.onnx").write_bytes(texts)
    (tmp_path / "turns.onnx").write_bytes(write_turns(reader, texts, heads=HEADS))
    return tmp_path


def _session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _alone(folder: Path, ids: list[int]) -> np.ndarray:
    return _session(folder / "model.onnx").run(None, {"input_ids": np.array([ids])})[0][0, 0]


def _with_context(folder: Path, ids: list[int], before: list[int]) -> tuple[np.ndarray, np.ndarray]:
    session = _session(folder / "turns.onnx")
    layers, _, width = session.get_inputs()[1].shape
    nothing = np.zeros((layers, 0, width), np.float32)
    past = session.run(None, {"input_ids": np.array([before]), "past": nothing})[1] if before else nothing
    context, alone = session.run(None, {"input_ids": np.array([ids]), "past": past})[0][0]
    return alone, context


def _joined(embedder: Weights, ids: list[int]) -> list[np.ndarray]:
    """Queries, keys and values of a text alone in each layer, in floats."""
    found: list[np.ndarray] = []

    def record(states: np.ndarray, name: str, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
        product = plain_product(states, name, weight, bias)
        if name.endswith("attention.self"):
            found.append(product)
        return product

    forward(embedder, ids, [0] * len(ids), record, heads=HEADS)
    return found


def _in_floats(reader: Weights, embedder: Weights, ids: list[int], before: list[int]) -> np.ndarray:
    """The context token's last state: in each layer it reads the context tokens, the turn and the turn before."""
    states = reader["embeddings.context_tokens"] + embedder["embeddings.token_type_embeddings.weight"][0]
    states = _normalised(states, embedder, "embeddings.LayerNorm")
    for at, (own, past) in enumerate(zip(_joined(embedder, ids), _joined(embedder, before), strict=True)):
        prefix = f"encoder.layer.{at}"
        shifts = [np.zeros(WIDTH), *(reader[f"{prefix}.context.{kind}_shift"] for kind in ("key", "value"))]
        joined = plain_product(states, "", *joined_attention(embedder, prefix))
        query = joined[:, :WIDTH]
        _, keys, values = np.split(np.concatenate([joined, own, past + np.concatenate(shifts)]), 3, axis=1)
        seen = np.empty_like(query)
        for part in np.split(np.arange(WIDTH), HEADS):
            shares = np.exp(query[:, part] @ keys[:, part].T / np.sqrt(len(part)))
            seen[:, part] = shares / shares.sum(1, keepdims=True) @ values[:, part]
        states = _rest(states, seen, embedder, prefix)
    return states[0]


def _rest(states: np.ndarray, seen: np.ndarray, weights: Weights, prefix: str) -> np.ndarray:
    from training.smoothing import _erf

    def product(values: np.ndarray, name: str) -> np.ndarray:
        return values @ weights[f"{prefix}.{name}.weight"] + weights[f"{prefix}.{name}.bias"]

    states = _normalised(
        states + product(seen, "attention.output.dense"), weights, f"{prefix}.attention.output.LayerNorm"
    )
    grown = product(states, "intermediate.dense")
    grown = grown * 0.5 * (1 + _erf(grown / np.sqrt(2)))
    return _normalised(states + product(grown, "output.dense"), weights, f"{prefix}.output.LayerNorm")


def _normalised(states: np.ndarray, weights: Weights, name: str) -> np.ndarray:
    centred = states - states.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_a_text_alone_has_the_vector_of_the_model_in_floats(folder: Path, embedder: Weights) -> None:
    expected = forward(embedder, TURN, [0] * len(TURN), plain_product, heads=HEADS)[0]
    assert _cosine(_alone(folder, TURN), expected) > 0.99


def test_a_turn_alone_has_the_same_vector_in_both_graphs_whatever_is_before_it(folder: Path) -> None:
    for before in ([], BEFORE, OTHER):
        assert np.array_equal(_with_context(folder, TURN, before)[0], _alone(folder, TURN))


def test_the_context_tokens_read_the_turn_and_the_one_before_it(
    folder: Path, reader: Weights, embedder: Weights
) -> None:
    context = _with_context(folder, TURN, BEFORE)[1]
    assert _cosine(context, _in_floats(reader, embedder, TURN, BEFORE)) > 0.98
    assert _cosine(context, _with_context(folder, TURN, OTHER)[1]) < 0.99


def test_texts_of_one_call_do_not_change_one_another(folder: Path) -> None:
    session = _session(folder / "model.onnx")
    both = session.run(None, {"input_ids": np.array([TURN, OTHER[:5]])})[0]
    assert np.array_equal(both[0, 0], _alone(folder, TURN))


def test_weights_are_stored_once(folder: Path) -> None:
    assert b"model.onnx" in (folder / "turns.onnx").read_bytes()
    (folder / "model.onnx").unlink()
    with pytest.raises(Exception, match=r"model\.onnx"):
        _session(folder / "turns.onnx")


def test_saved_products_are_read_as_they_were_before_their_factors(
    reader: Weights, embedder: Weights, tmp_path: Path
) -> None:
    without = {
        name: array / reader[f"{name.removesuffix('.weight')}.factor"][:, None]
        if f"{name.removesuffix('.weight')}.factor" in reader
        else array
        for name, array in reader.items()
    }
    save_products(tmp_path, "embedder", without)

    found = load_products(tmp_path, "embedder")

    assert found.keys() == embedder.keys() | {name for name in reader if ".context." in name} | {
        "embeddings.context_tokens"
    }
    for name, array in embedder.items():
        assert np.abs(found[name] - array).max() < 0.05 * np.abs(array).max() + 1e-9, name
