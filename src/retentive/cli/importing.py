"""Commands that take memories in from other programs' files and give them out: import, export, imports."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from retentive.cli.options import common, emit
from retentive.errors import Conflict, Invalid

if TYPE_CHECKING:
    from retentive.engine import Engine
    from retentive.transfer.formats.base import ImportIssue
    from retentive.transfer.importing.importer import ImportResult
    from retentive.transfer.importing.log import ImportRun

_NAMES = "jsonl, chatgpt, claude, claude-code, mem0, memini, beir, openclaw or markdown"
_REPORT = b'{"kind": "'
"""What a report begins with."""


def import_memories(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(help="The file or folder to import.")],
    format: Annotated[str | None, typer.Option(help=f"{_NAMES}; without it, it is recognised.")] = None,
    project: Annotated[str | None, typer.Option(help="The project that all of it goes into.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")] = False,
    report: Annotated[
        Path | None, typer.Option(help="A file for everything that was skipped or noticed, a JSON object a line.")
    ] = None,
) -> None:
    """Import memories and conversations of other programs. Importing again adds nothing twice.

    May be stopped at any time and goes on where it stopped. Ends with 1 if a file broke off before its end.
    """
    given = common(ctx)
    with given.engine() as engine, _reporting(report) as tell:
        with _progress("importing", lambda: _count(engine, path, format)) as advance:
            done = engine.import_from(
                path,
                format=format,
                profile=given.profile,
                project=project,
                dry_run=dry_run,
                progress=advance,
                report=tell,
            )
        problem = engine.embeddings.problem() if done.unembedded else None
    emit(ctx, done.to_dict(), lambda: _show(done, report))
    if problem:
        typer.secho(f"warning: {done.unembedded:,} stored without a vector: {problem}", fg="yellow", err=True)
    if done.truncated:
        raise typer.Exit(1)


def export(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(help="The file to write; - is standard output; a folder gets Markdown.")],
    format: Annotated[str | None, typer.Option(help="jsonl, or markdown for people to read.")] = None,
    everything: Annotated[
        bool, typer.Option("--everything", help="Every profile, and the parameters that are kept: the whole store.")
    ] = False,
    project: Annotated[str | None, typer.Option(help="Only this project.")] = None,
    session: Annotated[str | None, typer.Option(help="Only this session.")] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With vectors, so that an import need not embed again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Export memories as JSONL with all they have; an import makes an equal store of it."""
    given = common(ctx)
    to_output = path == "-"
    with given.engine() as engine, _progress("exporting", lambda: engine.stats().memories) as advance:
        done = engine.export_to(
            path,
            format=format,
            everything=everything,
            profile=None if everything else given.profile,
            project=project,
            session=session,
            vectors=vectors,
            force=force,
            output=sys.stdout.buffer if to_output else None,
            progress=advance,
        )
    sentence = f"{done.memories:,} memories and {done.judgements:,} judgements written to {path}"
    if to_output:
        typer.echo(sentence, err=True)
    else:
        emit(ctx, done.to_dict(), lambda: typer.echo(sentence))
    if done.omitted_profiles:
        others = (
            f"{len(done.omitted_profiles)} other profiles were"
            if len(done.omitted_profiles) > 1
            else "1 other profile was"
        )
        typer.secho(f"note: {others} left out; --everything takes the whole store", fg="yellow", err=True)


imports = typer.Typer(help="List the imports that can be taken back, or take one back.", invoke_without_command=True)


@imports.callback()
def list_imports(ctx: typer.Context) -> None:
    """List the imports that can be taken back, or take one back."""
    if ctx.invoked_subcommand:
        return
    with common(ctx).engine() as engine:
        runs = engine.imports.list()
    emit(ctx, {"imports": [run.to_dict() for run in runs]}, lambda: _show_runs(runs))


@imports.command(name="undo")
def undo_import(
    ctx: typer.Context, run: Annotated[str, typer.Argument(help="The import, as `retentive imports` names it.")]
) -> None:
    """Take back an import as a whole: what it added goes, what was there before stays."""
    with common(ctx).engine() as engine:
        total = sum(one.added for one in engine.imports.list() if one.id == run)
        with _progress("taking back", lambda: total) as advance:
            done = engine.imports.undo(run, progress=advance)
    emit(ctx, done.to_dict(), lambda: typer.echo(f"{done.memories:,} memories removed"))


def _count(engine: Engine, path: Path, format: str | None) -> int:
    """How many memories are to come, for the bar: reading a file twice costs little beside embedding it."""
    from retentive.transfer.importing.importer import choose_format, count_memories

    return count_memories(choose_format(path, format, engine.embeddings.embedder), path)


@contextmanager
def _progress(label: str, total: Callable[[], int]) -> Iterator[Callable[[int], None]]:
    """A bar where there is a terminal to draw it on; only then is it worked out how much there is to do."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from retentive.cli.show import progress, working

    with working(f"{label}: counting"):
        count = total()
    with progress(label, total=count) as advance:
        yield advance


@contextmanager
def _reporting(path: Path | None) -> Iterator[Callable[[ImportIssue], None]]:
    """Writes down everything that was passed over as it comes, if a file was named."""
    if path is None:
        yield lambda issue: None
        return
    from retentive.transfer.formats.base import Skipped, Truncated

    if _holds_something_else(path):
        raise Conflict(f"{path} is there already and no report; name another file for it")
    try:
        with path.open("w", encoding="utf-8") as file:

            def tell(issue: ImportIssue) -> None:
                truncated = isinstance(issue, Truncated)
                kind = "skipped" if isinstance(issue, Skipped) else "truncated" if truncated else "warning"
                line = {"kind": kind, "where": issue.where, "reason": issue.reason}
                file.write(json.dumps(line, ensure_ascii=False).encode(errors="replace").decode() + "\n")

            yield tell
    except OSError as error:
        raise Invalid(f"the report cannot be written to {path}: {error.strerror or error}") from None


def _holds_something_else(path: Path) -> bool:
    """Whether a file would be lost: an earlier report may be replaced, the file that is imported may not."""
    if not path.is_file():  # opening a pipe would wait for its other end
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_REPORT)) not in (b"", _REPORT)
    except OSError:
        return False  # what is wrong with it is said when it is written


def _show(done: ImportResult, report: Path | None) -> None:
    from retentive.cli.show import print_line

    would = "would be " if done.dry_run else ""
    print_line(f"{done.format}: {done.added:,} {would}added, {done.existing:,} already there", style="bold")
    for count, what in ((done.judgements, "judgements"), (done.settings, "settings")):
        if count:
            print_line(f"  {count:,} {what} {would}added")
    _show_reasons("skipped", done.skipped)
    _show_reasons("warnings", done.warnings)
    if (done.skipped or done.warnings) and report is None:
        print_line("  --report FILE lists them one by one", style="dim")
    for where in done.truncated:
        print_line(f"reading stopped: {where}", style="red")
    if done.resumed:
        print_line("this went on where an import was broken off before", style="dim")
    if done.run:
        print_line(f"to take it back: retentive imports undo {done.run}", style="dim")


def _show_reasons(label: str, reasons: Mapping[str, int]) -> None:
    from retentive.cli.show import one_line, print_line

    if reasons:
        print_line(f"{label}: {sum(reasons.values()):,}")
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        print_line(f"  {count:>9,}  {one_line(reason, 120)}", style="dim")


def _show_runs(runs: Sequence[ImportRun]) -> None:
    from retentive.cli import show

    show.imports(runs)
