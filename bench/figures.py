"""The results of a run: tables of figures, and targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Row:
    """One subject's figures, one for each column of its table; None where it has none."""

    subject: str
    figures: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures; each column names its unit."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """A figure with a limit."""

    name: str
    figure: float
    sense: Literal["≤", "≥"]
    limit: float
    unit: str
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the figure is within the limit."""
        return self.figure <= self.limit if self.sense == "≤" else self.figure >= self.limit


@dataclass(frozen=True, slots=True)
class SizeResult:
    """The results for one number of memories."""

    memories: int
    tables: tuple[Table, ...]
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A whole run."""

    versions: dict[str, str]
    machine: dict[str, str]
    settings: dict[str, int | str]
    vectors: str
    load: dict[str, float]
    seconds: float
    sizes: tuple[SizeResult, ...] = field(default=())
