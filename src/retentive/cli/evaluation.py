"""Commands that measure recall and search for better parameters: eval and tune."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.options import common, emit, parse_parameters
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.models import snippet
from retentive.settings import load_settings

if TYPE_CHECKING:
    from retentive.evaluation import Evaluation, EvaluationSet
    from retentive.evaluation.evaluate import By
    from retentive.evaluation.own_relevance import OwnRelevance
    from retentive.evaluation.tune import TuningResult

MILLISECONDS = ("p50_ms", "p95_ms")
WITH_INTERVALS = ("any@5", "any@10", "all@5", "nDCG@10", "MRR")
"""Metrics whose intervals are printed; all are in the JSON and in the report."""

SYSTEMS = "Rows"
SEARCH = "Search"

Folder = Annotated[
    str | None,
    typer.Argument(metavar="SET", help="Folder of an evaluation set in BEIR's layout, or a benchmark's own file."),
]
Own = Annotated[bool, typer.Option("--own", help="Use the memories and judgements of your own store.")]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not read or write cached vectors.")]


def evaluate(
    ctx: typer.Context,
    folder: Folder = None,
    own: Own = False,
    preset: Annotated[
        list[str] | None,
        typer.Option(help="Only this row: keyword, semantic or a preset. Repeatable.", rich_help_panel=SYSTEMS),
    ] = None,
    set_parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Add a row: the default with this parameter changed, such as rerank=30. Repeatable.",
            rich_help_panel=SYSTEMS,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="Row to compare the others with.", show_default="classic-rrf", rich_help_panel=SYSTEMS),
    ] = None,
    by: Annotated[str | None, typer.Option(help="Also show groups of queries, by category or project.")] = None,
    limit_queries: Annotated[int | None, typer.Option(help="Use only the first queries, this many.")] = None,
    abstain: Annotated[
        bool, typer.Option("--abstain", help="Also ask each query where no answer is, and measure relevance.")
    ] = False,
    report: Annotated[str | None, typer.Option(help="Write a report with plots to this HTML file.")] = None,
    no_cache: NoCache = False,
) -> None:
    """Evaluate recall on an evaluation set, with a row for each system: retrievers, presets, tunings.

    The set is loaded into a temporary store, or into the one given with --store. With --own, your store is used.
    """
    from retentive.cli.show import progress
    from retentive.evaluation.metrics import load_library
    from retentive.evaluation.run import System
    from retentive.ranking import PRESETS

    load_library()  # fails early if it is not installed
    page = _writable(report)
    extra = []
    if set_parameters:
        tuning = PRESETS["default"].with_parameters(**parse_parameters(set_parameters))
        extra = [System(" ".join(set_parameters), tuning)]
    _check_one_set(folder, own=own)
    options: dict[str, Any] = {
        "names": preset or (),
        "extra": extra,
        "baseline": baseline,
        "by": _by(by),
        "progress": progress,
    }
    options["abstaining"] = abstain
    done = _evaluate(ctx, folder, limit_queries, options, no_cache=no_cache)
    if page:
        from retentive.evaluation.report import report_html

        page.write_text(report_html(done), encoding="utf-8")
    emit(ctx, done.to_dict(), lambda _: _print_evaluation(done))


def _evaluate(
    ctx: typer.Context, folder: str | None, limit_queries: int | None, options: dict[str, Any], *, no_cache: bool
) -> Evaluation:
    """Evaluate on the set in a folder, or on the judgements of the store if there is none."""
    from retentive.evaluation import evaluate as evaluate_set
    from retentive.evaluation import read_evaluation_set
    from retentive.evaluation.own_judgements import evaluate_own
    from retentive.inference.embedders.disk_cache import default_cache

    if folder is None:
        with common(ctx).engine() as engine:
            return evaluate_own(engine, limit_queries=limit_queries, **options)
    read = read_evaluation_set(folder)
    return evaluate_set(
        read if limit_queries is None else read.first(limit_queries),
        embedder=load_settings({"embedder": common(ctx).embedder}, config=common(ctx).config).embedder,
        cache=None if no_cache else default_cache(),
        store=_store_argument(ctx),
        **options,
    )


def _check_one_set(folder: str | None, *, own: bool) -> None:
    if own == (folder is not None):
        raise Invalid("give either the folder of an evaluation set, or --own for your own judgements")


def _store_argument(ctx: typer.Context) -> str | None:
    """The store given on the command line. The one in the environment is the user's own and is not used here."""
    source = ctx.parent.get_parameter_source("store") if ctx.parent else None
    return common(ctx).store if source is not None and source.name == "COMMANDLINE" else None


def _writable(report: str | None) -> Path | None:
    """The file to write; checked before an evaluation of minutes starts."""
    if report is None:
        return None
    page = Path(report)
    if page.is_dir() or not os.access(page if page.exists() else page.parent, os.W_OK):
        raise Invalid(f"the report cannot be written to {report}; give a file in an existing folder")
    return page


def _by(by: str | None) -> By | None:
    groups: dict[str, By] = {"category": "category", "project": "project"}
    if by is not None and by not in groups:
        raise Invalid(f"--by takes {' or '.join(groups)}, not '{by}'")
    return None if by is None else groups[by]


def _print_evaluation(done: Evaluation) -> None:
    """Print the rows, the set, the intervals and the groups."""
    from retentive.cli.show import print_line

    _print_table([(row.name, row.metrics) for row in done.rows])
    corpus, model = done.corpus, done.model
    projects = f" in {corpus.projects} projects" if corpus.projects else ""
    print_line(
        f"\n{snippet(done.set, 80)}: n = {len(done.queries)} queries over {corpus.memories:,} memories{projects}, "
        f"median {corpus.median_words:g} words; a query searches {corpus.searched:,.0f} (median)"
    )
    versions = ", ".join(f"{name} {number}" for name, number in done.versions.items())
    print_line(f"model {model or 'none'}; {versions}")
    print_line("any@k: any relevant found; all@5: all found; R@k: share found; ms without embedding the query")
    for note in done.notes:
        print_line(f"note: {note}")
    _print_intervals(done)
    _print_abstention(done)
    for group, count in done.groups.items():
        print_line(f"\n{snippet(group, 80)} (n = {count})", style="bold")
        _print_table([(row.name, row.by[group]) for row in done.rows])


def _print_abstention(done: Evaluation) -> None:
    from retentive.cli.show import figures, print_line

    found = done.abstention
    if found is None:
        return
    print_line(f"\nrelevance: each query also asked {found.elsewhere}, where it has no answer", style="dim")
    columns = ("", "AUROC", "lost", "abstained", "calibration error")
    cells = (f"{found.auroc:.4f}", f"{100 * found.lost:.1f} %", f"{100 * found.abstained:.1f} %")
    row = [f"min_relevance {found.min_relevance:g}", *cells, f"{found.calibration_error:.3f}"]
    figures(columns, [[(cell, "") for cell in row]])


def _print_table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> None:
    from retentive.cli.show import figures
    from retentive.evaluation.metrics import METRICS, format_metric

    columns = ("", *METRICS, *(name.replace("_", " ") for name in MILLISECONDS))
    best = {name: format_metric(name, max(metrics[name] for _, metrics in rows)) for name in METRICS}
    cells = []
    for row, metrics in rows:
        texts = {name: format_metric(name, metrics[name]) for name in METRICS}
        marked = [(text, "bold green" if text == best[name] else "") for name, text in texts.items()]
        cells.append([(row, ""), *marked, *((f"{metrics[name]:.1f}", "dim") for name in MILLISECONDS)])
    figures(columns, cells)


def _print_intervals(done: Evaluation) -> None:
    from retentive.cli.show import figures, print_line
    from retentive.evaluation.metrics import format_metric

    against = f"; p against {done.baseline} by a paired randomisation test" if done.baseline else ""
    print_line(f"\n95 % bootstrap intervals{against}", style="dim")
    columns = ("", *(head for name in WITH_INTERVALS for head in ((name, "p") if done.baseline else (name,))))
    cells = []
    for row in done.rows:
        line = [(row.name, "")]
        for name in WITH_INTERVALS:
            low, high = row.intervals[name]
            line.append((f"{format_metric(name, low)}–{format_metric(name, high)}", ""))
            if done.baseline:
                p = row.p_value[name] if row.p_value else None
                text = "" if p is None else f"{p:.3f}" if p >= 0.001 else "<.001"
                line.append((text, "bold" if p is not None and p < 0.05 else "dim"))
        cells.append(line)
    figures(columns, cells)


# tune


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
    from retentive.cli.show import progress
    from retentive.evaluation.metrics import load_library
    from retentive.evaluation.own_relevance import fit_own_relevance
    from retentive.evaluation.tune import tune as tune_on

    load_library()  # fails early if it is not installed
    file = _plot_file(plot)
    _check_one_set(folder, own=own)
    with common(ctx).engine(missing="error" if own else "empty" if dry_run else "create") as engine:
        with _loaded(ctx, engine, folder, no_cache=no_cache) as (loaded, evaluation_set):
            options: dict[str, Any] = {"metric": metric, "budget": budget, "sample": sample, "seed": seed}
            done = tune_on(loaded, evaluation_set, current=engine.tuning.current(), **options, progress=progress)
            if file:
                _plot(done, file)
        as_json = common(ctx).json
        if not as_json:
            _print_held_out(done)
        saved = done.verdict == "better" and not dry_run and (save or (not as_json and _confirmed()))
        overridden: list[str] = []
        if saved:
            now = engine.tuning.save({parameter: after for parameter, (_, after) in done.parameters.items()})
            # What the config file or the environment sets has priority over the store.
            overridden = [name for name in done.parameters if getattr(now, name) != getattr(done.best, name)]
        refined = fit_own_relevance(engine) if own else None
        if refined and save and not dry_run:
            refined.save(engine)
    value = {**done.to_dict(), "saved": saved, "overridden": overridden}
    value["relevance"] = refined and refined.to_dict()

    def print_all(_: object) -> None:
        _print_verdict(done, saved, overridden)
        if refined:
            _print_refined(refined, saved=save and not dry_run)

    emit(ctx, value, print_all)


def _print_refined(refined: OwnRelevance, *, saved: bool) -> None:
    from retentive.cli.show import print_line

    state = "saved in the store" if saved else "not saved; use --save to save it"
    print_line(
        f"relevance refined by {refined.judged} judgements: slope {refined.slope:g}, offset {refined.offset:g}, "
        f"min_relevance {refined.min_relevance:g}; {state}"
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
        f"tuning chosen on the others ({done.tunings} tunings evaluated, on {done.searched} queries)"
    )


def _print_verdict(done: TuningResult, saved: bool, overridden: list[str]) -> None:
    from retentive.cli.show import print_line

    if done.verdict == "no_gain":
        print_line(f"no significant gain in {done.metric} on held-out queries; the tuning does not change")
        return
    print_line(f"better on held-out queries in {done.metric}; changes of the tuning chosen on all queries:")
    for parameter, (before, after) in done.parameters.items():
        print_line(f"  {parameter}: {before} → {after}")
    print_line("saved in the store" if saved else "not saved; use --save to save it")
    if overridden:
        names = ", ".join(overridden)
        print_line(f"the config file or the environment still sets {names}; remove it there", style="yellow")
