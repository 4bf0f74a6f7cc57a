"""The commands that recall, that look behind a recall, and that show one to a newcomer."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from retentive.cli.memories import Project, _kinds
from retentive.cli.options import common, emit
from retentive.cli.places import places_of
from retentive.errors import Invalid
from retentive.ranking import Tuning, preset
from retentive.settings import parameter_value

Sessions = Annotated[
    list[str] | None, typer.Option(help="Its project's sessions, or it alone if it has none; may be repeated.")
]
OnlySession = Annotated[bool, typer.Option("--only-session", help="Those sessions alone.")]
Kinds = Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")]
Limit = Annotated[int, typer.Option(help="How many; 0 is all that the searches found.")]
Preset = Annotated[str | None, typer.Option("--preset", help="A named tuning, such as classic-rrf.")]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--set", help="Turn a parameter for this recall, such as keyword_weight=2; repeatable."),
]
Recent = Annotated[list[str] | None, typer.Option(help="Leave this id out; may be repeated.")]


def recall(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for, in any words.")],
    project: Project = None,
    session: Sessions = None,
    only_session: OnlySession = False,
    kind: Kinds = None,
    limit: Limit = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show where each retriever had it and what each step did.")
    ] = False,
    preset_name: Preset = None,
    set_parameters: Parameters = None,
    recent: Recent = None,
) -> None:
    """Recall memories by meaning and by words."""
    with common(ctx).engine() as engine:
        tuning = tuning_of(engine.tuning.current(), preset_name, set_parameters)
        answer = engine.recall(
            query,
            limit=limit,
            project=project,
            session=session or None,
            only_session=only_session,
            kinds=_kinds(kind),
            exclude=recent or (),
            tuning=tuning,
        )
        places = places_of(engine, (hit.memory for hit in answer.hits))
        value: dict[str, Any] = answer.to_dict()
        dropped = value.pop("dropped")
        if explain:
            value |= {"tuning": tuning.model_dump(), "dropped": dropped}

        def show_it() -> None:
            from retentive.cli import show

            show.recall(answer, explain=explain, places=places)

        emit(ctx, value, show_it)


def explain(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="The query, as it was recalled with.")],
    id: Annotated[str, typer.Argument(help="The memory's id.")],
    project: Project = None,
    session: Sessions = None,
    only_session: OnlySession = False,
    kind: Kinds = None,
    limit: Limit = 10,
    preset_name: Preset = None,
    set_parameters: Parameters = None,
    recent: Recent = None,
) -> None:
    """Say why a memory ranks where it does for a query, or why it does not appear."""
    with common(ctx).engine() as engine:
        seen = engine.explain(
            query,
            id,
            limit=limit,
            project=project,
            session=session or None,
            only_session=only_session,
            kinds=_kinds(kind),
            exclude=recent or (),
            tuning=tuning_of(engine.tuning.current(), preset_name, set_parameters),
        )
        shown = (seen.memory, *(hit.memory for hit in (seen.above, seen.below) if hit))
        places = places_of(engine, shown)

    def show_it() -> None:
        from retentive.cli import show

        show.explanation(seen, places=places)

    emit(ctx, seen.to_dict(), show_it)


def tuning_of(now: Tuning, name: str | None, parameters: list[str] | None) -> Tuning:
    """The tuning in force, or a preset, with the parameters that were turned."""
    return (preset(name) if name else now).with_parameters(**parse_parameters(parameters or []))


def parse_parameters(pairs: list[str]) -> dict[str, Any]:
    """Parameters from `parameter=value`."""
    parameters = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Invalid(f"'{pair}': write a parameter as parameter=value, such as keyword_weight=2")
        parameters[name.strip()] = parameter_value(value.strip())
    return parameters


def samples(
    ctx: typer.Context,
    query: Annotated[str | None, typer.Argument(help="A query to show; without it, one of ours.")] = None,
) -> None:
    """Load made-up sample conversations into the store, and show an explained recall."""
    from retentive.transfer.samples import QUERIES, load_samples

    with common(ctx).engine() as engine:
        added = load_samples(engine)
        answer = engine.recall(query or QUERIES[0], limit=3)
        memories = engine.stats().memories
        store = common(ctx).shown_store

        def show_it() -> None:
            from retentive.cli import show

            show.welcome(answer, added=len(added), memories=memories, store=store, queries=QUERIES)

        emit(ctx, {"added": len(added), "recall": answer.to_dict()}, show_it)
