"""The command that keeps a folder of notes in step."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentive.cli.memories import Project, ask
from retentive.cli.options import common
from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, Unavailable
from retentive.pipeline.remember import check_name

if TYPE_CHECKING:
    from retentive.transfer.formats.base import Fits
    from retentive.transfer.watching import FileChange, FolderSync

GRACE = 2.0
"""Seconds for which a file may be gone before what it held is forgotten."""

_TROUBLE = ("unreadable", "skipped", "warning", "held", "waiting")


def watch(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="The folder of Markdown and text files.", metavar="DIR")],
    project: Project = None,
    once: Annotated[bool, typer.Option("--once", help="Bring it into step, and end.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing, and end.")] = False,
    debounce: Annotated[
        float, typer.Option(help="Seconds without a change before changes are followed.", min=0.01, max=60)
    ] = 0.5,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Forget the memories of files that are gone, however many.")
    ] = False,
    forget: Annotated[bool, typer.Option("--forget", help="Forget what came from the folder, and end.")] = False,
) -> None:
    """Keep a folder of notes in step: edits, renames and deletes are followed, until Ctrl-C."""
    from retentive.transfer.watching import FolderSync, folder_lock, open_folder_state

    check_name("project", project)
    if not folder.is_dir():
        raise Invalid(f"{folder} is not a folder")
    here = folder.resolve()
    ends = once or dry_run
    with common(ctx).engine() as engine, nullcontext() if dry_run else folder_lock(engine.settings.public_store, here):
        state = open_folder_state(engine.store, here, profile=engine.settings.profile, project=project)
        sync = FolderSync(
            engine, state, here, fits=_fits(engine), force=yes, dry_run=dry_run, grace=0 if ends else GRACE
        )
        tell = _teller(as_json=common(ctx).json)
        if forget:
            _forget(sync, here, tell, yes=yes)
        elif ends:
            _once(sync, tell, dry_run=dry_run)
        else:
            _keep(sync, engine, tell, debounce=debounce)


def _fits(engine: Engine) -> Fits:
    from retentive.transfer.formats.passages import passage_limit

    try:
        return passage_limit(engine.embeddings.embedder())
    except Unavailable:
        return passage_limit()


def _forget(sync: FolderSync, folder: Path, tell: Callable[[FileChange], None], *, yes: bool) -> None:
    from retentive.cli.show import safe
    from retentive.transfer.watching import FileChange

    ask(f"Forget what came from {safe(str(folder))}? Its files stay.", yes=yes)
    tell(FileChange("forgotten", "", forgotten=sync.forget_all()))


def _once(sync: FolderSync, tell: Callable[[FileChange], None], *, dry_run: bool) -> None:
    changes = 0
    for change in sync.sync():
        tell(change)
        changes += 1
    if not (dry_run and changes):  # what would be is not in step yet
        tell(sync.ready())
    if sync.held:
        raise Conflict("too many files are gone: if that is meant, say it again with --yes")
    if sync.retries:
        raise Unavailable(f"{len(sync.retries)} files could not be read; what was known of them stays remembered")


def _keep(sync: FolderSync, engine: Engine, tell: Callable[[FileChange], None], *, debounce: float) -> None:
    from retentive.transfer.watching import StopFlag, watch_folder

    stop = StopFlag()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        watch_folder(sync, engine.embeddings, report=tell, stop=stop, debounce=debounce)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _teller(*, as_json: bool) -> Callable[[FileChange], None]:
    def tell(change: FileChange) -> None:
        if as_json:
            typer.echo(json.dumps(change.to_dict(), ensure_ascii=False))
        elif change.change not in _TROUBLE:
            typer.echo(_line(change))
        if change.change in _TROUBLE:
            typer.secho(_line(change), fg="yellow", err=True)

    return tell


def _line(change: FileChange) -> str:
    from retentive.cli.show import safe

    counts = {"added": change.added, "updated": change.updated, "forgotten": change.forgotten}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    before = f"{change.before} → " if change.before else ""
    told = change.reason or ", ".join(parts)
    return safe(f"{change.change} {before}{change.file}".rstrip() + (f": {told}" if told else "")).replace("\n", "·")
