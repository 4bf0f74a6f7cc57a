"""The real local models."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest

from retentive.errors import Invalid, Unavailable
from retentive.extras import pip_install
from retentive.inference import onnx_sessions
from retentive.inference.embedders import LocalSessions, open_embedder
from retentive.inference.embedders.onnx import MEMORY_SMALL, OnnxEmbedder
from retentive.inference.loading import MODELS, preload
from retentive.settings import EmbedderSettings


@pytest.fixture(scope="module", params=["native", "onnxruntime"])
def small(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "onnxruntime":
            patch.setattr("retentive.native.instruction_sets", tuple)
        embedder = OnnxEmbedder(MODELS / MEMORY_SMALL)
        embedder.embed(["load it"])
    yield embedder
    embedder.close()


def test_the_default_model_is_the_one_that_was_evaluated(model):
    assert model.model.fingerprint.startswith("02e41bd6")
    assert model.model.dimension == 384


def test_vectors_have_length_1_and_near_meanings_are_near(small):
    cat, kitten, tax = small.embed(["a cat sleeps", "a kitten is napping", "the tax return is due"])

    assert np.linalg.norm([cat, kitten, tax], axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert cat @ kitten > cat @ tax + 0.1


def test_the_vector_of_a_text_does_not_depend_on_other_texts_or_its_thread(small):
    texts = [f"apple number {at} " + "and so on " * at for at in range(12)]

    alone = np.stack([small.embed([text])[0] for text in texts])
    together = small.embed(texts)
    with ThreadPoolExecutor(4) as threads:
        at_once = np.stack(list(threads.map(lambda text: small.embed([text])[0], texts)))

    assert np.array_equal(alone, together)
    assert np.array_equal(alone, at_once)


def test_no_text_gives_no_rows(small):
    assert small.embed([]).shape == (0, 384)


def test_a_text_within_the_models_length_is_one_part_and_a_longer_one_loses_nothing(small):
    short = "word " * 400
    long = "\n\n".join(f"Paragraph {at}. " + "Some words follow here. " * 40 for at in range(20))

    parts = small.split(long)

    assert small.split(short) == [short]
    assert len(parts) > 5
    assert "".join("".join(parts).split()) == "".join(long.split())
    assert all(len(small._tokenizer.encode(part).ids) <= 512 for part in parts)


def test_a_text_whose_characters_are_several_tokens_is_split(small):
    korean = "한 글 " * 127  # three tokens for each syllable

    parts = small.split(korean)

    assert len(korean) <= 510
    assert len(parts) > 1
    assert "".join("".join(parts).split()) == "".join(korean.split())
    assert all(len(small._tokenizer.encode(part).ids) <= 512 for part in parts)


def test_most_texts_are_not_tokenised_to_know_that_they_fit(small, monkeypatch):
    monkeypatch.setattr(OnnxEmbedder, "_tokenizer", None)

    assert small.reads_whole("word " * 100)
    assert small.reads_whole("Größe und Länge der Häuser – “wörtlich” " * 8)
    assert small.reads_whole("зелёный чай " * 15)


def test_a_preloaded_model_is_used(model):
    directory = MODELS / MEMORY_SMALL
    preload(directory)
    early = OnnxEmbedder(directory)

    assert np.array_equal(early.embed(["apples"]), model.embed(["apples"]))
    early.close()


def test_any_directory_with_a_model_and_a_tokenizer_will_do(tmp_path, small):
    shutil.copytree(MODELS / MEMORY_SMALL, tmp_path / "mine")

    mine = open_embedder(EmbedderSettings(name=f"local:{tmp_path / 'mine'}", pooling="mean"))

    assert (mine.model.name, mine.model.revision) == ("mine", "mean")
    assert mine.model.fingerprint != small.model.fingerprint
    mine.close()


def test_the_length_a_model_can_read_comes_from_its_config(tmp_path):
    shutil.copytree(MODELS / MEMORY_SMALL, tmp_path / "short")
    config = json.loads((tmp_path / "short" / "config.json").read_text())
    (tmp_path / "short" / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 16}))

    short = OnnxEmbedder(tmp_path / "short")

    assert [len(short.split("word " * words)) for words in (14, 15, 30)] == [1, 2, 3]
    short.close()


def test_a_directory_without_a_model_and_a_broken_model_are_named(tmp_path):
    with pytest.raises(Invalid, match=r"model\.onnx"):
        OnnxEmbedder(tmp_path)
    (tmp_path / "model.onnx").write_bytes(b"broken")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(Unavailable, match="cannot be loaded"):
        OnnxEmbedder(tmp_path).embed(["x"])


def test_another_file_in_the_place_of_the_default_model_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr("retentive.inference.embedders.onnx.MEMORY_SMALL_SHA256", "00000000")
    with pytest.raises(Unavailable, match="another model than expected"):
        open_embedder(EmbedderSettings())
    monkeypatch.setattr("retentive.inference.embedders.onnx.MODELS", tmp_path)
    with pytest.raises(Unavailable, match=re.escape(pip_install(options="--force-reinstall"))):
        open_embedder(EmbedderSettings())


def test_a_fingerprint_is_computed_again_when_the_file_changes(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tokenizer.json").write_text("{}")
    fingerprints = []
    for content in (b"one", b"three", b"one"):
        (tmp_path / "model.onnx").write_bytes(content)
        fingerprints += [OnnxEmbedder(tmp_path).fingerprint, OnnxEmbedder(tmp_path).fingerprint]

    assert fingerprints[0] == fingerprints[1] == fingerprints[4]
    assert fingerprints[2] == fingerprints[3] != fingerprints[0]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"name": "nonsense"}, "memory-small"),
        ({"name": "http://127.0.0.1:9"}, "model name"),
        ({"name": "local:"}, "onnx"),
    ],
)
def test_the_error_of_an_embedder_that_cannot_be_opened_names_what_is_missing(settings, says):
    with pytest.raises(Invalid, match=says):
        open_embedder(EmbedderSettings(**settings))


def test_none_is_no_embedder():
    assert open_embedder(EmbedderSettings(name="none")) is None


def test_a_process_that_shares_the_cores_opens_fewer_sessions(monkeypatch):
    opened, open_session = [], onnx_sessions.open_session
    monkeypatch.setattr(LocalSessions, "default", 1)
    monkeypatch.setattr(onnx_sessions, "open_session", lambda folder: opened.append(folder) or open_session(folder))
    monkeypatch.setattr("retentive.native.instruction_sets", tuple)
    embedder = OnnxEmbedder(MODELS / MEMORY_SMALL)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: embedder.embed([f"text {number}"]), range(8)))
    assert len(opened) == 1
    embedder.close()


@pytest.mark.parametrize("name", ["memory-small", "memory-judge"])
def test_the_graphs_that_come_with_the_package_gain_nothing_by_being_optimised(name):
    ids = np.array([[101, 2054, 2106, 2027, 5630, 1029, 102]])
    feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    optimised = onnxruntime.InferenceSession(str(MODELS / name / "model.onnx"), providers=["CPUExecutionProvider"])

    as_written = onnx_sessions.open_session(MODELS / name).run(None, feed)[0]

    assert np.allclose(as_written, optimised.run(None, feed)[0], atol=1e-5)
