"""Models of the optional package fastembed, which downloads them from a model hub by name."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retentive.errors import Invalid, Unavailable
from retentive.extras import needs_extra
from retentive.inference.embedders import Embedder, Matrix
from retentive.models import Model
from retentive.text.splitting import split_text

_MAX_CHARS = 1500
"""Fewer than the 512 tokens that most of these models read, in most languages. Their tokenizers are not accessible."""


class FastembedEmbedder(Embedder):
    """A model that fastembed supports, loaded at first use; with `path`, from that directory and without a network.

    Texts are embedded one at a time: quantised models give a text another vector in a batch than alone.
    """

    def __init__(self, name: str, *, path: str | None = None) -> None:
        with needs_extra(f"The embedder 'fastembed:{name}'", "fastembed"):
            from fastembed import TextEmbedding
        self._kind = TextEmbedding
        self._name = name
        self._path = path
        self._engine: Any = None
        self._lock = threading.Lock()

    @cached_property
    def model(self) -> Model:
        """The model; its fingerprint is the hash of its files, or of its name if no file is found."""
        dimension = self._embed_one("dimension").shape[0]
        weights = _weights(self._load(), path=self._path)
        fingerprint = _digest(weights) if weights else hashlib.sha256(self._name.encode()).hexdigest()
        return Model(name=self._name, revision="", dimension=dimension, fingerprint=fingerprint)

    def embed(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            return np.zeros((0, self.model.dimension), dtype=np.float32)
        return np.stack([self._embed_one(text) for text in texts])

    def embed_queries(self, texts: Sequence[str]) -> Matrix:
        """Return one unit vector for each query; fastembed knows which models read queries in another way."""
        return np.stack([self._embed_one(text, query=True) for text in texts]) if texts else self.embed(texts)

    def split(self, text: str) -> list[str]:
        """Return the text in parts that the model can probably read whole, by their number of characters."""
        return split_text(text, lambda part: len(part) <= _MAX_CHARS)

    def close(self) -> None:
        """Release the model; the next call loads it again."""
        with self._lock:
            self._engine = None

    def _load(self) -> Any:
        with self._lock:
            if self._engine is None:
                self._engine = self._open()
            return self._engine

    def _open(self) -> Any:
        try:
            return self._kind(model_name=self._name, specific_model_path=self._path)
        except Exception as error:
            # fastembed raises ValueError for an unknown name and for a failed download alike.
            if "not supported" in str(error):
                raise Invalid(
                    f"fastembed has no model {self._name!r}: "
                    "fastembed.TextEmbedding.list_supported_models() lists its models."
                ) from error
            raise Unavailable(
                f"fastembed could not load {self._name!r} from {self._path or 'a model hub'} ({error}): "
                "check the network, or set embedder.path to a directory with the model."
            ) from error

    def _embed_one(self, text: str, *, query: bool = False) -> Matrix:
        engine = self._load()
        try:
            found = next(iter(engine.query_embed([text]) if query else engine.embed([text])))
            vector = np.asarray(found, dtype=np.float64).reshape(-1)
        except (Invalid, Unavailable):
            raise
        except Exception as error:
            raise Unavailable(f"fastembed's {self._name!r} could not embed a text ({error}).") from error
        length = float(np.linalg.norm(vector))
        if not np.isfinite(length) or length == 0:
            raise Unavailable(f"fastembed's {self._name!r} returned a vector that is zero or not finite.")
        return (vector / length).astype(np.float32)


def _weights(engine: Any, *, path: str | None) -> list[Path]:
    """Return the model's file and the weight files whose names start with its name; empty if it is not found."""
    inner = getattr(engine, "model", None)
    place = path or getattr(inner, "_model_dir", None)
    if place is None:
        return []
    named = Path(place, getattr(getattr(inner, "model_description", None), "model_file", None) or "model.onnx")
    models = [named] if named.is_file() else sorted(Path(place).rglob("*.onnx"))
    if len(models) != 1:
        return []
    return sorted(file for file in models[0].parent.iterdir() if file.name.startswith(models[0].name))


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
