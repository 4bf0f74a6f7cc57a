"""Plots as inline SVG: dots with intervals, and where one system won and lost against another.

Text goes in through `escape` alone, colours come from the page's style sheet, and nothing here is a script.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, sqrt

from retentive.evaluation.statistics import Interval

_LABELS, _PLOT, _LINE, _TOP = 118, 250, 20, 26
_SQUARE, _EDGE, _CELLS = 320, 34, 20


@dataclass(frozen=True, slots=True)
class Dot:
    """One line of a panel: a name, a value, its interval, and whether it is the row to look at."""

    name: str
    value: float
    interval: Interval
    chosen: bool = False


def panel(title: str, dots: Sequence[Dot], *, percent: bool) -> str:
    """A panel in which each system is a dot on its interval, on a scale of their own range."""
    low, high = _range([edge for dot in dots for edge in (*dot.interval, dot.value)])
    width, height = _LABELS + _PLOT + 60, _TOP + _LINE * len(dots) + 22

    def x(value: float) -> float:
        return _LABELS + _PLOT * (value - low) / (high - low)

    parts = [f'<text class="title" x="{_LABELS}" y="14">{escape(title)}</text>', _axis(low, high, height, percent)]
    for at, dot in enumerate(dots):
        y = _TOP + _LINE * at + _LINE / 2
        kind = "dot chosen" if dot.chosen else "dot"
        said = f"{dot.name}: {spell(dot.value, percent)} ({spell(dot.interval.low, percent)}–"
        said += f"{spell(dot.interval.high, percent)})"
        parts.append(
            f'<g class="{kind}"><title>{escape(said)}</title>'
            f'<text class="name" x="{_LABELS - 8}" y="{y + 4:.1f}">{escape(dot.name)}</text>'
            f'<line x1="{x(dot.interval.low):.1f}" x2="{x(dot.interval.high):.1f}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<circle cx="{x(dot.value):.1f}" cy="{y:.1f}" r="4.5"/>'
            f'<text class="value" x="{_LABELS + _PLOT + 10}" y="{y + 4:.1f}">{spell(dot.value, percent)}</text></g>'
        )
    return _svg(width, height, title, parts)


def spell(value: float, percent: bool) -> str:
    """A value as people read it: a percentage with one decimal, or three decimals."""
    return f"{100 * value:.1f}" if percent else f"{value:.3f}"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """From below the least to above the greatest, on multiples of 0.05, and never nothing."""
    low = floor(min(values) * 20) / 20
    high = -floor(-max(values) * 20) / 20
    return (low, high) if high > low else (low - 0.05, high + 0.05)


def _axis(low: float, high: float, height: float, percent: bool) -> str:
    lines = []
    for step in range(5):
        value = low + (high - low) * step / 4
        x = _LABELS + _PLOT * step / 4
        lines.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP - 4}" y2="{height - 18}"/>')
        lines.append(f'<text class="tick" x="{x:.1f}" y="{height - 5}">{spell(value, percent)}</text>')
    return "".join(lines)


def scatter(title: str, pairs: Sequence[tuple[float, float]], *, across: str, up: str) -> str:
    """Where each query lies by two systems' values from 0 to 1; a disc's area is how many lie there.

    Above the diagonal the one upwards won.
    """
    counts = Counter((round(x * _CELLS), round(y * _CELLS)) for x, y in pairs)
    # Discs on the diagonal are ties and often hundreds; the scale is set by those off it.
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
        said = f"{count} queries near {across} {x / _CELLS:.2f}, {up} {y / _CELLS:.2f}"
        disc = f'<circle class="{kind}" cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:.1f}">'
        parts.append(f"{disc}<title>{escape(said)}</title></circle>")
    return _svg(_SQUARE, _SQUARE, title, parts)


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    head = f'<svg viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" role="img"'
    return f'{head} aria-label="{escape(title)}">{"".join(parts)}</svg>'
