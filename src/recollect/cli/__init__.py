"""The command line. `main` is the program `recollect`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the program."""
    if "recall" in sys.argv:
        _load_model_meanwhile()
    from recollect.cli.app import app

    app(prog_name="recollect")


def _load_model_meanwhile() -> None:
    """Load the default model on one core while the other imports the command line: a third off a cold recall."""
    if os.environ.get("RECOLLECT_EMBEDDER", "bge-small") == "bge-small" and "--embedder" not in sys.argv:
        from recollect.inference import packaged_model, preload

        directory = packaged_model("bge_small_en")
        if directory:
            preload(directory)
