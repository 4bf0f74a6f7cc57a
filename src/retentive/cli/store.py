"""Commands that maintain a store: status, doctor, compact, recover, reembed, config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from retentive.cli.help import command, group
from retentive.cli.options import common, emit, parse_parameters, warn, with_store
from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import counted, snippet
from retentive.ranking import Tuning
from retentive.ranking.tuning import parameter_name
from retentive.settings import find_config
from retentive.stores import open_store

if TYPE_CHECKING:
    from retentive.pipeline.embeddings import CalibrationReport
    from retentive.stores.damage import Repair, SetAside

_LISTED = 20


def status(ctx: typer.Context) -> None:
    """Show statistics of the store and whether the semantic retriever works."""
    with common(ctx).engine() as engine:
        stats = engine.stats()
        problem = engine.embeddings.problem()
        problem = problem and with_store(problem)
        store = engine.settings.public_store
    value = {"store": store, **stats.to_dict(), "embedding_problem": problem}
    emit(ctx, value, lambda show: show.status(store, stats, problem))


def doctor(
    ctx: typer.Context,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="First rebuild every index from the texts, set aside what cannot be read, and embed again."
        ),
    ] = False,
) -> None:
    """Check that every text can be read and is the one that was stored, that indexes agree, that the embedder works."""
    with common(ctx).engine() as engine:
        repaired = _repair(engine) if repair else None
        found = _examine(engine)
    value = {
        "healthy": found.healthy,
        "checks": found.checks,
        "repaired": repaired and repaired.to_dict(),
        "set_aside": [one.to_dict() for one in found.set_aside],
        "relevance": found.relevance.to_dict(),
        "runtime": found.runtime,
        "advice": [found.advice] if found.advice else [],
    }
    emit(ctx, value, lambda show: _print_findings(show, found, repaired))
    if not found.healthy:
        raise typer.Exit(1)


class _Findings(NamedTuple):
    """What `doctor` found: the problems of each part, and what else there is to say."""

    checks: dict[str, list[str]]
    set_aside: Sequence[SetAside]
    relevance: CalibrationReport
    runtime: str | None
    advice: str | None

    @property
    def healthy(self) -> bool:
        return not any(self.checks.values())


def _repair(engine: Engine) -> Repair:
    from retentive.cli.show import progress

    with progress("repairing", total=0) as advance:
        repaired = engine.repair(progress=advance)
    if repaired.stale_vectors:
        warn(f"{counted(repaired.stale_vectors, 'memory')} had a vector of another text; embedded again")
    return repaired


def _examine(engine: Engine) -> _Findings:
    problem = engine.embeddings.problem()
    stats = engine.stats()
    missing = (
        [f"{counted(stats.unembedded, 'memory has', 'memories have')} no vector; run: retentive reembed"]
        if stats.unembedded
        else []
    )
    problems = {"store": engine.check(), "embedder": [problem] if problem else [], "vectors": missing}
    return _Findings(
        {part: [with_store(problem) for problem in found] for part, found in problems.items()},
        engine.store.set_aside(),
        engine.calibrations.describe(None if problem else stats.model),
        None if problem else engine.embeddings.runtime(),
        None if problem else _advice(engine),
    )


def _advice(engine: Engine) -> str | None:
    """What would make a working embedder find more."""
    recent = [memory.text for memory in engine.list(limit=100).memories]
    return engine.embeddings.prefix_advice() or engine.embeddings.language_advice(recent)


def _print_findings(show: ModuleType, found: _Findings, repaired: Repair | None) -> None:
    if repaired:
        show.print_line(
            f"{counted(repaired.memories, 'memory')} indexed, {len(repaired.changed):,} with a changed text, "
            f"{len(repaired.set_aside):,} set aside, {counted(repaired.vectors_removed, 'stray vector')} removed"
        )
    show.checks(found.checks)
    show.print_line(f"relevance: {found.relevance.sentence}")
    if found.runtime:
        show.print_line(f"runtime: {found.runtime}")
    if found.advice:
        show.print_line(f"advice: {found.advice}")
    for one in found.set_aside:
        show.print_line(f"set aside: {one.id}: {one.reason}: {snippet(one.text, 60)}")


def recover(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="Damaged SQLite file of a store. It is only read.")],
    output: Annotated[
        Path | None, typer.Option(help="File of the new store; FILE with -recovered in its name by default.")
    ] = None,
) -> None:
    """Save what can be read of a damaged file, even one that cannot be opened, into a new store.

    Vectors are not saved; retentive reembed creates them. The exit code is 1 if something could not be read.
    """
    from retentive.cli import show
    from retentive.stores.sqlite.recovery import recover as recover_file

    if not file.is_file():
        raise NotFound(f"there is no file {file}")
    new = output or file.with_name(f"{file.stem}-recovered{file.suffix or '.db'}")
    if new.exists():
        raise Conflict(f"{new} already exists; name another file with --output")
    with closing(open_store(str(new))) as store, show.progress("recovering", total=0) as advance:
        done = recover_file(file, store, progress=advance)

    def print_all(_: ModuleType) -> None:
        show.print_line(
            f"{counted(done.memories, 'memory')}, {counted(done.judgements, 'judgement')} and "
            f"{counted(done.settings, 'setting')} saved in {new}"
        )
        if done.changed:
            show.print_line(f"{len(done.changed):,} of them may not have their original text; --json lists them")
        for one in done.lost[:_LISTED]:
            show.print_line(f"  lost: {one.id}: {one.reason}", style="red")
        if done.damaged_rows:
            show.print_line(f"{counted(done.damaged_rows, 'row')} of any table could not be read", style="red")
        show.print_line(f"create its vectors with: retentive reembed --store {new}")

    emit(ctx, {"file": str(file), "store": str(new), **done.to_dict()}, print_all)
    if done.lost or done.damaged_rows:
        raise typer.Exit(1)


def compact(ctx: typer.Context) -> None:
    """Return the space of forgotten memories to the file system. Others can read and write meanwhile.

    The first time on a store of an earlier version it rewrites the file, and other writers wait until that is done.
    """
    from retentive.cli.show import progress

    with common(ctx).engine() as engine, progress("compacting", total=None) as advance:
        done = engine.compact(progress=advance)
    gained = done.bytes_before - done.bytes_after
    text = f"{_megabytes(done.bytes_before)} before, {_megabytes(done.bytes_after)} after: {_megabytes(gained)} gained"
    lines = [text] if done.bytes_before else []
    emit(ctx, {**done.to_dict(), "gained": gained}, "\n".join([*lines, *filter(None, [done.note])]))


def _megabytes(size: int) -> str:
    return f"{round(size / 1e6, 1) + 0:,.1f} MB"  # 0 makes -0.0 positive


def reembed(ctx: typer.Context) -> None:
    """Embed every memory with the current model. It can be interrupted and continues where it stopped."""
    from retentive.cli.show import progress

    with common(ctx).engine() as engine:
        embedder = engine.embeddings.embedder()
        total = engine.embeddings.count_missing() if embedder else 0
        with progress("re-embedding", total=total) as advance:
            refused: list[str] = []
            count = engine.embeddings.reembed(progress=advance, refused=refused.append)
    lines = [f"{counted(count, 'memory')} embedded", *(f"the embedder refuses the text of {id}" for id in refused)]
    emit(ctx, {"embedded": count, "refused": refused}, "\n".join(lines))


# config

config = group(
    "Show the settings in effect, or save tuning parameters in the store.",
    "retentive config",
    "retentive config set keyword_weight=1.0",
)


@config.callback()
def show_config(ctx: typer.Context) -> None:
    """Show the settings in effect, or save tuning parameters in the store."""
    if not ctx.invoked_subcommand:
        with common(ctx).engine(missing="empty") as engine:
            _emit_config(ctx, engine)


@command(config, "retentive config set keyword_weight=1.0", "retentive config set --preset classic-rrf", name="set")
def set_parameters(
    ctx: typer.Context,
    parameters: Annotated[
        list[str] | None, typer.Argument(help="Parameters to save, such as keyword_weight=1.0.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Save every parameter of a preset first.")] = None,
) -> None:
    """Save tuning parameters in the store, for every process that uses it."""
    if not parameters and preset is None:
        raise Invalid("give at least one parameter=value, or --preset")
    chosen = {} if preset is None else {"preset": preset}
    with common(ctx).engine(missing="create") as engine:
        _change_config(ctx, engine, {**chosen, **parse_parameters(parameters)})


@command(config, "retentive config reset keyword_weight", "retentive config reset")
def reset(
    ctx: typer.Context,
    parameters: Annotated[list[str] | None, typer.Argument(help="Parameters to reset; all by default.")] = None,
) -> None:
    """Reset saved tuning parameters to their defaults."""
    with common(ctx).engine() as engine:
        names = [parameter_name(name) for name in parameters] if parameters else list(engine.tuning.saved())
        _change_config(ctx, engine, dict.fromkeys(names))


def _change_config(ctx: typer.Context, engine: Engine, parameters: dict[str, Any]) -> None:
    """Save parameters, None resets one; print what has changed."""
    before = engine.tuning.current().model_dump()
    engine.tuning.save(parameters)
    after = engine.tuning.current().model_dump()
    changes = {name: (value, after[name]) for name, value in before.items() if value != after[name]}
    overridden = [name for name, value in engine.tuning.saved().items() if after[name] != value and name in parameters]
    value = _config_value(ctx, engine) | {"changed": {name: list(pair) for name, pair in changes.items()}}
    emit(ctx, value, lambda show: show.config_changes(changes, overridden))


def _emit_config(ctx: typer.Context, engine: Engine) -> None:
    value = _config_value(ctx, engine)
    emit(ctx, value, lambda show: show.config(value, Tuning))


def _config_value(ctx: typer.Context, engine: Engine) -> dict[str, Any]:
    file = find_config(os.environ, common(ctx).config)
    return {
        "store": engine.settings.public_store,
        "config_file": str(file) if file else None,
        "embedder": engine.settings.embedder.name,
        "saved": engine.tuning.saved(),
        "tuning": engine.tuning.current().model_dump(),
    }
