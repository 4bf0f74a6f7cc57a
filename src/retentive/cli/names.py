"""Names of projects and sessions that do not exist: the nearest existing name is suggested."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from retentive.errors import unknown_name

if TYPE_CHECKING:
    from retentive.engine import Engine


def unknown_names(engine: Engine, *, project: str | None = None, sessions: Sequence[str] | str | None = None) -> str:
    """Return a sentence about each name that does not exist in the profile, or an empty text."""
    wanted = [sessions] if isinstance(sessions, str) else list(sessions or ())
    lines = []
    if project is not None:
        lines += _unknown("project", [project], (one.name for one in engine.projects()), "retentive projects")
    if wanted:
        lines += _unknown("session", wanted, (one.name for one in engine.sessions()), "retentive sessions")
    return "\n".join(lines)


def _unknown(noun: str, names: Iterable[str], known: Iterable[str], see: str) -> list[str]:
    existing = list(known)
    return [unknown_name(noun, name, existing, otherwise=f"; see: {see}") for name in names if name not in existing]
