"""Commands that connect an agent's client to the store by hooks. The client runs the hooks themselves."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from retentive.cli.mcp import program
from retentive.cli.options import common, emit
from retentive.errors import Invalid
from retentive.hooks.events import CLIENTS
from retentive.hooks.install import FileChange, config_file, installed_events, plan_install, plan_uninstall
from retentive.hooks.main import run_hook
from retentive.hooks.options import DEADLINE_MS, SCOPES, HookOptions
from retentive.hooks.state import HookState
from retentive.server.runtime_file import running_service
from retentive.settings import load_settings

hook = typer.Typer(
    help="Recall and capture in an agent's client without being asked, by hooks that the client runs.",
    no_args_is_help=True,
)


class Client(StrEnum):
    """The supported clients."""

    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    OPENCLAW = "openclaw"
    CURSOR = "cursor"


ClientArgument = Annotated[Client, typer.Argument(help="The client.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change and write nothing.")]
Url = Annotated[
    str | None, typer.Option(help="Address of the service, if it is not started with this store on this machine.")
]
Project = Annotated[str | None, typer.Option(help="Project of all sessions. Default: the name of the client's folder.")]
Scope = Annotated[str, typer.Option(help="Recall from the whole profile, or only from the project: profile, project.")]
Budget = Annotated[
    int, typer.Option(min=0, help="Token budget. Default: 1500 at the start of a session, 800 at a prompt.")
]
Deadline = Annotated[int, typer.Option(min=10, help="Milliseconds after which a hook gives nothing.")]
Capture = Annotated[bool, typer.Option("--capture/--no-capture", help="Store the turns.")]


@hook.command()
def install(
    ctx: typer.Context,
    client: ClientArgument,
    url: Url = None,
    project: Project = None,
    scope: Scope = "profile",
    budget: Budget = 0,
    deadline: Deadline = DEADLINE_MS,
    capture: Capture = True,
    dry_run: DryRun = False,
) -> None:
    """Add the hooks to a client's configuration, or replace those from before. Everything else in it is kept."""
    given = common(ctx)
    if scope not in SCOPES:
        raise Invalid(f"--scope is one of {', '.join(SCOPES)}")
    names = {"store": given.store, "embedder": given.embedder, "profile": given.profile}
    settings = load_settings(names, config=given.config)
    store = settings.store if "://" in settings.store else str(Path(settings.store).expanduser().absolute())
    options = HookOptions(
        event="",
        client=client.value,
        store=store,
        url=url,
        profile=settings.profile if settings.profile != "default" else None,
        embedder=settings.embedder.name if settings.embedder.name != "bge-small" else None,
        project=project,
        scope=scope,
        budget=budget,
        deadline=deadline,
        capture=capture,
    )
    _apply(ctx, plan_install(program(), options), dry_run=dry_run, done=_after_install(client))


@hook.command()
def uninstall(ctx: typer.Context, client: ClientArgument, dry_run: DryRun = False) -> None:
    """Remove the hooks from a client's configuration. Memories are kept."""
    _apply(ctx, plan_uninstall(client.value), dry_run=dry_run, done="Restart the client.")


def _after_install(client: Client) -> str:
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


@hook.command()
def status(
    ctx: typer.Context, client: Annotated[Client | None, typer.Argument(help="The client. Default: all.")] = None
) -> None:
    """Show for which clients the hooks are installed, whether the service runs, and what is not stored yet."""
    given = common(ctx)
    settings = load_settings({"store": given.store}, config=given.config)
    clients = [client.value] if client else list(CLIENTS)
    state = HookState(settings.store)
    found: dict[str, Any] = {
        "clients": [
            {"client": name, "file": str(config_file(name)), "events": installed_events(name)} for name in clients
        ],
        "service": running_service(settings.store),
        "queued": sum(1 for _ in state.queued()),
        "log": f"{state.folder}{os.sep}hooks.log",
    }
    lines = [f"{one['client']:<12} {', '.join(one['events']) or 'not installed'}" for one in found["clients"]]
    lines.append(f"{'service':<12} {found['service'] or 'does not run; start it with: retentive serve'}")
    lines.append(f"{'queued':<12} {found['queued']} messages")
    lines.append(f"{'log':<12} {found['log']}")
    emit(ctx, found, "\n".join(lines))


ClientOption = Annotated[Client, typer.Option("--client", help="The client that runs the hook.")]


@hook.command(name="session-start")
def session_start(
    ctx: typer.Context,
    client: ClientOption,
    url: Url = None,
    project: Project = None,
    budget: Budget = 0,
    deadline: Deadline = DEADLINE_MS,
) -> None:
    """Print a briefing for a new session: who the user is, facts of the project, where the last session ended.

    Like all hooks it reads the client's JSON on standard input, answers in the client's form, and exits with 0.
    """
    _run(ctx, "session-start", client=client.value, url=url, project=project, budget=budget, deadline=deadline)


@hook.command()
def prompt(
    ctx: typer.Context,
    client: ClientOption,
    url: Url = None,
    project: Project = None,
    scope: Scope = "profile",
    budget: Budget = 0,
    deadline: Deadline = DEADLINE_MS,
    capture: Capture = True,
) -> None:
    """Print the memories that are relevant to a prompt and that the session does not have yet, or nothing."""
    options = {"scope": scope, "budget": budget, "deadline": deadline, "capture": capture}
    _run(ctx, "prompt", client=client.value, url=url, project=project, **options)


@hook.command(name="turn-end")
def turn_end(
    ctx: typer.Context, client: ClientOption, url: Url = None, project: Project = None, deadline: Deadline = DEADLINE_MS
) -> None:
    """Store the user's message and the answer of a turn, each once."""
    _run(ctx, "turn-end", client=client.value, url=url, project=project, deadline=deadline)


@hook.command(name="session-end")
def session_end(
    ctx: typer.Context, client: ClientOption, url: Url = None, project: Project = None, deadline: Deadline = DEADLINE_MS
) -> None:
    """Store what is not stored yet."""
    _run(ctx, "session-end", client=client.value, url=url, project=project, deadline=deadline)


def _run(ctx: typer.Context, event: str, **options: Any) -> None:
    given = common(ctx)
    settings = load_settings({"store": given.store}, config=given.config)
    named = HookOptions(event=event, store=settings.store, profile=given.profile, embedder=given.embedder, **options)
    run_hook([event, *named.words()])
