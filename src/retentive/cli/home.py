"""What `retentive` prints without a command: the state of the store and what to try next, or the help in a pipe."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime, timedelta
from typing import Any

import typer

from retentive.cli.options import common, emit, program
from retentive.engine import Engine
from retentive.errors import NotFound
from retentive.models import counted
from retentive.server.runtime_file import running_service
from retentive.settings import load_settings

FIRST_STEPS = (
    ("samples", "load sample memories, see a recall"),
    ('remember "The spare key is under the blue pot" --project home', ""),
    ("import conversations.json", "your chats of ChatGPT or Claude"),
    ("--help", "all commands"),
)
NEXT_STEPS = (
    ('recall "what did we decide?"', ""),
    ("list", "the newest memories"),
    ("serve --open", "the playground in your browser"),
    ("--help", "all commands"),
)


def home(ctx: typer.Context) -> None:
    """Print the state of the store in five lines, and what to try next; in a pipe, print the help."""
    if not (sys.stdout.isatty() or common(ctx).json):
        typer.echo(ctx.get_help())
        return
    try:
        with common(ctx).engine() as engine:
            value = _state(engine)
    except NotFound:
        value = _absent(ctx)
    steps = NEXT_STEPS if value["memories"] else FIRST_STEPS
    emit(ctx, value, lambda show: show.home(_lines(value), [(_command(ctx, line), note) for line, note in steps]))


def _state(engine: Engine) -> dict[str, Any]:
    stats = engine.stats()
    return {
        "store": engine.settings.public_store,
        "memories": stats.memories,
        "projects": stats.projects,
        "sessions": stats.sessions,
        "model": str(stats.model) if stats.model else engine.settings.embedder.name,
        "service": running_service(engine.settings.store),
        "last_stored": stats.last_stored.isoformat() if stats.last_stored else None,
    }


def _absent(ctx: typer.Context) -> dict[str, Any]:
    given = common(ctx)
    names = {"store": given.store, "embedder": given.embedder, "profile": given.profile}
    settings = load_settings(names, config=given.config)
    return {
        "store": settings.public_store,
        "memories": None,
        "projects": None,
        "sessions": None,
        "model": settings.embedder.name,
        "service": running_service(settings.store),
        "last_stored": None,
    }


def _lines(value: dict[str, Any]) -> dict[str, str]:
    """The five lines: a name and a text each."""
    memories = value["memories"]
    where = (
        f" in {counted(value['projects'], 'project')} and {counted(value['sessions'], 'session')}" if memories else ""
    )
    last = value["last_stored"]
    return {
        "store": _shortened(value["store"]),
        "memories": "none yet; the store is created with the first one" if memories is None else f"{memories:,}{where}",
        "model": value["model"],
        "service": value["service"] or "does not run; start it with: retentive serve",
        "last write": _ago(datetime.fromisoformat(last)) if last else "none",
    }


def _shortened(store: str) -> str:
    home = os.path.expanduser("~")  # noqa: PTH111 - a text that may be no path
    return f"~{store[len(home) :]}" if store.startswith(f"{home}/") else store


def _ago(time: datetime) -> str:
    """A time, and how long ago it was."""
    past = datetime.now(time.tzinfo) - time
    units = (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", timedelta(minutes=1)))
    name, count = next(((name, past // unit) for name, unit in units if past >= unit), ("", 0))
    text = f"{counted(count, name)} ago" if name else "just now"
    return f"{time.astimezone():%Y-%m-%d %H:%M} ({text})"


def _command(ctx: typer.Context, line: str) -> str:
    """A command that can be copied, with the store that it is."""
    store = common(ctx).public_store
    named = f" --store {shlex.quote(store)}" if store and store != os.environ.get("RETENTIVE_STORE") else ""
    return f"{program()}{named} {line}"
