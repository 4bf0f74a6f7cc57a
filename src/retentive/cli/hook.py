"""Commands that connect an agent's client to the store by hooks. The client runs the hooks themselves."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from retentive.cli.help import command, group
from retentive.cli.mcp import IN_CACHE, in_cache
from retentive.cli.options import Common, common, emit
from retentive.errors import Invalid
from retentive.hooks.events import CLIENTS
from retentive.hooks.install import (
    FileChange,
    config_file,
    hook_program,
    installed_events,
    plan_install,
    plan_uninstall,
)
from retentive.hooks.main import run_hook
from retentive.hooks.options import DEADLINE_MS, SCOPES, HookOptions
from retentive.hooks.service_client import ServiceClient, ServiceError
from retentive.hooks.state import HookState
from retentive.server.runtime_file import running_service
from retentive.settings import Settings, find_config, load_settings

hook = group(
    "Recall and capture in an agent's client without being asked, by hooks that the client runs.",
    "retentive hook install claude-code",
    "retentive hook status",
    default=False,
)


class Client(StrEnum):
    """The supported clients."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    OPENCLAW = "openclaw"
    CURSOR = "cursor"


ClientArgument = Annotated[Client, typer.Argument(help="The client.")]
ClientOption = Annotated[Client, typer.Option("--client", help="The client that runs the hook.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change and write nothing.")]

OPTIONS: dict[str, tuple[Any, Any]] = {
    "url": (
        str | None,
        typer.Option(None, help="Address of the service, if it is not started with this store on this machine."),
    ),
    "project": (
        str | None,
        typer.Option(None, help="Project of all sessions. Default: the name of the client's folder."),
    ),
    "scope": (
        str,
        typer.Option("project", help="Recall from the project of the session or the whole profile: project, profile."),
    ),
    "budget": (
        int,
        typer.Option(0, min=0, help="Token budget. Default: 1500 at the start of a session, 800 at a prompt."),
    ),
    "deadline": (int, typer.Option(DEADLINE_MS, min=10, help="Milliseconds after which a hook gives nothing.")),
    "capture": (bool, typer.Option(True, "--capture/--no-capture", help="Store the turns.")),
}
"""The options of the hooks: the type and the declaration of each."""

Function = TypeVar("Function", bound=Callable[..., None])


def takes(*names: str) -> Callable[[Function], Function]:
    """Give a command some of the options of the hooks, in place of its `**options`."""

    def declare(function: Function) -> Function:
        own = [
            one
            for one in inspect.signature(function, eval_str=True).parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        shared = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=declared, annotation=type)
            for name, (type, declared) in ((name, OPTIONS[name]) for name in names)
        ]
        vars(function)["__signature__"] = inspect.Signature([*own, *shared])
        function.__annotations__ = {one.name: one.annotation for one in (*own, *shared)}
        return function

    return declare


@command(hook, "retentive hook install claude-code", "retentive hook install codex --project home --dry-run")
@takes(*OPTIONS)
def install(ctx: typer.Context, client: ClientArgument, dry_run: DryRun = False, **options: Any) -> None:
    """Add the hooks to a client's configuration, or replace those from before. Everything else in it is kept."""
    if options["scope"] not in SCOPES:
        raise Invalid(f"--scope is one of {', '.join(SCOPES)}")
    if options["url"]:
        try:
            ServiceClient(options["url"], deadline=0)
        except ServiceError as error:
            raise Invalid(f"--url: {error}") from None
    given = common(ctx)
    names = {"store": given.store, "embedder": given.embedder, "profile": given.profile}
    chosen = hook_options(client, given, load_settings(names, config=given.config), **options)
    _apply(ctx, plan_install(hook_program(), chosen), dry_run=dry_run, done=_after_install(client))


def hook_options(client: Client, given: Common, settings: Settings, **options: Any) -> HookOptions:
    """The options of a client's hooks, which select the same store from another folder and environment."""
    store = settings.store if "://" in settings.store else str(Path(settings.store).expanduser().absolute())
    file = find_config(os.environ, given.config)
    return HookOptions(
        event="",
        client=client.value,
        store=store,
        config=str(file.absolute()) if file else None,
        profile=settings.profile if settings.profile != "default" else None,
        embedder=settings.embedder.name if settings.embedder.name != "memory-small" else None,
        **options,
    )


@command(hook, "retentive hook uninstall claude-code")
def uninstall(ctx: typer.Context, client: ClientArgument, dry_run: DryRun = False) -> None:
    """Remove the hooks from a client's configuration. Memories are kept."""
    _apply(ctx, plan_uninstall(client.value), dry_run=dry_run, done="Restart the client.")


def _after_install(client: Client) -> str:
    if in_cache():
        return f"Note: {IN_CACHE}."
    if client is Client.CODEX:
        return "Start Codex and approve the hooks with /hooks. 'retentive serve' makes them fast."
    return "Restart the client. 'retentive serve' makes the hooks fast."


def _apply(ctx: typer.Context, changes: list[FileChange], *, dry_run: bool, done: str) -> None:
    changed = [change for change in changes if change.before != change.after]
    if not dry_run:
        for change in changed:
            change.apply()
    result = {"changed": [str(change.path) for change in changed], "written": not dry_run}
    if dry_run:
        text = "\n".join(change.diff() for change in changed) or "nothing would change"
    elif changed:
        text = "\n".join([*(f"changed {change.path}" for change in changed), done])
    else:
        text = "nothing to change"
    emit(ctx, {**result, **({"diff": [change.diff() for change in changed]} if dry_run else {})}, text)


@command(hook, "retentive hook status")
def status(
    ctx: typer.Context, client: Annotated[Client | None, typer.Argument(help="The client. Default: all.")] = None
) -> None:
    """Show for which clients the hooks are installed, whether the service runs, and what is not stored yet."""
    given = common(ctx)
    settings = load_settings({"store": given.store}, config=given.config)
    clients = [client.value] if client else list(CLIENTS)
    try:
        state = HookState(settings.store)
    except OSError as error:
        raise Invalid(f"the folder of the hooks cannot be used: {error}") from None
    found: dict[str, Any] = {
        "clients": [_client_status(name) for name in clients],
        "service": running_service(settings.store),
        "queued": sum(1 for _ in state.queued()),
        "log": f"{state.folder}{os.sep}hooks.log",
    }
    lines = [
        f"{one['client']:<12} {one['problem'] or ', '.join(one['events']) or 'not installed'}"
        for one in found["clients"]
    ]
    lines.append(f"{'service':<12} {found['service'] or 'does not run; start it with: retentive serve'}")
    lines.append(f"{'queued':<12} {found['queued']} messages")
    lines.append(f"{'log':<12} {found['log']}")
    emit(ctx, found, "\n".join(lines))


def _client_status(client: str) -> dict[str, Any]:
    """Return the events for which a client runs our hooks, or why its configuration cannot be read."""
    events: list[str] = []
    problem = None
    try:
        events = installed_events(client)
    except Invalid as error:
        problem = str(error)
    return {"client": client, "file": str(config_file(client)), "events": events, "problem": problem}


@command(hook, "retentive hook session-start --client claude-code", name="session-start")
@takes("url", "project", "budget", "deadline")
def session_start(ctx: typer.Context, client: ClientOption, **options: Any) -> None:
    """Print a briefing for a new session: who the user is, facts of the project, where the last session ended.

    Like all hooks it reads the client's JSON on standard input, answers in the client's form, and exits with 0.
    """
    _run(ctx, "session-start", client, options)


@command(hook, "retentive hook prompt --client claude-code")
@takes(*OPTIONS)
def prompt(ctx: typer.Context, client: ClientOption, **options: Any) -> None:
    """Print the memories that are relevant to a prompt and that the session does not have yet, or nothing."""
    _run(ctx, "prompt", client, options)


@command(hook, "retentive hook turn-end --client claude-code", name="turn-end")
@takes("url", "project", "deadline")
def turn_end(ctx: typer.Context, client: ClientOption, **options: Any) -> None:
    """Store the user's message and the answer of a turn, each once."""
    _run(ctx, "turn-end", client, options)


@command(hook, "retentive hook session-end --client claude-code", name="session-end")
@takes("url", "project", "deadline")
def session_end(ctx: typer.Context, client: ClientOption, **options: Any) -> None:
    """Store what is not stored yet."""
    _run(ctx, "session-end", client, options)


def _run(ctx: typer.Context, event: str, client: Client, options: Mapping[str, Any]) -> None:
    given = common(ctx)
    settings = load_settings({"store": given.store}, config=given.config)
    named = HookOptions(
        event=event,
        client=client.value,
        store=settings.store,
        config=given.config,
        profile=given.profile,
        embedder=given.embedder,
        **options,
    )
    run_hook([event, *named.words()])
