"""Commands for sessions and projects."""

from __future__ import annotations

from typing import Annotated

import typer

from retentive.cli.memories import Project
from retentive.cli.options import common, emit
from retentive.errors import Invalid

sessions = typer.Typer(help="List sessions, or move one to another project.", invoke_without_command=True)


@sessions.callback()
def list_sessions(ctx: typer.Context, project: Project = None) -> None:
    """List sessions, or move one to another project."""
    if ctx.invoked_subcommand:
        return
    with common(ctx).engine() as engine:
        found = engine.sessions(project=project)

    def show_it() -> None:
        from retentive.cli import show

        show.sessions(found)

    emit(ctx, {"sessions": [session.to_dict() for session in found]}, show_it)


@sessions.command()
def move(
    ctx: typer.Context,
    session: Annotated[str, typer.Argument(help="The session to move.")],
    project: Annotated[str | None, typer.Option(help="Its new project.")] = None,
    no_project: Annotated[bool, typer.Option("--no-project", help="Take it out of its project.")] = False,
) -> None:
    """Move a session with all its memories to another project, or out of it."""
    if (project is None) is not no_project:
        raise Invalid("say where to: --project NAME or --no-project")
    with common(ctx).engine() as engine:
        moved = engine.move_session(session, project=project)
    where = f"to project '{moved.project}'" if moved.project else "out of its project"
    emit(ctx, moved.to_dict(), lambda: typer.echo(f"moved {moved.memories} memories {where}"))


def projects(ctx: typer.Context) -> None:
    """List projects."""
    with common(ctx).engine() as engine:
        found = engine.projects()

    def show_it() -> None:
        from retentive.cli import show

        show.projects(found)

    emit(ctx, {"projects": [project.to_dict() for project in found]}, show_it)
