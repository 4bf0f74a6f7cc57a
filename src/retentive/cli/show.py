"""The output for people. Memory text is untrusted: it is printed without markup and without control characters."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from retentive.cli.options import fits_terminal, no_colour, program, with_store
from retentive.models import (
    DEFAULT_MIN_RELEVANCE,
    JUDGED_MIN_RELEVANCE,
    Hit,
    Memory,
    Reason,
    Recall,
    counted,
    snippet,
    without_controls,
)

if TYPE_CHECKING:
    from retentive.pipeline.access_tokens import Token
    from retentive.pipeline.explain import Explanation
    from retentive.pipeline.given import Given
    from retentive.pipeline.review import Review
    from retentive.pipeline.similar import Similar
    from retentive.ranking import Tuning
    from retentive.stores.values import Page, Project, Session, Stats
    from retentive.transfer.importing.log import ImportRun

RETRIEVER_COLOURS = {"semantic": "cyan", "keyword": "magenta"}
BAR = 24
"""The width of the longest bar."""

Locate = Callable[[Memory], str | None]
"""Returns the file and line of a memory."""

Ids = Mapping[str, str]
"""How each id is shown."""

TIMES = ("last", "started", "created")
"""Columns that are never wrapped; names are, because they are typed again."""

WIDE = 100
"""In a narrower terminal, lines below a hit are indented less."""

NARROW = 72
"""In a narrower terminal, lists have days instead of times."""


class Output(Console):
    """A console that prints no colour if the user wants none, and ends successfully if its reader does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, color_system=None if no_colour() else "auto", **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


console = Output(soft_wrap=True)


def cut(text: str, *, used: int = 0) -> str:
    """A text on one line: cut to the rest of the terminal's width beside `used` columns, or whole in a pipe."""
    line = Text(snippet(text, len(text) + 1))
    if fits_terminal():
        line.truncate(max(console.width - used, 10), overflow="ellipsis")
    return line.plain


def wrapped(parts: Sequence[str], separator: str, *, indent: int) -> str:
    """Parts joined to lines that fit the terminal and are indented; one line in a pipe."""
    lines = [""]
    for part in parts:
        longer = f"{lines[-1]}{separator}{part}" if lines[-1] else part
        if lines[-1] and fits_terminal() and indent + cell_len(longer) > console.width:
            lines.append(part)
        else:
            lines[-1] = longer
    return "\n".join(" " * indent + line for line in lines)


def _print_table(table: Table) -> None:
    """Print a table: it fits the terminal, and is as wide as its texts in a pipe."""
    (Output() if fits_terminal() else Output(width=100_000)).print(table)


def _indent() -> int:
    return 5 if fits_terminal() and console.width < WIDE else 12


def safe(text: str) -> str:
    """Replace control characters, except line ends and tabs, with a dot, so that text cannot control the terminal."""
    return without_controls(text, keep="\n\t")


@contextmanager
def progress(label: str, *, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar with rate and remaining time on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeRemainingColumn

    class Rate(TextColumn):
        """The number of steps per second."""

        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f}/s" if task.speed else "", style="dim")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Rate(""), TimeRemainingColumn())
    with Progress(*columns, console=Output(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)


def working(label: str) -> AbstractContextManager[object]:
    """Show an activity indicator on standard error, for work of unknown duration."""
    return Output(stderr=True).status(label)


def print_line(line: str, *, style: str = "") -> None:
    """Print a line without markup; in a terminal, a long one is wrapped between words and indented as it is."""
    text = safe(line)
    if fits_terminal() and cell_len(text) > console.width and "\n" not in text.strip("\n"):
        start = text[: len(text) - len(text.lstrip("\n"))]
        words = text.lstrip("\n")
        text = start + wrapped(words.split(), " ", indent=len(words) - len(words.lstrip()))
    console.print(Text(text, style=style))


def figures(columns: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Print a table of names and figures, each cell with its style. Columns are never cut."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(safe(cell), style=style) for cell, style in row))
    Output(width=max(console.width, 160)).print(table, crop=False)


def _no_file(_: Memory) -> str | None:
    return None


def recall(answer: Recall, *, explain: bool, ids: Ids, locate: Locate = _no_file) -> None:
    """Print the hits with their relevance, and with scores and ranking steps if `explain` is set."""
    if answer.degraded:
        console.print(Text(with_store(f"{answer.degraded}: {answer.degraded_reason}"), style="yellow"))
    if not answer.hits:
        console.print(Text(answer.empty_note, style="dim"))
    best = max((abs(reason.change) for hit in answer.hits for reason in hit.why), default=1.0) or 1.0
    for hit in answer.hits:
        _hit(hit, ids, locate, score=explain)
        if explain:
            for reason in hit.why:
                _reason(reason, best)
            console.print()
    least = JUDGED_MIN_RELEVANCE if "judge" in answer.stages else DEFAULT_MIN_RELEVANCE
    if answer.hits and answer.relevance < least and console.is_terminal:
        note = f"probably nothing stored answers this (relevance {answer.relevance:.0%})"
        console.print(Text(note, style="yellow"))
    if explain:
        _retrievers(answer)


def explanation(seen: Explanation, *, ids: Ids, locate: Locate = _no_file) -> None:
    """Print a memory, its outcome with the reasons, and the hits just above and below it."""
    if seen.degraded:
        console.print(Text(with_store(f"{seen.degraded}: {seen.degraded_reason}"), style="yellow"))
    console.print(Text(cut(seen.memory.indexed_text), style="bold"))
    console.print(Text(safe(wrapped(_where(seen.memory, ids, locate), " · ", indent=0)), style="dim"))
    console.print(Text(f"\n{wrapped(safe(seen.sentence).split(), ' ', indent=0)}\n"))
    if seen.hit:
        best = max((abs(reason.change) for reason in seen.hit.why), default=1.0) or 1.0
        for reason in seen.hit.why:
            _reason(reason, best)
    for label, hit in (("just above", seen.above), ("just below", seen.below)):
        if hit:
            console.print(Text(f"\n{label}", style="dim"))
            _hit(hit, ids, locate, score=True)


def _hit(hit: Hit, ids: Ids, locate: Locate, *, score: bool) -> None:
    memory = hit.memory
    head = Text(f"{hit.rank:>3}  ", style="bold")
    head.append(f"{'–' if hit.relevance is None else f'{hit.relevance:.0%}':>4}  ", style="cyan")
    if score:
        head.append(f"score {hit.score:.3f}  ", style="green")
    console.print(head.append(cut(memory.indexed_text, used=cell_len(head.plain)), style="default"))
    console.print(Text(safe(wrapped(_where(memory, ids, locate), " · ", indent=_indent())), style="dim"))


def _where(memory: Memory, ids: Ids, locate: Locate) -> list[str]:
    session = f"{cut(memory.session, used=_indent() + 6)} #{memory.position}" if memory.session else None
    project = cut(memory.project, used=_indent()) if memory.project else None
    kind = memory.kind if memory.kind != "episodic" else None
    parts = (locate(memory), project, session, kind, _time(memory.when), ids.get(memory.id, memory.id))
    return [part for part in parts if part]


def _reason(reason: Reason, best: float) -> None:
    """Print a step as a line such as `keyword #1  ████████  +0.600  0.60 × 1.000, from 4.213`.

    The arithmetic is below the bar in a terminal that is too narrow for it.
    """
    rank = f"#{reason.rank}" if reason.rank else ("–" if reason.step in RETRIEVER_COLOURS else "")
    cells = round(BAR * abs(reason.change) / best)
    colour = RETRIEVER_COLOURS.get(reason.step, "blue" if reason.change >= 0 else "red")
    indent, note = _indent(), safe(reason.note)
    line = Text(" " * indent + f"{reason.step:<9}{rank:>4}  ")
    line.append(("█" * cells).ljust(BAR), style=colour).append(f" {reason.change:+.4f}")
    if not fits_terminal() or line.cell_len + 2 + cell_len(note) <= console.width:
        console.print(line.append("  ").append(note, style="dim"))
        return
    console.print(line)
    console.print(Text(wrapped(note.split(), " ", indent=indent + 2), style="dim"))


def _retrievers(answer: Recall) -> None:
    notes = [retriever.note for retriever in answer.retrievers]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("retriever", "weight", "found", "ms", "" if any(notes) else None):
        if column is not None:
            table.add_column(column, justify="right" if column in ("weight", "found", "ms") else "left")
    for retriever in answer.retrievers:
        colour = RETRIEVER_COLOURS.get(retriever.name, "default")
        ms = f"{retriever.elapsed_ms:.1f}" if retriever.ran else "–"
        found = str(retriever.found) if retriever.ran else "–"
        note = [Text(safe(retriever.note))] if any(notes) else []
        table.add_row(Text(retriever.name, style=colour), f"{retriever.weight:g}", found, ms, *note)
    _print_table(table)
    stages = [f"{name} {ms:.1f}" for name, ms in answer.stages.items()]
    console.print(Text(wrapped([f"{answer.elapsed_ms:.1f} ms total:", *stages], "  ", indent=0), style="dim"))


def memory(memory: Memory) -> None:
    """Print a memory with all its fields."""
    rows = {**memory.to_dict(), "version": memory.version}.items()
    _fields([(name, str(value)) for name, value in rows if value not in (None, {}, False) and name != "text"])
    console.print(Text("\n" + safe(memory.text)))


def _fields(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and texts in two columns; a long text goes on below itself."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(safe(text)))
    _print_table(table)


def page(page: Page, ids: Ids) -> None:
    """Print one line for each memory."""
    now = datetime.now(UTC)
    for memory in page.memories:
        line = Text(ids.get(memory.id, memory.id), style="dim").append(f"  {_time(memory.when)}  ", style="cyan")
        end = ""
        if memory.valid_to:
            end = "  (retired)" if memory.valid_to <= now else f"  (until {memory.valid_to:%Y-%m-%d})"
        line.append(cut(memory.indexed_text, used=line.cell_len + len(end)), style="default")
        console.print(line.append(end, style="dim"))
    for damage in page.damaged:
        console.print(Text(damage.id, style="dim").append(f"  damaged: {damage.reason}", style="red"))
    if not (page.memories or page.damaged):
        console.print(Text("no memories", style="dim"))
    if page.next_cursor:
        console.print(Text(f"more: --cursor {page.next_cursor}", style="dim"))


def remembered(id: str, alike: Sequence[Similar], ids: Ids) -> None:
    """Print the id of a new memory, and the memories that are like it."""
    console.print(Text(ids[id]))
    for one in alike:
        line = Text(f"similar: {ids[one.id]}  {one.cosine or 0:.2f}  ", style="dim")
        console.print(line.append(cut(one.text, used=line.cell_len), style="default"))


def history(memories: Sequence[Memory], id: str, ids: Ids) -> None:
    """Print one line for each version of a fact, oldest first; the given one is marked."""
    now = datetime.now(UTC)
    for memory in memories:
        end = memory.valid_to or memory.expires
        until = f"{end:%Y-%m-%d}" if end else "now" if memory.start <= now else ""
        period = f"{memory.start:%Y-%m-%d} – {until:<10}"
        line = Text("→ " if memory.id == id else "  ").append(period, style="cyan")
        line.append(f"  {ids.get(memory.id, memory.id)}  ", style="dim")
        console.print(line.append(cut(memory.indexed_text, used=line.cell_len), style="default"))
        if memory.reason:
            console.print(Text(f"    {cut(memory.reason, used=4)}", style="dim"))


def reviews(found: Sequence[Review], ids: Ids, status: str) -> None:
    """Print each suggestion with its two memories."""
    for one in found:
        id = ids[one.suggestion.id]
        console.print(Text(f"{id}  ", style="dim").append(cut(one.suggestion.reason, used=len(id) + 2)))
        for label, memory in (("old", one.old), ("new", one.new)):
            line = Text(f"  {label} {memory.start:%Y-%m-%d}  ", style="cyan")
            console.print(line.append(cut(memory.indexed_text, used=line.cell_len), style="default"))
        if one.suggestion.proposal:
            console.print(Text(f"  LLM: {cut(one.suggestion.proposal, used=7)}", style="dim"))
    if not found:
        console.print(Text(f"no {status} suggestions", style="dim"))


def given(found: Sequence[Given]) -> None:
    """Print each prompt with the memories that it got."""
    for one in found:
        head = Text(f"{_time(one.at.astimezone())}  ", style="dim").append(f"{safe(one.client)}  ", style="cyan")
        console.print(head.append(cut(one.query or "(no query)", used=head.cell_len), style="default"))
        for note in one.notes:
            share = note.part if note.relevance is None else f"{note.relevance:.0%}"
            line = Text(f"  {share:>8}  ", style="green")
            console.print(line.append(cut(note.text or "(forgotten)", used=line.cell_len), style="default"))
    helped = sum(bool(one.notes) for one in found)
    none = with_store("nothing was given yet, or the log is off (given_days)")
    console.print(Text(f"{helped} of {counted(len(found), 'prompt')} got memories" if found else none, style="dim"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    if not rows:
        console.print(Text(empty, style="dim"))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        number = column in ("memories", "sessions")
        table.add_column(
            column, justify="right" if number else "left", no_wrap=number or column in TIMES, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    _print_table(table)


def _time(time: datetime) -> str:
    """A time; in a narrow terminal, its day."""
    return f"{time:%Y-%m-%d}" if fits_terminal() and console.width < NARROW else f"{time:%Y-%m-%d %H:%M}"


def sessions(found: Sequence[Session]) -> None:
    """Print one line for each session."""
    rows = [(s.name, s.project or "–", str(s.memories), _time(s.last) if s.last else "–") for s in found]
    _table(("session", "project", "memories", "last"), rows, empty="no sessions yet")


def projects(found: Sequence[Project]) -> None:
    """Print one line for each project."""
    rows = [(p.name, str(p.sessions), str(p.memories)) for p in found]
    _table(("project", "sessions", "memories"), rows, empty="no projects yet")


def imports(found: Sequence[ImportRun]) -> None:
    """Print one line for each import."""
    rows = [(run.id, run.format, f"{run.added:,}", _time(run.started), _ended(run), run.path) for run in found]
    _table(("import", "format", "memories", "started", "", "path"), rows, empty="no imports that can be undone")


def _ended(run: ImportRun) -> str:
    return "" if run.ended else "interrupted: import it again, or undo it"


def tokens(found: Sequence[Token]) -> None:
    """Print one line for each token."""
    rows = [(t.id, "(all)" if t.profile is None else t.profile, t.access, _time(t.created), t.note) for t in found]
    _table(
        ("id", "profile", "access", "created", "note"),
        rows,
        empty=with_store("no tokens; create one with: retentive token create"),
    )


def status(store: str, stats: Stats, problem: str | None) -> None:
    """Print the statistics of a store."""
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in stats.by_kind.items() if count)
    rows = [
        ("store", f"{store} ({stats.bytes / 1e6:.1f} MB)"),
        ("memories", f"{stats.memories:,}" + (f" ({kinds})" if kinds else "")),
        ("scopes", ", ".join(counted(getattr(stats, f"{one}s"), one) for one in ("profile", "project", "session"))),
        (
            "vectors",
            f"{stats.vectors:,}" + (f", {counted(stats.unembedded, 'memory')} without one" if stats.unembedded else ""),
        ),
        ("model", str(stats.model) if stats.model else "none"),
    ]
    _fields(rows)
    if problem:
        console.print(Text(f"recall is keyword-only: {problem}", style="yellow"))


def checks(found: Mapping[str, Sequence[str]]) -> None:
    """Print the problems of each part, or that it has none."""
    for name, problems in found.items():
        for problem in problems or ("ok",):
            colour = "red" if problems else "green"
            console.print(
                Text("✗ " if problems else "✓ ", style=colour).append(f"{name}: {safe(problem)}", style="default")
            )


def config(value: Mapping[str, Any], tuning: type[Tuning]) -> None:
    """Print the settings in effect; tuning parameters that are saved in the store are marked."""
    for name in ("store", "config_file", "embedder"):
        console.print(Text(f"{name:<12}", style="dim").append(safe(str(value[name] or "–")), style="default"))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("parameter", "value", "description"):
        table.add_column(column)
    for name, parameter in tuning.model_fields.items():
        saved = " (saved)" if name in value["saved"] else ""
        table.add_row(name, Text(f"{value['tuning'][name]}{saved}"), Text(parameter.description or "", style="dim"))
    _print_table(table)


def config_changes(changes: Mapping[str, tuple[Any, Any]], overridden: Sequence[str]) -> None:
    """Print the parameters that have changed, and those that the config file or the environment still sets."""
    for name, (before, after) in changes.items():
        console.print(Text(f"{name}: ", style="dim").append(f"{before} → {after}", style="default"))
    if not changes:
        console.print(Text("nothing changed", style="dim"))
    for name in overridden:
        text = f"{name} is saved, but the config file or the environment still sets it"
        console.print(Text(text, style="yellow"))


def welcome(answer: Recall, *, added: int, profile: str, store: str | None, queries: Sequence[str], ids: Ids) -> None:
    """Print an explained recall on the samples, and commands to try next."""
    loaded = f"{added} sample memories loaded" if added else "the sample memories were already stored"
    console.print(Text(f"{loaded}, in the profile '{profile}'.\n", style="dim"))
    console.print(Text(answer.query, style="bold"))
    recall(answer, explain=True, ids=ids)
    command = f"{program()} --store {shlex.quote(store)}" if store else program()
    console.print(Text("\nTry:", style="bold"))
    for query in queries[1:]:
        console.print(Text(f"  {command} recall '{query}' --profile {shlex.quote(profile)} --explain"))
    console.print(Text(f"  {command} remember 'The plumber comes on Monday at nine' --project home"))
    console.print(Text(f"  {command} samples --remove"))


def home(lines: Mapping[str, str], steps: Sequence[tuple[str, str]]) -> None:
    """Print the state of the store, and commands to try next."""
    _fields(list(lines.items()))
    console.print(Text("\nTry", style="bold"))
    width = max(len(line) for line, note in steps if note) + 2
    for line, note in steps:
        fits = len(line) + len(note) + 6 <= console.width
        console.print(Text(f"  {line:<{width if note else 0}}").append(note if fits else "", style="dim"))
