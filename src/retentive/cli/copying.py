"""The command that copies a store to another one and verifies the copy."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.options import EXIT_CODES, common, emit
from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import counted
from retentive.settings import load_settings, public_address
from retentive.stores import open_store

if TYPE_CHECKING:
    from retentive.stores.base import Store
    from retentive.transfer.copying import CopyOptions, CopyResult, Verification

_LISTED = 20
_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="Path or address of the store to copy.")],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="Path or address of the copy; created if it does not exist.")
    ],
    into: Annotated[bool, typer.Option("--into", help="Add to a store that already has other memories.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the two stores without copying.")] = False,
    without_vectors: Annotated[
        bool, typer.Option("--without-vectors", help="Do not copy vectors; retentive reembed creates them.")
    ] = False,
    with_tokens: Annotated[
        bool, typer.Option("--with-tokens", help="Copy API tokens, so that they also give access to TO.")
    ] = False,
) -> None:
    """Copy a store to another one, and verify that the two are equal.

    Ids, times, sessions, use, vectors, judgements and settings are copied. FROM is only read. An interrupted copy
    continues when it is run again.
    """
    from retentive.transfer.copying import CopyOptions

    if _canonical(source) == _canonical(target):
        raise Invalid("FROM and TO are the same store; give another one to copy to")
    options = CopyOptions(into, not without_vectors, with_tokens)
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
        closing(_open(source, "FROM", busy_seconds=busy_seconds, create=False)) as ours,
        closing(_open(target, "TO", busy_seconds=busy_seconds, create=copies)) as theirs,
    ):
        if copies:
            with progress("copying", total=ours.stats().memories) as advance:
                copied = copy_store(ours, theirs, name=display_address(source), options=options, progress=advance)
        with progress("verifying", total=ours.stats().memories + theirs.stats().memories) as advance:
            verified = verify_stores(ours, theirs, options=options, progress=advance)
        if copied is not None and (options.into or verified.agrees):
            finish_copy(theirs)
    return copied, verified


def _open(address: str, name: str, *, busy_seconds: float, create: bool) -> Store:
    """Open a store; if it does not exist, the message names the argument that it is."""
    try:
        return open_store(address, busy_seconds=busy_seconds, create=create)
    except NotFound:
        raise NotFound(f"{name}: there is no store at {display_address(address)}") from None


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
        show.print_line("the two stores do not agree")
        if copied:
            show.print_line(
                "Run it again to copy what was added meanwhile. If something was changed or forgotten meanwhile, "
                "copy to a new store while nothing uses FROM.",
                style="dim",
            )


def _shorten(figure: str) -> str:
    """The first digits of a checksum; other figures unchanged."""
    return f"{figure[:12]}…" if len(figure) == 32 and " " not in figure else figure


def _copy_lines(copied: CopyResult) -> list[str]:
    counts = (counted(copied.judgements, "judgement"), counted(copied.settings, "setting"))
    lines = [f"{counted(copied.memories, 'memory')}, {', '.join(counts)} copied"]
    if copied.existing:
        lines.append(f"{counted(copied.existing, 'memory')} existed in TO")
    if copied.target_kept:
        lines.append(f"{copied.target_kept:,} settings or judgements of TO were not replaced")
    if copied.tokens:
        lines.append(f"{counted(copied.tokens, 'token')} copied")
    if copied.tokens_skipped:
        lines.append(f"{counted(copied.tokens_skipped, 'token')} not copied; --with-tokens copies them")
    return lines
