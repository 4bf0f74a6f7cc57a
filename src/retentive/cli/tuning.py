"""The command that looks for better parameters, and keeps them only where they are shown to be better."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.evaluating import check_set
from retentive.cli.options import common, emit
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.settings import load_settings

if TYPE_CHECKING:
    from retentive.evaluation.evaluation_set import JudgedSet
    from retentive.evaluation.tune import Tuned


def tune(
    ctx: typer.Context,
    folder: Annotated[str | None, typer.Argument(metavar="SET", help="A folder in BEIR's layout.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Your own memories and judgements, in your store.")] = False,
    metric: Annotated[str, typer.Option(help="What to raise: nDCG@10, any@5, R@10, MRR …")] = "nDCG@10",
    budget: Annotated[int, typer.Option(help="How many tunings each search may look at.")] = 150,
    sample: Annotated[int, typer.Option(help="On how many queries to search; the verdict is on all.")] = 300,
    seed: Annotated[int, typer.Option(help="Another seed parts and searches otherwise.")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="Keep a better tuning in the store without asking.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Keep nothing and ask nothing.")] = False,
    plot: Annotated[
        str | None, typer.Option(help="Draw the metric by each parameter to this .html or .svg file.")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Embed the set anew and keep no vectors.")] = False,
) -> None:
    """Search for parameters that find more, and keep them in your store if held-out queries agree.

    Each tuning is chosen on some queries and measured on others. Without a real gain the present tuning stands.
    """
    from retentive.cli.show import progress
    from retentive.evaluation.metrics import library
    from retentive.evaluation.tune import tune as tune_on

    library()  # whether it is there is known before anything is read
    drawing = _drawing(plot)
    named = check_set(folder, mine=mine)
    with common(ctx).engine() as own:
        with _loaded(ctx, own, named, no_cache=no_cache) as (engine, judged):
            options: dict[str, Any] = {"metric": metric, "budget": budget, "sample": sample, "seed": seed}
            done = tune_on(engine, judged, present=own.tuning.current(), **options, progress=progress)
            if drawing:
                _draw(done, drawing)
        as_json = common(ctx).json
        if not as_json:
            _show(done)
        kept = done.verdict == "better" and not dry_run and (keep or (not as_json and _confirmed()))
        overruled = _keep(own, done) if kept else []
    emit(ctx, {**done.to_dict(), "kept": kept, "overruled": overruled}, lambda: _tell(done, kept, overruled))


@contextmanager
def _loaded(
    ctx: typer.Context, own: Engine, folder: str | None, *, no_cache: bool
) -> Iterator[tuple[Engine, JudgedSet]]:
    """An engine that holds the set to tune on: one's own, or one for the time being."""
    from retentive.cli.show import progress
    from retentive.evaluation.evaluation_set import read_judged_set
    from retentive.evaluation.loading import open_loaded_engine, open_measuring_embedder
    from retentive.evaluation.own_judgements import own_set
    from retentive.inference.embedders.disk_cache import default_cache

    if folder is None:
        yield own, own_set(own)
        return
    judged = read_judged_set(folder)
    settings = load_settings({"embedder": common(ctx).embedder}, config=common(ctx).config).embedder
    cache = None if no_cache else default_cache()
    with ExitStack() as stack:
        embedder = stack.enter_context(open_measuring_embedder(settings, cache=cache, queries=len(judged.queries)))
        with progress("loading and embedding", total=judged.pool.memories) as loaded:
            engine = stack.enter_context(open_loaded_engine(judged, embedder, progress=loaded))
        yield engine, judged


def _drawing(plot: str | None) -> Path | None:
    """The file to draw to, known to be possible before minutes are spent."""
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


def _draw(done: Tuned, path: Path) -> None:
    from retentive.evaluation.sensitivity import responses, responses_html, responses_svg

    draw = responses_html if path.suffix == ".html" else responses_svg
    path.write_text(draw(done, responses(done)), encoding="utf-8")


def _confirmed() -> bool:
    """Whether a person at a terminal says yes."""
    return sys.stdin.isatty() and sys.stdout.isatty() and typer.confirm("Keep these parameters in the store?")


def _keep(own: Engine, done: Tuned) -> list[str]:
    """Keep the parameters that changed; those that something above the store sets all the same."""
    now = own.tuning.save({parameter: after for parameter, (_, after) in done.parameters.items()})
    return [parameter for parameter in done.parameters if getattr(now, parameter) != getattr(done.found, parameter)]


def _show(done: Tuned) -> None:
    from retentive.cli.show import figures, print_line
    from retentive.evaluation.metrics import SHARES
    from retentive.evaluation.plots import spell

    columns = ("", "before", "95 %", "after", "95 %", "gain", "95 %", "p")
    lines = []
    for name, one in done.held_out.items():
        cells = [name]
        for value, (low, high) in (
            (one.before, one.before_interval),
            (one.after, one.after_interval),
            (one.gain, one.gain_interval),
        ):
            low_high = [spell(edge, name in SHARES) for edge in (low, high)]
            cells += [spell(value, name in SHARES), " to ".join(low_high)]
        lines.append([(cell, "bold" if name == done.metric else "") for cell in (*cells, f"{one.p_value:.3f}")])
    figures(columns, lines)
    by = "whole projects" if done.by == "project" else "queries"
    print_line(
        f"\n{done.set}: n = {done.queries}, all of them held out: {done.folds} folds of {by}, each asked with a "
        f"tuning chosen on the others ({done.tunings} tunings looked at, on {done.searched} queries)"
    )


def _tell(done: Tuned, kept: bool, overruled: list[str]) -> None:
    from retentive.cli.show import print_line

    if done.verdict == "stands":
        print_line(f"the present tuning stands: no gain in {done.metric} that held-out queries confirm")
        return
    print_line(f"better on held-out queries in {done.metric}; on all queries the search turned:")
    for parameter, (before, after) in done.parameters.items():
        print_line(f"  {parameter}: {before} → {after}")
    print_line("kept in the store" if kept else "not kept; --keep keeps it")
    if overruled:
        names = ", ".join(overruled)
        print_line(f"the config file or the environment still sets {names}; take it out there", style="yellow")
