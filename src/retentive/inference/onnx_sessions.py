"""Computes models by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from retentive.inference.loading import MODELS, Floats, Tokens


class OnnxSessions:
    """A model of a directory, computed by onnxruntime.

    Texts are not batched: a quantised model scales its activations by the batch, so the vector of a text would depend
    on the other texts in its batch (cosine .993 to .996).
    """

    texts_at_once = 1
    name = "onnxruntime"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        # A session for each thread: on a shared one they would wait for the lock of its memory arena.
        self._idle = [open_session(directory)]

    def run(self, texts: Sequence[Tokens]) -> list[Floats]:
        """Return the first output of the model for each text."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = open_session(self._directory)
        names = [one.name for one in session.get_inputs()]
        found = []
        for text in texts:
            ids = np.array([text.ids], np.int64)
            feed = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.array([text.type_ids], np.int64),
            }
            found.append(session.run(None, {name: feed[name] for name in names})[0][0])
        self._idle.append(session)
        return found


def open_session(directory: Path) -> Any:
    """Open a session with one thread: for small texts, more threads take longer to synchronise than to compute."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if directory.parent == MODELS:  # these graphs are written as onnxruntime runs them fastest
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(directory / "model.onnx"), options, providers=["CPUExecutionProvider"])
