"""Commands that look after a store: status, doctor, reembed, config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from retentive.cli.options import common, emit
from retentive.cli.recalling import parse_parameters
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.ranking import PRESETS, Tuning
from retentive.settings import find_config


def status(ctx: typer.Context) -> None:
    """Show what the store holds and how it is searched."""
    with common(ctx).engine() as engine:
        stats = engine.stats()
        problem = engine.embeddings.problem()
        value = {"store": engine.settings.public_store, **stats.to_dict(), "embedding_problem": problem}

    def show_it() -> None:
        from retentive.cli import show

        show.status(engine.settings.public_store, stats, problem)

    emit(ctx, value, show_it)


def doctor(ctx: typer.Context) -> None:
    """Check that text, words and vectors of the store agree, and that the embedder works."""
    with common(ctx).engine() as engine:
        checks = _examine(engine)
    healthy = all(not problems for problems in checks.values())

    def show_it() -> None:
        from retentive.cli import show

        show.checks(checks)

    emit(ctx, {"healthy": healthy, "checks": checks}, show_it)
    if not healthy:
        raise typer.Exit(1)


def _examine(engine: Engine) -> dict[str, Sequence[str]]:
    """The problems found, by what was looked at."""
    waiting = engine.stats().unembedded
    problem = engine.embeddings.problem()
    return {
        "store": engine.check(),
        "embedder": [problem] if problem else [],
        "vectors": [f"{waiting} memories wait to be embedded; run: retentive reembed"] if waiting else [],
    }


def reembed(ctx: typer.Context) -> None:
    """Give every memory a vector of the present model. May be stopped at any time, and goes on where it stopped."""
    from retentive.cli.show import progress

    with common(ctx).engine() as engine:
        embedder = engine.embeddings.embedder()
        total = engine.embeddings.count_missing() if embedder else 0
        with progress("re-embedding", total=total) as advance:
            done = engine.embeddings.reembed(progress=advance)
    emit(ctx, {"embedded": done}, lambda: typer.echo(f"{done} memories embedded"))


config = typer.Typer(help="Show the settings in force, or keep a parameter in the store.", invoke_without_command=True)


@config.callback()
def show_config(ctx: typer.Context) -> None:
    """Show the settings in force, or keep a parameter in the store."""
    if ctx.invoked_subcommand:
        return
    with common(ctx).engine() as engine:
        value = _config(engine, common(ctx).config)

    def show_it() -> None:
        from retentive.cli import show

        show.config(value, Tuning)

    emit(ctx, value, show_it)


@config.command(name="set")
def set_parameters(
    ctx: typer.Context,
    parameters: Annotated[
        list[str] | None, typer.Argument(help="Parameters to turn, such as keyword_weight=1.0.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Take every parameter from a preset first.")] = None,
) -> None:
    """Keep parameters in the store, for every process that uses it, from its next recall on."""
    if not parameters and not preset:
        raise Invalid("give at least one parameter=value, or --preset")
    turned: dict[str, Any] = {}
    if preset is not None:
        if preset not in PRESETS:
            raise Invalid(f"there is no preset '{preset}'; the presets are {', '.join(PRESETS)}")
        turned = PRESETS[preset].model_dump()
    _keep(ctx, {**turned, **parse_parameters(parameters or [])})


@config.command()
def unset(
    ctx: typer.Context,
    parameters: Annotated[list[str] | None, typer.Argument(help="Parameters to take back; without any, all.")] = None,
) -> None:
    """Take kept parameters back to their defaults."""
    with common(ctx).engine() as engine:
        kept = list(engine.tuning.saved())
    _keep(ctx, dict.fromkeys((name.replace("-", "_") for name in parameters) if parameters else kept))


def _keep(ctx: typer.Context, parameters: dict[str, Any]) -> None:
    with common(ctx).engine() as engine:
        engine.tuning.save(parameters)
        value = _config(engine, common(ctx).config)

    def show_it() -> None:
        from retentive.cli import show

        show.config(value, Tuning)

    emit(ctx, value, show_it)


def _config(engine: Engine, named: str | None) -> dict[str, Any]:
    file = find_config(os.environ, named)
    return {
        "store": engine.settings.public_store,
        "config_file": str(file) if file else None,
        "embedder": engine.settings.embedder.name,
        "kept": engine.tuning.saved(),
        "tuning": engine.tuning.current().model_dump(),
    }
