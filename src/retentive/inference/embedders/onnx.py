"""Local embedding models: a directory with `model.onnx` and `tokenizer.json`, computed offline."""

from __future__ import annotations

import json
import threading
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retentive.errors import Invalid, Unavailable
from retentive.extras import pip_install
from retentive.inference.embedders import Embedder, LocalSessions, Matrix
from retentive.inference.loading import MODELS, Loaded, fingerprint, load
from retentive.models import Model
from retentive.text.splitting import split_text

MEMORY_SMALL = "memory-small"
MEMORY_SMALL_SHA256 = "02e41bd6e3d3f2c21158d04d596a4d54ad33ae76a49efac01eb2936d9bfa4551"

CONTEXT_WORDS = 20
"""How many words of the turn before are read with a turn. More take longer and find less."""

ALONE_WORDS = 16
"""Turns of up to as many words are embedded alone as well: the turn before may outweigh them."""

SHORT_WORDS, SHORT_CHARACTERS = 60, 600
"""Longer turns are embedded alone: they say what they are about themselves."""


class OnnxEmbedder(Embedder):
    """Unit vectors from an ONNX model. Several texts are distributed over as many threads as there are cores."""

    in_process = has_tokenizer = True

    def __init__(
        self,
        directory: str | Path,
        *,
        name: str | None = None,
        pooling: str = "cls",
        workers: int = 0,
        fingerprint: str | None = None,
    ) -> None:
        self._directory = Path(directory)
        for file in ("model.onnx", "tokenizer.json"):
            if not (self._directory / file).is_file():
                raise Invalid(f"{self._directory} has no {file}; an embedder needs model.onnx and tokenizer.json")
        if pooling not in ("cls", "mean"):
            raise Invalid(f"there is no pooling '{pooling}'; use cls or mean")
        self._name = name or self._directory.name
        self._pooling = pooling
        self._fingerprint = fingerprint
        self._workers = workers or LocalSessions.default
        # More than one for each core would be slower and take more memory.
        self._free = threading.Semaphore(self._workers)

    @cached_property
    def model(self) -> Model:
        # The same weights with another pooling make other vectors; the two must not be compared.
        fingerprint = self.fingerprint if self._pooling == "cls" else f"{self._pooling}-{self.fingerprint}"
        return Model(self._name, self._pooling, self._run(["dimension"]).shape[1], fingerprint)

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of the model's weights, or the fingerprint that was given."""
        return self._fingerprint or fingerprint(self._directory / "model.onnx")

    @property
    def runtime(self) -> str:
        return self._loaded.model.name

    def embed(self, texts: Sequence[str]) -> Matrix:
        if not texts:
            return np.zeros((0, self.model.dimension), np.float32)
        # Longest first, so that no thread is still busy with long texts at the end.
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        # Each thread gets as many parts, so that all end at about the same time. Two texts are not worth a thread.
        threads = self._workers if len(texts) > 2 else 1
        rounds = -(-len(texts) // (threads * self._loaded.model.texts_at_once))
        size = -(-len(texts) // (threads * rounds))
        parts = [[texts[at] for at in order[first : first + size]] for first in range(0, len(texts), size)]
        found = map(self._run, parts) if threads == 1 else self._pool.map(self._run, parts)
        pooled = np.concatenate(list(found))
        vectors = np.empty_like(pooled)
        vectors[order] = pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
        return vectors

    def split(self, text: str) -> list[str]:
        return [text] if self.reads_whole(text) else split_text(text, self.reads_whole)

    def reads_whole(self, text: str) -> bool:
        # Most texts need not be tokenised. Very long ones are not either: to the tokenizer, a word of any length may be
        # one token, and its time grows with the length.
        if len(text) <= self._max_tokens - 2 and _most_tokens(text) <= self._max_tokens - 2:
            return True
        return len(text) <= self._max_characters and len(self._tokenizer.encode(text).ids) <= self._max_tokens

    def count_tokens(self, text: str) -> int:
        """Return how many tokens the text has; an unknown word counts one token for every three of its bytes.

        To this tokenizer an unknown word of any length is one token; to a language model that reads the text it is not.
        """
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        known = self._unknown_token not in encoded.ids if self._unknown_token is not None else True
        if known:
            return len(encoded.ids)
        spans = zip(encoded.ids, encoded.offsets, strict=True)
        return sum(
            -(-len(text[start:end].encode(errors="replace")) // 3) if id == self._unknown_token else 1
            for id, (start, end) in spans
        )

    @cached_property
    def _unknown_token(self) -> int | None:
        found: int | None = self._tokenizer.token_to_id("[UNK]")
        return found

    def close(self) -> None:
        """Release threads and the model; the next text that is embedded loads it again."""
        pool = self.__dict__.pop("_pool", None)
        if pool is not None:
            pool.shutdown()
        self.__dict__.pop("_loaded", None)

    def _run(self, texts: Sequence[str]) -> Matrix:
        """Return the pooled states of each text."""
        tokens = self._tokenizer.encode_batch_fast([text[: self._max_characters] for text in texts])
        for one in tokens:
            one.truncate(self._max_tokens)
        with self._free:
            found = self._loaded.model.run(tokens)
        return np.stack([states[0] if self._pooling == "cls" else states.mean(axis=0) for states in found])

    @property
    def _tokenizer(self) -> Any:
        return self._loaded.tokenizer

    @cached_property
    def _loaded(self) -> Loaded:
        try:
            return load(self._directory)
        except Exception as error:
            raise Unavailable(
                f"{self._directory} cannot be loaded ({error}); is it an ONNX embedding model?"
            ) from error

    @cached_property
    def _max_tokens(self) -> int:
        config = self._directory / "config.json"
        known = json.loads(config.read_text(encoding="utf-8")) if config.is_file() else {}
        return int(known.get("max_position_embeddings", 512))

    @cached_property
    def _max_characters(self) -> int:
        return 16 * self._max_tokens

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._workers, thread_name_prefix="embed")


def _most_tokens(text: str) -> int:
    """How many tokens a text may have at most."""
    if text.isascii():
        return len(text)
    # Tokenizers decompose characters (a syllable of Hangul to three), and some divide them into bytes.
    return len(unicodedata.normalize("NFKD", text).encode(errors="replace"))


class MemoryEmbedder(OnnxEmbedder):
    """Our own model, which was trained to read a short turn alone and together with the one before it."""

    reads_context = True

    def in_context(self, text: str, before: str) -> str | None:
        """Return the turn, a separator and the first words of the turn before it; None if the turn is long."""
        if len(text) > SHORT_CHARACTERS or len(text.split()) > SHORT_WORDS:
            return None
        return f"{text} [SEP] {' '.join(before[:SHORT_CHARACTERS].split()[:CONTEXT_WORDS])}"

    def reads_alone(self, text: str) -> bool:
        return len(text.split()) <= ALONE_WORDS


def open_memory_small() -> MemoryEmbedder:
    """Open the default model, which comes with this package. `Unavailable` if its file is missing or another one."""
    directory = MODELS / MEMORY_SMALL
    reinstall = f"install Retentive again: {pip_install(options='--force-reinstall')}"
    if not (directory / "model.onnx").is_file():
        raise Unavailable(f"the default model is missing in {directory}; {reinstall}")
    embedder = MemoryEmbedder(directory, name=MEMORY_SMALL)
    if embedder.fingerprint != MEMORY_SMALL_SHA256:
        raise Unavailable(f"{directory} holds another model than expected; {reinstall}")
    return embedder
