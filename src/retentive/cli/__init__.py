"""The command line. `main` is the program `retentive`."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> None:
    """Run the program."""
    if "recall" in sys.argv or "explain" in sys.argv:
        _load_model_meanwhile()
    # pydantic would look through every installed package for plugins: a thirtieth of a second for nothing.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from retentive.cli.app import app

    code = 0
    try:
        app(prog_name="retentive")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    _leave(code)


def _leave(code: int) -> NoReturn:
    """End the process. The store is closed by now; taking interpreter and model apart is a tenth of the time."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        code = code or 141
    os._exit(code)


def _load_model_meanwhile() -> None:
    """Load the default model on one core while the other imports the command line: a third off a cold recall."""
    if os.environ.get("RETENTIVE_EMBEDDER", "bge-small") == "bge-small" and "--embedder" not in sys.argv:
        from retentive.inference.onnx_runtime import packaged_model, preload

        directory = packaged_model("bge_small_en")
        if directory:
            preload(directory)
