"""An evaluation as one self-contained HTML file: no script, no font, no address; and as tables in Markdown.

The content security policy of the page allows nothing but its own style sheet, so that text from a set could do nothing
even if it were not escaped. Plots are inline SVG, and every text in them goes through `escape`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from math import floor, sqrt

from retentive.evaluation.abstain import Table, tables
from retentive.evaluation.evaluate import Evaluation, SystemResult, group_queries
from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.metrics import METRICS, format_metric
from retentive.evaluation.run import RETRIEVERS
from retentive.evaluation.statistics import ConfidenceInterval, intervals
from retentive.evaluation.tune import TuningResult
from retentive.models import counted
from retentive.notebook import RELEVANCE_COLOUR, bar_html, cell_html, figures_html, table_html

COMPARED = "nDCG@10"
"""The metric by which a query counts as won or lost."""

MAIN = "default"
"""The row that is highlighted and compared with each retriever."""

BY_CATEGORY = ("any@5", "nDCG@10")

_LEGEND = """any@k: any relevant memory among the first k. all@5: every relevant memory among the first 5. R@k: the
share of the relevant memories among the first k. Milliseconds are those of a recall without embedding its query."""

_LABELS, _PLOT, _LINE, _TOP = 118, 250, 20, 26
_SQUARE, _EDGE, _CELLS = 320, 34, 20


def report_html(done: Evaluation) -> str:
    """Return the page."""
    style = resources.files("retentive.evaluation").joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Retentive on {done.set}"
    body = "".join((_about(done), _rows(done), _panels(done), _categories(done), _abstention(done), _comparisons(done)))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )


def report_markdown(done: Evaluation) -> str:
    """Return the figures as tables in Markdown, without plots."""
    rows = Table("Systems", *_systems(done))
    found = [rows, *(tables(done.abstention) if done.abstention is not None else ())]
    parts = [f"# Retentive on {_markdown(done.set)}", *map(_markdown, _facts(done)), *map(_markdown_table, found)]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table: Table) -> str:
    lines = [table.heads, ["---", *("--:" for _ in table.heads[1:])], *table.lines]
    rows = "\n".join(f"| {' | '.join(map(_markdown, line))} |" for line in lines)
    return f"## {table.title}\n\n{rows}"


def _markdown(text: str) -> str:
    """A text on one line in which Markdown and HTML mean nothing."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", " ".join(text.split()))


def _about(done: Evaluation) -> str:
    return "".join(f"<p>{escape(fact)}</p>" for fact in _facts(done))


def _facts(done: Evaluation) -> list[str]:
    corpus = done.corpus
    versions = ", ".join(f"{name} {number}" for name, number in done.versions.items())
    projects = f" in {counted(corpus.projects, 'project')}" if corpus.projects else ""
    size = f"{counted(len(done.queries), 'query')} over {counted(corpus.memories, 'memory')}{projects}"
    return [
        f"{size}, median {corpus.median_words:g} words; a query searches {corpus.searched:,.0f} (median).",
        f"Model {done.model or 'none'}; {versions}.",
        _LEGEND,
        *done.notes,
    ]


def _rows(done: Evaluation) -> str:
    heads, lines = _systems(done)
    against = f"p: paired randomisation test against {done.baseline}." if done.baseline else ""
    table = _table(heads, [(name, cells) for name, *cells in lines])
    return f"<h2>Systems</h2>{table}<p>{escape(against)}</p>"


def _systems(done: Evaluation) -> tuple[Sequence[str], list[list[str]]]:
    """The heads and the lines of the table of systems."""
    heads = ("", *METRICS, "p50 ms", "p95 ms", f"p ({COMPARED})")
    lines = []
    for row in done.rows:
        cells = [format_metric(name, row.metrics[name]) for name in METRICS]
        cells += [f"{row.metrics[name]:.1f}" for name in ("p50_ms", "p95_ms")]
        cells.append("–" if row.p_value is None else f"{row.p_value[COMPARED]:.4f}")
        lines.append([row.name, *cells])
    return heads, lines


def _panels(done: Evaluation) -> str:
    panels = []
    for name in METRICS:
        dots = [Dot(row.name, row.metrics[name], row.intervals[name], row.name == MAIN) for row in done.rows]
        panels.append(panel(name, dots, metric=name))
    return f'<h2>Means with 95 % bootstrap intervals</h2><div class="panels">{"".join(panels)}</div>'


def _categories(done: Evaluation) -> str:
    groups = group_queries(done.queries, "category")
    if len(groups) < 2:
        return ""
    panels = []
    for group, indices in groups.items():
        parts = [{name: row.run.values[name][indices] for name in BY_CATEGORY} for row in done.rows]
        ranges = [intervals(part) for part in parts]
        for name in BY_CATEGORY:
            dots = [
                Dot(row.name, float(part[name].mean()), interval[name], row.name == MAIN)
                for row, part, interval in zip(done.rows, parts, ranges, strict=True)
            ]
            panels.append(panel(f"{group} (n = {len(indices)}): {name}", dots, metric=name))
    return f'<h2>By category</h2><div class="panels">{"".join(panels)}</div>'


def _abstention(done: Evaluation) -> str:
    found = [] if done.abstention is None else tables(done.abstention)
    return "".join(
        f"<h2>{escape(title)}</h2>{_table(heads, [(name, cells) for name, *cells in lines])}"
        for title, heads, lines in found
    )


def _comparisons(done: Evaluation) -> str:
    main = done.row(MAIN)
    retrievers = [retriever for name in RETRIEVERS if (retriever := done.row(name)) is not None]
    if main is None or not retrievers:
        return ""
    sections = "".join(_comparison(done.queries, main, retriever) for retriever in retrievers)
    note = f"Each disc is the queries at that place; above the diagonal {MAIN} won, by {COMPARED} of each query."
    return f"<h2>Queries that {MAIN} won and lost against each retriever</h2><p>{escape(note)}</p>{sections}"


def _comparison(queries: Sequence[EvaluationQuery], main: SystemResult, retriever: SystemResult) -> str:
    ours, theirs = main.run.values[COMPARED], retriever.run.values[COMPARED]
    gains = ours - theirs
    order = [int(index) for index in gains.argsort(kind="stable")]
    won = [index for index in reversed(order) if gains[index] > 0]
    lost = [index for index in order if gains[index] < 0]
    pairs = [(float(x), float(y)) for x, y in zip(theirs, ours, strict=True)]
    tied = len(gains) - len(won) - len(lost)
    title = f"{main.name} against {retriever.name}: won {len(won)}, lost {len(lost)}, tied {tied}"
    plot = scatter(title, pairs, across=f"{retriever.name} {COMPARED}", up=f"{main.name} {COMPARED}")
    lists = "".join(
        _query_list(f"{verb} {len(indices)}", [queries[index] for index in indices], main, retriever)
        for verb, indices in (("Won", won), ("Lost", lost))
    )
    return f'<h3>{escape(title)}</h3><div class="compared"><div>{plot}</div><div>{lists}</div></div>'


def _query_list(title: str, queries: Sequence[EvaluationQuery], main: SystemResult, retriever: SystemResult) -> str:
    """The queries, largest difference first, with the rank of the first relevant document in each system."""
    heads = ("query", "category", main.name, retriever.name)
    lines = [(query.text, [query.category or "–", _rank(query, main), _rank(query, retriever)]) for query in queries]
    return f"<details><summary>{escape(title)}</summary>{_table(heads, lines)}</details>"


def _rank(query: EvaluationQuery, row: SystemResult) -> str:
    found = row.run.found[query.id]
    return next((f"#{rank}" for rank, document in enumerate(found, 1) if document in query.relevance), "–")


def _table(heads: Sequence[str], lines: Sequence[tuple[str, Sequence[str]]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, cells in lines
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


# Notebooks


def evaluation_html(done: Evaluation) -> str:
    """The rows of an evaluation as a table for notebooks, with a bar for `COMPARED`."""
    best = max((row.metrics[COMPARED] for row in done.rows), default=0.0) or 1.0
    heads = ("", *METRICS, "p50 ms", f"p ({COMPARED})")
    rows = []
    for row in done.rows:
        cells = [row.name, *(format_metric(name, row.metrics[name]) for name in METRICS)]
        cells += [f"{row.metrics['p50_ms']:.1f}", "–" if row.p_value is None else f"{row.p_value[COMPARED]:.4f}"]
        shown = cell_html(escape(cells[0]), "text-align:left") + "".join(cell_html(escape(cell)) for cell in cells[1:])
        bar = bar_html(row.metrics[COMPARED] / best, RELEVANCE_COLOUR, width=120)
        rows.append(f"<tr>{shown}{cell_html(bar, 'text-align:left')}</tr>")
    about = f"{done.set}: {counted(len(done.queries), 'query')} over {counted(done.corpus.memories, 'memory')}"
    against = f"; p: paired randomisation test against {done.baseline}" if done.baseline else ""
    return f"{table_html((*heads, COMPARED), ''.join(rows))}<p>{escape(about + against)}</p>"


def tuning_html(done: TuningResult) -> str:
    """What tuning gained on held-out queries as a table for notebooks, and the parameters that it changes."""
    lines = [
        [
            name,
            format_metric(name, one.before),
            format_metric(name, one.after),
            f"{one.gain:+.3f} ({one.gain_interval.low:+.3f} to {one.gain_interval.high:+.3f})",
            f"{one.p_value:.4f}",
        ]
        for name, one in done.held_out.items()
    ]
    changes = "; ".join(f"{name}: {before} → {after}" for name, (before, after) in done.parameters.items())
    better = f"better on held-out queries in {done.metric}: {changes}"
    verdict = better if done.verdict == "better" else f"no significant gain in {done.metric} on held-out queries"
    heads = ("", "before", "after", "gain (95 %)", "p")
    return figures_html(heads, lines, note=f"{done.set}: {counted(done.queries, 'query')}; {verdict}")


# Plots


@dataclass(frozen=True, slots=True)
class Dot:
    """One line of a panel: a name, a value, its interval, and whether it is highlighted."""

    name: str
    value: float
    interval: ConfidenceInterval
    chosen: bool = False


def panel(title: str, dots: Sequence[Dot], *, metric: str) -> str:
    """Plot each system as a dot on its interval; the scale covers the range of all of them."""
    low, high = _range([edge for dot in dots for edge in (*dot.interval, dot.value)])
    width, height = _LABELS + _PLOT + 60, _TOP + _LINE * len(dots) + 22

    def x(value: float) -> float:
        return _LABELS + _PLOT * (value - low) / (high - low)

    axis = _axis(low, high, height, metric)
    parts = [f'<text class="title" x="{_LABELS}" y="14">{escape(title)}</text>', axis]
    for index, dot in enumerate(dots):
        y = _TOP + _LINE * index + _LINE / 2
        kind = "dot chosen" if dot.chosen else "dot"
        value, least, most = (format_metric(metric, one) for one in (dot.value, *dot.interval))
        parts.append(
            f'<g class="{kind}"><title>{escape(f"{dot.name}: {value} ({least}–{most})")}</title>'
            f'<text class="name" x="{_LABELS - 8}" y="{y + 4:.1f}">{escape(dot.name)}</text>'
            f'<line x1="{x(dot.interval.low):.1f}" x2="{x(dot.interval.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle cx="{x(dot.value):.1f}" cy="{y:.1f}" r="4.5"/>'
            f'<text class="value" x="{_LABELS + _PLOT + 10}" y="{y + 4:.1f}">{value}</text></g>'
        )
    return _svg(width, height, title, parts)


def _range(values: Sequence[float]) -> tuple[float, float]:
    """The range of the values, extended to multiples of 0.05; never empty."""
    low = floor(min(values) * 20) / 20
    high = -floor(-max(values) * 20) / 20
    return (low, high) if high > low else (low - 0.05, high + 0.05)


def _axis(low: float, high: float, height: float, metric: str) -> str:
    lines = []
    for step in range(5):
        value = low + (high - low) * step / 4
        x = _LABELS + _PLOT * step / 4
        lines.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{height - 18}"/>')
        lines.append(f'<text class="tick" x="{x:.1f}" y="{height - 5}">{format_metric(metric, value)}</text>')
    return "".join(lines)


def scatter(title: str, pairs: Sequence[tuple[float, float]], *, across: str, up: str) -> str:
    """Plot queries by the values of two systems, from 0 to 1; the area of a disc is the number of queries there.

    Above the diagonal, the system on the vertical axis won.
    """
    counts = Counter((round(x * _CELLS), round(y * _CELLS)) for x, y in pairs)
    # Discs on the diagonal are ties, often hundreds of queries; the scale is set by the others.
    largest = max((count for (x, y), count in counts.items() if x != y), default=1)
    size = _SQUARE - 2 * _EDGE
    far = _SQUARE - _EDGE
    middle = _SQUARE / 2
    parts = [
        f'<rect class="frame" x="{_EDGE}" y="{_EDGE}" width="{size}" height="{size}"/>',
        f'<line class="grid" x1="{_EDGE}" y1="{far}" x2="{far}" y2="{_EDGE}"/>',
        f'<text class="axis" x="{middle}" y="{_SQUARE - 8}">{escape(across)} →</text>',
        f'<text class="axis" x="{middle}" y="14" transform="rotate(-90 {middle} {middle})">{escape(up)} →</text>',
    ]
    for (x, y), count in sorted(counts.items()):
        kind = "won" if y > x else "lost" if y < x else "tied"
        radius = 2 + 12 * sqrt(min(count, largest) / largest)
        cx, cy = _EDGE + size * x / _CELLS, far - size * y / _CELLS
        tip = f"{counted(count, 'query')} near {across} {x / _CELLS:.2f}, {up} {y / _CELLS:.2f}"
        disc = f'<circle class="{kind}" cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:.1f}">'
        parts.append(f"{disc}<title>{escape(tip)}</title></circle>")
    return _svg(_SQUARE, _SQUARE, title, parts)


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img"'
    return f'{head} aria-label="{escape(title)}">{"".join(parts)}</svg>'
