"""Runs the two models of this package with the compiled library, on x86-64 and 64-bit ARM processors.

Where there is no library, onnxruntime runs the same files. It takes two to three times as long as the library with AMX:
there, a layer is computed in few passes over memory, several texts are computed together, and products of bytes use
AMX, VNNI or AVX2; on ARM NEON, with its dot products where the processor has them.

`Bert` reads the weights from `model.onnx`. Inputs of products are rounded to bytes for each token by itself, so the
vector of a text is the same alone and together with others, and for every instruction set.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from retentive import native
from retentive.inference.loading import Floats, Tokens
from retentive.inference.onnx_tensors import Tensor, read_tensors

TOKENS = 512
"""The most tokens of one call of the library."""

WIDTH, HIDDEN = 384, 1536
"""The width of a state, and that of a feed-forward network at most."""

STEP = 64
"""The width of a feed-forward network is a multiple of this."""


class _Product(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("weight", "sums", "scale", "bias", "smoothing")),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
    ]


class _Norm(ctypes.Structure):
    _fields_ = [("weight", ctypes.c_void_p), ("bias", ctypes.c_void_p)]


class _Layer(ctypes.Structure):
    _fields_ = [
        *((name, _Product) for name in ("qkv", "out", "up", "down")),
        ("between", _Norm),
        ("after", _Norm),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("words", "word_scale", "positions", "types")),
        ("norm", _Norm),
        ("layers", ctypes.POINTER(_Layer)),
        ("layer_count", ctypes.c_int32),
        ("word_count", ctypes.c_int32),
    ]


_PRODUCTS = ("attention.self", "attention.output.dense", "intermediate.dense", "output.dense")


class Bert:
    """A model of this package, computed by the library: the embedder, or the cross-encoder with its logit."""

    texts_at_once = 16

    def __init__(self, path: Path, *, using: str = "") -> None:
        using = using or native.instruction_sets()[-1]
        self.name = f"compiled library ({using})"
        self._set = native.INSTRUCTION_SETS.index(using) + 1
        self._library = native.library()
        self._kept: list[Tensor] = []  # arrays that the library has pointers to
        # Floats may begin anywhere in the file: they are copied to addresses from which C and numpy may read them.
        self._tensors = {name: np.require(tensor, requirements="A") for name, tensor in read_tensors(path).items()}
        count = 1 + max(int(name.split(".")[2]) for name in self._tensors if name.startswith("encoder.layer."))
        # One array for all, because the kernel gives large arrays large pages.
        products = (f"encoder.layer.{at}.{name}.weight" for at in range(count) for name in _PRODUCTS)
        self._packed = _aligned(sum(self._tensors[name].size for name in products))
        self._layers = (_Layer * count)(*(self._layer(f"encoder.layer.{at}") for at in range(count)))
        self._model = self._make_model()
        self._scratches: list[Tensor] = []  # memory for intermediate results that no thread uses now

    def run(self, texts: Sequence[Tokens]) -> Floats:
        """Return the last state of the first token of each text; the logit if the model is a cross-encoder."""
        try:
            scratch = self._scratches.pop()
        except IndexError:
            scratch = _aligned(self._library.bert_scratch_bytes())
        states = np.concatenate([self._run(batch, scratch) for batch in _batches(texts)])
        self._scratches.append(scratch)
        if "classifier.weight" not in self._tensors:
            return states[:, np.newaxis]
        # One by one: a product of several rows is summed in another order than that of one.
        return np.stack([self._logit(state) for state in states])

    def _run(self, texts: Sequence[Tokens], scratch: Tensor) -> Floats:
        ids = np.array([id for text in texts for id in text.ids], np.int32)
        starts = np.array([0, *accumulate(len(text.ids) for text in texts)], np.int32)
        second = np.array([len(text.ids) - sum(text.type_ids) for text in texts], np.int32)
        found = np.empty((len(texts), WIDTH), np.float32)
        failed = self._library.bert_run(
            ctypes.byref(self._model),
            self._set,
            ids,
            starts,
            second,
            len(texts),
            scratch,
            found,
        )
        if failed:
            raise ValueError(f"{len(texts)} texts of {len(ids)} tokens are not what this model reads")
        return found

    def _logit(self, state: Floats) -> Floats:
        pooled = np.tanh(state @ self._floats("pooler.dense.weight") + self._floats("pooler.dense.bias"))
        return np.asarray(pooled @ self._floats("classifier.weight") + self._floats("classifier.bias"))

    def _floats(self, name: str) -> Floats:
        return self._tensors[name].astype(np.float32, copy=False)

    def _make_model(self) -> _Model:
        tensors, prefix = self._tensors, "embeddings"
        words = tensors[f"{prefix}.word_embeddings.weight"]
        name = f"{prefix}.token_type_embeddings"
        types = self._floats(f"{name}.weight") * self._floats(f"{name}.scale")
        return _Model(
            self._pointer(words, np.int8, (len(words), WIDTH)),
            self._pointer(tensors[f"{prefix}.word_embeddings.scale"], np.float32, (len(words), 1)),
            self._pointer(tensors[f"{prefix}.position_embeddings.weight"], np.float32, (TOKENS, WIDTH)),
            self._pointer(types, np.float32, (2, WIDTH)),
            self._norm(f"{prefix}.LayerNorm"),
            self._layers,
            len(self._layers),
            len(words),
        )

    def _layer(self, prefix: str) -> _Layer:
        hidden = len(self._tensors[f"{prefix}.intermediate.dense.bias"])
        if hidden > HIDDEN or hidden % STEP:
            raise ValueError(f"{hidden} hidden units; at most {HIDDEN}, in steps of {STEP}")
        shapes = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, hidden), (hidden, WIDTH))
        return _Layer(
            *(self._product(f"{prefix}.{name}", *shape) for name, shape in zip(_PRODUCTS, shapes, strict=True)),
            self._norm(f"{prefix}.attention.output.LayerNorm"),
            self._norm(f"{prefix}.output.LayerNorm"),
        )

    def _product(self, name: str, inputs: int, outputs: int) -> _Product:
        packed, self._packed = np.split(self._packed, [inputs * outputs])
        sums = np.empty(outputs, np.float32)
        weight = self._tensors[f"{name}.weight"]
        if weight.shape != (inputs, outputs):
            raise ValueError(f"expected a weight of {(inputs, outputs)}, not {weight.shape}")
        self._library.bert_pack(np.ascontiguousarray(weight), inputs, outputs, packed, sums)
        smoothing = self._tensors.get(f"{name}.smoothing")
        return _Product(
            self._pointer(packed, np.int8, packed.shape),
            self._pointer(sums, np.float32, sums.shape),
            self._pointer(self._tensors[f"{name}.scale"], np.float32, (outputs,)),
            self._pointer(self._tensors[f"{name}.bias"], np.float32, (outputs,)),
            None if smoothing is None else self._pointer(smoothing, np.float32, (inputs,)),
            inputs,
            outputs,
        )

    def _norm(self, name: str) -> _Norm:
        return _Norm(
            *(self._pointer(self._tensors[f"{name}.{kind}"], np.float32, (WIDTH,)) for kind in ("weight", "bias"))
        )

    def _pointer(self, array: Tensor, kind: type[np.generic], shape: tuple[int, ...]) -> int:
        if array.dtype != kind or array.shape != shape:
            raise ValueError(f"expected {kind.__name__} {shape}, not {array.dtype} {array.shape}")
        kept = np.ascontiguousarray(array)
        self._kept.append(kept)
        return int(kept.ctypes.data)


def _aligned(size: int) -> npt.NDArray[np.int8]:
    """Bytes that begin where a line of the cache begins."""
    raw = np.empty(size + 64, np.int8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def _batches(texts: Sequence[Tokens]) -> Iterator[Sequence[Tokens]]:
    """Texts that the library can compute in one call."""
    first = size = 0
    for at, text in enumerate(texts):
        if at > first and size + len(text.ids) > TOKENS:
            yield texts[first:at]
            first, size = at, 0
        size += len(text.ids)
    yield texts[first:]
