"""Loads ONNX models with their tokenizers.

It imports nothing else of this package, so that the command line can start to load a model before anything else.
Loading a session releases the interpreter's lock: `preload` starts it on another thread, and `load` waits for it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import tokenizers

MODELS = Path(__file__).parent / "models"
"""The folder of the models that come with this package; each has a model card (`README.md`)."""


class Loaded(NamedTuple):
    """A session of a model, and its tokenizer."""

    session: Any
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


def open_session(directory: Path) -> Any:
    """Open a session with one thread: for small texts, more threads take longer to synchronise than to compute."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if directory.parent == MODELS:  # these graphs are written as onnxruntime runs them fastest
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"])


def load(directory: Path) -> Loaded:
    """Load the model of a directory, or return the one that `preload` has started to load."""
    preloaded = _preloaded.pop(directory, None)
    return preloaded() if preloaded else _load(directory)


def preload(directory: Path) -> None:
    """Start to load a model on another thread. If that fails, `load` tries again and raises."""
    outcome: list[Loaded] = []

    def work() -> None:
        outcome.append(_load(directory))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def wait() -> Loaded:
        thread.join()
        return outcome[0] if outcome else _load(directory)

    _preloaded[directory] = wait


def _load(directory: Path) -> Loaded:
    session = open_session(directory)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Loaded(session, tokenizer)


_preloaded: dict[Path, Callable[[], Loaded]] = {}
