"""How many steps fit into the time of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch


def steps_in(seconds: float, step: Callable[[], None], device: str, *, warm_up: int = 5, timed: int = 20) -> int:
    """Return how many steps take this long, by the time of some that change nothing."""
    began = 0.0
    for number in range(warm_up + timed):
        if number == warm_up:
            began = time.monotonic()
        step()
        if device == "cuda":
            torch.cuda.synchronize()
    steps = int(seconds * timed / (time.monotonic() - began))
    print(f"{steps} steps in {seconds:.0f} s", flush=True)
    return steps
