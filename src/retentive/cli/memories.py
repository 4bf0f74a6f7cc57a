"""Commands that write and read single memories."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from retentive.cli.options import common, emit
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.models import Kind
from retentive.pipeline.remember import Draft, to_memory

BATCH = 256

Project = Annotated[str | None, typer.Option(help="The project.")]
Session = Annotated[str | None, typer.Option(help="The session.")]
Speaker = Annotated[str | None, typer.Option(help="Who said it.")]
Importance = Annotated[float | None, typer.Option(help="From 0 to 1.")]
At = Annotated[str | None, typer.Option(help="When it happened, such as 2026-05-08 or 2026-05-08T13:56:00+02:00.")]
Metadata = Annotated[str | None, typer.Option(help="A JSON object to keep with it.")]
Source = Annotated[str | None, typer.Option(help="Where it comes from.")]


def remember(
    ctx: typer.Context,
    text: Annotated[str | None, typer.Argument(help="What to remember; without it, standard input is read.")] = None,
    jsonl: Annotated[
        str | None, typer.Option(help="A file of memories, one JSON object a line; - is standard input.")
    ] = None,
    project: Project = None,
    session: Session = None,
    kind: Annotated[str, typer.Option(help="episodic, semantic or identity.")] = "episodic",
    speaker: Speaker = None,
    importance: Importance = None,
    at: At = None,
    metadata: Metadata = None,
    source: Source = None,
    evergreen: Annotated[bool, typer.Option("--evergreen", help="It never fades.")] = False,
    id: Annotated[str | None, typer.Option(help="Its UUID; without it one is made.")] = None,
) -> None:
    """Store a memory, or many as JSONL."""
    given: dict[str, Any] = {
        "project": project, "session": session, "kind": kind, "speaker": speaker, "importance": importance,
        "occurred": at, "metadata": _object(metadata), "source": source, "evergreen": evergreen, "id": id,
    }  # fmt: skip
    fields = {name: value for name, value in given.items() if value is not None}
    with common(ctx).engine() as engine:
        if jsonl is not None:
            if text is not None:
                raise Invalid("give a text or --jsonl, not both")
            return _remember_file(ctx, engine, jsonl, fields)
        memory = engine.remember(_text(text), **fields)
        problem = engine.embeddings.problem()
    _warn(problem)
    emit(ctx, memory.to_dict(), lambda: typer.echo(memory.id))
    return None


def _text(argument: str | None) -> str:
    if argument is not None and argument != "-":
        return argument
    if argument is None and sys.stdin.isatty():
        raise Invalid("nothing to remember: give a text, or pipe one in")
    return sys.stdin.read().rstrip("\n")


def _remember_file(ctx: typer.Context, engine: Engine, path: str, defaults: dict[str, Any]) -> None:
    """Every line is checked before the first is stored, so a bad file changes nothing."""
    drafts = _read_drafts(path, engine, defaults)
    from retentive.cli.show import progress

    stored: list[str] = []
    with progress("remembering", total=len(drafts)) as advance:
        for at in range(0, len(drafts), BATCH):
            some = engine.remember_many(drafts[at : at + BATCH])
            stored.extend(memory.id for memory in some)
            advance(len(some))
    _warn(engine.embeddings.problem())
    emit(ctx, {"stored": len(stored), "ids": stored}, lambda: typer.echo(f"{len(stored)} memories stored"))


def _read_drafts(path: str, engine: Engine, defaults: dict[str, Any]) -> list[Draft]:
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {error}") from None
    defaults = {"profile": engine.scope().profile, **defaults}
    now = engine.now()
    drafts = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            draft = Draft.from_dict(json.loads(line), **defaults)
            to_memory(draft, now=now)
        except (json.JSONDecodeError, Invalid, RecursionError) as error:
            raise Invalid(f"line {number} of {path}: {error}; nothing was stored") from None
        drafts.append(draft)
    return drafts


def get(ctx: typer.Context, id: Annotated[str, typer.Argument(help="The memory's id.")]) -> None:
    """Show one memory, whole."""
    with common(ctx).engine() as engine:
        memory = engine.get(id)
    from retentive.cli import show

    emit(ctx, memory.to_dict(), lambda: show.memory(memory))


def list_memories(
    ctx: typer.Context,
    project: Project = None,
    session: Session = None,
    kind: Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(help="How many, 1 to 1000.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Go on behind this one: next_cursor of the page before.")] = None,
) -> None:
    """List memories, newest first."""
    with common(ctx).engine() as engine:
        scope = engine.scope(project=project, session=session, only_session=True, kinds=_kinds(kind))
        page = engine.list(scope, cursor=cursor, limit=limit)
    from retentive.cli import show

    emit(ctx, page.to_dict(), lambda: show.page(page))


def update(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(help="The memory's id.")],
    text: Annotated[str | None, typer.Option(help="Its new text.")] = None,
    kind: Annotated[str | None, typer.Option(help="episodic, semantic or identity.")] = None,
    speaker: Speaker = None,
    importance: Importance = None,
    at: At = None,
    metadata: Metadata = None,
    source: Source = None,
    evergreen: Annotated[
        bool | None, typer.Option("--evergreen/--no-evergreen", help="Whether it never fades.")
    ] = None,
) -> None:
    """Change a memory; its words and vector follow its text."""
    given: dict[str, Any] = {
        "text": text, "kind": kind, "speaker": speaker, "importance": importance, "occurred": at,
        "metadata": _object(metadata), "source": source, "evergreen": evergreen,
    }  # fmt: skip
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise Invalid("nothing to change: give at least one of --text, --importance, …; see: retentive update --help")
    with common(ctx).engine() as engine:
        memory = engine.update(id, **changes)
    from retentive.cli import show

    emit(ctx, memory.to_dict(), lambda: show.memory(memory))


def forget(
    ctx: typer.Context,
    ids: Annotated[list[str] | None, typer.Argument(help="The memories' ids.")] = None,
    project: Project = None,
    session: Session = None,
    everything: Annotated[bool, typer.Option("--all", help="The whole profile.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Forget memories for good: by id, or a whole session, project or profile after asking."""
    scoped = project is not None or session is not None or everything
    if bool(ids) == scoped:
        raise Invalid("say what to forget: ids, or one of --session, --project, --all")
    with common(ctx).engine() as engine:
        if ids:
            gone = len(engine.forget(*ids))
        else:
            scope = engine.scope(project=project, session=session, only_session=True)
            ask(f"Forget everything in {_described(project, session, scope.profile)} for good?", yes=yes)
            gone = engine.forget_scope(scope, confirm=True)
    emit(ctx, {"forgotten": gone}, lambda: typer.echo(f"{gone} forgotten"))


def _described(project: str | None, session: str | None, profile: str) -> str:
    if session is not None:
        return f"session '{session}'"
    return f"project '{project}'" if project is not None else f"profile '{profile}'"


def ask(query: str, *, yes: bool) -> None:
    """Go on only if somebody says so."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid("this cannot be undone: say --yes to do it without being asked")
    typer.confirm(query, abort=True, err=True)


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise Invalid(f"metadata: not valid JSON ({error})") from None
    if not isinstance(value, dict):
        raise Invalid('metadata: a JSON object such as {"topic": "kitchen"}')
    return value


def _kinds(kinds: list[str] | None) -> list[Kind] | None:
    return kinds or None  # type: ignore[return-value]  # the engine checks and names what is wrong


def _warn(problem: str | None) -> None:
    if problem:
        typer.secho(f"warning: stored without a vector, findable by words alone: {problem}", fg="yellow", err=True)
