"""The output for people. Memory text is untrusted: it is printed without markup and without control characters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from shutil import which
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from retentive.cli.options import with_store
from retentive.models import Hit, Memory, Reason, Recall, snippet
from retentive.pipeline.explain import Explanation
from retentive.stores.values import Page, Project, Session, Stats

if TYPE_CHECKING:
    from retentive.pipeline.access_tokens import Token
    from retentive.ranking import Tuning
    from retentive.transfer.importing.log import ImportRun

RETRIEVER_COLOURS = {"semantic": "cyan", "keyword": "magenta"}
BAR = 24
"""The width of the longest bar."""

Locate = Callable[[Memory], str | None]
"""Returns the file and line of a memory."""

console = Console(highlight=False, soft_wrap=True)


def safe(text: str) -> str:
    """Replace control characters, except line ends and tabs, with a dot, so that text cannot control the terminal."""
    return "".join(char if char in "\n\t" or char.isprintable() else "·" for char in text)


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
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)


def working(label: str) -> AbstractContextManager[object]:
    """Show an activity indicator on standard error, for work of unknown duration."""
    return Console(stderr=True).status(label)


def print_line(line: str, *, style: str = "") -> None:
    """Print a line without markup."""
    console.print(Text(safe(line), style=style))


def figures(columns: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> None:
    """Print a table of names and figures, each cell with its style. Columns are never cut."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for at, column in enumerate(columns):
        table.add_column(column, justify="right" if at else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(safe(cell), style=style) for cell, style in row))
    Console(highlight=False, width=max(console.width, 160)).print(table, crop=False)


def _no_file(_: Memory) -> str | None:
    return None


def recall(answer: Recall, *, explain: bool, locate: Locate = _no_file) -> None:
    """Print the hits with their scores, and with the ranking steps if `explain` is set."""
    if answer.degraded:
        console.print(Text(with_store(f"{answer.degraded}: {answer.degraded_reason}"), style="yellow"))
    if not answer.hits:
        console.print(Text(answer.empty_note, style="dim"))
    best = max((abs(reason.change) for hit in answer.hits for reason in hit.why), default=1.0) or 1.0
    for hit in answer.hits:
        _hit(hit, locate)
        if explain:
            for reason in hit.why:
                console.print(_reason(reason, best))
            console.print()
    if explain:
        _retrievers(answer)


def explanation(seen: Explanation, *, locate: Locate = _no_file) -> None:
    """Print a memory, its outcome with the reasons, and the hits just above and below it."""
    if seen.degraded:
        console.print(Text(with_store(f"{seen.degraded}: {seen.degraded_reason}"), style="yellow"))
    console.print(Text(snippet(seen.memory.indexed_text, max(console.width - 2, 40)), style="bold"))
    console.print(Text(safe(_where(seen.memory, locate)), style="dim"))
    console.print(Text("\n" + safe(seen.sentence) + "\n"))
    if seen.hit:
        best = max((abs(reason.change) for reason in seen.hit.why), default=1.0) or 1.0
        for reason in seen.hit.why:
            console.print(_reason(reason, best))
    for label, hit in (("just above", seen.above), ("just below", seen.below)):
        if hit:
            console.print(Text(f"\n{label}", style="dim"))
            _hit(hit, locate)


def _hit(hit: Hit, locate: Locate) -> None:
    memory = hit.memory
    width = max(console.width - 20, 40)
    head = Text(f"{hit.rank:>3}  ", style="bold").append(f"{hit.score:.3f}  ", style="green")
    head.append("      " if hit.relevance is None else f"{hit.relevance:.2f}  ", style="cyan")
    console.print(head.append(snippet(memory.indexed_text, width), style="default"))
    console.print(Text(" " * 12 + safe(_where(memory, locate)), style="dim"))


def _where(memory: Memory, locate: Locate) -> str:
    session = f"{memory.session} #{memory.position}" if memory.session else None
    kind = memory.kind if memory.kind != "episodic" else None
    parts = (locate(memory), memory.project, session, kind, memory.when.strftime("%Y-%m-%d %H:%M"), memory.id)
    return " · ".join(part for part in parts if part)


def _reason(reason: Reason, best: float) -> Text:
    """Format a step as a line such as `keyword #1  ████████  +0.600  0.60 × 1.000, from 4.213`."""
    rank = f"#{reason.rank}" if reason.rank else ("–" if reason.step in RETRIEVER_COLOURS else "")
    cells = round(BAR * abs(reason.change) / best)
    colour = RETRIEVER_COLOURS.get(reason.step, "blue" if reason.change >= 0 else "red")
    line = Text(" " * 12 + f"{reason.step:<9}{rank:>4}  ")
    line.append(("█" * cells).ljust(BAR), style=colour)
    return line.append(f" {reason.change:+.4f}  ").append(safe(reason.note), style="dim")


def _retrievers(answer: Recall) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("retriever", "weight", "found", "ms", ""):
        table.add_column(column, justify="right" if column in ("weight", "found", "ms") else "left")
    for retriever in answer.retrievers:
        colour = RETRIEVER_COLOURS.get(retriever.name, "default")
        ms = f"{retriever.elapsed_ms:.1f}" if retriever.ran else "–"
        found = str(retriever.found) if retriever.ran else "–"
        table.add_row(
            Text(retriever.name, style=colour), f"{retriever.weight:g}", found, ms, Text(safe(retriever.note))
        )
    console.print(table)
    stages = "  ".join(f"{name} {ms:.1f}" for name, ms in answer.stages.items())
    console.print(Text(f"{answer.elapsed_ms:.1f} ms total: {stages}", style="dim"))


def memory(memory: Memory) -> None:
    """Print a memory with all its fields."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in {**memory.to_dict(), "version": memory.version}.items():
        if value not in (None, {}, False) and name != "text":
            table.add_row(name, Text(safe(str(value))))
    console.print(table)
    console.print(Text("\n" + safe(memory.text)))


def page(page: Page) -> None:
    """Print one line for each memory."""
    for memory in page.memories:
        when = memory.when.strftime("%Y-%m-%d %H:%M")
        line = Text(memory.id, style="dim").append(f"  {when}  ", style="cyan")
        line.append(snippet(memory.indexed_text, max(console.width - 58, 30)), style="default")
        console.print(line.append("  (retired)" if memory.valid_to else "", style="dim"))
    for damage in page.damaged:
        console.print(Text(damage.id, style="dim").append(f"  damaged: {damage.reason}", style="red"))
    if not (page.memories or page.damaged):
        console.print(Text("no memories", style="dim"))
    if page.next_cursor:
        console.print(Text(f"more: --cursor {page.next_cursor}", style="dim"))


def history(memories: Sequence[Memory], id: str) -> None:
    """Print one line for each version of a fact, oldest first; the given one is marked."""
    for memory in memories:
        end = memory.valid_to or memory.expires
        period = f"{memory.start:%Y-%m-%d} – {f'{end:%Y-%m-%d}' if end else 'now':<10}"
        line = (
            Text("→ " if memory.id == id else "  ").append(period, style="cyan").append(f"  {memory.id}  ", style="dim")
        )
        line.append(snippet(memory.indexed_text, max(console.width - 68, 30)), style="default")
        console.print(line.append(f"  ({safe(memory.reason)})" if memory.reason else "", style="dim"))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str) -> None:
    if not rows:
        console.print(Text(empty, style="dim"))
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in ("memories", "sessions") else "left")
    for row in rows:
        table.add_row(*(Text(safe(cell)) for cell in row))
    console.print(table)


def sessions(found: Sequence[Session]) -> None:
    """Print one line for each session."""
    rows = [
        (s.name, s.project or "–", str(s.memories), s.last.strftime("%Y-%m-%d %H:%M") if s.last else "–") for s in found
    ]
    _table(("session", "project", "memories", "last"), rows, empty="no sessions yet")


def projects(found: Sequence[Project]) -> None:
    """Print one line for each project."""
    rows = [(p.name, str(p.sessions), str(p.memories)) for p in found]
    _table(("project", "sessions", "memories"), rows, empty="no projects yet")


def imports(found: Sequence[ImportRun]) -> None:
    """Print one line for each import."""
    rows = [
        (run.id, run.format, f"{run.added:,}", run.started.strftime("%Y-%m-%d %H:%M"), _ended(run), run.path)
        for run in found
    ]
    _table(("import", "format", "memories", "started", "", "path"), rows, empty="no imports that can be undone")


def _ended(run: ImportRun) -> str:
    return "" if run.ended else "interrupted: import it again, or undo it"


def tokens(found: Sequence[Token]) -> None:
    """Print one line for each token."""
    rows = [(t.id, t.profile, t.access, t.created.strftime("%Y-%m-%d %H:%M"), t.note) for t in found]
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
        ("scopes", f"{stats.profiles} profiles, {stats.projects} projects, {stats.sessions} sessions"),
        (
            "vectors",
            f"{stats.vectors:,}" + (f", {stats.unembedded:,} memories without one" if stats.unembedded else ""),
        ),
        ("model", str(stats.model) if stats.model else "none"),
    ]
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(safe(value)))
    console.print(table)
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
    console.print(table)


def welcome(answer: Recall, *, added: int, memories: int, store: str | None, queries: Sequence[str]) -> None:
    """Print an explained recall on the samples, and commands to try next."""
    loaded = f"{added} sample memories loaded" if added else "the sample memories were already stored"
    console.print(Text(f"{loaded}; the store has {memories} memories.\n", style="dim"))
    console.print(Text(answer.query, style="bold"))
    recall(answer, explain=True)
    # As it was typed, if it is not on the path: the next lines can be copied.
    program = "retentive" if which("retentive") else sys.argv[0]
    option = f" --store {store}" if store else ""
    console.print(Text("\nTry:", style="bold"))
    for query in queries[1:]:
        console.print(Text(f"  {program}{option} recall '{query}' --explain"))
    console.print(Text(f"  {program}{option} remember 'The plumber comes on Monday at nine' --project home"))
    console.print(Text(f"  {program}{option} status"))
