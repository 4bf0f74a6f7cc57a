"""Commands of the review queue: what may have replaced what, to confirm or to dismiss."""

from __future__ import annotations

from typing import Annotated

import typer

from retentive.cli.help import command, group
from retentive.cli.options import common, emit
from retentive.models import snippet

review = group("Confirm or dismiss what may have replaced what.", "retentive review", "retentive review --propose")

Id = Annotated[str, typer.Argument(help="Id of the suggestion.")]


@review.callback()
def list_reviews(
    ctx: typer.Context,
    status: Annotated[str, typer.Option(help="open, confirmed or dismissed.")] = "open",
    propose: Annotated[
        bool, typer.Option("--propose", help="Ask the configured LLM about each; nothing is changed.")
    ] = False,
    model: Annotated[str, typer.Option(help="Model to ask, with --propose.")] = "",
) -> None:
    """List suggestions: memories that a newer one may have replaced."""
    if ctx.invoked_subcommand:
        return
    from retentive.errors import Invalid
    from retentive.pipeline.review import STATUSES

    wanted = next((known for known in STATUSES if known == status), None)
    if wanted is None:
        raise Invalid(f"status: open, confirmed or dismissed, not '{status}'")
    with common(ctx).engine() as engine:
        asked = None
        if propose:
            import asyncio

            from retentive.chat import proposals

            asked = asyncio.run(proposals.propose(engine.reviews, engine.settings.llm, model=model))
        found = engine.reviews.list(status=wanted)
    value = {"reviews": [one.to_dict() for one in found], **({"proposals": asked.to_dict()} if asked else {})}
    lines = []
    for one in found:
        lines += [
            f"{one.suggestion.id}  {one.suggestion.reason}",
            f"  old {one.old.start:%Y-%m-%d}  {snippet(one.old.indexed_text, 100)}",
            f"  new {one.new.start:%Y-%m-%d}  {snippet(one.new.indexed_text, 100)}",
            *([f"  LLM: {snippet(one.suggestion.proposal, 200)}"] if one.suggestion.proposal else []),
        ]
    emit(ctx, value, "\n".join(lines) or f"no {status} suggestions")


@command(review, "retentive review confirm 3f2a")
def confirm(
    ctx: typer.Context, id: Id, actor: Annotated[str | None, typer.Option(help="Who decided it.")] = None
) -> None:
    """Replace the old memory by the new one; undo restores it."""
    with common(ctx).engine() as engine:
        done = engine.reviews.confirm(id, actor=actor)
    emit(ctx, done.to_dict(), f"{done.old} is replaced by {done.new}")


@command(review, "retentive review dismiss 3f2a")
def dismiss(ctx: typer.Context, id: Id) -> None:
    """Keep both memories."""
    with common(ctx).engine() as engine:
        done = engine.reviews.dismiss(id)
    emit(ctx, done.to_dict(), "both memories are kept")


@command(review, "retentive review undo 3f2a")
def undo(ctx: typer.Context, id: Id) -> None:
    """Undo that a suggestion was confirmed or dismissed."""
    with common(ctx).engine() as engine:
        done = engine.reviews.undo(id)
    emit(ctx, done.to_dict(), "the suggestion is open again")
