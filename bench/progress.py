"""What is being done, on stderr: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Progress:
    """Tells a person how far the run is."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._started = perf_counter()

    def say(self, line: str) -> None:
        """A line about how far it is."""
        print(f"{perf_counter() - self._started:7.1f} s  {line}", file=sys.stderr, flush=True)

    @contextmanager
    def task(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """A piece of work; what it yields is called with how much more is done."""
        if not self._console.is_terminal:
            self.say(name)
            yield lambda done: None
            return
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Bars(*columns, console=self._console, transient=True) as bars:
            bar = bars.add_task(name, total=total)
            yield lambda done: bars.advance(bar, done)
