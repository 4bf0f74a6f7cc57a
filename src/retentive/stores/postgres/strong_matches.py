"""Which memories the keyword retriever reads first: those with enough of the query's terms to be among the best.

A GIN index finds them without reading the others. If those found have better approximate scores than any other memory
can have, the others are not read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_TERMS = 6
"""How many of the heaviest terms decide. Every combination of them is considered."""

FEW_MATCHES = 4
"""Memories are selected in one step if no more than this many times the wanted number can match."""

MARGIN = 1.5
"""How many times the wanted number of memories is expected among those that are read first."""

_ROUNDING = 1 + 1e-9


class StrongMatches(NamedTuple):
    """A query of the index, and the best approximate score that a memory which it does not find can have."""

    query: str
    best_of_others: float


class _Combination(NamedTuple):
    """Some of the terms: their weight, the share of memories with these and no others, whether they are searched."""

    weight: float
    share: float
    searched: bool


def strong_matches(
    weights: Mapping[str, float],
    frequencies: Mapping[str, int],
    searched: Sequence[str],
    *,
    memories: int,
    wanted: int,
    mean_damping: float,
    least_damping: float,
) -> StrongMatches | None:
    """Return what selects the memories to read first; None if nearly all that match would be read.

    `weights` are those of the query's terms, heaviest first. A memory matches if it has one of the terms `searched`.
    Its approximate score is the weight of all its terms divided by its damping, which depends on its length.
    """
    if sum(frequencies[term] for term in searched) <= FEW_MATCHES * wanted:
        return None
    chosen = dict(list(weights.items())[:MAX_TERMS])
    unchosen = sum(weights.values()) - sum(chosen.values())
    combinations = _combinations(chosen, frequencies, frozenset(searched), memories)
    least = (
        _weight_of_enough(combinations, MARGIN * wanted / max(memories, 1)) * least_damping / mean_damping - unchosen
    )
    below = max((one.weight for one in combinations if one.weight < least), default=0.0)
    if below == 0.0:
        return None
    heavy = _at_least(list(chosen.items()), (least + below) / 2)
    any_searched = " | ".join(f"'{term}'" for term in searched)
    return StrongMatches(f"({heavy}) & ({any_searched})", (below + unchosen) / least_damping * _ROUNDING)


def _combinations(
    weights: Mapping[str, float], frequencies: Mapping[str, int], searched: frozenset[str], memories: int
) -> list[_Combination]:
    """Return all combinations of terms, heaviest first. Shares are estimated as if terms were independent."""
    found = [_Combination(0.0, 1.0, False)]
    for term, weight in weights.items():
        share, is_searched = min(frequencies[term] / max(memories, 1), 1.0), term in searched
        found += [_Combination(one.weight + weight, one.share * share, one.searched or is_searched) for one in found]
        half = len(found) // 2
        found[:half] = [_Combination(one.weight, one.share * (1 - share), one.searched) for one in found[:half]]
    return sorted(found, reverse=True)


def _weight_of_enough(combinations: Sequence[_Combination], share: float) -> float:
    """Return the weight of which so large a share of the memories is expected to have combinations; 0 if none is."""
    expected = 0.0
    for one in combinations:
        expected += one.share * one.searched
        if expected >= share:
            return one.weight
    return 0.0


def _at_least(weights: Sequence[tuple[str, float]], least: float) -> str | None:
    """Return a query for the memories whose terms have at least this weight; None if none can, "" if all do."""
    if least <= 0:
        return ""
    if sum(weight for _, weight in weights) < least:
        return None
    (term, weight), rest = weights[0], weights[1:]
    with_it, without_it = _at_least(rest, least - weight), _at_least(rest, least)
    if with_it is None:
        return without_it
    both = f"'{term}' & ({with_it})" if with_it else f"'{term}'"
    return both if without_it is None else f"{both} | {without_it}"
