"""Compares the output that a page shows with the real output, except for what differs between runs or machines."""

from __future__ import annotations

import re
from typing import Any

TOLERANCE = 0.02
"""How much a number may differ: int8 models differ in the third decimal from one processor to the next."""

_PART = re.compile(r"(?P<any>…)|(?P<number>-?\d+\.\d+)|(?P<bar>█+ *)|(?P<gap> {2,})")


def matches_text(shown: str, real: str) -> bool:
    """Whether the shown text matches. `…` matches anything in a line; alone in a line or at the end, any lines."""
    numbers: list[float] = []
    pattern = r"\s*".join(_line_pattern(line, numbers) for line in shown.strip().split("\n"))
    rest = "(?s:.*)" if shown.strip().endswith("…") else r"\s*"
    match = re.fullmatch(rf"\s*{pattern}{rest}", real)
    return match is not None and all(
        abs(float(group) - number) <= TOLERANCE for group, number in zip(match.groups(), numbers, strict=True)
    )


def _line_pattern(line: str, numbers: list[float]) -> str:
    line = line.strip()
    if line == "…":
        return "(?s:.*?)"

    def pattern_of(part: re.Match[str]) -> str:
        if part["any"]:
            return ".*?"
        if part["number"]:
            numbers.append(float(part["number"]))
            return r"([-+]?\d+\.\d+)"
        return "█+ *" if part["bar"] else " +"

    pieces, at = [], 0
    for part in _PART.finditer(line):
        pieces += [re.escape(line[at : part.start()]), pattern_of(part)]
        at = part.end()
    return "".join([*pieces, re.escape(line[at:])])


def matches_json(shown: Any, real: Any) -> bool:
    """Whether the real value contains the shown one. Real objects may have more fields; `"…"` matches anything."""
    if shown == "…":
        return True
    if isinstance(shown, dict):
        return isinstance(real, dict) and all(
            name in real and matches_json(value, real[name]) for name, value in shown.items()
        )
    if isinstance(shown, list):
        open_end = shown[-1:] == ["…"]
        items = shown[:-1] if open_end else shown
        return (
            isinstance(real, list)
            and (len(real) >= len(items) if open_end else len(real) == len(items))
            and all(matches_json(*pair) for pair in zip(items, real, strict=False))
        )
    if isinstance(shown, float) and isinstance(real, float):
        return abs(shown - real) <= TOLERANCE
    return bool(shown == real)
