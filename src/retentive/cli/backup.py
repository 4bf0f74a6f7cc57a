"""The command that backs up a store."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from retentive.cli.options import common, emit, with_store
from retentive.models import counted


def backup(
    ctx: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of the backups of this store alone; by default, backups beside the store."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Delete all but this many of the newest backups; by default, none.")
    ] = None,
) -> None:
    """Write a checked copy of a SQLite store that is in use into a new file. Others can read and write meanwhile.

    The exit code is 1 if the store has problems, which the copy then has too; no earlier backup is deleted then.
    PostgreSQL has pg_dump.
    """
    from retentive.cli.show import progress

    with (
        common(ctx).engine() as engine,
        progress("backing up (MB)", total=engine.stats().bytes // 1_000_000) as advance,
    ):
        done = engine.backup(folder, keep=keep, progress=advance)
    problems = [with_store(problem) for problem in done.problems]

    def print_all(show: ModuleType) -> None:
        show.print_line(f"{counted(done.memories, 'memory')} in {done.file} ({done.bytes / 1e6:,.1f} MB)")
        for file in done.removed:
            show.print_line(f"deleted: {file}")
        for problem in problems:
            show.print_line(f"problem: {problem}", style="red")

    emit(ctx, {**done.to_dict(), "problems": problems}, print_all)
    if problems:
        raise typer.Exit(1)
