"""Commands that search: recall, explain, and a recall on sample memories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.ids import resolve_id, resolve_ids
from retentive.cli.options import (
    RANKING,
    SCOPE,
    AsOf,
    Common,
    IncludeRetired,
    Kinds,
    Project,
    SetParameters,
    WithMetadata,
    common,
    emit,
    parse_parameters,
    shown_ids,
    warn_unknown,
    write,
)
from retentive.cli.quick_recall import recall_by_service
from retentive.models import counted
from retentive.settings import parse_pairs

if TYPE_CHECKING:
    from retentive.engine import Engine
    from retentive.models import Memory, Query, Recall
    from retentive.ranking import Tuning

_NOTE_FORMATS = ("markdown", "openclaw")
"""Import formats whose memories come from text files in the imported folder."""

Sessions = Annotated[
    list[str] | None,
    typer.Option(
        help="Search this session and the others of its project; --only-session limits it. Repeatable.",
        rich_help_panel=SCOPE,
    ),
]
OnlySession = Annotated[
    bool, typer.Option("--only-session", help="Search only the given sessions.", rich_help_panel=SCOPE)
]
Exclude = Annotated[
    list[str] | None, typer.Option(help="Leave out the memory with this id. Repeatable.", rich_help_panel=SCOPE)
]
Since = Annotated[
    str | None, typer.Option(help="Only memories from this time on: 2026-05-08, 'last spring'.", rich_help_panel=SCOPE)
]
Until = Annotated[
    str | None,
    typer.Option(help="Only memories before this time; a date or phrase is included whole.", rich_help_panel=SCOPE),
]
Limit = Annotated[int, typer.Option(min=0, help="Maximum number of hits; 0 returns all that match.")]
Preset = Annotated[
    str | None,
    typer.Option("--preset", help="Rank with a preset, such as classic-rrf.", rich_help_panel=RANKING),
]


def recall(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="What to search for.")],
    project: Project = None,
    session: Sessions = None,
    only_session: OnlySession = False,
    kind: Kinds = None,
    exclude: Exclude = None,
    since: Since = None,
    until: Until = None,
    metadata: WithMetadata = None,
    as_of: AsOf = None,
    include_retired: IncludeRetired = False,
    limit: Limit = 10,
    preset: Preset = None,
    set_parameters: SetParameters = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the rank in each retriever and the effect of each ranking step.")
    ] = False,
    local: Annotated[
        bool, typer.Option("--local", help="Search in this process, also if a service of the store runs.")
    ] = False,
) -> None:
    """Search memories with the keyword and the semantic retriever."""
    scope: dict[str, Any] = {"project": project, "session": session, "only_session": only_session, "kinds": kind}
    scope |= {"since": since, "until": until, "metadata": parse_pairs(metadata, "topic=kitchen")}
    scope |= {"as_of": as_of, "include_retired": include_retired}
    given = common(ctx)
    if not local and not exclude and not (explain and given.json):  # only the engine knows the tuning in effect
        tuning = {**({"preset": preset} if preset is not None else {}), **parse_parameters(set_parameters)}
        answered = recall_by_service(given, {"query": query, "limit": limit, **scope, "tuning": tuning})
        if answered is not None:
            answer, ids = answered
            return write(given, _to_dict(answer), lambda show: show.recall(answer, explain=explain, ids=ids))
    _start_quickly(given)
    with given.engine() as engine:
        from retentive.pipeline.recall import degraded_unlogged

        built = _query(engine, query, scope, exclude, limit, preset, set_parameters)
        with degraded_unlogged():
            answer = engine.recall(built)
        found = [hit.memory for hit in answer]
        warn_unknown(engine, found, project=project, sessions=session)
        locate, ids = file_locator(engine, found), shown_ids(engine, (memory.id for memory in found))
        value = _to_dict(answer, built.tuning if explain else None)
        write(given, value, lambda show: show.recall(answer, explain=explain, ids=ids, locate=locate))
    return None


def _to_dict(answer: Recall, tuning: Tuning | None = None) -> dict[str, Any]:
    """The answer as plain values; with the tuning, also what was left out."""
    if tuning is not None:
        value = answer.to_dict()
        dropped = value.pop("dropped")
        return {**value, "tuning": tuning.model_dump(), "dropped": dropped}
    value = replace(answer, dropped=()).to_dict()
    del value["dropped"]
    return value


def _start_quickly(given: Common) -> None:
    """Prepare a process that searches once and ends.

    The default model is loaded on another core during the imports, which takes a third off a cold recall. There is no
    product of matrices for which threads of numpy would be worth their start.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if (given.embedder or os.environ.get("RETENTIVE_EMBEDDER", "memory-small")) == "memory-small":
        from retentive.inference.loading import MODELS, preload

        preload(MODELS / "memory-small")


def explain(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="Query of the recall to explain.")],
    id: Annotated[str, typer.Argument(help="Id of the memory, or its first characters.")],
    project: Project = None,
    session: Sessions = None,
    only_session: OnlySession = False,
    kind: Kinds = None,
    exclude: Exclude = None,
    since: Since = None,
    until: Until = None,
    metadata: WithMetadata = None,
    as_of: AsOf = None,
    include_retired: IncludeRetired = False,
    limit: Limit = 10,
    preset: Preset = None,
    set_parameters: SetParameters = None,
) -> None:
    """Explain why a memory ranks where it does for a query, or why it does not appear."""
    scope: dict[str, Any] = {"project": project, "session": session, "only_session": only_session, "kinds": kind}
    scope |= {"since": since, "until": until, "metadata": parse_pairs(metadata, "topic=kitchen")}
    scope |= {"as_of": as_of, "include_retired": include_retired}
    with common(ctx).engine() as engine:
        asked = _query(engine, query, scope, exclude, limit, preset, set_parameters)
        explanation = engine.explain(asked, resolve_id(engine, id))
        shown = [explanation.memory, *(hit.memory for hit in (explanation.above, explanation.below) if hit)]
        warn_unknown(engine, shown, project=project, sessions=session)
        locate, ids = file_locator(engine, shown), shown_ids(engine, (memory.id for memory in shown))
    emit(ctx, explanation.to_dict(), lambda show: show.explanation(explanation, ids=ids, locate=locate))


def _query(
    engine: Engine,
    text: str,
    scope: dict[str, Any],
    exclude: list[str] | None,
    limit: int,
    preset: str | None,
    parameters: list[str] | None,
) -> Query:
    """Build a query. Parameters are applied to the preset, or to the tuning in effect."""
    given = parse_parameters(parameters)
    tuning = engine.tuning.current(preset).with_parameters(**given) if preset is not None else given
    limited: dict[str, Any] = {name: None if value == [] else value for name, value in scope.items()}
    return engine.query(
        text, exclude=resolve_ids(engine, exclude) if exclude else (), limit=limit, tuning=tuning, **limited
    )


def file_locator(engine: Engine, memories: Iterable[Memory]) -> Callable[[Memory], str | None]:
    """Return a function that gives the file and line of a memory, as editors open it: `notes/kitchen.md:12`.

    The path is relative to the current folder if the file is found in a watched or imported folder, else as the memory
    has it. The folders are read from the store only if one of the memories comes from a file.
    """
    folders: list[Path] = []
    if any("file" in memory.metadata for memory in memories):
        from retentive.transfer.watching.state import watched_folders

        profile = engine.settings.profile
        folders += watched_folders(engine.store, profile=profile)
        for run in engine.imports.list():
            if run.profile == profile and run.format in _NOTE_FORMATS:
                path = Path(run.path)
                folders.append(path.parent if path.is_file() else path)

    def locate(memory: Memory) -> str | None:
        file, lines = memory.metadata.get("file"), memory.metadata.get("lines")
        if not isinstance(file, str) or not isinstance(lines, list) or not lines:
            return None
        return f"{_find_file(file, folders) or file}:{lines[0]}"

    return locate


def _find_file(file: str, folders: Iterable[Path]) -> Path | None:
    if "\0" in file or ".." in PurePosixPath(file).parts or PurePosixPath(file).is_absolute():
        return None
    for folder in folders:
        path = folder / file
        try:
            if path.is_file():
                here = Path.cwd()
                return path.relative_to(here) if path.is_relative_to(here) else path
        except OSError:
            continue
    return None


def samples(
    ctx: typer.Context,
    query: Annotated[str | None, typer.Argument(help="Query to show; by default one about the samples.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Delete the samples from the store.")] = False,
) -> None:
    """Load fictitious sample conversations into a profile of their own, and show a recall with its explanation."""
    from retentive.transfer.samples import PROFILE, QUERIES, load_samples, remove_samples

    given = common(ctx)
    profile = given.profile or PROFILE
    with replace(given, profile=profile).engine(missing="error" if remove else "create") as engine:
        if remove:
            removed = remove_samples(engine)
            return emit(ctx, {"removed": removed}, f"{counted(removed, 'sample memory')} removed")
        added = len(load_samples(engine))
        answer = engine.recall(query or QUERIES[0], limit=3)
        ids = shown_ids(engine, (hit.id for hit in answer))
        emit(
            ctx,
            {"added": added, "recall": answer.to_dict()},
            lambda show: show.welcome(
                answer, added=added, profile=profile, store=given.public_store, queries=QUERIES, ids=ids
            ),
        )
    return None
