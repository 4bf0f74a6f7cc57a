"""Prints a result, and writes it as Markdown and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from json import dumps
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from bench.figures import Result, SizeResult, Table, Target

TARGET_COLUMNS = ("figure", "target", "verdict")


def show(result: Result) -> None:
    """Print the result."""
    console = Console()
    if not console.is_terminal:
        console.width = 110
    for line in _heading(result):
        console.print(line, highlight=False)
    for size in result.sizes:
        console.rule(_title(size))
        for table in size.tables:
            console.print(_grid(table.title, table.columns, _cells(table)))
            if table.note:
                console.print(table.note, highlight=False, style="dim")
        console.print(_grid("Targets", TARGET_COLUMNS, _verdicts(size)))


def publish(result: Result, *, json: Path | None = None, markdown: Path | None = None) -> None:
    """Print the result, and write it to the files that are given."""
    show(result)
    if json:
        json.write_text(to_json(result), encoding="utf-8")
    if markdown:
        markdown.write_text(to_markdown(result), encoding="utf-8")


def to_markdown(result: Result) -> str:
    """Return the result as Markdown."""
    parts = ["# Measurements", *_heading(result)]
    for size in result.sizes:
        parts.append(f"## {_title(size)}")
        for table in size.tables:
            parts.append(f"### {table.title}")
            parts.append(_pipes(table.columns, _cells(table)))
            parts.append(table.note)
        parts += ["### Targets", _pipes(TARGET_COLUMNS, _verdicts(size))]
    return "\n\n".join(part for part in parts if part) + "\n"


def to_json(result: Result) -> str:
    """Return the result as JSON, with whether each target was met."""
    plain = asdict(result)
    for size, measured in zip(plain["sizes"], result.sizes, strict=True):
        for target, known in zip(size["targets"], measured.targets, strict=True):
            target["met"] = known.met
    return dumps(plain, ensure_ascii=False, indent=2) + "\n"


def number(value: float | None) -> str:
    """Format a number with its significant digits."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def _title(size: SizeResult) -> str:
    return f"{size.memories:,} memories"


def _heading(result: Result) -> Iterator[str]:
    yield ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield "{processor}, {cores} cores, {memory}, {system}".format(**result.machine)
    yield ", ".join(f"load average {when} {load:.2f}" for when, load in result.load.items())
    yield ", ".join(f"{name} {value}" for name, value in result.settings.items()) + f"; {result.seconds:.0f} s in total"
    yield result.vectors


def _cells(table: Table) -> Iterator[tuple[str, ...]]:
    for row in table.rows:
        yield row.subject, *(number(figure) for figure in row.figures)


def _verdicts(size: SizeResult) -> Iterator[tuple[str, ...]]:
    for target in size.targets:
        yield (
            target.name,
            _with_unit(target.figure, target),
            f"{target.sense} {_with_unit(target.limit, target)}",
            _verdict(target),
        )


def _verdict(target: Target) -> str:
    return "met" if target.met else "missed"


def _with_unit(value: float, target: Target) -> str:
    return f"{number(value)} {target.unit}".strip()


def _grid(title: str, columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> Grid:
    grid = Grid(title=title, title_justify="left", title_style="bold")
    grid.add_column("")
    for column in columns:
        grid.add_column(column, justify="right")
    for row in rows:
        grid.add_row(*row, style={"missed": "red", "met": "green"}.get(row[-1]))
    return grid


def _pipes(columns: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [("", *columns), ("---", *("---:" for _ in columns)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
