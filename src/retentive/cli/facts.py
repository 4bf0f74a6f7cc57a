"""Commands for facts that change: retire a memory, restore it, show its history, and delete what has expired."""

from __future__ import annotations

from typing import Annotated

import typer

from retentive.cli.ids import resolve_id
from retentive.cli.options import common, emit, shown_ids
from retentive.models import Memory

Id = Annotated[str, typer.Argument(help="Id of the memory, or its first characters.")]
Reason = Annotated[str | None, typer.Option(help="Why, in a few words.")]
Actor = Annotated[str | None, typer.Option(help="Who decided it.")]


def supersede(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(help="Id of the memory that is replaced, or its first characters.")],
    new: Annotated[str, typer.Argument(help="Id of the memory that replaces it, or its first characters.")],
    reason: Reason = None,
    actor: Actor = None,
) -> None:
    """Retire a memory because another one replaces it. Recalls leave it out; restore undoes it."""
    with common(ctx).engine() as engine:
        old, new = resolve_id(engine, old), resolve_id(engine, new)
        memory = engine.supersede(old, new, reason=reason, actor=actor)
        shown = shown_ids(engine, [old, new])
    _emit(ctx, memory, f"{shown[old]} is replaced by {shown[new]}")


def retract(
    ctx: typer.Context,
    id: Id,
    at: Annotated[str | None, typer.Option(help="Since when it is no longer true; now by default.")] = None,
    reason: Reason = None,
    actor: Actor = None,
) -> None:
    """Retire a memory that is no longer true. Recalls leave it out; restore undoes it."""
    with common(ctx).engine() as engine:
        memory = engine.retract(resolve_id(engine, id), at=at, reason=reason, actor=actor)
        shown, now = shown_ids(engine, [memory.id]), engine.now()
    later = memory.valid_to is not None and memory.valid_to > now
    _emit(ctx, memory, f"{shown[memory.id]} is {f'valid until {memory.valid_to:%Y-%m-%d}' if later else 'retired'}")


def restore(ctx: typer.Context, id: Id) -> None:
    """Undo that a memory was retired."""
    with common(ctx).engine() as engine:
        memory = engine.restore(resolve_id(engine, id))
        shown = shown_ids(engine, [memory.id])
    until = "current" if memory.valid_to is None else f"valid until {memory.valid_to:%Y-%m-%d}"
    _emit(ctx, memory, f"{shown[memory.id]} is {until}")


def history(ctx: typer.Context, id: Id) -> None:
    """Show what a memory has replaced, and what has replaced it, oldest first."""
    with common(ctx).engine() as engine:
        whole = resolve_id(engine, id)
        found = engine.history(whole)
        ids = shown_ids(engine, (memory.id for memory in found))
    emit(ctx, {"memories": [memory.to_dict() for memory in found]}, lambda show: show.history(found, whole, ids))


def sweep(ctx: typer.Context) -> None:
    """Delete the memories of the profile that have expired, for good."""
    with common(ctx).engine() as engine:
        count = engine.sweep(profile=engine.settings.profile)
    emit(ctx, {"swept": count}, f"{count:,} expired {'memory' if count == 1 else 'memories'} deleted")


def _emit(ctx: typer.Context, memory: Memory, text: str) -> None:
    emit(ctx, {**memory.to_dict(), "version": memory.version}, text)
