"""Which parameters tuning turns, and how far.

`score_floor` is not among them: it only takes away from the end of a list, which no metric rewards. Neither is
anything that measures a person's taste rather than what is found: decay, diversity, deduplication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from retentive.ranking import Tuning

GRID: Mapping[str, Sequence[Any]] = {
    "fusion": ("full", "relative", "rrf", "weighted"),
    "semantic_weight": (0.0, 1.0),
    "keyword_weight": (0.0, 0.3, 0.6, 1.0, 1.3, 1.8, 2.5, 4.0),
    "rrf_k": (5.0, 20.0, 60.0, 120.0),
    "semantic_scaling": ("spread", "min-max", "z-score", "max", "distribution"),
    "keyword_scaling": ("max", "min-max", "z-score", "saturate", "spread"),
    "spread_least": (0.0, 0.06, 0.13, 0.2, 0.3),
    "standout_least": (0.0, 0.2, 0.4, 0.6),
    "neighbour_weight": (0.0, 0.2, 0.4, 0.7, 1.0, 1.5),
    "session_weight": (0.0, 0.25, 0.5, 0.7, 1.0, 1.4),
    "context_words": (14.0, 28.0, 42.0, 80.0),
    "semantic_floor": (0.0, 0.2, 0.4, 0.6),
    "time_weight": (0.0, 0.25, 0.5, 1.0),
    "quality": ("off", "multiply"),
    "pool_floor": (20, 30, 45, 60),
}
"""Only the ratio of the weights matters, so the weight of meaning is 0 or 1."""

_MATTERS: Mapping[str, Callable[[Tuning], bool]] = {
    "rrf_k": lambda tuning: tuning.fusion == "rrf",
    "semantic_scaling": lambda tuning: tuning.fusion in ("full", "relative") and tuning.semantic_weight > 0,
    "keyword_scaling": lambda tuning: tuning.fusion in ("full", "relative") and tuning.keyword_weight > 0,
    "spread_least": lambda tuning: "spread" in (tuning.semantic_scaling, tuning.keyword_scaling),
    "standout_least": lambda tuning: tuning.fusion in ("full", "relative"),
    "context_words": lambda tuning: tuning.neighbour_weight + tuning.session_weight > 0,
    "semantic_floor": lambda tuning: tuning.semantic_weight > 0,
}


def matters(parameter: str, tuning: Tuning) -> bool:
    """Whether turning this parameter could change anything, the others being as they are."""
    return parameter not in _MATTERS or _MATTERS[parameter](tuning)


def turned(tuning: Tuning, **parameters: Any) -> Tuning | None:
    """The tuning with parameters turned; None where no retriever would be left, or nothing changes."""
    changed = tuning.with_parameters(**parameters)
    alive = changed.semantic_weight > 0 or changed.keyword_weight > 0
    return changed if alive and changed != tuning else None


def values(parameter: str, tuning: Tuning) -> list[Any]:
    """The parameter's values on the grid with its present one in its place among them."""
    grid, now = GRID[parameter], getattr(tuning, parameter)
    if isinstance(now, str):
        return list(dict.fromkeys((*grid, now)))
    return sorted({*grid, now})


def steps(parameter: str, tuning: Tuning) -> Iterator[Tuning]:
    """The tunings a step away by this parameter: any other name, or the next number on either side."""
    grid, now = values(parameter, tuning), getattr(tuning, parameter)
    at = grid.index(now)
    near = (
        [value for value in grid if value != now] if isinstance(now, str) else [*grid[at + 1 : at + 2], *grid[:at][-1:]]
    )
    for value in near:
        step = turned(tuning, **{parameter: value})
        if step is not None:
            yield step


def with_grid_of(tuning: Tuning, other: Tuning) -> Tuning:
    """The tuning with every parameter that is searched as another one has it."""
    return tuning.with_parameters(
        **{parameter: getattr(other, parameter) for parameter in (*GRID, "rank_base", "pool_factor")}
    )


def shaken(tuning: Tuning, random: Random, *, parameters: int = 4) -> Tuning:
    """The tuning with some parameters thrown anywhere on their grids."""
    chosen = random.sample(sorted(GRID), parameters)
    return turned(tuning, **{parameter: random.choice(GRID[parameter]) for parameter in chosen}) or tuning


def differences(before: Tuning, after: Tuning) -> dict[str, tuple[Any, Any]]:
    """Each parameter that differs, with what it was and what it is."""
    old, new = before.model_dump(), after.model_dump()
    return {parameter: (old[parameter], new[parameter]) for parameter in old if old[parameter] != new[parameter]}
