"""How the metric answers to each parameter around the tuning that was found, and the drawing of it.

These means are over the queries that were searched on: they show the shape of the hill, not what to expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from retentive.evaluation.metrics import SHARES
from retentive.evaluation.plots import spell
from retentive.evaluation.search_space import GRID, matters, values
from retentive.evaluation.tune import Tuned

_WIDTH, _HEIGHT, _ACROSS = 330, 190, 3
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 14, 34, 34
_STYLE = """
svg { font: 12px system-ui, sans-serif; color-scheme: light dark; background: Canvas; }
text { fill: CanvasText; } .title { font-weight: 600; font-size: 13px; }
.tick, .scale { font-size: 10.5px; opacity: 0.75; } .tick { text-anchor: middle; } .scale { text-anchor: end; }
.grid { stroke: GrayText; stroke-opacity: 0.35; } .line { fill: none; stroke: #8a94a0; stroke-width: 1.5; }
.point { fill: #8a94a0; } .found { fill: #2b83c6; } .present { fill: none; stroke: #d9622b; stroke-width: 2; }
"""


@dataclass(frozen=True, slots=True)
class Response:
    """The metric's mean at each value of one parameter, the others as found, and which value was found and is present."""

    parameter: str
    points: tuple[tuple[Any, float], ...]
    found: Any
    present: Any


def responses(tuned: Tuned) -> list[Response]:
    """A response for every parameter that matters beside the others."""
    found = tuned.found.with_parameters(rerank=0)
    drawn = []
    for parameter in GRID:
        if not matters(parameter, found):
            continue
        alive = [found.with_parameters(**{parameter: value}) for value in values(parameter, found)]
        alive = [tuning for tuning in alive if tuning.semantic_weight > 0 or tuning.keyword_weight > 0]
        points = tuple((getattr(tuning, parameter), tuned.scores.mean(tuning)) for tuning in alive)
        drawn.append(Response(parameter, points, getattr(found, parameter), getattr(tuned.present, parameter)))
    return drawn


def responses_svg(tuned: Tuned, drawn: Sequence[Response]) -> str:
    """One drawing with a panel for each parameter, all on the same scale."""
    means = [mean for response in drawn for _, mean in response.points]
    low, high = min(means), max(means)
    room = max((high - low) * 0.08, 0.002)
    rows = -(-len(drawn) // _ACROSS)
    width, height = _ACROSS * _WIDTH, rows * _HEIGHT + 46
    panels = "".join(
        f'<g transform="translate({at % _ACROSS * _WIDTH} {at // _ACROSS * _HEIGHT + 46})">'
        f"{_panel(response, low - room, high + room, percent=tuned.metric in SHARES)}</g>"
        for at, response in enumerate(drawn)
    )
    title = f"{tuned.metric} on {tuned.set} by each parameter"
    about = f"Mean over the {tuned.searched} queries searched on. Blue: found. Ring: present."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>'
        f'<text class="title" x="12" y="20">{escape(title)}</text><text x="12" y="38">{escape(about)}</text>'
        f"{panels}</svg>\n"
    )


def responses_html(tuned: Tuned, drawn: Sequence[Response]) -> str:
    """A page that holds the drawing and needs nothing else."""
    title = escape(f"Retentive tuned on {tuned.set}")
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>{title}</title></head>'
        f"<body>{responses_svg(tuned, drawn)}</body></html>\n"
    )


def _panel(response: Response, low: float, high: float, *, percent: bool) -> str:
    plot_width, plot_height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    step = plot_width / max(len(response.points) - 1, 1)

    def y(mean: float) -> float:
        return _TOP + plot_height * (high - mean) / (high - low)

    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(response.parameter)}</text>']
    for mean in (low, (low + high) / 2, high):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(mean):.1f}" y2="{y(mean):.1f}"/>')
        parts.append(f'<text class="scale" x="{_LEFT - 6}" y="{y(mean) + 4:.1f}">{spell(mean, percent)}</text>')
    places = [(_LEFT + step * at, y(mean)) for at, (_, mean) in enumerate(response.points)]
    if not isinstance(response.found, str):
        parts.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{at:.1f}" for x, at in places)}"/>')
    for (x, height), (value, mean) in zip(places, response.points, strict=True):
        said = escape(f"{response.parameter} = {_spelled(value)}: {spell(mean, percent)}")
        kind = "found" if value == response.found else "point"
        ring = f'<circle class="present" cx="{x:.1f}" cy="{height:.1f}" r="8"/>' if value == response.present else ""
        disc = f'<circle class="{kind}" cx="{x:.1f}" cy="{height:.1f}" r="4.5"><title>{said}</title></circle>'
        label = f'<text class="tick" x="{x:.1f}" y="{_HEIGHT - 14}">{escape(_spelled(value))}</text>'
        parts.append(disc + ring + label)
    return "".join(parts)


def _spelled(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
