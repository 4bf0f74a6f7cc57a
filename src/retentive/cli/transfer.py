"""Commands that exchange memories with files: import, export, imports, watch."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from retentive.cli.help import command, group
from retentive.cli.names import unknown_names
from retentive.cli.options import SCOPE, Interrupted, common, confirm, emit, warn, with_store
from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound, RetentiveError, Unavailable
from retentive.models import check_name, counted, snippet

if TYPE_CHECKING:
    from retentive.transfer.formats.base import Fits, ImportIssue
    from retentive.transfer.importing.importer import ImportResult
    from retentive.transfer.watching import FileChange, FolderSync

_FORMATS = "jsonl, chatgpt, claude, claude-code, mem0, memini, beir, sqlite, openclaw, markdown or postgres"
_CONVERSATIONS = ("chatgpt", "claude", "claude-code")
"""Formats of conversations; the others are of memories or documents."""

_REPORT_START = b'{"kind": "'
"""The first bytes of a report file."""

GRACE = 2.0
"""Seconds that a file may be missing before its memories are forgotten."""

_PROBLEMS = ("unreadable", "skipped", "warning", "held", "waiting")
"""Changes that are printed as warnings."""


def import_memories(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(help="File or folder to import, or a postgresql:// address.")],
    format: Annotated[str | None, typer.Option(help=f"{_FORMATS}; detected by default.")] = None,
    project: Annotated[str | None, typer.Option(help="Project for all imported memories.")] = None,
    profiles: Annotated[
        list[str] | None,
        typer.Option("--profile", help="Profile for all memories, or NAME=ID for those of one person. Repeatable."),
    ] = None,
    only_profiles: Annotated[
        list[str] | None, typer.Option("--only-profile", help="Skip all others than this profile. Repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be imported, change nothing.")] = False,
    report: Annotated[
        Path | None,
        typer.Option(help="File for everything that was skipped or had a warning, one JSON object per line."),
    ] = None,
) -> None:
    """Import memories and conversations of other programs. What was imported before is not added again.

    It can be interrupted and continues where it stopped. The exit code is 1 if a file ended too early.
    """
    from retentive.transfer.importing.importer import ImportInterrupted

    given = common(ctx)
    # A profile of the environment is that of memories that are nobody's, and not one for all.
    named = ctx.find_root().get_parameter_source("profile")
    try:
        with (
            given.engine(missing="empty" if dry_run else "create") as engine,
            _open_report(report) as write_issue,
        ):
            with _progress("importing", lambda: _count(engine, path, format)) as advance:
                done = engine.import_from(
                    path,
                    format=format,
                    profile=given.profile if named and named.name == "COMMANDLINE" else None,
                    project=project,
                    profiles=_people(profiles or ()),
                    only_profiles=only_profiles or (),
                    dry_run=dry_run,
                    progress=advance,
                    report=write_issue,
                )
            problem = engine.embeddings.problem() if done.unembedded else None
    except ImportInterrupted as stopped:
        raise Interrupted(_interruption(stopped.result)) from None
    hint = _wrong_format(path, done) if format else None
    emit(ctx, done.to_dict(), lambda _: _print_import(done, report, hint, engine.settings.profile))
    if problem:
        warn(
            f"warning: {done.unembedded:,} stored without a vector: {problem}; retentive reembed adds the vectors later"
        )
    if done.truncated:
        raise typer.Exit(1)


def _people(given: Sequence[str]) -> dict[str, str]:
    """The profile of each person, from NAME=ID."""
    pairs = [one.partition("=") for one in given]
    return {person: name for name, _, person in pairs}


def export(
    ctx: typer.Context,
    path: Annotated[str, typer.Argument(help="File to write; - is standard output; a folder is written as Markdown.")],
    format: Annotated[str | None, typer.Option(help="jsonl, or markdown for people to read.")] = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--everything", help="Export the whole store: all profiles and saved parameters.", rich_help_panel=SCOPE
        ),
    ] = False,
    project: Annotated[str | None, typer.Option(help="Only memories of this project.", rich_help_panel=SCOPE)] = None,
    session: Annotated[str | None, typer.Option(help="Only memories of this session.", rich_help_panel=SCOPE)] = None,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Include vectors, so that an import need not embed again.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Export memories with all their fields as JSONL, which retentive import reads."""
    given = common(ctx)
    to_output = path == "-"
    with given.engine() as engine, _progress("exporting", lambda: engine.stats().memories) as advance:
        if not everything and (unknown := unknown_names(engine, project=project, sessions=session)):
            raise NotFound(unknown)
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
    message = f"{counted(done.memories, 'memory')} and {counted(done.judgements, 'judgement')} written to {path}"
    if to_output:
        typer.echo(message, err=True)
    else:
        emit(ctx, done.to_dict(), message)
    for damage in done.damaged:
        warn(f"left out: {damage.id}: {damage.reason}")
    if others := len(done.omitted_profiles):
        profiles = f"{others} other profiles were" if others > 1 else "1 other profile was"
        warn(f"note: {profiles} not exported; --everything exports the whole store")
    if done.damaged:
        warn(f"{counted(len(done.damaged), 'memory is', 'memories are')} damaged and left out; see: retentive doctor")
        raise typer.Exit(1)


imports = group("List the imports that can be undone, or undo one.", "retentive imports")


@imports.callback()
def list_imports(ctx: typer.Context) -> None:
    """List the imports that can be undone, or undo one."""
    if ctx.invoked_subcommand:
        return
    with common(ctx).engine() as engine:
        runs = engine.imports.list()
    emit(ctx, {"imports": [run.to_dict() for run in runs]}, lambda show: show.imports(runs))


@command(imports, "retentive imports undo 3f2a", name="undo")
def undo_import(
    ctx: typer.Context, run: Annotated[str, typer.Argument(help="Id of the import, from retentive imports.")]
) -> None:
    """Undo an import: delete the memories that it added."""
    with common(ctx).engine() as engine:
        total = sum(one.added for one in engine.imports.list() if one.id == run)
        with _progress("undoing", lambda: total) as advance:
            done = engine.imports.undo(run, progress=advance)
    emit(ctx, done.to_dict(), f"{counted(done.memories, 'memory')} removed")


def _count(engine: Engine, path: str, format: str | None) -> int:
    """Count the memories of a source for the progress bar. Reading it twice takes little time beside embedding it."""
    from retentive.transfer.importing.importer import count_memories, open_source

    return count_memories(open_source(path, format, engine.embeddings.embedder))


def _interruption(done: ImportResult) -> str:
    """Return what an interrupted import stored, and how to continue or undo it."""
    if not done.run:
        return "nothing was stored"
    return (
        f"{counted(done.added, 'memory is', 'memories are')} stored. To continue, run the same command again; "
        f"to undo it: retentive imports undo {done.run}"
    )


@contextmanager
def _progress(label: str, total: Callable[[], int]) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal. The total is computed only if it is shown."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from retentive.cli.show import progress, working

    with working(f"{label}: counting"):
        count = total()
    with progress(label, total=count) as advance:
        yield advance


@contextmanager
def _open_report(path: Path | None) -> Iterator[Callable[[ImportIssue], None]]:
    """Open the report file, if one is named; yield the function that writes an issue to it."""
    if path is None:
        yield lambda issue: None
        return
    from retentive.transfer.formats.base import Skipped, Truncated

    if _is_other_file(path):
        raise Conflict(f"{path} exists and is not a report; use another file")
    try:
        with path.open("w", encoding="utf-8") as file:

            def write(issue: ImportIssue) -> None:
                truncated = isinstance(issue, Truncated)
                kind = "skipped" if isinstance(issue, Skipped) else "truncated" if truncated else "warning"
                line = {"kind": kind, "where": issue.where, "reason": issue.reason}
                file.write(json.dumps(line, ensure_ascii=False).encode(errors="replace").decode() + "\n")

            yield write
    except OSError as error:
        raise Invalid(f"the report cannot be written to {path}: {error.strerror or error}") from None


def _is_other_file(path: Path) -> bool:
    """Whether a file would be lost: an earlier report can be overwritten, the imported file cannot."""
    if not path.is_file():  # opening a pipe would wait for its other end
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_REPORT_START)) not in (b"", _REPORT_START)
    except OSError:
        return False  # writing it reports the problem


def _wrong_format(path: str, done: ImportResult) -> str | None:
    """Return a sentence if nothing was found in the named format, and the file does not look like that format."""
    from retentive.transfer.formats import detect_format

    if done.added or done.existing or done.judgements or done.settings or done.truncated or "://" in path:
        return None
    try:
        looks_like = detect_format(Path(path)).name
    except RetentiveError:  # it looks like none, or like one that needs another package
        looks_like = None
    if looks_like == done.format:
        return None
    noun = "conversation" if done.format in _CONVERSATIONS else "memory"
    advice = f"; it looks like {looks_like}, which is read without --format" if looks_like else ""
    return f"no {noun} of the format {done.format} was found in {path}{advice}"


def _print_import(done: ImportResult, report: Path | None, hint: str | None, profile: str) -> None:
    from retentive.cli.show import print_line

    def print_reasons(label: str, reasons: Mapping[str, int]) -> None:
        if reasons:
            print_line(f"{label}: {sum(reasons.values()):,}")
        for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
            print_line(f"  {count:>9,}  {snippet(reason, 120)}", style="dim")

    would = "would be " if done.dry_run else ""
    print_line(f"{done.format}: {done.added:,} {would}added, {done.existing:,} already stored", style="bold")
    for count, what in ((done.judgements, "judgement"), (done.settings, "setting")):
        if count:
            print_line(f"  {counted(count, what)} {would}added")
    print_reasons("of other profiles", {name: count for name, count in done.profiles.items() if name != profile})
    print_reasons("skipped", done.skipped)
    print_reasons("warnings", done.warnings)
    if (done.skipped or done.warnings) and report is None:
        print_line("  --report FILE lists them one by one", style="dim")
    for problem in (*(f"reading stopped: {where}" for where in done.truncated), *([hint] if hint else ())):
        print_line(problem, style="red")
    if done.resumed:
        print_line("continued an import that was interrupted", style="dim")
    if done.run:
        print_line(with_store(f"to undo it: retentive imports undo {done.run}"), style="dim")


# watch


def watch(
    ctx: typer.Context,
    folder: Annotated[Path, typer.Argument(help="Folder of Markdown and text files.", metavar="DIR")],
    project: Annotated[str | None, typer.Option(help="Project for the memories of the folder.")] = None,
    once: Annotated[bool, typer.Option("--once", help="Synchronise once and exit.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change and exit.")] = False,
    debounce: Annotated[
        float, typer.Option(help="Seconds without a change before changes are applied.", min=0.01, max=60)
    ] = 0.5,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Forget the memories of missing files, however many there are.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget all memories that came from the folder, and exit.")
    ] = False,
) -> None:
    """Keep the memories of a folder of notes in sync with its files, until Ctrl-C."""
    from retentive.transfer.watching import FileChange, FolderSync, folder_lock, open_folder_state

    check_name("project", project)
    if not folder.exists():
        raise NotFound(f"there is no {folder}")
    if not folder.is_dir():
        raise Invalid(f"{folder} is not a folder")
    path = folder.resolve()
    ends = once or dry_run
    report = _json_reporter if common(ctx).json else _text_reporter
    missing: Literal["error", "create", "empty"] = "error" if forget else "empty" if dry_run else "create"
    with (
        common(ctx).engine(missing=missing) as engine,
        nullcontext() if dry_run else folder_lock(engine.settings.public_store, path),
    ):
        state = open_folder_state(engine.store, path, profile=engine.settings.profile, project=project)
        sync = FolderSync(
            engine, state, path, fits=_passage_limit(engine), force=yes, dry_run=dry_run, grace=0 if ends else GRACE
        )
        if forget:
            from retentive.cli.show import safe

            confirm(f"Forget all memories that came from {safe(str(path))}? Its files are not deleted.", yes=yes)
            report(FileChange("forgotten", "", forgotten=sync.forget_all()))
        elif ends:
            _sync_once(sync, report, dry_run=dry_run)
        else:
            _watch(sync, engine, report, debounce=debounce)


def _passage_limit(engine: Engine) -> Fits:
    from retentive.transfer.formats.passages import passage_limit

    try:
        return passage_limit(engine.embeddings.embedder())
    except Unavailable:
        return passage_limit()


def _sync_once(sync: FolderSync, report: Callable[[FileChange], None], *, dry_run: bool) -> None:
    changes = 0
    for change in sync.sync():
        report(change)
        changes += 1
    if not (dry_run and changes):  # after a dry run the folder is not in sync
        report(sync.ready())
    if sync.held:
        raise Conflict("too many files are missing; use --yes if that is intended")
    if sync.retries:
        raise Unavailable(f"{counted(len(sync.retries), 'file')} could not be read; no memory of it was changed")


def _watch(sync: FolderSync, engine: Engine, report: Callable[[FileChange], None], *, debounce: float) -> None:
    from retentive.transfer.watching import StopFlag, watch_folder

    stop = StopFlag()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        watch_folder(sync, engine.embeddings, report=report, stop=stop, debounce=debounce)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _json_reporter(change: FileChange) -> None:
    typer.echo(json.dumps(change.to_dict(), ensure_ascii=False))
    if change.change in _PROBLEMS:
        warn(_change_line(change))


def _text_reporter(change: FileChange) -> None:
    if change.change in _PROBLEMS:
        warn(_change_line(change))
    else:
        typer.echo(_change_line(change))


def _change_line(change: FileChange) -> str:
    from retentive.cli.show import safe

    counts = {"added": change.added, "updated": change.updated, "forgotten": change.forgotten}
    parts = [f"{count} {name}" for name, count in counts.items() if count]
    before = f"{change.before} → " if change.before else ""
    details = change.reason or ", ".join(parts)
    line = f"{change.change} {before}{change.file}".rstrip() + (f": {details}" if details else "")
    return safe(line).replace("\n", "·")
