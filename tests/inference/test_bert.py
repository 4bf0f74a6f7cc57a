"""Models computed by the compiled library, on every instruction set of this machine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from training.graph import write_model
from training.weights import read_exported

from retentive import native
from retentive.inference.bert import TOKENS, Bert
from retentive.inference.embedders.onnx import MEMORY_SMALL
from retentive.inference.judge import JUDGE
from retentive.inference.loading import MODELS, load
from retentive.inference.onnx_sessions import OnnxSessions
from retentive.inference.onnx_tensors import read_tensors
from retentive.native import LIBRARY, instruction_sets

TEXTS = [
    "x",
    "Where is the spare key?",
    "The quarterly report is due on Friday, so please send me the numbers by noon. [SEP] When do you need it?",
    "Sample talk about gardens and tax returns. " * 30,
    "so " * 510,
]
SETS = instruction_sets()

with_library = pytest.mark.skipif(not SETS, reason="needs the library and a processor that it supports")


def tokens(name, texts):
    found = load(MODELS / name).tokenizer.encode_batch(texts)
    for one in found:
        one.truncate(TOKENS)
    return found


def unit(states):
    vectors = np.stack(states)[:, 0]
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def made_up(*ids, type_ids=None):
    return SimpleNamespace(ids=list(ids), type_ids=type_ids or [0] * len(ids))


@pytest.fixture(scope="module", params=SETS)
def bert(request):
    return Bert(MODELS / MEMORY_SMALL / "model.onnx", using=request.param)


def test_the_library_is_compiled_where_there_is_a_compiler_for_it():
    if platform.machine() in ("x86_64", "aarch64", "arm64") and shutil.which("cc"):
        assert LIBRARY.is_file(), "install the package again: make dev"


@pytest.mark.parametrize("model", [MEMORY_SMALL, JUDGE])
def test_two_products_of_bytes_and_weights_have_room_in_sixteen_bits(model):
    weights = {name: one for name, one in read_tensors(MODELS / model / "model.onnx").items() if one.dtype == np.int8}
    largest = max(int(np.abs(one.astype(np.int16)).max()) for name, one in weights.items() if "encoder" in name)

    assert 2 * 255 * largest < 2**15


def test_a_text_has_the_same_vector_alone_and_together_with_others_on_every_instruction_set(bert):
    texts = tokens(MEMORY_SMALL, TEXTS)
    together = bert.run(texts)
    alone = np.concatenate([bert.run([text]) for text in texts])
    backwards = bert.run(texts[::-1])[::-1]
    first = Bert(MODELS / MEMORY_SMALL / "model.onnx", using=SETS[0])

    assert np.array_equal(together, alone)
    assert np.array_equal(together, backwards)
    assert np.array_equal(together, first.run(texts))


@pytest.mark.parametrize(
    "sizes", [[1] * TOKENS, [TOKENS], [TOKENS - 1, 1], [17, 1, 64, 33, 130, 8]], ids=["many", "long", "both", "mixed"]
)
def test_a_result_does_not_depend_on_what_an_earlier_run_left_in_memory(bert, sizes):
    texts = [made_up(*range(1000 + at, 1000 + at + size)) for at, size in enumerate(sizes)]
    expected = bert.run(texts)

    for left in (0x00, 0x7F, 0xFF):  # as floats: zeros, large numbers, not a number
        for scratch in bert._scratches:
            scratch.view(np.uint8)[:] = left
        assert np.array_equal(bert.run(texts), expected)


def test_vectors_are_those_of_onnxruntime_but_for_rounding(bert):
    texts = tokens(MEMORY_SMALL, TEXTS)

    ours, theirs = unit(bert.run(texts)), unit(OnnxSessions(MODELS / MEMORY_SMALL).run(texts))

    assert np.sum(ours * theirs, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=0.005)
    assert np.abs(ours @ ours.T - theirs @ theirs.T).max() < 0.03


@with_library
def test_feed_forward_networks_may_be_narrower_than_in_the_embedder_and_differ_by_layer(tmp_path):
    weights = read_exported(MODELS / MEMORY_SMALL / "model.onnx")
    for number, width in enumerate([64, 1152, 1536, 640]):
        prefix = f"encoder.layer.{number}"
        for name in ("intermediate.dense.weight", "intermediate.dense.bias"):
            weights[f"{prefix}.{name}"] = weights[f"{prefix}.{name}"][..., :width]
        weights[f"{prefix}.output.dense.weight"] = weights[f"{prefix}.output.dense.weight"][:width]
    path = tmp_path / "model.onnx"
    path.write_bytes(write_model(weights))
    texts = tokens(MEMORY_SMALL, TEXTS)

    ours, theirs = unit(Bert(path).run(texts)), unit(OnnxSessions(tmp_path).run(texts))

    assert np.sum(ours * theirs, axis=1) == pytest.approx(np.ones(len(TEXTS)), abs=0.02)
    for using in SETS:
        assert np.array_equal(unit(Bert(path, using=using).run(texts)), ours)


@with_library
@pytest.mark.parametrize("width", [1600, 1153])
def test_a_feed_forward_network_that_the_library_cannot_compute_is_refused(width, tmp_path):
    weights = read_exported(MODELS / MEMORY_SMALL / "model.onnx")
    wide = np.concatenate([weights["encoder.layer.0.intermediate.dense.bias"]] * 2)[:width]
    weights["encoder.layer.0.intermediate.dense.bias"] = wide
    (tmp_path / "model.onnx").write_bytes(write_model(weights))

    with pytest.raises(ValueError, match=f"{width} hidden units; at most 1536, in steps of 64"):
        Bert(tmp_path / "model.onnx")


@with_library
def test_logits_of_the_cross_encoder_are_those_of_onnxruntime_but_for_rounding():
    tokenizer = load(MODELS / JUDGE).tokenizer
    pairs = tokenizer.encode_batch([("where is the spare key?", text) for text in TEXTS[:4]])

    ours = np.concatenate(Bert(MODELS / JUDGE / "model.onnx").run(pairs))
    theirs = np.concatenate(OnnxSessions(MODELS / JUDGE).run(pairs))

    assert max(pairs[0].type_ids) == 1
    assert ours == pytest.approx(theirs, abs=0.3)
    assert np.argsort(ours).tolist() == np.argsort(theirs).tolist()


@pytest.mark.parametrize(
    "texts",
    [
        [made_up()],
        [made_up(101, 102), made_up()],
        [made_up(101, -1, 102)],
        [made_up(101, 30522, 102)],
        [made_up(*[101] * (TOKENS + 1))],
    ],
    ids=["no tokens", "one without tokens", "negative", "unknown", "too long"],
)
def test_tokens_that_the_model_does_not_know_are_refused(bert, texts):
    with pytest.raises(ValueError, match="not what this model reads"):
        bert.run(texts)


def test_more_texts_than_fit_one_call_are_computed_in_several(bert):
    texts = [made_up(101, 2000 + at, 102) for at in range(TOKENS)]

    together = bert.run(texts)

    assert len(together) == TOKENS
    assert np.array_equal(together[-1], bert.run(texts[-1:])[0])


def test_tokens_of_the_second_type_are_read_as_such(bert):
    same, other = made_up(101, 2000, 102, 2001, 102), made_up(101, 2000, 102, 2001, 102, type_ids=[0, 0, 0, 1, 1])

    assert not np.array_equal(bert.run([same]), bert.run([other]))


@pytest.mark.parametrize("how", ["switched off", "another version", "not a library", "missing"])
def test_onnxruntime_computes_the_model_where_the_library_cannot(how, monkeypatch, tmp_path):
    if how == "switched off":
        monkeypatch.setenv("RETENTIVE_NATIVE", "0")
    elif how == "another version":
        monkeypatch.setattr(native, "VERSION", -1)
    else:
        monkeypatch.setattr(native, "LIBRARY", tmp_path / "library.so")
    if how == "not a library":
        (tmp_path / "library.so").write_bytes(b"no library")
    for cached in (native.library, native.instruction_sets):
        cached.cache_clear()
    try:
        assert native.instruction_sets() == ()
        assert isinstance(load(MODELS / MEMORY_SMALL).model, OnnxSessions)
    finally:
        monkeypatch.undo()
        for cached in (native.library, native.instruction_sets):
            cached.cache_clear()


@with_library
def test_a_forked_process_can_use_the_library():
    """The kernel grants the registers of AMX to the children of a process as well."""
    program = (
        "import os; from types import SimpleNamespace as Text; from retentive.inference.bert import Bert;"
        "from retentive.inference.loading import MODELS;"
        "bert = Bert(MODELS / 'memory-small' / 'model.onnx'); child = os.fork();"
        "bert.run([Text(ids=[101, 2000, 102], type_ids=[0, 0, 0])]);"
        "assert not child or os.waitpid(child, 0)[1] == 0"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_process_with_the_library_does_not_import_onnxruntime():
    program = (
        "import sys; from retentive.inference.embedders.onnx import open_memory_small;"
        "open_memory_small().embed(['x', 'y', 'z']); print('onnxruntime' in sys.modules)"
    )
    seen = [
        subprocess.run([sys.executable, "-c", program], env={**os.environ, **more}, capture_output=True, check=True)
        for more in ({}, {"RETENTIVE_NATIVE": "off"}, {"RETENTIVE_NATIVE": "0"})
    ]

    without = str(not SETS).encode()
    assert [one.stdout.split() for one in seen] == [[without], [without], [b"True"]]
