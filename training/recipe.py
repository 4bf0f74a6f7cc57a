"""The options of a training step: two folders, and a recipe whose fields can be changed."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")


def read_options(
    description: str | None, recipe: type[R], arguments: Sequence[str] | None = None
) -> tuple[Path, Path, R]:
    """Read the folder with the data, the folder to write to, and the recipe from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    defaults: Any = recipe()
    for name, value in asdict(defaults).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = vars(parser.parse_args(arguments))
    folder, out = options.pop("folder"), options.pop("out")
    return folder, out, recipe(**options)
