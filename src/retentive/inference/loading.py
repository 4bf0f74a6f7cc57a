"""Loads models with their tokenizers.

The compiled library computes the models of this package where that is possible (`bert`). onnxruntime computes all
others; it is imported only then, because importing it takes as long as a recall.

The command line starts to load a model before it imports anything else. Most of it does not hold the interpreter's
lock: `preload` starts it on another thread, and `load` waits for it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import tokenizers

from retentive import native

Floats = npt.NDArray[np.float32]

MODELS = Path(__file__).parent / "models"
"""The folder of the models that come with this package; each has a model card (`README.md`)."""


class Tokens(Protocol):
    """A tokenised text, or a query and a text. `tokenizers` makes them."""

    ids: list[int]
    type_ids: list[int]


class Runtime(Protocol):
    """Computes a model. Several threads may use it at the same time."""

    texts_at_once: int
    """How many short texts are worth computing together."""

    @property
    def name(self) -> str:
        """What computes, for people."""
        ...

    def run(self, texts: Sequence[Tokens]) -> Iterable[Floats]:
        """Return the output for each text: the states of its tokens, or of the first one; a logit of a cross-encoder.

        The output for a text does not depend on the other texts.
        """
        ...


class Loaded(NamedTuple):
    """A model and its tokenizer."""

    model: Runtime
    tokenizer: Any


def fingerprint(path: Path) -> str:
    """Return the SHA-256 of a file, cached for each version of it: reading 34 MB costs a tenth of a cold start."""
    from platformdirs import user_cache_path

    stat = path.stat()
    version = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ino}"
    cached = user_cache_path("retentive") / "fingerprints" / hashlib.sha256(version.encode()).hexdigest()
    try:
        return cached.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        pass
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        cached.write_text(digest, encoding="ascii")
    except OSError:
        pass  # a read-only home only costs time
    return digest


def load(directory: Path) -> Loaded:
    """Load the model of a directory, or return the one that `preload` has started to load."""
    preloaded = _preloaded.pop(directory, None)
    return preloaded() if preloaded else _load_model(directory)


def preload(directory: Path) -> None:
    """Start to load a model on another thread. If that fails, `load` tries again and raises."""
    outcome: list[Loaded] = []

    def work() -> None:
        outcome.append(_load_model(directory))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait() -> Loaded:
        thread.join()
        return outcome[0] if outcome else _load_model(directory)

    _preloaded[directory] = wait


def _load_model(directory: Path) -> Loaded:
    model = _open(directory)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Loaded(model, tokenizer)


def _open(directory: Path) -> Runtime:
    if directory.parent == MODELS and native.instruction_sets():
        from retentive.inference.bert import Bert

        return Bert(directory / "model.onnx")
    from retentive.inference.onnx_sessions import OnnxSessions

    return OnnxSessions(directory)


_preloaded: dict[Path, Callable[[], Loaded]] = {}
