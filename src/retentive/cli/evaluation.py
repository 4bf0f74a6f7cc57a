"""The command that measures recall: eval."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.options import common, emit, parse_parameters
from retentive.errors import Invalid
from retentive.models import counted, snippet
from retentive.settings import load_settings

if TYPE_CHECKING:
    from retentive.evaluation import Evaluation
    from retentive.evaluation.evaluate import By
    from retentive.evaluation.run import System

MILLISECONDS = ("p50_ms", "p95_ms")
WITH_INTERVALS = ("any@5", "any@10", "all@5", "nDCG@10", "MRR")
"""Metrics whose intervals are printed; all are in the JSON and in the report."""

SYSTEMS = "Rows"

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
            help="Add a row: the default with this parameter changed, such as judge_depth=20. --abstain uses it, too. "
            "Repeatable.",
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
        bool,
        typer.Option(
            "--abstain", help="Also measure relevance: on questions without an answer, idle prompts, other projects."
        ),
    ] = False,
    report: Annotated[
        str | None, typer.Option(help="Write a report to this file: HTML with plots, or Markdown (.md).")
    ] = None,
    no_cache: NoCache = False,
) -> None:
    """Evaluate recall on an evaluation set, with a row for each system: retrievers, presets, tunings.

    The set is loaded into a temporary store, or into the one given with --store. With --own, your store is used.
    """
    from retentive.cli.show import progress
    from retentive.evaluation.metrics import load_library

    load_library()  # fails early if it is not installed
    page = _writable(report)
    check_one_set(folder, own=own)
    options: dict[str, Any] = {"names": preset or (), "extra": _extra_rows(set_parameters), "baseline": baseline}
    options |= {"by": _by(by), "progress": progress, "abstaining": abstain}
    options |= {"parameters": parse_parameters(set_parameters)}
    done = _evaluate(ctx, folder, limit_queries, options, no_cache=no_cache)
    if page:
        from retentive.evaluation.report import report_html, report_markdown

        write = report_markdown if page.suffix.lower() == ".md" else report_html
        page.write_text(write(done), encoding="utf-8")
    emit(ctx, done.to_dict(), lambda _: _print_evaluation(done))


def _extra_rows(parameters: list[str] | None) -> list[System]:
    """The row of the default with some parameters changed, if some are given; like it without the judge, unless set."""
    from retentive.evaluation.run import System
    from retentive.ranking import PRESETS

    if not parameters:
        return []
    changed = parse_parameters(parameters)
    judge = {} if any(name.startswith("judge") for name in changed) else {"judge": "off"}
    return [System(" ".join(parameters), PRESETS["default"].with_parameters(**judge, **changed))]


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


def check_one_set(folder: str | None, *, own: bool) -> None:
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
    projects = f" in {counted(corpus.projects, 'project')}" if corpus.projects else ""
    print_line(
        f"\n{snippet(done.set, 80)}: n = {counted(len(done.queries), 'query')} "
        f"over {counted(corpus.memories, 'memory')}{projects}, "
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
    from retentive.evaluation.abstain import tables

    for title, heads, lines in tables(done.abstention) if done.abstention is not None else ():
        print_line(f"\n{title}", style="dim")
        figures(heads, [[(cell, "") for cell in line] for line in lines])


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
