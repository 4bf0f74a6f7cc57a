"""The commands that recall, that look behind a recall, and that show one to a newcomer."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from recollect.cli.memories import Project, _kinds
from recollect.cli.options import common, emit
from recollect.cli.places import places_of
from recollect.errors import Invalid
from recollect.ranking import Tuning, preset
from recollect.settings import knob_value

Sessions = Annotated[
    list[str] | None, typer.Option(help="Its project's sessions, or it alone if it has none; may be repeated.")
]
OnlySession = Annotated[bool, typer.Option("--only-session", help="Those sessions alone.")]
Kinds = Annotated[list[str] | None, typer.Option(help="Only this kind; may be repeated.")]
Limit = Annotated[int, typer.Option(help="How many; 0 is all that the searches found.")]
Preset = Annotated[str | None, typer.Option("--preset", help="A named tuning, such as classic-rrf.")]
Knobs = Annotated[
    list[str] | None,
    typer.Option("--set", help="Turn a knob for this recall, such as keyword_weight=2; repeatable."),
]
Recent = Annotated[list[str] | None, typer.Option(help="Leave this id out; may be repeated.")]


def recall(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="What to look for, in any words.")],
    project: Project = None,
    session: Sessions = None,
    only_session: OnlySession = False,
    kind: Kinds = None,
    limit: Limit = 10,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show where each leg had it and what each step did.")
    ] = False,
    preset_name: Preset = None,
    set_knobs: Knobs = None,
    recent: Recent = None,
) -> None:
    """Recall memories by meaning and by words."""
    with common(ctx).engine() as engine:
        tuning = tuning_of(engine.tuned(), preset_name, set_knobs)
        answer = engine.recall(
            question,
            limit=limit,
            project=project,
            session=session or None,
            only_session=only_session,
            kinds=_kinds(kind),
            recent_ids=recent or (),
            tuning=tuning,
        )
        places = places_of(engine, (hit.memory for hit in answer.hits))
        value: dict[str, Any] = answer.to_dict()
        dropped = value.pop("dropped")
        if explain:
            value |= {"tuning": tuning.model_dump(), "dropped": dropped}

        def show_it() -> None:
            from recollect.cli import show

            show.recall(answer, explain=explain, places=places)

        emit(ctx, value, show_it)


def explain(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="The question, as it was recalled with.")],
    id: Annotated[str, typer.Argument(help="The memory's id.")],
    project: Project = None,
    session: Sessions = None,
    only_session: OnlySession = False,
    kind: Kinds = None,
    limit: Limit = 10,
    preset_name: Preset = None,
    set_knobs: Knobs = None,
    recent: Recent = None,
) -> None:
    """Say why a memory ranks where it does for a question, or why it does not appear."""
    with common(ctx).engine() as engine:
        seen = engine.explain(
            question,
            id,
            limit=limit,
            project=project,
            session=session or None,
            only_session=only_session,
            kinds=_kinds(kind),
            recent_ids=recent or (),
            tuning=tuning_of(engine.tuned(), preset_name, set_knobs),
        )
        shown = (seen.memory, *(hit.memory for hit in (seen.above, seen.below) if hit))
        places = places_of(engine, shown)

    def show_it() -> None:
        from recollect.cli import show

        show.explanation(seen, places=places)

    emit(ctx, seen.to_dict(), show_it)


def tuning_of(now: Tuning, name: str | None, knobs: list[str] | None) -> Tuning:
    """The tuning in force, or a preset, with the knobs that were turned."""
    return (preset(name) if name else now).with_knobs(**parse_knobs(knobs or []))


def parse_knobs(pairs: list[str]) -> dict[str, Any]:
    """Knobs from `knob=value`."""
    knobs = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Invalid(f"'{pair}': write a knob as knob=value, such as keyword_weight=2")
        knobs[name.strip()] = knob_value(value.strip())
    return knobs


def samples(
    ctx: typer.Context,
    question: Annotated[str | None, typer.Argument(help="A question to show; without it, one of ours.")] = None,
) -> None:
    """Load made-up sample conversations into the store, and show an explained recall."""
    from recollect.samples import QUESTIONS, load_samples

    with common(ctx).engine() as engine:
        added = load_samples(engine)
        answer = engine.recall(question or QUESTIONS[0], limit=3)
        memories = engine.stats().memories
        store = common(ctx).shown_store

        def show_it() -> None:
            from recollect.cli import show

            show.welcome(answer, added=len(added), memories=memories, store=store, questions=QUESTIONS)

        emit(ctx, {"added": len(added), "recall": answer.to_dict()}, show_it)
