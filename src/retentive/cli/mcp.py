"""The command that serves memory to one MCP client, and the one that prints how to tell a client of it."""

from __future__ import annotations

import json
import os
import shlex
import sys
from io import TextIOWrapper
from typing import Annotated, TextIO

import typer

from retentive.cli.mcp_clients import Client, configured, place_for
from retentive.cli.options import common
from retentive.errors import Invalid, MissingExtra
from retentive.settings import load_settings

mcp = typer.Typer(
    help="Serve memory to an MCP client over standard input and output, or print what to tell the client.",
    invoke_without_command=True,
)

Project = Annotated[str | None, typer.Option(help="This project alone; new memories go into it.")]
Session = Annotated[
    str | None,
    typer.Option(help="New memories go into this session; without a project it is also all that can be recalled."),
]
ReadOnly = Annotated[bool, typer.Option("--read-only", help="Nothing can be stored, changed or forgotten.")]


@mcp.callback()
def serve(ctx: typer.Context, project: Project = None, session: Session = None, read_only: ReadOnly = False) -> None:
    """Serve memory to an MCP client over standard input and output, until it hangs up."""
    if ctx.invoked_subcommand:
        if project or session or read_only:
            raise Invalid("put --project, --session and --read-only behind 'config'")
        return
    wire = _take_output()  # before the imports, which may print
    try:
        from retentive.server.mcp.stdio import serve_stdio
        from retentive.server.mcp.tool_scope import open_scope
    except ImportError as error:
        raise MissingExtra("the MCP server", "server") from error
    with common(ctx).engine() as engine:
        scope = open_scope(engine, project=project, session=session, read_only=read_only)
        serve_stdio(scope, wire, read_only=read_only)


def _take_output() -> TextIO:
    """The standard output for the protocol alone; for the rest of the process the old one is standard error."""
    wire = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is in the old one's buffer goes there too, whenever it is flushed
    return TextIOWrapper(wire, encoding="utf-8")


@mcp.command()
def config(
    ctx: typer.Context,
    client: Annotated[Client, typer.Option(help="Whom it is for.")],
    http: Annotated[bool, typer.Option("--http", help="Through a running 'retentive serve' instead.")] = False,
    project: Project = None,
    session: Session = None,
    read_only: ReadOnly = False,
) -> None:
    """Print what to paste into a client's settings; standard error says where it goes. --json prints JSON for all."""
    asked = common(ctx)
    settings = load_settings(
        {"store": asked.store, "embedder": asked.embedder, "profile": asked.profile}, config=asked.config
    )
    made = configured(client, asked, settings, http=http, project=project, session=session, read_only=read_only)
    if made.command and not asked.json:
        typer.echo(shlex.join(made.command) if sys.platform != "win32" else " ".join(made.command))
    else:
        typer.echo(json.dumps(made.settings, indent=2, ensure_ascii=False))
    for line in (*place_for(client, as_json=asked.json), *made.notes):
        typer.echo(line, err=True)
