"""Progress on standard error: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Progress:
    """Shows the progress of a run."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        self._started = perf_counter()

    def log(self, line: str) -> None:
        """Print a line with the elapsed time."""
        print(f"{perf_counter() - self._started:7.1f} s  {line}", file=sys.stderr, flush=True)

    @contextmanager
    def task(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Show a task; the function it yields is called with the number of steps done."""
        if not self._console.is_terminal:
            self.log(name)
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
