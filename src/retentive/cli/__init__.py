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
    if "mcp" in words:
        from retentive.server.mcp_front import is_front, run_front

        if is_front(words):
            run_front(words)
    # pydantic would search all installed packages for plugins, which takes a thirtieth of a second.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from retentive.cli.app import app

    code = 0
    try:
        app(prog_name="retentive")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    _exit(code)


def _exit(code: int) -> NoReturn:
    """End the process at once. The store is closed; freeing the interpreter and the model is a tenth of the time."""
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        pass  # a reader such as `head` has what it wants
    os._exit(code)
