"""Commands of the review queue: what may have replaced what, to confirm or to dismiss."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from retentive.cli.help import command, group
from retentive.cli.ids import LEAST
from retentive.cli.options import common, emit, fits_terminal, shown_ids
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.pipeline.review import STATUSES
from retentive.pipeline.short_ids import SHORTEST

review = group("Confirm or dismiss what may have replaced what.", "retentive review", "retentive review --propose")

Id = Annotated[str, typer.Argument(help="Id of the suggestion, or its first characters.")]


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
    emit(ctx, value, lambda show: show.reviews(found, _shown(one.suggestion.id for one in found), status))


def _shown(ids: Iterable[str]) -> dict[str, str]:
    """How the ids of suggestions are shown: in a terminal by their first characters. They are random."""
    return {id: id[:SHORTEST] if fits_terminal() else id for id in ids}


def _resolve(engine: Engine, word: str) -> str:
    """Return the id of the one suggestion that starts with a word, or the word itself if there is none."""
    ids = {one.suggestion.id for status in STATUSES for one in engine.reviews.list(status=status)}
    found = [id for id in ids if id.startswith(word.lower())]
    if len(found) > 1 and len(word) >= LEAST:
        raise Invalid(f"several suggestions start with {word}: {', '.join(sorted(found))}")
    return found[0] if len(found) == 1 and len(word) >= LEAST else word


@command(review, "retentive review confirm 3f2a")
def confirm(
    ctx: typer.Context, id: Id, actor: Annotated[str | None, typer.Option(help="Who decided it.")] = None
) -> None:
    """Replace the old memory by the new one; undo restores it."""
    with common(ctx).engine() as engine:
        done = engine.reviews.confirm(_resolve(engine, id), actor=actor)
        shown = shown_ids(engine, [done.old, done.new])
    emit(ctx, done.to_dict(), f"{shown[done.old]} is replaced by {shown[done.new]}")


@command(review, "retentive review dismiss 3f2a")
def dismiss(ctx: typer.Context, id: Id) -> None:
    """Keep both memories."""
    with common(ctx).engine() as engine:
        done = engine.reviews.dismiss(_resolve(engine, id))
    emit(ctx, done.to_dict(), "both memories are kept")


@command(review, "retentive review undo 3f2a")
def undo(ctx: typer.Context, id: Id) -> None:
    """Undo that a suggestion was confirmed or dismissed."""
    with common(ctx).engine() as engine:
        done = engine.reviews.undo(_resolve(engine, id))
    emit(ctx, done.to_dict(), "the suggestion is open again")
