"""Commands that serve a store over HTTP and MCP, and manage the tokens of its clients."""

from __future__ import annotations

import shlex
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from retentive.cli.help import command, group
from retentive.cli.options import common, emit, program, styled, with_store
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.lazy_models import plain_message
from retentive.models import counted
from retentive.settings import LOOPBACK, ServerSettings, Settings


def serve(
    ctx: typer.Context,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; beyond this machine, every request needs a token.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 chooses a free one.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of processes; about one for each core.")] = None,
    samples: Annotated[
        bool, typer.Option("--samples", help="Load and serve the profile of the sample memories.")
    ] = False,
    open: Annotated[bool, typer.Option("--open", help="Open the playground in the browser.")] = False,
) -> None:
    """Serve the store over HTTP and MCP, only on this machine by default. Ctrl-C stops it."""
    import webbrowser

    from retentive.server.run import check_tokens  # isort: skip
    from retentive.server.run import serve as run
    from retentive.server.workers import check_workers, serve_with_workers

    given = common(ctx)
    if samples and given.profile is None:
        from retentive.transfer.samples import PROFILE

        given = replace(given, profile=PROFILE)
    with given.engine(missing="create") as engine:
        settings = _server_settings(engine.settings, host=host, port=port, workers=workers)
        loaded = _load_samples(engine) if samples else 0
        count = engine.stats().memories

        def started(address: str) -> None:
            _print_summary(count, settings, address, loaded=loaded)
            _print_examples(address, token=settings.server.token_reason is not None, store=given.public_store)
            if open:
                threading.Thread(target=webbrowser.open, args=(f"{address}/",), daemon=True).start()

        if settings.server.workers == 1:
            run(engine, settings, started=started)
            return
        check_workers(settings)
        check_tokens(engine, settings.server)
    # The store is closed here: each worker opens it.
    names = ("store", "vectors", "embedder", "profile", "config")
    serve_with_workers(settings, {name: getattr(given, name) for name in names}, started=started)


def _server_settings(settings: Settings, **given: Any) -> Settings:
    from pydantic import ValidationError

    named = {name: value for name, value in given.items() if value is not None}
    try:
        server = ServerSettings.model_validate({**settings.server.model_dump(), **named})
    except ValidationError as error:
        first = error.errors()[0]
        raise Invalid(f"--{first['loc'][0]}: {plain_message(first['msg'])}") from None
    return settings.model_copy(update={"server": server})


def _load_samples(engine: Engine) -> int:
    from retentive.transfer.samples import load_samples

    return len(load_samples(engine))


def _print_summary(memories: int, settings: Settings, address: str, *, loaded: int) -> None:
    """Print the addresses, the store, and what clients on other machines need."""
    samples = f" ({loaded} samples loaded)" if loaded else ""
    lines = {
        "playground": f"{address}/",
        "API": f"{address}/docs",
        "MCP": f"{address}/mcp",
        "store": f"{settings.public_store}, {counted(memories, 'memory')}{samples}",
        "embedder": settings.embedder.name,
    }
    if settings.server.workers > 1:
        lines["workers"] = str(settings.server.workers)
    _print(f"Retentive serves {address}; Ctrl-C stops it", bold=True)
    for name, value in lines.items():
        _print(f"  {name:<11}", dim=True, nl=False)
        _print(value)
    if settings.server.token_reason:
        see = with_store("see: retentive token list")
        _print(f"  Every request needs a token, as 'Authorization: Bearer …'; {see}", fg="yellow")
    if settings.server.host not in LOOPBACK and not settings.server.hosts:
        example = "RETENTIVE_SERVER_HOSTS=nas.local,192.168.1.5"
        _print(f"  Set the host names under which clients reach it, as in {example}", fg="yellow")


def _print_examples(address: str, *, token: bool, store: str | None) -> None:
    """Print commands that can be copied."""
    json = (" -H 'Authorization: Bearer …'" if token else "") + " -H 'Content-Type: application/json' -d"
    named = ["--store", str(Path(store).resolve())] if store and "://" not in store else []
    _print("Try:", bold=True)
    _print(f'  curl {address}/v1/recall{json} \'{{"query": "what does the cat eat?", "limit": 3}}\'')
    _print(f"  curl -X PATCH {address}/settings{json} '{{\"keywordWeight\": 1.0}}'")
    _print(f"  {program()} " + shlex.join([*named, "mcp", "config", "--client", "claude-code"]))


def _print(text: str, *, nl: bool = True, **style: Any) -> None:
    typer.echo(styled(text, **style), err=True, nl=nl)


token = group("Manage API tokens.", "retentive token create --access write --note laptop", default=False)


@command(token, "retentive token create --access write --note laptop")
def create(
    ctx: typer.Context,
    access: Annotated[str, typer.Option(help="read, write (includes read) or admin (includes both).")] = "read",
    note: Annotated[str, typer.Option(help="What the token is for.")] = "",
    all_profiles: Annotated[
        bool, typer.Option("--all-profiles", help="Valid for all profiles, which a request names in X-Profile.")
    ] = False,
) -> None:
    """Create a token for the profile, and print it once: the store has only its hash."""
    given: dict[str, Any] = {"access": access}
    with common(ctx).engine(missing="create") as engine:
        created, secret = engine.tokens.create(**given, note=note, all_profiles=all_profiles)

    def print_it(_: object) -> None:
        typer.echo(secret)
        where = "all profiles" if created.profile is None else f"profile '{created.profile}'"
        about = f"token {created.id}: {created.access} access to {where}"
        _print(f"{about}. It is not shown again.", dim=True)

    emit(ctx, {"token": secret, **created.to_dict()}, print_it)


@command(token, "retentive token list", name="list")
def list_tokens(ctx: typer.Context) -> None:
    """List the tokens, without their secrets."""
    with common(ctx).engine() as engine:
        found = engine.tokens.list()
    emit(ctx, [one.to_dict() for one in found], lambda show: show.tokens(found))


@command(token, "retentive token revoke 3f2a")
def revoke(ctx: typer.Context, id: Annotated[str, typer.Argument(help="Id of the token, from the list.")]) -> None:
    """Revoke a token, so that it no longer gives access."""
    with common(ctx).engine() as engine:
        revoked = engine.tokens.revoke(id)
    emit(ctx, {"revoked": revoked.id}, f"token {revoked.id} was revoked")
