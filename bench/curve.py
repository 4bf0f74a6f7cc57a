"""Draws how the time of a recall grows with the number of memories, from the figures of `python -m bench --json FILE`.

`python -m bench.curve [--cpu] FILE…` prints an SVG picture of the median times, or of the median CPU times, which other
processes change less. Both axes are logarithmic: linear growth is a rise by one line of the grid for ten times as many.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 640, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 416, 24, 316
LABEL_HEIGHT = 13
_ATTRIBUTES = (
    """role="img" aria-labelledby="title desc" font-family="system-ui, 'Segoe UI', 'Noto Sans', sans-serif\""""
)
_STYLE = """
    .panel { fill: #fff; stroke: #deded9 }
    .grid { stroke: #deded9 }
    .ink { fill: #1c1d21; font-size: 13px }
    .quiet { fill: #5c5e66; font-size: 13px }
    .line { fill: none; stroke-width: 2 }
    .c0 { stroke: #0072b2 } .f0 { fill: #0072b2 }
    .c1 { stroke: #c77d00 } .f1 { fill: #c77d00 }
    .scope { stroke-dasharray: 5 4 }
    @media (prefers-color-scheme: dark) {
      .panel { fill: #1a1c21; stroke: #30333b }
      .grid { stroke: #30333b }
      .ink { fill: #e9eaed }
      .quiet { fill: #a3a7b1 }
      .c0 { stroke: #3d9bdc } .f0 { fill: #3d9bdc }
      .c1 { stroke: #eba526 } .f1 { fill: #eba526 }
    }
"""


class Line(NamedTuple):
    """The median milliseconds of one engine by number of memories, in a scope or in the whole store."""

    engine: str
    scoped: bool
    points: Mapping[int, float]


def lines(results: Sequence[Mapping[str, Any]], *, column: str = "p50, ms") -> list[Line]:
    """The lines of some results: Retentive's default, and of LanceDB the fastest search of each size."""
    found: dict[tuple[str, bool], dict[int, float]] = {}
    for size in (size for result in results for size in result["sizes"]):
        for table in size["tables"]:
            if not table["title"].startswith("Recall of 10 in "):
                continue
            at = table["columns"].index(column)
            times = {row["subject"]: row["figures"][at] for row in table["rows"]}
            rivals = [time for name, time in times.items() if name.startswith("LanceDB")]
            scoped = "scope" in table["title"]
            found.setdefault(("Retentive", scoped), {})[size["memories"]] = times["Retentive, default"]
            if rivals:
                found.setdefault(("LanceDB", scoped), {})[size["memories"]] = min(rivals)
    order = sorted(found, key=lambda key: (key[0] != "Retentive", key[1]))
    return [Line(*key, dict(sorted(found[key].items()))) for key in order]


def draw(drawn: Sequence[Line]) -> str:
    """The lines as an SVG picture."""
    sizes = sorted({size for line in drawn for size in line.points})
    times = [time for line in drawn for time in line.points.values()]
    powers = range(math.floor(math.log10(min(times))), math.ceil(math.log10(max(times))) + 1)
    across = _Axis(math.log10(sizes[0]), math.log10(sizes[-1]), LEFT, RIGHT)
    up = _Axis(powers[0], powers[-1], BOTTOM, TOP)
    described = "; ".join(f"{_name(line)}: {_values(line)}" for line in drawn)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {_ATTRIBUTES}>',
        '<title id="title">The time of a recall by the number of memories</title>',
        f'<desc id="desc">{escape(described)}</desc>',
        f"<style>{_STYLE}</style>",
        f'<rect class="panel" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10"/>',
        *_grid(sizes, powers, across, up),
        *(part for line in drawn for part in _line(line, across, up)),
        *(part for size in sizes for part in _labels(drawn, size, across, up)),
        *_names(drawn),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


class _Axis(NamedTuple):
    """From the logarithms of the first and last value to the places of both."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        share = (math.log10(value) - self.low) / max(self.high - self.low, 1e-9)
        return round(self.first + share * (self.last - self.first), 1)


def _grid(sizes: Sequence[int], powers: range, across: _Axis, up: _Axis) -> Iterator[str]:
    for power in powers:
        at = up(10.0**power)
        yield f'<path class="grid" d="M{LEFT} {at}H{RIGHT}"/>'
        yield f'<text class="quiet" x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{10.0**power:g} ms</text>'
    for size in sizes:
        at = across(size)
        yield f'<path class="grid" d="M{at} {TOP}V{BOTTOM}"/>'
        yield f'<text class="quiet" x="{at}" y="{BOTTOM + 20}" text-anchor="middle">{size:,}</text>'
    caption = "memories (dashed: a scope of 1 %)"
    yield f'<text class="quiet" x="{(LEFT + RIGHT) / 2}" y="{BOTTOM + 44}" text-anchor="middle">{caption}</text>'


def _line(line: Line, across: _Axis, up: _Axis) -> Iterator[str]:
    places = [(across(size), up(time)) for size, time in line.points.items()]
    path = "L".join(f"{x} {y}" for x, y in places)
    yield f'<path class="line {_classes(line)}" d="M{path}"/>'
    for x, y in places:
        yield f'<circle class="f{_colour(line)}" cx="{x}" cy="{y}" r="3.5"/>'


def _labels(drawn: Sequence[Line], size: int, across: _Axis, up: _Axis) -> Iterator[str]:
    """The times of all lines at one size: above the slower line of an engine, below the faster, not on each other."""
    last = -math.inf
    for line in sorted((one for one in drawn if size in one.points), key=lambda one: -one.points[size]):
        time = line.points[size]
        slowest = max(one.points.get(size, 0.0) for one in drawn if one.engine == line.engine)
        last = max(up(time) + (-7 if time == slowest else 17), last + LABEL_HEIGHT)
        yield f'<text class="quiet" x="{across(size) + 5}" y="{last}">{_number(time)}</text>'


def _names(drawn: Sequence[Line]) -> Iterator[str]:
    for at, line in enumerate(drawn):
        y = TOP + 12 + 22 * at
        yield f'<path class="line {_classes(line)}" d="M{RIGHT + 36} {y}h26"/>'
        yield f'<text class="ink" x="{RIGHT + 70}" y="{y + 4}">{escape(_name(line))}</text>'


def _colour(line: Line) -> int:
    return int(line.engine != "Retentive")


def _classes(line: Line) -> str:
    return f"c{_colour(line)} scope" if line.scoped else f"c{_colour(line)}"


def _name(line: Line) -> str:
    return f"{line.engine}, {'scope' if line.scoped else 'whole store'}"


def _values(line: Line) -> str:
    return ", ".join(f"{_number(time)} ms at {size:,}" for size, time in line.points.items())


def _number(time: float) -> str:
    return f"{time:.1f}" if time < 10 else f"{time:.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the picture of some results."""
    parser = argparse.ArgumentParser(prog="python -m bench.curve", description="Draw how recalls grow, as SVG.")
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="results of python -m bench --json FILE")
    parser.add_argument("--cpu", action="store_true", help="CPU time instead of the time on the clock")
    options = parser.parse_args(arguments)
    results = [json.loads(file.read_text(encoding="utf-8")) for file in options.files]
    print(draw(lines(results, column="CPU p50, ms" if options.cpu else "p50, ms")), end="")


if __name__ == "__main__":
    main()
