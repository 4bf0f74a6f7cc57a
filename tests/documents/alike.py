"""Whether what a page shows is what came: to the letter, but for what differs from run to run or machine to machine."""

from __future__ import annotations

import re
from typing import Any

NEAR = 0.02
"""How far a figure may be off: int8 models differ in the third decimal from one processor to the next."""

_PART = re.compile(r"(?P<any>…)|(?P<figure>-?\d+\.\d+)|(?P<bar>█+ *)|(?P<gap> {2,})")


def alike(shown: str, real: str) -> bool:
    """Whether the shown text is the real one. `…` is anything; on a line of its own, or at the end, any lines."""
    figures: list[float] = []
    pattern = r"\s*".join(_line(line, figures) for line in shown.strip().split("\n"))
    rest = "(?s:.*)" if shown.strip().endswith("…") else r"\s*"
    found = re.fullmatch(rf"\s*{pattern}{rest}", real)
    return found is not None and all(
        abs(float(group) - figure) <= NEAR for group, figure in zip(found.groups(), figures, strict=True)
    )


def _line(line: str, figures: list[float]) -> str:
    line = line.strip()
    if line == "…":
        return "(?s:.*?)"

    def part(found: re.Match[str]) -> str:
        if found["any"]:
            return ".*?"
        if found["figure"]:
            figures.append(float(found["figure"]))
            return r"([-+]?\d+\.\d+)"
        return "█+ *" if found["bar"] else " +"

    pieces, at = [], 0
    for found in _PART.finditer(line):
        pieces += [re.escape(line[at : found.start()]), part(found)]
        at = found.end()
    return "".join([*pieces, re.escape(line[at:])])


def holds(shown: Any, real: Any) -> bool:
    """Whether the real value has all that the shown one has; objects may have more, `"…"` stands for anything."""
    if shown == "…":
        return True
    if isinstance(shown, dict):
        return isinstance(real, dict) and all(
            name in real and holds(value, real[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        several = shown[-1:] == ["…"]
        some = shown[:-1] if several else shown
        return (
            isinstance(real, list)
            and (len(real) >= len(some) if several else len(real) == len(some))
            and all(holds(*pair) for pair in zip(some, real, strict=False))
        )
    if isinstance(shown, float) and isinstance(real, float):
        return abs(shown - real) <= NEAR
    return bool(shown == real)
