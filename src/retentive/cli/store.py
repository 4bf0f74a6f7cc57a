"""Commands that maintain a store: status, doctor, compact, recover, reembed, copy, config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.options import EXIT_CODES, common, emit, parse_parameters, warn, with_store
from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import snippet
from retentive.ranking import Tuning
from retentive.settings import find_config, load_settings, public_address
from retentive.stores import open_store

if TYPE_CHECKING:
    from retentive.transfer.copying import CopyOptions, CopyResult, SearchSimilarity, Verification

_LISTED = 20
_EXACT = ("", "sqlite", "memory")
_SAME_SCORES = (*_EXACT, "postgres", "postgresql")
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}


def status(ctx: typer.Context) -> None:
    """Show statistics of the store and whether the semantic retriever works."""
    with common(ctx).engine() as engine:
        stats = engine.stats()
        problem = engine.embeddings.problem()
        problem = problem and with_store(problem)
        store = engine.settings.public_store
    value = {"store": store, **stats.to_dict(), "embedding_problem": problem}
    emit(ctx, value, lambda show: show.status(store, stats, problem))


def doctor(
    ctx: typer.Context,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="First rebuild every index from the texts, set aside what cannot be read, and embed again."
        ),
    ] = False,
) -> None:
    """Check that every text can be read and is the one that was stored, that indexes agree, that the embedder works."""
    from retentive.cli.show import progress

    repaired = None
    with common(ctx).engine() as engine:
        if repair:
            with progress("repairing", total=0) as advance:
                repaired = engine.repair(progress=advance)
            if repaired.stale_vectors:
                warn(f"{repaired.stale_vectors} memories had a vector of another text and were embedded again")
        aside = engine.store.set_aside()
        problem = engine.embeddings.problem()
        missing = engine.stats().unembedded
        checks: dict[str, Sequence[str]] = {
            "store": engine.check(),
            "embedder": [problem] if problem else [],
            "vectors": [f"{missing} memories have no vector; run: retentive reembed"] if missing else [],
        }
        checks = {part: [with_store(problem) for problem in problems] for part, problems in checks.items()}
        relevance = engine.calibrations.describe(None if problem else engine.stats().model)
        advice = engine.embeddings.language_advice([memory.text for memory in engine.list(limit=100).memories])
    healthy = not any(checks.values())
    value = {
        "healthy": healthy,
        "checks": checks,
        "repaired": repaired and repaired.to_dict(),
        "set_aside": [one.to_dict() for one in aside],
        "relevance": relevance.to_dict(),
        "advice": [advice] if advice else [],
    }

    def print_all(show: ModuleType) -> None:
        if repaired:
            show.print_line(
                f"{repaired.memories:,} memories indexed, {len(repaired.changed):,} with a changed text, "
                f"{len(repaired.set_aside):,} set aside, {repaired.vectors_removed:,} stray vectors removed"
            )
        show.checks(checks)
        show.print_line(f"relevance: {relevance.sentence}")
        if advice:
            show.print_line(f"advice: {advice}")
        for one in aside:
            show.print_line(f"set aside: {one.id}: {one.reason}: {snippet(one.text, 60)}")

    emit(ctx, value, print_all)
    if not healthy:
        raise typer.Exit(1)


def recover(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Damaged SQLite file of a store. It is only read.")],
    output: Annotated[
        Path | None, typer.Option(help="File of the new store; FILE with -recovered in its name by default.")
    ] = None,
) -> None:
    """Save what can be read of a damaged file, even one that cannot be opened, into a new store.

    Vectors are not saved; retentive reembed creates them. The exit code is 1 if something could not be read.
    """
    from retentive.cli import show
    from retentive.stores.sqlite.recovery import recover as recover_file

    if not file.is_file():
        raise NotFound(f"there is no file {file}")
    new = output or file.with_name(f"{file.stem}-recovered{file.suffix or '.db'}")
    if new.exists():
        raise Conflict(f"{new} already exists; name another file with --output")
    with closing(open_store(str(new))) as store, show.progress("recovering", total=0) as advance:
        done = recover_file(file, store, progress=advance)

    def print_all(_: ModuleType) -> None:
        show.print_line(
            f"{done.memories:,} memories, {done.judgements:,} judgements and {done.settings:,} settings saved in {new}"
        )
        if done.changed:
            show.print_line(f"{len(done.changed):,} of them may not have their original text; --json lists them")
        for one in done.lost[:_LISTED]:
            show.print_line(f"  lost: {one.id}: {one.reason}", style="red")
        if done.damaged_rows:
            show.print_line(f"{done.damaged_rows:,} rows of any table could not be read", style="red")
        show.print_line(f"create its vectors with: retentive reembed --store {new}")

    emit(ctx, {"file": str(file), "store": str(new), **done.to_dict()}, print_all)
    if done.lost or done.damaged_rows:
        raise typer.Exit(1)


def compact(ctx: typer.Context) -> None:
    """Return the space of forgotten memories to the file system. Others can read and write meanwhile.

    The first time on a store of an earlier version it rewrites the file, and other writers wait until that is done.
    """
    from retentive.cli.show import progress

    with common(ctx).engine() as engine, progress("compacting", total=None) as advance:
        done = engine.compact(progress=advance)
    gained = done.bytes_before - done.bytes_after
    text = f"{_megabytes(done.bytes_before)} before, {_megabytes(done.bytes_after)} after: {_megabytes(gained)} gained"
    lines = [text] if done.bytes_before else []
    emit(ctx, {**done.to_dict(), "gained": gained}, "\n".join([*lines, *filter(None, [done.note])]))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


def reembed(ctx: typer.Context) -> None:
    """Embed every memory with the current model. It can be interrupted and continues where it stopped."""
    from retentive.cli.show import progress

    with common(ctx).engine() as engine:
        embedder = engine.embeddings.embedder()
        total = engine.embeddings.count_missing() if embedder else 0
        with progress("re-embedding", total=total) as advance:
            refused: list[str] = []
            count = engine.embeddings.reembed(progress=advance, refused=refused.append)
    lines = [f"{count} memories embedded", *(f"the embedder refuses the text of {id}" for id in refused)]
    emit(ctx, {"embedded": count, "refused": refused}, "\n".join(lines))


# copy


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="Path or address of the store to copy.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Path or address of the copy; created if it does not exist.")
    ],
    into: Annotated[bool, typer.Option("--into", help="Add to a store that already has other memories.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Update an earlier copy of FROM; delete what FROM no longer has.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the two stores without copying.")] = False,
    without_vectors: Annotated[
        bool, typer.Option("--without-vectors", help="Do not copy vectors; retentive reembed creates them.")
    ] = False,
    with_tokens: Annotated[
        bool, typer.Option("--with-tokens", help="Copy API tokens, so that they also give access to TO.")
    ] = False,
    sample: Annotated[int, typer.Option(min=0, max=1000, help="Number of recalls to compare at the end.")] = 20,
) -> None:
    """Copy a store to another one, and verify that the two are equal.

    Ids, times, sessions, use, vectors, judgements and settings are copied. FROM is only read. An interrupted copy
    continues where it stopped when it is run again.
    """
    from retentive.transfer.copying import CopyOptions

    if _canonical(source) == _canonical(target):
        raise Invalid("FROM and TO are the same store; give another one to copy to")
    options = CopyOptions(into, again, not without_vectors, with_tokens, sample)
    seconds = load_settings(config=common(ctx).config).busy_seconds
    copied, verified = _copy(source, target, options, copies=not verify, busy_seconds=seconds)
    value = {
        "from": display_address(source),
        "to": display_address(target),
        "copied": copied and copied.to_dict(),
        "agrees": verified.agrees,
        **verified.to_dict(),
    }
    emit(ctx, value, lambda _: _print_copy(value, copied, verified))
    if copied and copied.conflicts:
        raise typer.Exit(EXIT_CODES[Conflict])
    if not verified.agrees or (copied and copied.damaged):
        raise typer.Exit(1)


def _copy(
    source: str, target: str, options: CopyOptions, *, copies: bool, busy_seconds: float
) -> tuple[CopyResult | None, Verification]:
    """Copy a store unless `copies` is False, and compare the two."""
    from retentive.cli.show import progress
    from retentive.transfer.copying import copy_store, finish_copy, verify_stores

    copied = None
    with (
        closing(open_store(source, busy_seconds=busy_seconds, create=False)) as ours,
        closing(open_store(target, busy_seconds=busy_seconds, create=copies)) as theirs,
    ):
        if copies:
            with progress("copying", total=ours.stats().memories) as advance:
                copied = copy_store(ours, theirs, name=display_address(source), options=options, progress=advance)
        with progress("verifying", total=ours.stats().memories + theirs.stats().memories) as advance:
            similarity = _similarity(source, target)
            verified = verify_stores(
                ours, theirs, options=options, now=datetime.now(UTC), similarity=similarity, progress=advance
            )
        if copied is not None:
            # A store with other memories is no copy, so a later run has nothing to continue.
            complete = options.into or (verified.agrees and not copied.conflicts)
            finish_copy(theirs, complete=complete, copy=not options.into, now=datetime.now(UTC))
    return copied, verified


def _file(address: str) -> Path | None:
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def _canonical(address: str) -> str:
    """An address in canonical form: two of the same file are equal."""
    file = _file(address)
    return address if file is None else str(file.resolve())


def display_address(address: str) -> str:
    """An address without passwords and keys."""
    return _canonical(address) if _file(address) is not None else public_address(address)


def _similarity(source: str, target: str) -> SearchSimilarity:
    kinds = {address.partition("://")[0] if "://" in address else "" for address in (source, target)}
    if kinds <= set(_EXACT):
        return "identical"
    return "same-scores" if kinds <= set(_SAME_SCORES) else "different"


def _print_copy(value: dict[str, Any], copied: CopyResult | None, verified: Verification) -> None:
    from retentive.cli import show

    if copied:
        show.print_line(f"{value['from']} → {value['to']}")
        for line in _copy_lines(copied):
            show.print_line(line)
        for damage in copied.damaged[:_LISTED]:
            show.print_line(f"  left out: {damage.id}: {damage.reason}", style="red")
        for id in copied.conflicts[:_LISTED]:
            show.print_line(f"  conflict: {id} has other contents in TO", style="red")
        if len(copied.conflicts) > _LISTED:
            show.print_line(f"  … and {len(copied.conflicts) - _LISTED:,} more; --json lists all", style="red")
    for check in verified.checks:
        mark, style = _MARKS[check.agrees]
        figures = " | ".join(dict.fromkeys(_shorten(figure) for figure in (check.source, check.target)))
        show.print_line(f"{mark} {check.name:<10}  {figures}", style=style)
        show.print_line(f"              {check.note}", style="dim")
    if verified.agrees and not (copied and copied.conflicts):
        show.print_line("the two stores agree")
    else:
        hint = " Run it again to copy what was added meanwhile." if copied else ""
        show.print_line(f"the two stores do not agree.{hint}")


def _shorten(figure: str) -> str:
    """The first digits of a checksum; other figures unchanged."""
    return f"{figure[:12]}…" if len(figure) == 32 and " " not in figure else figure


def _copy_lines(copied: CopyResult) -> list[str]:
    before = f" after {copied.resumed:,} of an earlier run" if copied.resumed else ""
    lines = [
        f"{copied.memories:,} memories{before}, {copied.judgements:,} judgements, {copied.settings:,} settings copied",
    ]
    if copied.changed or copied.forgotten:
        lines.append(f"{copied.changed:,} changed, {copied.forgotten:,} forgotten")
    if copied.existing:
        lines.append(f"{copied.existing:,} memories existed in TO")
    if copied.target_kept:
        lines.append(f"{copied.target_kept:,} settings or judgements of TO were not replaced")
    if copied.tokens:
        lines.append(f"{copied.tokens:,} tokens copied")
    if copied.tokens_skipped:
        lines.append(f"{copied.tokens_skipped:,} tokens not copied; --with-tokens copies them")
    return lines


# config

config = typer.Typer(
    help="Show the settings in effect, or save tuning parameters in the store.", invoke_without_command=True
)


@config.callback()
def show_config(ctx: typer.Context) -> None:
    """Show the settings in effect, or save tuning parameters in the store."""
    if not ctx.invoked_subcommand:
        with common(ctx).engine(missing="empty") as engine:
            _emit_config(ctx, engine)


@config.command(name="set")
def set_parameters(
    ctx: typer.Context,
    parameters: Annotated[
        list[str] | None, typer.Argument(help="Parameters to save, such as keyword_weight=1.0.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Save every parameter of a preset first.")] = None,
) -> None:
    """Save tuning parameters in the store, for every process that uses it."""
    if not parameters and not preset:
        raise Invalid("give at least one parameter=value, or --preset")
    chosen = {} if preset is None else {"preset": preset}
    with common(ctx).engine(missing="create") as engine:
        engine.tuning.save({**chosen, **parse_parameters(parameters)})
        _emit_config(ctx, engine)


@config.command()
def reset(
    ctx: typer.Context,
    parameters: Annotated[list[str] | None, typer.Argument(help="Parameters to reset; all by default.")] = None,
) -> None:
    """Reset saved tuning parameters to their defaults."""
    with common(ctx).engine() as engine:
        names = [name.replace("-", "_") for name in parameters] if parameters else list(engine.tuning.saved())
        engine.tuning.save(dict.fromkeys(names))
        _emit_config(ctx, engine)


def _emit_config(ctx: typer.Context, engine: Engine) -> None:
    file = find_config(os.environ, common(ctx).config)
    value = {
        "store": engine.settings.public_store,
        "config_file": str(file) if file else None,
        "embedder": engine.settings.embedder.name,
        "saved": engine.tuning.saved(),
        "tuning": engine.tuning.current().model_dump(),
    }
    emit(ctx, value, lambda show: show.config(value, Tuning))
