"""The command that searches for better tuning parameters: tune."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from retentive.cli.evaluation import Folder, NoCache, Own, check_one_set
from retentive.cli.options import common, emit
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.models import counted
from retentive.settings import load_settings

if TYPE_CHECKING:
    from retentive.evaluation import EvaluationSet
    from retentive.evaluation.own_relevance import OwnRelevance
    from retentive.evaluation.tune import TuningResult

SEARCH = "Search"


def tune(
    ctx: typer.Context,
    folder: Folder = None,
    own: Own = False,
    metric: Annotated[
        str, typer.Option(help="Metric to raise: nDCG@10, any@5, R@10, MRR …", rich_help_panel=SEARCH)
    ] = "nDCG@10",
    budget: Annotated[
        int, typer.Option(help="Number of tunings that each search evaluates.", rich_help_panel=SEARCH)
    ] = 150,
    sample: Annotated[
        int, typer.Option(help="Number of queries to search on; the verdict is on all.", rich_help_panel=SEARCH)
    ] = 300,
    seed: Annotated[int, typer.Option(help="Seed of the folds and the search.", rich_help_panel=SEARCH)] = 1,
    save: Annotated[bool, typer.Option("--save", help="Save a better tuning in the store without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Save nothing and do not ask.")] = False,
    plot: Annotated[
        str | None, typer.Option(help="Plot the metric by each parameter to this .html or .svg file.")
    ] = None,
    no_cache: NoCache = False,
) -> None:
    """Search for better tuning parameters, and save them in your store if held-out queries confirm the gain.

    Each tuning is chosen on some queries and measured on others. Without a significant gain nothing changes.
    """
    from retentive.evaluation.metrics import load_library

    load_library()  # fails early if it is not installed
    file = _plot_file(plot)
    check_one_set(folder, own=own)
    options: dict[str, Any] = {"metric": metric, "budget": budget, "sample": sample, "seed": seed}
    with common(ctx).engine(missing="error" if own else "empty" if dry_run else "create") as engine:
        done = _search(ctx, engine, folder, options, plot=file, no_cache=no_cache)
        if not common(ctx).json:
            _print_held_out(done)
        kept = _keep(engine, done, own=own, save=save, dry_run=dry_run, ask=not common(ctx).json)
    value = {**done.to_dict(), "saved": kept.saved, "overridden": kept.overridden}
    value["relevance"] = kept.refined and kept.refined.to_dict()
    emit(ctx, value, lambda _: _print_verdict(done, kept))


class _Kept(NamedTuple):
    """What was saved of a search, and what the config file or the environment overrides."""

    saved: bool
    overridden: list[str]
    refined: OwnRelevance | None
    refined_saved: bool


def _search(
    ctx: typer.Context,
    engine: Engine,
    folder: str | None,
    options: dict[str, Any],
    *,
    plot: Path | None,
    no_cache: bool,
) -> TuningResult:
    """Search for a better tuning on a set or on the judgements of the store, and plot it if wanted."""
    from retentive.cli.show import progress
    from retentive.evaluation.tune import tune as tune_on

    with _loaded(ctx, engine, folder, no_cache=no_cache) as (loaded, evaluation_set):
        done = tune_on(loaded, evaluation_set, current=engine.tuning.current(), **options, progress=progress)
        if plot:
            _plot(done, plot)
    return done


def _keep(engine: Engine, done: TuningResult, *, own: bool, save: bool, dry_run: bool, ask: bool) -> _Kept:
    """Save a better tuning, and the relevance that own judgements refine, if the user wants it."""
    from retentive.evaluation.own_relevance import fit_own_relevance

    saved = done.verdict == "better" and not dry_run and (save or (ask and _confirmed()))
    overridden: list[str] = []
    if saved:
        now = engine.tuning.save({parameter: after for parameter, (_, after) in done.parameters.items()})
        # What the config file or the environment sets has priority over the store.
        overridden = [name for name in done.parameters if getattr(now, name) != getattr(done.best, name)]
    refined = fit_own_relevance(engine) if own else None
    if refined and save and not dry_run:
        refined.save(engine)
    return _Kept(saved, overridden, refined, save and not dry_run)


def _print_refined(refined: OwnRelevance, *, saved: bool) -> None:
    from retentive.cli.show import print_line

    state = "saved in the store" if saved else "not saved; use --save to save it"
    print_line(
        f"relevance refined by {counted(refined.judged, 'judgement')}: slope {refined.slope:g}, "
        f"offset {refined.offset:g}, min_relevance {refined.min_relevance:g}; {state}"
    )


@contextmanager
def _loaded(
    ctx: typer.Context, engine: Engine, folder: str | None, *, no_cache: bool
) -> Iterator[tuple[Engine, EvaluationSet]]:
    """Yield the evaluation set and the engine that has its memories: the user's own, or a temporary one."""
    from retentive.cli.show import progress
    from retentive.evaluation import read_evaluation_set
    from retentive.evaluation.own_judgements import own_evaluation_set
    from retentive.evaluation.run import open_evaluation_embedder, open_loaded_engine
    from retentive.inference.embedders.disk_cache import default_cache

    if folder is None:
        yield engine, own_evaluation_set(engine)
        return
    read = read_evaluation_set(folder)
    settings = load_settings({"embedder": common(ctx).embedder}, config=common(ctx).config).embedder
    cache = None if no_cache else default_cache()
    with ExitStack() as stack:
        embedder = stack.enter_context(open_evaluation_embedder(settings, cache=cache, queries=len(read.queries)))
        with progress("loading and embedding", total=read.corpus.memories) as advance:
            loaded = stack.enter_context(open_loaded_engine(read, embedder, progress=advance))
        yield loaded, read


def _plot_file(plot: str | None) -> Path | None:
    """The file to plot to; checked before a search of minutes starts."""
    if plot is None:
        return None
    path = Path(plot)
    if path.suffix not in (".html", ".svg"):
        raise Invalid(f"--plot takes a file that ends in .html or .svg, not '{plot}'")
    try:
        path.touch()
    except OSError as error:
        raise Invalid(f"the plot cannot be written to {plot}: {error.strerror or error}") from None
    return path


def _plot(done: TuningResult, path: Path) -> None:
    from retentive.evaluation.sensitivity import sensitivities, sensitivity_html, sensitivity_svg

    render = sensitivity_html if path.suffix == ".html" else sensitivity_svg
    path.write_text(render(done, sensitivities(done)), encoding="utf-8")


def _confirmed() -> bool:
    """Whether a person at a terminal confirms."""
    return sys.stdin.isatty() and sys.stdout.isatty() and typer.confirm("Save these parameters in the store?")


def _print_held_out(done: TuningResult) -> None:
    from retentive.cli.show import figures, print_line
    from retentive.evaluation.metrics import format_metric

    lines = []
    for name, one in done.held_out.items():
        cells = [name]
        for value, interval in (
            (one.before, one.before_interval),
            (one.after, one.after_interval),
            (one.gain, one.gain_interval),
        ):
            cells += [format_metric(name, value), " to ".join(format_metric(name, edge) for edge in interval)]
        lines.append([(cell, "bold" if name == done.metric else "") for cell in (*cells, f"{one.p_value:.3f}")])
    figures(("", "before", "95 %", "after", "95 %", "gain", "95 %", "p"), lines)
    by = "whole projects" if done.by == "project" else "queries"
    print_line(
        f"\n{done.set}: n = {done.queries}, all of them held out: {done.folds} folds of {by}, each measured with a "
        f"tuning chosen on the others ({counted(done.tunings, 'tuning')} evaluated, "
        f"on {counted(done.searched, 'query')})"
    )


def _print_verdict(done: TuningResult, kept: _Kept) -> None:
    from retentive.cli.show import print_line

    if done.verdict == "no_gain":
        print_line(f"no significant gain in {done.metric} on held-out queries; the tuning does not change")
    else:
        _print_better(done, kept)
    if kept.refined:
        _print_refined(kept.refined, saved=kept.refined_saved)


def _print_better(done: TuningResult, kept: _Kept) -> None:
    from retentive.cli.show import print_line

    print_line(f"better on held-out queries in {done.metric}; changes of the tuning chosen on all queries:")
    for parameter, (before, after) in done.parameters.items():
        print_line(f"  {parameter}: {before} → {after}")
    print_line("saved in the store" if kept.saved else "not saved; use --save to save it")
    if kept.overridden:
        names = ", ".join(kept.overridden)
        print_line(f"the config file or the environment still sets {names}; remove it there", style="yellow")
