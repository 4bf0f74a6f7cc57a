"""How results are shown in notebooks, as tables of pandas and Arrow, and how long work shows its progress there.

Every text that comes from a memory, a query or a set is escaped.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Any

from retentive.errors import MissingExtra, RetentiveError

if TYPE_CHECKING:
    from retentive.models import Hit, Memory, Reason, Recall
    from retentive.pipeline.explain import Explanation

STEP_COLOURS = {
    "semantic": "#0072b2",
    "keyword": "#e08e00",
    "context": "#009e73",
    "time": "#c76a9c",
    "speaker": "#6b4a36",
    "source": "#49a9e0",
    "decay": "#85878e",
    "quality": "#d55e00",
    "judge": "#b9a500",
    "diversity": "#7b3f98",
}
"""The colour of each ranking step, as on the page of the service."""

OTHER_COLOUR = "#85878e"
RELEVANCE_COLOUR = "#4a3fc4"
BAR = 220
"""The width of the longest bar, in pixels."""

_QUIET = "color:#85878e;font-size:smaller"
_TEXT = "text-align:left;white-space:pre-line;min-width:16em;max-width:48em"
_CELL = "padding:2px 8px;vertical-align:top"
"""Not every notebook has a style of its own for tables."""


class MissingPackage(MissingExtra):
    """A package that no extra installs is missing; the message is the line to type."""

    def __init__(self, what: str, package: str) -> None:
        RetentiveError.__init__(self, f"{what} needs {package}: pip install {package}")
        self.extra = package


# HTML


def recall_html(recall: Recall) -> str:
    """The hits of a recall as a table, with a bar of the score's parts for each."""
    note = f"<p>{escape(f'{recall.degraded}: {recall.degraded_reason}')}</p>" if recall.degraded else ""
    if not recall.hits:
        return f"{note}<p>{escape(recall.empty_note)}</p>"
    longest = max(_length(hit.why) for hit in recall.hits) or 1.0
    rows = "".join(_hit_row(hit, longest) for hit in recall.hits)
    steps = dict.fromkeys(reason.step for hit in recall.hits for reason in hit.why if reason.change)
    return f"{note}{table_html(('', 'relevance', 'when', 'memory'), rows)}{_legend(steps)}"


def hit_html(hit: Hit) -> str:
    """A hit: its text, and a table of the ranking steps with a bar for each."""
    return f"{_memory(hit.memory)}{_scores(hit)}{_reasons(hit.why)}"


def explanation_html(explanation: Explanation) -> str:
    """An explanation: the memory, the sentence, the steps if it was ranked, and its rank in each retriever."""
    parts = [_memory(explanation.memory), f"<p>{escape(explanation.sentence)}</p>"]
    if explanation.degraded:
        parts.append(f"<p>{escape(f'{explanation.degraded}: {explanation.degraded_reason}')}</p>")
    if explanation.hit:
        parts.append(_reasons(explanation.hit.why))
    if explanation.retriever_ranks:
        lines = [
            (one.retriever, "–" if one.rank is None else f"#{one.rank}", _figure(one.score, "{:.3f}"), one.note)
            for one in explanation.retriever_ranks
        ]
        parts.append(figures_html(("retriever", "rank", "score", ""), lines))
    return "".join(parts)


def figures_html(heads: Sequence[str], lines: Sequence[Sequence[str]], *, note: str = "") -> str:
    """A table of names and figures."""
    rows = "".join(
        f"<tr>{cell_html(escape(first), 'text-align:left;white-space:nowrap')}{''.join(map(_figure_cell, others))}</tr>"
        for first, *others in lines
    )
    return table_html(heads, rows) + (f'<p style="{_QUIET}">{escape(note)}</p>' if note else "")


def bar_html(share: float, colour: str, *, width: int = BAR) -> str:
    """A bar of a share of the width, from 0 to 1."""
    pixels = round(width * min(max(share, 0.0), 1.0))
    style = f"display:inline-block;height:0.7em;width:{pixels}px;background:{colour};border-radius:2px"
    return f'<span style="{style}"></span>'


def cell_html(content: str, style: str = "text-align:right;white-space:nowrap") -> str:
    """A cell of a table, of HTML."""
    return f'<td style="{_CELL};{style}">{content}</td>'


def table_html(heads: Sequence[str], rows: str) -> str:
    """A table of rows, which scrolls where it is wider than the notebook."""
    head = "".join(f'<th style="{_CELL};text-align:left">{escape(name)}</th>' for name in heads)
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    return f'<div style="overflow-x:auto">{table}</div>'


def _figure_cell(text: str) -> str:
    return cell_html(escape(text))


def _hit_row(hit: Hit, longest: float) -> str:
    bars = "".join(_segment(reason, longest) for reason in hit.why if reason.change)
    parts = f'<div style="white-space:nowrap;line-height:1.4" title="score {hit.score:.3f}">{bars}</div>'
    relevance = "" if hit.relevance is None else f"{bar_html(hit.relevance, RELEVANCE_COLOUR, width=48)} "
    cells = (
        cell_html(str(hit.rank)),
        cell_html(f"{relevance}{_figure(hit.relevance, '{:.0%}')}", "text-align:left;white-space:nowrap"),
        cell_html(f"{hit.memory.when:%Y-%m-%d}"),
        cell_html(f"{escape(hit.memory.indexed_text)}{parts}{_where(hit.memory)}", _TEXT),
    )
    return f"<tr>{''.join(cells)}</tr>"


def _segment(reason: Reason, longest: float) -> str:
    """One part of a score; a part that lowers it is only outlined."""
    colour = STEP_COLOURS.get(reason.step, OTHER_COLOUR)
    look = f"background:{colour}" if reason.change > 0 else f"border:1px solid {colour}"
    style = f"display:inline-block;box-sizing:border-box;height:0.7em;width:{_pixels(reason, longest)}px;{look}"
    return f'<span style="{style}" title="{escape(f"{reason.step} {reason.change:+.4f}: {reason.note}")}"></span>'


def _pixels(reason: Reason, longest: float) -> int:
    return max(round(BAR * abs(reason.change) / longest), 1)


def _length(why: Sequence[Reason]) -> float:
    return sum(abs(reason.change) for reason in why)


def _legend(steps: Mapping[str, None]) -> str:
    parts = (f"{bar_html(1.0, STEP_COLOURS.get(step, OTHER_COLOUR), width=10)} {escape(step)}&emsp;" for step in steps)
    return f'<p style="{_QUIET}">{"".join(parts)}</p>' if steps else ""


def _memory(memory: Memory) -> str:
    return f'<p style="{_TEXT}"><b>{escape(memory.indexed_text)}</b><br>{_where(memory)}</p>'


def _where(memory: Memory) -> str:
    session = f"{memory.session} #{memory.position}" if memory.session else None
    kind = memory.kind if memory.kind != "episodic" else None
    parts = (memory.project, session, kind, f"{memory.when:%Y-%m-%d %H:%M}", memory.id)
    return f'<span style="{_QUIET}">{escape(" · ".join(part for part in parts if part))}</span>'


def _scores(hit: Hit) -> str:
    relevance = "" if hit.relevance is None else f", relevance {hit.relevance:.0%}"
    return f"<p>rank {hit.rank}, score {hit.score:.3f}{relevance}</p>"


def _reasons(why: Sequence[Reason]) -> str:
    longest = max((abs(reason.change) for reason in why), default=0.0) or 1.0
    rows = "".join(
        f"<tr>{cell_html(escape(reason.step), 'text-align:left')}"
        f"{cell_html('' if reason.rank is None else f'#{reason.rank}')}"
        f"{cell_html(_segment(reason, longest) if reason.change else '', 'text-align:left')}"
        f"{cell_html(f'{reason.change:+.4f}')}{cell_html(escape(reason.note), _TEXT)}</tr>"
        for reason in why
    )
    return table_html(("step", "rank", "", "change", ""), rows)


def _figure(value: float | None, template: str) -> str:
    return "–" if value is None else template.format(value)


# Tables of other libraries


def recall_columns(recall: Recall) -> dict[str, list[Any]]:
    """The hits of a recall as columns: rank, score, relevance, fields of the memory, and the change of each step."""
    steps = dict.fromkeys(reason.step for hit in recall.hits for reason in hit.why if reason.step != "relevance")
    columns: dict[str, list[Any]] = {
        "rank": [hit.rank for hit in recall.hits],
        "score": [hit.score for hit in recall.hits],
        "relevance": [hit.relevance for hit in recall.hits],
    }
    for name in ("id", "text", "speaker", "kind", "project", "session", "position", "when", "importance", "source"):
        columns[name] = [getattr(hit.memory, name) for hit in recall.hits]
    for step in steps:
        changes = [[reason.change for reason in hit.why if reason.step == step] for hit in recall.hits]
        columns[f"{step}_change"] = [sum(found) if found else None for found in changes]
    return columns


def to_pandas(recall: Recall) -> Any:
    """The hits of a recall as a `pandas.DataFrame`."""
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingPackage("to_pandas()", "pandas") from error
    return pd.DataFrame(recall_columns(recall))


def to_arrow(recall: Recall) -> Any:
    """The hits of a recall as a `pyarrow.Table`."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise MissingPackage("to_arrow()", "pyarrow") from error
    return pa.table(recall_columns(recall))


# Progress


@contextmanager
def show_progress(label: str, *, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show the progress of long work: a bar in a notebook, a line on standard error in a terminal, else nothing.

    It yields a function that is called with the number of steps done, as the `progress` of many methods is. It is
    itself the `progress` of `retentive.evaluation`.
    """
    draw = _drawing(label, total)
    done, shown = 0, -1
    draw(0)

    def advance(steps: int) -> None:
        nonlocal done, shown
        done += steps
        part = 100 * done // total if total else done
        if part != shown:  # drawing takes longer than many steps
            shown = part
            draw(done)

    try:
        yield advance
    finally:
        draw(done)
        if _in_terminal():
            print(file=sys.stderr)


def _drawing(label: str, total: int | None) -> Callable[[int], None]:
    """Return the function that draws how much is done."""

    def count(done: int) -> str:
        return f"{label}: {done:,} of {total:,}" if total else f"{label}: {done:,}"

    handle = _notebook_display()
    if handle is not None:
        show = handle

        def draw(done: int) -> None:
            share = min(done / total, 1.0) if total else 1.0
            show(f"<div>{escape(count(done))} {bar_html(share, RELEVANCE_COLOUR)}</div>", count(done))

        return draw
    if not _in_terminal():
        return lambda done: None
    return lambda done: print(f"\r{count(done)}\x1b[K", end="", file=sys.stderr, flush=True)


def _in_terminal() -> bool:
    return _kernel() is None and sys.stderr.isatty()


def _kernel() -> Any:
    """The kernel of the notebook that this process runs, or None."""
    module = sys.modules.get("IPython")  # a notebook has imported it
    shell = module.get_ipython() if module else None
    return getattr(shell, "kernel", None)


def _notebook_display() -> Callable[[str, str], None] | None:
    """Return a function that shows HTML, and in its place what it is called with next; None outside of a notebook."""
    if _kernel() is None:
        return None
    from IPython.display import display

    handle: Any = display({"text/plain": ""}, raw=True, display_id=True)

    def show(html: str, text: str) -> None:
        handle.update({"text/html": html, "text/plain": text}, raw=True)

    return show
