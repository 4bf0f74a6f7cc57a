"""The command line. `main` is the program `retentive`."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> None:
    """Run the program."""
    words = sys.argv[1:]
    if words[:1] == ["hook"]:
        from retentive.hooks.main import is_hook, run_hook

        if is_hook(words):
            run_hook(words[1:])
    code = 0
    try:
        _run(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    _exit(code)


def _run(words: list[str]) -> None:
    """Run a command: a recall with common options in a short way, everything else by the command line."""
    recall = None
    if "recall" in words:
        from retentive.cli.quick_recall import parse_recall, recall_by_engine, recalled_by_service

        recall = parse_recall(words)
        if recall is not None and not recall.pop("local", False) and recalled_by_service(recall):
            return
    # pydantic would search all installed packages for plugins, which takes a thirtieth of a second.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if recall is not None:
        _start_quickly()
        recall_by_engine(recall)
        return
    from retentive.cli.app import app

    app(prog_name="retentive")


def _exit(code: int) -> NoReturn:
    """End the process at once. The store is closed; freeing the interpreter and the model is a tenth of the time."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass  # a reader such as `head` has what it wants
    os._exit(code)


def _start_quickly() -> None:
    """Prepare a process that searches once and ends.

    The default model is loaded on another core during the imports, which takes a third off a cold recall. There is no
    product of matrices for which threads of numpy would be worth their start.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if os.environ.get("RETENTIVE_EMBEDDER", "memory-small") == "memory-small" and "--embedder" not in sys.argv:
        from retentive.inference.loading import MODELS, preload

        preload(MODELS / "memory-small")
