"""The program: common options, and the commands of every room."""

from __future__ import annotations

from typing import Annotated

import typer

import retentive
from retentive.cli import (
    catalogue,
    copying,
    evaluating,
    importing,
    judging,
    memories,
    recalling,
    serving,
    tuning,
    upkeep,
    watching,
)
from retentive.cli.mcp import mcp
from retentive.cli.options import Commands, Common

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Memory for AI agents: found by meaning and by words at once, fused, explained, tunable.",
    epilog="--store, --profile, --embedder, --config and --json may stand before or behind any command.",
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"retentive {retentive.__version__}")
        raise typer.Exit


@app.callback()
def options(
    ctx: typer.Context,
    store: Annotated[
        str | None, typer.Option(help="The store's file, or postgresql://…", envvar="RETENTIVE_STORE")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Whose memories.", envvar="RETENTIVE_PROFILE")] = None,
    embedder: Annotated[
        str | None,
        typer.Option(help="bge-small, local:DIRECTORY, fastembed:MODEL, an http(s) address, or none."),
    ] = None,
    config: Annotated[str | None, typer.Option(help="A TOML file with settings.", envvar="RETENTIVE_CONFIG")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    del version  # its callback has done the work
    ctx.obj = Common(store, profile, embedder, config, json)


app.command()(memories.remember)
app.command()(recalling.recall)
app.command()(recalling.explain)
app.command()(memories.get)
app.command(name="list")(memories.list_memories)
app.command()(memories.update)
app.command()(memories.forget)
app.command(name="import")(importing.import_memories)
app.command()(importing.export)
app.add_typer(importing.imports, name="imports")
app.add_typer(catalogue.sessions, name="sessions")
app.command()(catalogue.projects)
app.command()(upkeep.status)
app.command()(upkeep.doctor)
app.command()(upkeep.reembed)
app.command()(copying.copy)
app.add_typer(upkeep.config, name="config")
app.command()(recalling.samples)
app.command(name="eval")(evaluating.evaluate_set)
app.command()(judging.judge)
app.command()(tuning.tune)
app.command()(watching.watch)
app.add_typer(mcp, name="mcp")
app.command()(serving.serve)
app.add_typer(serving.token, name="token")
