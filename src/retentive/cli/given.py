"""The command that shows what agents were given."""

from __future__ import annotations

from typing import Annotated

import typer

from retentive.cli.options import Project, common, emit
from retentive.pipeline.given import MAX_ENTRIES


def given(
    ctx: typer.Context,
    project: Project = None,
    client: Annotated[str | None, typer.Option(help="Only this client, such as claude-code, chat or mcp.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_ENTRIES, help="The latest prompts, at most so many.")] = 20,
) -> None:
    """Show what agents were given: the memories that each prompt got, with their relevance."""
    with common(ctx).engine() as engine:
        found = engine.given.list(project=project, client=client, limit=limit)
    emit(ctx, {"given": [one.to_dict() for one in found]}, lambda show: show.given(found))
