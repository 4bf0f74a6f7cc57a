"""Which items and namespaces of a LangGraph store are asked for, by the rules of its base."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langgraph.store.base import MatchCondition


def matches(value: Any, wanted: Any) -> bool:
    """Whether a value is as a filter says: parts of objects, lists as a whole, and $eq, $ne, $gt, $gte, $lt, $lte."""
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all(_holds(value, name, to) for name, to in wanted.items())
        return isinstance(value, Mapping) and all(matches(value.get(name), part) for name, part in wanted.items())
    if isinstance(wanted, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(wanted)
        return alike and all(matches(one, part) for one, part in zip(value, wanted, strict=True))
    return bool(value == wanted)


_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
}


def _holds(value: Any, name: str, to: Any) -> bool:
    if name in ("$eq", "$ne"):
        return bool(value == to) is (name == "$eq")
    if name not in _COMPARISONS:
        raise ValueError(f"there is no operator {name}; there are $eq, $ne, {', '.join(_COMPARISONS)}")
    try:
        return _COMPARISONS[name](float(value), float(to))
    except (TypeError, ValueError):
        return False  # what is no number is neither more nor less


def fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as a condition says; `*` stands for any label."""
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"a namespace is matched by prefix or suffix, not by {condition.match_type}")
    path = tuple(condition.path)
    if len(path) > len(namespace):
        return False
    end = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(part in ("*", label) for part, label in zip(path, end, strict=True))
