"""The command that measures recall on a judged set."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from retentive.cli.options import common, emit
from retentive.cli.recalling import parse_parameters
from retentive.errors import Invalid
from retentive.settings import load_settings

if TYPE_CHECKING:
    from retentive.evaluation import Evaluation
    from retentive.evaluation.result import By
    from retentive.evaluation.run import System

MILLISECONDS = ("p50_ms", "p95_ms")
UNSURE = ("any@5", "any@10", "all@5", "nDCG@10", "MRR")
"""Metrics whose intervals are printed; all are in the JSON and in the report."""


def evaluate_set(
    ctx: typer.Context,
    folder: Annotated[str | None, typer.Argument(metavar="SET", help="A folder in BEIR's layout.")] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Your own memories and judgements, in your store.")] = False,
    by: Annotated[str | None, typer.Option(help="Also by part of the queries: category or project.")] = None,
    preset: Annotated[
        list[str] | None, typer.Option(help="Only this row: keyword, semantic or a preset; may be repeated.")
    ] = None,
    set_parameters: Annotated[
        list[str] | None,
        typer.Option("--set", help="Add a row: the default with this parameter turned, such as rerank=30; repeatable."),
    ] = None,
    limit_queries: Annotated[int | None, typer.Option(help="Ask only the first so many queries.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The row that others are compared with.", show_default="classic-rrf")
    ] = None,
    report: Annotated[str | None, typer.Option(help="Write a page with plots to this HTML file.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Embed everything anew and keep no vectors.")] = False,
) -> None:
    """Measure how well recall finds what a judged set asks for, a row for each way to rank.

    The set is loaded into a store of its own, which --store keeps. With --mine, your store is measured as it is.
    """
    from retentive.cli.show import progress
    from retentive.evaluation import evaluate, read_judged_set
    from retentive.evaluation.metrics import library
    from retentive.evaluation.own_judgements import evaluate_mine
    from retentive.inference.embedders.disk_cache import default_cache

    library()  # whether it is there is known before anything is read
    page = _writable(report)
    options: dict[str, Any] = {
        "names": preset or (),
        "besides": _turned(set_parameters),
        "baseline": baseline,
        "by": _by(by),
        "progress": progress,
    }
    if check_set(folder, mine=mine) is None:
        with common(ctx).engine() as engine:
            done = evaluate_mine(engine, limit_queries=limit_queries, **options)
    else:
        judged = read_judged_set(folder or "")
        done = evaluate(
            judged if limit_queries is None else judged.first(limit_queries),
            embedder=load_settings({"embedder": common(ctx).embedder}, config=common(ctx).config).embedder,
            cache=None if no_cache else default_cache(),
            store=_named_store(ctx),
            **options,
        )
    if page:
        from retentive.evaluation.report import report_html

        page.write_text(report_html(done), encoding="utf-8")
    emit(ctx, done.to_dict(), lambda: _show(done))


def check_set(folder: str | None, *, mine: bool) -> str | None:
    """The folder of the set, or None for one's own judgements; exactly one of them is to be named."""
    if mine == (folder is not None):
        raise Invalid("name a folder with a judged set, or say --mine for your own judgements")
    return folder


def _turned(pairs: list[str] | None) -> list[System]:
    """The default with parameters turned, as a row of its own."""
    from retentive.evaluation.run import System
    from retentive.ranking import PRESETS

    return [System(" ".join(pairs), PRESETS["default"].with_parameters(**parse_parameters(pairs)))] if pairs else []


def _named_store(ctx: typer.Context) -> str | None:
    """The store named on the command line. One from the environment is the user's own and stays out of it."""
    source = ctx.parent.get_parameter_source("store") if ctx.parent else None
    return common(ctx).store if source is not None and source.name == "COMMANDLINE" else None


def _writable(report: str | None) -> Path | None:
    """The file to write, known to be possible before minutes are spent."""
    if report is None:
        return None
    page = Path(report)
    if page.is_dir() or not os.access(page if page.exists() else page.parent, os.W_OK):
        raise Invalid(f"the report cannot be written to {report}; name a file in a folder that is there")
    return page


def _by(by: str | None) -> By | None:
    groups: dict[str, By] = {"category": "category", "project": "project"}
    if by is not None and by not in groups:
        raise Invalid(f"--by takes {' or '.join(groups)}, not '{by}'")
    return None if by is None else groups[by]


def _show(done: Evaluation) -> None:
    """The rows, what they were measured on, and how sure they are."""
    from retentive.cli.show import one_line, print_line

    _table([(row.name, row.metrics) for row in done.rows])
    pool, model = done.pool, done.model
    inside = f" in {pool.projects} projects" if pool.projects else ""
    print_line(
        f"\n{one_line(done.set, 80)}: n = {len(done.queries)} queries over {pool.memories:,} memories{inside}, "
        f"median {pool.median_words:g} words; a query sees {pool.searched:,.0f} (median)"
    )
    versions = ", ".join(f"{name} {number}" for name, number in done.versions.items())
    print_line(f"model {model or 'none'}; {versions}")
    print_line("any@k: any relevant found; all@5: all found; R@k: share found; ms without embedding the query")
    for note in done.notes:
        print_line(f"note: {note}")
    _show_intervals(done)
    for group, count in done.groups.items():
        print_line(f"\n{one_line(group, 80)} (n = {count})", style="bold")
        _table([(row.name, row.by[group]) for row in done.rows])


def _table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> None:
    from retentive.cli.show import figures
    from retentive.evaluation.metrics import METRICS

    columns = ("", *METRICS, *(name.replace("_", " ") for name in MILLISECONDS))
    best = {name: max(_spelled(name, metrics[name]) for _, metrics in rows) for name in METRICS}
    cells = []
    for row, metrics in rows:
        spelled = {name: _spelled(name, metrics[name]) for name in METRICS}
        marked = [(text, "bold green" if text == best[name] else "") for name, text in spelled.items()]
        cells.append([(row, ""), *marked, *((f"{metrics[name]:.1f}", "dim") for name in MILLISECONDS)])
    figures(columns, cells)


def _show_intervals(done: Evaluation) -> None:
    from retentive.cli.show import figures, print_line

    against = f"; p against {done.baseline} by a paired randomisation test" if done.baseline else ""
    print_line(f"\n95 % bootstrap intervals{against}", style="dim")
    columns = ("", *(head for name in UNSURE for head in ((name, "p") if done.baseline else (name,))))
    cells = []
    for row in done.rows:
        line = [(row.name, "")]
        for name in UNSURE:
            low, high = row.intervals[name]
            line.append((f"{_spelled(name, low).strip()}–{_spelled(name, high).strip()}", ""))
            if done.baseline:
                p = row.p_value[name] if row.p_value else None
                line.append((_chance(p), "bold" if p is not None and p < 0.05 else "dim"))
        cells.append(line)
    figures(columns, cells)


def _spelled(name: str, value: float) -> str:
    """A share as a percentage with one decimal, anything else with three; padded, so that the largest sorts last."""
    from retentive.evaluation.metrics import SHARES

    return f"{100 * value:5.1f}" if name in SHARES else f"{value:.3f}"


def _chance(p: float | None) -> str:
    return "" if p is None else f"{p:.3f}" if p >= 0.001 else "<.001"
