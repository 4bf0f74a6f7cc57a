"""The fastembed adapter, with a substitute for fastembed.

fastembed is not a dependency of the tests and its models come from a hub that tests may not reach (no network beyond
loopback), so nothing real can run here. A small module with the few names that the adapter uses stands in for it.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from retentive.errors import Invalid, MissingExtra, Unavailable
from retentive.extras import pip_install
from retentive.inference.embedders.fastembed import FastembedEmbedder


class StandIn:
    """What fastembed.TextEmbedding looks like from outside."""

    made: list[StandIn]
    problem: Exception | None
    zero: bool

    def __init__(self, *, model_name: str, specific_model_path: str | None) -> None:
        if self.problem is not None:
            raise self.problem
        self.name = model_name
        self.calls: list[list[str]] = []
        description = SimpleNamespace(model_file="onnx/model.onnx")
        self.model = SimpleNamespace(_model_dir=specific_model_path, model_description=description)
        self.made.append(self)

    def query_embed(self, query: list[str]) -> Iterator[np.ndarray]:
        return (row[::-1] * [2, 1, 1] for row in self.embed([f"? {text}" for text in query]))

    def embed(self, documents: list[str]) -> Iterator[np.ndarray]:
        self.calls.append(documents)
        for text in documents:
            yield np.array([0.0 if self.zero else 3.0 * len(text), 0.0, 0.0 if self.zero else 4.0 * len(text)])


@pytest.fixture
def fastembed(monkeypatch: pytest.MonkeyPatch) -> type[StandIn]:
    kind = type("TextEmbedding", (StandIn,), {"made": [], "problem": None, "zero": False})
    module = ModuleType("fastembed")
    module.TextEmbedding = kind  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fastembed", module)
    return kind


def test_without_the_package_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtra) as caught:
        FastembedEmbedder("BAAI/bge-small-en-v1.5")
    assert str(caught.value) == (
        f"The embedder 'fastembed:BAAI/bge-small-en-v1.5' needs an optional package: {pip_install('fastembed')}"
    )


def test_texts_are_embedded_one_per_call_and_normalised(fastembed: type[StandIn]) -> None:
    rows = FastembedEmbedder("m").embed(["a", "bbb"])
    assert rows.dtype == np.float32
    assert np.allclose(rows, [[0.6, 0, 0.8], [0.6, 0, 0.8]])
    assert fastembed.made[0].calls == [["a"], ["bbb"]]


def test_queries_are_embedded_by_fastembeds_own_call_for_them(fastembed: type[StandIn]) -> None:
    rows = FastembedEmbedder("m").embed_queries(["a"])
    assert np.allclose(rows, np.array([[8, 0, 3]]) / np.sqrt(73))
    assert fastembed.made[0].calls == [["? a"]]


def test_the_model_is_loaded_at_first_use_and_once(fastembed: type[StandIn]) -> None:
    embedder = FastembedEmbedder("m")
    assert fastembed.made == []
    embedder.embed(["a"])
    embedder.embed(["b"])
    assert len(fastembed.made) == 1


def test_the_dimension_is_learnt_and_the_name_is_the_fingerprint_when_no_file_is_found(
    fastembed: type[StandIn],
) -> None:
    model = FastembedEmbedder("org/m").model
    assert (model.name, model.dimension) == ("org/m", 3)
    assert model.fingerprint == hashlib.sha256(b"org/m").hexdigest()


def test_the_fingerprint_is_that_of_the_model_file(fastembed: type[StandIn], tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"graph")
    (tmp_path / "other.onnx").write_bytes(b"not this")
    model = FastembedEmbedder("m", path=str(tmp_path)).model
    assert model.fingerprint == hashlib.sha256(b"graph").hexdigest()


def test_weight_files_beside_the_model_file_are_part_of_the_fingerprint(
    fastembed: type[StandIn], tmp_path: Path
) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx" / "model.onnx").write_bytes(b"graph")
    (tmp_path / "onnx" / "model.onnx_data").write_bytes(b"weights")
    model = FastembedEmbedder("m", path=str(tmp_path)).model
    assert model.fingerprint == hashlib.sha256(b"graphweights").hexdigest()


def test_a_directory_with_two_models_and_none_named_does_not_guess(fastembed: type[StandIn], tmp_path: Path) -> None:
    (tmp_path / "one.onnx").write_bytes(b"1")
    (tmp_path / "two.onnx").write_bytes(b"2")
    model = FastembedEmbedder("m", path=str(tmp_path)).model
    assert model.fingerprint == hashlib.sha256(b"m").hexdigest()


def test_an_unknown_model_name_is_invalid(fastembed: type[StandIn]) -> None:
    fastembed.problem = ValueError("Model nope is not supported in TextEmbedding.")
    with pytest.raises(Invalid, match=r"has no model 'nope'.*list_supported_models"):
        FastembedEmbedder("nope").embed(["a"])


def test_a_hub_that_cannot_be_reached_is_unavailable(fastembed: type[StandIn]) -> None:
    fastembed.problem = ValueError("Could not load model m from any source.")
    with pytest.raises(Unavailable, match=r"could not load 'm' from a model hub.*to a directory"):
        FastembedEmbedder("m").embed(["a"])


def test_a_zero_vector_is_unavailable(fastembed: type[StandIn]) -> None:
    fastembed.zero = True
    with pytest.raises(Unavailable, match="zero or not finite"):
        FastembedEmbedder("m").embed(["a"])


def test_no_texts_give_no_rows(fastembed: type[StandIn]) -> None:
    assert FastembedEmbedder("m").embed([]).shape == (0, 3)


def test_a_closed_embedder_loads_its_model_again(fastembed: type[StandIn]) -> None:
    embedder = FastembedEmbedder("m")
    embedder.embed(["a"])
    embedder.close()
    embedder.embed(["a"])
    assert len(fastembed.made) == 2


def test_long_texts_are_split_at_1500_characters(fastembed: type[StandIn]) -> None:
    parts = FastembedEmbedder("m").split("word " * 1000)
    assert max(map(len, parts)) == 1499
    assert " ".join(parts).split() == ["word"] * 1000
