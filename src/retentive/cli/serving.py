"""Commands that let others in: serve, and the tokens for it."""

from __future__ import annotations

import shlex
import sys
import threading
from pathlib import Path
from shutil import which
from typing import Annotated, Any, cast

import typer
from pydantic import ValidationError

from retentive.cli.options import common, emit
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.pipeline.access_tokens import Access
from retentive.settings import ServerSettings, Settings


def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="The address to listen on; off this machine every request needs a token.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="The port; 0 takes a free one.")] = None,
    samples: Annotated[bool, typer.Option("--samples", help="Load the sample memories into an empty store.")] = False,
    open: Annotated[bool, typer.Option("--open", help="Open the playground in the browser.")] = False,
) -> None:
    """Serve the store over HTTP and MCP, on this machine unless another host is named. Ctrl-C ends it."""
    import webbrowser

    from retentive.server.run import serve as run  # isort: skip
    from retentive.server.http.auth import needs_token

    with common(ctx).engine() as engine:
        settings = _chosen(engine.settings, host=host, port=port)
        loaded = _load_samples(engine) if samples else 0

        def started(address: str) -> None:
            _introduce(engine, settings, address, loaded=loaded)
            _suggest(address, token=needs_token(settings.server), store=common(ctx).shown_store)
            if open:
                threading.Thread(target=webbrowser.open, args=(f"{address}/",), daemon=True).start()

        run(engine, settings, started=started)


def _chosen(settings: Settings, **given: Any) -> Settings:
    named = {name: value for name, value in given.items() if value is not None}
    try:
        server = ServerSettings.model_validate({**settings.server.model_dump(), **named})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"--{first['loc'][0]}: {first['msg'].lower()}") from None
    return settings.model_copy(update={"server": server})


def _load_samples(engine: Engine) -> int:
    from retentive.transfer.samples import load_samples

    return len(load_samples(engine)) if engine.stats().memories == 0 else 0


def _introduce(engine: Engine, settings: Settings, address: str, *, loaded: int) -> None:
    """Say what is served where, and to whom."""
    samples = f" ({loaded} samples loaded)" if loaded else ""
    lines = {
        "playground": f"{address}/",
        "API": f"{address}/docs",
        "MCP": f"{address}/mcp",
        "store": f"{engine.settings.public_store}, {engine.stats().memories:,} memories{samples}",
        "embedder": engine.settings.embedder.name,
    }
    _say(f"Retentive serves {address}; Ctrl-C ends it", bold=True)
    for name, value in lines.items():
        _say(f"  {name:<11}", dim=True, nl=False)
        _say(value)
    for line in _who_may(settings.server):
        _say(f"  {line}", fg="yellow")


def _who_may(server: ServerSettings) -> list[str]:
    """What must be known off this machine: the tokens, and the names by which the service may be asked for."""
    from retentive.server.http.auth import LOOPBACK, needs_token

    lines = []
    if needs_token(server):
        lines.append("Every request needs a token, as 'Authorization: Bearer …'; see: retentive token list")
    if server.host not in LOOPBACK and not server.hosts:
        lines.append("Name the hosts by which others ask for it, as in RETENTIVE_SERVER_HOSTS=nas.local,192.168.1.5")
    return lines


def _suggest(address: str, *, token: bool, store: str | None) -> None:
    """Lines that can be copied as they stand."""
    json = (" -H 'Authorization: Bearer …'" if token else "") + " -H 'Content-Type: application/json' -d"
    program = "retentive" if which("retentive") else sys.argv[0]
    named = ["--store", str(Path(store).resolve())] if store and "://" not in store else []
    _say("Try:", bold=True)
    _say(f'  curl {address}/v1/recall{json} \'{{"query": "what does the cat eat?", "limit": 3}}\'')
    _say(f"  curl -X PATCH {address}/settings{json} '{{\"keywordWeight\": 1.0}}'")
    _say("  " + shlex.join([program, *named, "mcp", "config", "--client", "claude-code"]))


def _say(text: str, **style: Any) -> None:
    typer.secho(text, err=True, **style)


token = typer.Typer(help="Make, list and take back the tokens with which others come in.", no_args_is_help=True)


@token.command()
def create(
    ctx: typer.Context,
    scope: Annotated[str, typer.Option(help="What it allows: read, write (and read) or admin (and all).")] = "read",
    note: Annotated[str, typer.Option(help="What it is for.")] = "",
) -> None:
    """Make a token for the profile, and show it once: the store keeps only a hash of it."""
    with common(ctx).engine() as engine:
        made, secret = engine.tokens.create(access=cast("Access", scope), note=note)

    def show_it() -> None:
        typer.echo(secret)
        _say(f"token {made.id}: may {made.access} in profile '{made.profile}'. It is not shown again.", dim=True)

    emit(ctx, {"token": secret, **_plain(made.to_dict())}, show_it)


@token.command(name="list")
def list_tokens(ctx: typer.Context) -> None:
    """List the tokens, without their secrets."""
    with common(ctx).engine() as engine:
        found = engine.tokens.list()

    def show_it() -> None:
        from retentive.cli import show

        show.tokens(found)

    emit(ctx, [_plain(one.to_dict()) for one in found], show_it)


@token.command()
def revoke(ctx: typer.Context, id: Annotated[str, typer.Argument(help="The token's id, from the list.")]) -> None:
    """Take a token back: from now on nobody comes in with it."""
    with common(ctx).engine() as engine:
        gone = engine.tokens.revoke(id)
    emit(ctx, {"revoked": gone.id}, lambda: typer.echo(f"token {gone.id} was taken back"))


def _plain(token: dict[str, Any]) -> dict[str, Any]:
    """A token by the command line's own word for what it allows."""
    access = token.pop("access")
    return {**token, "scope": access}
