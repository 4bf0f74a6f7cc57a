"""The command that takes a store elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from retentive.cli.options import EXIT_CODES, common, emit
from retentive.errors import Conflict, Invalid, NotFound
from retentive.settings import load_settings, public_address
from retentive.stores import open_store
from retentive.stores.base import Store
from retentive.transfer.copying import (
    CopyOptions,
    CopyResult,
    SearchSimilarity,
    Verification,
    copy_store,
    finish_copy,
    verify_stores,
)

_LISTED = 20
_EXACT = ("", "sqlite", "memory")
_SAME_SCORES = (*_EXACT, "postgres", "postgresql")

_MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("–", "dim")}


def copy(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The store to copy: a file or an address.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="The store to copy into; made if it is not there.")],
    into: Annotated[bool, typer.Option("--into", help="Add to what TO holds already.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Bring an earlier copy of FROM up to date, forgetting what FROM has not.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Copy nothing, only compare the two stores.")] = False,
    without_vectors: Annotated[
        bool, typer.Option("--without-vectors", help="Leave vectors behind; retentive reembed makes them anew.")
    ] = False,
    with_tokens: Annotated[
        bool, typer.Option("--with-tokens", help="Let those who may come into FROM come into TO.")
    ] = False,
    sample: Annotated[int, typer.Option(min=0, max=1000, help="How many recalls are compared at the end.")] = 20,
) -> None:
    """Copy everything in one store to another one, and verify that the two agree.

    Ids, times, places, use, vectors, judgements and settings go along. FROM is only read. Broken off, it goes on where
    it stopped when it is run again.
    """
    if _plain(source) == _plain(target):
        raise Invalid("FROM and TO are the same store; name another one to copy into")
    options = CopyOptions(into, again, not without_vectors, with_tokens, sample)
    copied, seconds = None, load_settings(config=common(ctx).config).busy_seconds
    with closing(_existing(source, seconds)) as ours, closing(_opened(target, seconds, must_exist=verify)) as theirs:
        if not verify:
            copied = _copied(ours, theirs, shown(source), options)
        verified = _verified(ours, theirs, options, similarity=_similarity(source, target))
        if copied is not None:
            # What was added to others' memories is no copy, so there is nothing to go on with.
            complete = into or (verified.agrees and not copied.conflicts)
            finish_copy(theirs, complete=complete, copy=not into, now=datetime.now(UTC))
    value = {
        "from": shown(source),
        "to": shown(target),
        "copied": copied and copied.to_dict(),
        "agrees": verified.agrees,
        **verified.to_dict(),
    }
    emit(ctx, value, lambda: _show(value, copied, verified))
    if copied and copied.conflicts:
        raise typer.Exit(EXIT_CODES[Conflict])
    if not verified.agrees:
        raise typer.Exit(1)


def _copied(ours: Store, theirs: Store, named: str, options: CopyOptions) -> CopyResult:
    from retentive.cli.show import progress

    with progress("copying", total=ours.stats().memories) as advance:
        return copy_store(ours, theirs, name=named, options=options, progress=advance)


def _verified(ours: Store, theirs: Store, options: CopyOptions, *, similarity: SearchSimilarity) -> Verification:
    from retentive.cli.show import progress

    with progress("verifying", total=ours.stats().memories + theirs.stats().memories) as advance:
        return verify_stores(
            ours, theirs, options=options, now=datetime.now(UTC), similarity=similarity, progress=advance
        )


def _existing(address: str, seconds: float) -> Store:
    return _opened(address, seconds, must_exist=True)


def _opened(address: str, seconds: float, *, must_exist: bool) -> Store:
    """The store, which for one that is only read must be there: opening a file would make it."""
    file = _file(address)
    if must_exist and file is not None and not file.is_file():
        raise NotFound(f"there is no store {address}")
    return open_store(address, busy_seconds=seconds)


def _file(address: str) -> Path | None:
    scheme, separator, rest = address.partition("://")
    if not separator:
        return Path(address)
    return Path(rest.removeprefix("/")) if scheme == "sqlite" else None


def _plain(address: str) -> str:
    """The address in one way of writing it."""
    file = _file(address)
    return address if file is None else str(file.resolve())


def shown(address: str) -> str:
    """The address without passwords and keys, as it may be printed and noted."""
    return _plain(address) if _file(address) is not None else public_address(address)


def _similarity(source: str, target: str) -> SearchSimilarity:
    kinds = {address.partition("://")[0] if "://" in address else "" for address in (source, target)}
    if kinds <= set(_EXACT):
        return "identical"
    return "same-scores" if kinds <= set(_SAME_SCORES) else "different"


def _show(value: dict[str, Any], copied: CopyResult | None, verified: Verification) -> None:
    from retentive.cli import show

    if copied:
        show.print_line(f"{value['from']} → {value['to']}")
        for line in _said(copied):
            show.print_line(line)
        for id in copied.conflicts[:_LISTED]:
            show.print_line(f"  conflict: {id} is there with other contents", style="red")
        if len(copied.conflicts) > _LISTED:
            show.print_line(f"  … and {len(copied.conflicts) - _LISTED:,} more; --json lists all", style="red")
    for check in verified.checks:
        mark, style = _MARKS[check.agrees]
        figures = " | ".join(dict.fromkeys(_short(figure) for figure in (check.source, check.target)))
        show.print_line(f"{mark} {check.name:<10}  {figures}", style=style)
        show.print_line(f"              {check.note}", style="dim")
    show.print_line(*_verdict(copied, verified))


def _short(figure: str) -> str:
    """A checksum by its first digits, as people compare it."""
    return f"{figure[:12]}…" if len(figure) == 32 and " " not in figure else figure


def _verdict(copied: CopyResult | None, verified: Verification) -> Sequence[str]:
    if verified.agrees and not (copied and copied.conflicts):
        return ("the two stores agree",)
    again = " Run it again to bring what has come meanwhile." if copied else ""
    return (f"the two stores do not agree.{again}",)


def _said(copied: CopyResult) -> list[str]:
    before = f" behind {copied.resumed:,} of an earlier run" if copied.resumed else ""
    lines = [
        f"{copied.memories:,} memories{before}, {copied.judgements:,} judgements, {copied.settings:,} settings copied",
    ]
    if copied.changed or copied.forgotten:
        lines.append(f"{copied.changed:,} changed, {copied.forgotten:,} forgotten")
    if copied.existing:
        lines.append(f"{copied.existing:,} memories were there already")
    if copied.target_kept:
        lines.append(f"{copied.target_kept:,} settings or judgements of TO stayed as they are")
    if copied.tokens:
        lines.append(f"{copied.tokens:,} tokens copied")
    if copied.tokens_skipped:
        lines.append(f"{copied.tokens_skipped:,} tokens left behind; --with-tokens takes them along")
    return lines
