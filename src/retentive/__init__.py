"""Retentive: memory for AI agents, found by meaning and by words at once, fused, explained, tunable."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retentive.aio import AsyncEngine
    from retentive.engine import Engine
    from retentive.errors import Conflict, Invalid, MissingExtra, NotFound, RetentiveError, Unavailable
    from retentive.models import (
        Explanation,
        Hit,
        Judgement,
        Memory,
        Model,
        Page,
        Project,
        Reason,
        Recall,
        Scope,
        Session,
        Stats,
    )
    from retentive.pipeline.remember import Draft
    from retentive.ranking import PRESETS, Tuning

__version__ = "0.1.0"

_HOMES = {
    "aio": ("AsyncEngine",),
    "engine": ("Engine",),
    "errors": ("Conflict", "Invalid", "MissingExtra", "NotFound", "RetentiveError", "Unavailable"),
    "models": (
        "Explanation",
        "Hit",
        "Judgement",
        "Memory",
        "Model",
        "Page",
        "Project",
        "Reason",
        "Recall",
        "Scope",
        "Session",
        "Stats",
    ),
    "ranking": ("PRESETS", "Tuning"),
    "pipeline.remember": ("Draft",),
}

__all__ = [
    "PRESETS",
    "AsyncEngine",
    "Conflict",
    "Draft",
    "Engine",
    "Explanation",
    "Hit",
    "Invalid",
    "Judgement",
    "Memory",
    "MissingExtra",
    "Model",
    "NotFound",
    "Page",
    "Project",
    "Reason",
    "Recall",
    "RetentiveError",
    "Scope",
    "Session",
    "Stats",
    "Tuning",
    "Unavailable",
]


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first used: the command line starts loading its model before any of this."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"retentive.{home}"), name)
    raise AttributeError(f"module 'retentive' has no attribute '{name}'")
