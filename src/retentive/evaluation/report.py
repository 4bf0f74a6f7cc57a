"""An evaluation as one HTML file that needs nothing else: no script, no font, no address.

Its own content security policy allows exactly its style sheet, so text from a set can do nothing even if it got past
the escaping.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from html import escape
from importlib import resources

from retentive.evaluation.evaluation_set import EvaluationQuery
from retentive.evaluation.metrics import METRICS, SHARES
from retentive.evaluation.plots import Dot, panel, scatter, spell
from retentive.evaluation.result import Evaluation, Measured, grouped
from retentive.evaluation.run import RETRIEVERS
from retentive.evaluation.statistics import intervals

COMPARED = "nDCG@10"
"""The metric by which queries are called won and lost."""

MAIN = "default"
"""The row that the page is about."""

BY_CATEGORY = ("any@5", "nDCG@10")


_LEGEND = """any@k: any relevant memory among the first k. all@5: every relevant one among the first 5. R@k: the share
of them among the first k. Milliseconds are those of a recall without embedding its query."""


def report_html(done: Evaluation) -> str:
    """The page."""
    style = resources.files("retentive.evaluation").joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    title = f"Retentive on {done.set}"
    body = "".join((_about(done), _rows(done), _panels(done), _categories(done), _comparisons(done)))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f"<body><main><h1>{escape(title)}</h1>{body}</main></body></html>\n"
    )


def _about(done: Evaluation) -> str:
    pool = done.pool
    versions = ", ".join(f"{name} {number}" for name, number in done.versions.items())
    inside = f" in {pool.projects} projects" if pool.projects else ""
    size = f"{len(done.queries)} queries over {pool.memories:,} memories{inside}"
    facts = [
        f"{size}, median {pool.median_words:g} words; a query sees {pool.searched:,.0f} (median).",
        f"Model {done.model or 'none'}; {versions}.",
        _LEGEND,
        *done.notes,
    ]
    return "".join(f"<p>{escape(fact)}</p>" for fact in facts)


def _rows(done: Evaluation) -> str:
    heads = ("", *METRICS, "p50 ms", "p95 ms", f"p ({COMPARED})")
    lines = []
    for row in done.rows:
        cells = [_spelled(name, row.metrics[name]) for name in METRICS]
        cells += [f"{row.metrics[name]:.1f}" for name in ("p50_ms", "p95_ms")]
        cells.append("–" if row.p_value is None else f"{row.p_value[COMPARED]:.4f}")
        lines.append((row.name, cells))
    against = f"p is that of a paired randomisation test against {done.baseline}." if done.baseline else ""
    return f"<h2>Systems</h2>{_table(heads, lines)}<p>{escape(against)}</p>"


def _panels(done: Evaluation) -> str:
    panels = []
    for name in METRICS:
        dots = [Dot(row.name, row.metrics[name], row.intervals[name], row.name == MAIN) for row in done.rows]
        panels.append(panel(name, dots, percent=name in SHARES))
    return f'<h2>Means with 95 % bootstrap intervals</h2><div class="panels">{"".join(panels)}</div>'


def _categories(done: Evaluation) -> str:
    groups = grouped(done.queries, "category")
    if len(groups) < 2:
        return ""
    panels = []
    for group, places in groups.items():
        parts = [{name: row.row.values[name][places] for name in BY_CATEGORY} for row in done.rows]
        ranges = [intervals(part) for part in parts]
        for name in BY_CATEGORY:
            dots = [
                Dot(row.name, float(part[name].mean()), interval[name], row.name == MAIN)
                for row, part, interval in zip(done.rows, parts, ranges, strict=True)
            ]
            panels.append(panel(f"{group} (n = {len(places)}): {name}", dots, percent=name in SHARES))
    return f'<h2>By category</h2><div class="panels">{"".join(panels)}</div>'


def _comparisons(done: Evaluation) -> str:
    main = done.row(MAIN)
    retrievers = [retriever for name in RETRIEVERS if (retriever := done.row(name)) is not None]
    if main is None or not retrievers:
        return ""
    sections = "".join(_comparison(done.queries, main, retriever) for retriever in retrievers)
    said = f"Each disc is the queries at that place; above the diagonal {MAIN} won, by {COMPARED} of each query."
    return f"<h2>Where {MAIN} won and lost against each retriever</h2><p>{escape(said)}</p>{sections}"


def _comparison(queries: Sequence[EvaluationQuery], main: Measured, retriever: Measured) -> str:
    ours, theirs = main.row.values[COMPARED], retriever.row.values[COMPARED]
    gains = ours - theirs
    order = [int(at) for at in gains.argsort(kind="stable")]
    won = [at for at in reversed(order) if gains[at] > 0]
    lost = [at for at in order if gains[at] < 0]
    pairs = [(float(x), float(y)) for x, y in zip(theirs, ours, strict=True)]
    title = f"{main.name} against {retriever.name}: won {len(won)}, lost {len(lost)}, tied {len(gains) - len(won) - len(lost)}"
    drawn = scatter(title, pairs, across=f"{retriever.name} {COMPARED}", up=f"{main.name} {COMPARED}")
    lists = "".join(
        _listed(f"{verb} {len(places)}", [queries[at] for at in places], main, retriever)
        for verb, places in (("Won", won), ("Lost", lost))
    )
    return f'<h3>{escape(title)}</h3><div class="compared"><div>{drawn}</div><div>{lists}</div></div>'


def _listed(title: str, queries: Sequence[EvaluationQuery], main: Measured, retriever: Measured) -> str:
    """The queries, those that differ most first, with the place at which each system had its first right answer."""
    heads = ("query", "category", main.name, retriever.name)
    lines = [(query.text, [query.category or "–", _place(query, main), _place(query, retriever)]) for query in queries]
    return f"<details><summary>{escape(title)}</summary>{_table(heads, lines)}</details>"


def _place(query: EvaluationQuery, row: Measured) -> str:
    found = row.row.found[query.id]
    return next((f"#{at}" for at, document in enumerate(found, 1) if document in query.relevance), "–")


def _table(heads: Sequence[str], lines: Sequence[tuple[str, Sequence[str]]]) -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, cells in lines
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _spelled(name: str, value: float) -> str:
    return spell(value, name in SHARES)
