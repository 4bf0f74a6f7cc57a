"""Recollect: memory for AI agents, found by meaning and by words at once, fused, explained, tunable."""

from recollect.aio import AsyncEngine
from recollect.engine import Engine
from recollect.errors import Conflict, Invalid, MissingExtra, NotFound, RecollectError, Unavailable
from recollect.models import Hit, Memory, Model, Page, Project, Reason, Recall, Scope, Session, Stats
from recollect.ranking import PRESETS, Tuning
from recollect.remember import Draft

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "AsyncEngine",
    "Conflict",
    "Draft",
    "Engine",
    "Hit",
    "Invalid",
    "Memory",
    "MissingExtra",
    "Model",
    "NotFound",
    "Page",
    "Project",
    "Reason",
    "Recall",
    "RecollectError",
    "Scope",
    "Session",
    "Stats",
    "Tuning",
    "Unavailable",
]
