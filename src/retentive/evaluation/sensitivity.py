"""The sensitivity of the metric to each parameter, around the best tuning found, as a plot.

The means are over the queries that the tuning was chosen on: they compare values of a parameter and are no estimate of
the quality on other queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from retentive.evaluation.metrics import format_metric
from retentive.evaluation.search_space import GRID, grid_values, has_effect, has_retriever
from retentive.evaluation.tune import TuningResult

_WIDTH, _HEIGHT, _COLUMNS = 330, 190, 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 34, 34
_STYLE = """
svg { font: 12px system-ui, sans-serif; color-scheme: light dark; background: Canvas; }
text { fill: CanvasText; } .title { font-weight: 600; font-size: 13px; }
.tick, .scale { font-size: 10.5px; opacity: 0.75; } .tick { text-anchor: middle; } .scale { text-anchor: end; }
.grid { stroke: GrayText; stroke-opacity: 0.35; } .line { fill: none; stroke: #8a94a0; stroke-width: 1.5; }
.point { fill: #8a94a0; } .best { fill: #2b83c6; } .current { fill: none; stroke: #d9622b; stroke-width: 2; }
"""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The mean of the metric at each value of one parameter, the others as in the best tuning."""

    parameter: str
    points: tuple[tuple[Any, float], ...]
    best: Any
    current: Any


def sensitivities(result: TuningResult) -> list[Sensitivity]:
    """Compute the sensitivity to every parameter that has an effect."""
    best = result.best.with_parameters(judge="off")
    found = []
    for parameter in GRID:
        if not has_effect(parameter, best):
            continue
        tunings = [best.with_parameters(**{parameter: value}) for value in grid_values(parameter, best)]
        points = tuple((getattr(one, parameter), result.scores.mean(one)) for one in tunings if has_retriever(one))
        found.append(Sensitivity(parameter, points, getattr(best, parameter), getattr(result.current, parameter)))
    return found


def sensitivity_svg(result: TuningResult, found: Sequence[Sensitivity]) -> str:
    """Plot a panel for each parameter, all on the same scale."""
    means = [mean for one in found for _, mean in one.points]
    low, high = min(means), max(means)
    margin = max((high - low) * 0.08, 0.002)
    rows = -(-len(found) // _COLUMNS)
    width, height = _COLUMNS * _WIDTH, rows * _HEIGHT + 46
    panels = "".join(
        f'<g transform="translate({at % _COLUMNS * _WIDTH} {at // _COLUMNS * _HEIGHT + 46})">'
        f"{_panel(one, low - margin, high + margin, metric=result.metric)}</g>"
        for at, one in enumerate(found)
    )
    title = f"{result.metric} on {result.set} by each parameter"
    about = f"Mean over the {result.searched} queries searched on. Blue: best. Ring: current."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>'
        f'<text class="title" x="12" y="20">{escape(title)}</text><text x="12" y="38">{escape(about)}</text>'
        f"{panels}</svg>\n"
    )


def sensitivity_html(result: TuningResult, found: Sequence[Sensitivity]) -> str:
    """Return a self-contained page with the plot."""
    title = escape(f"Retentive tuned on {result.set}")
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title></head>'
        f"<body>{sensitivity_svg(result, found)}</body></html>\n"
    )


def _panel(one: Sensitivity, low: float, high: float, *, metric: str) -> str:
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = plot_width / max(len(one.points) - 1, 1)

    def y(mean: float) -> float:
        return _TOP + plot_height * (high - mean) / (high - low)

    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(one.parameter)}</text>']
    for mean in (low, (low + high) / 2, high):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(mean):.1f}" y2="{y(mean):.1f}"/>')
        parts.append(f'<text class="scale" x="{_LEFT - 6}" y="{y(mean) + 4:.1f}">{format_metric(metric, mean)}</text>')
    places = [(_LEFT + step * at, y(mean)) for at, (_, mean) in enumerate(one.points)]
    if not isinstance(one.best, str):
        parts.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{at:.1f}" for x, at in places)}"/>')
    for (x, height), (value, mean) in zip(places, one.points, strict=True):
        tip = escape(f"{one.parameter} = {_format(value)}: {format_metric(metric, mean)}")
        kind = "best" if value == one.best else "point"
        ring = f'<circle class="current" cx="{x:.1f}" cy="{height:.1f}" r="8"/>' if value == one.current else ""
        disc = f'<circle class="{kind}" cx="{x:.1f}" cy="{height:.1f}" r="4.5"><title>{tip}</title></circle>'
        label = f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 14}">{escape(_format(value))}</text>'
        parts.append(disc + ring + label)
    return "".join(parts)


def _format(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
