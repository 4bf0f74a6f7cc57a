"""The notes of sessions: one for each name in a profile, with the projects that have a session of this name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from qdrant_client import models as q

from retentive.stores.qdrant.connection import matching, note_id

SessionName = tuple[str, str]
"""A profile and the name of sessions in it."""

_NO_PROJECT = ""
"""Stands in a note for a session without a project. No project has this name."""


@dataclass(frozen=True, slots=True)
class SessionNote:
    """The projects with a session of a name; None is a session without a project.

    `moves` has the projects that a session of this name was moved out of, each with the one it was moved to: another
    process may still write to it there. While `moving`, some memories may still have the former project of the move
    `last`. A note of an earlier version does not have it; all memories of the name belong to its one session.
    """

    projects: tuple[str | None, ...]
    moves: Mapping[str | None, str | None] = field(default_factory=dict)
    moving: bool = False
    last: tuple[str | None, str | None] | None = None
    stamp: int | None = None

    @classmethod
    def parse(cls, payload: Mapping[str, Any]) -> SessionNote:
        """Read a note. In one of an earlier version, the project is not a list."""
        stored = payload.get("project")
        if not isinstance(stored, list):
            return cls((stored,), moving=payload["moving"], stamp=payload["stamp"])
        moves = [(source or None, target or None) for source, target in payload["moves"]]
        last = moves[-1] if moves and payload["moving"] else None
        return cls(tuple(one or None for one in stored), dict(moves), payload["moving"], last, payload["stamp"])

    def payload(self, name: SessionName) -> dict[str, Any]:
        """Encode the note, without its stamp. The last move is the last of all."""
        moves = sorted(self.moves.items(), key=lambda move: move == self.last)
        return {
            "type": "session",
            "profile": name[0],
            "name": name[1],
            "project": [one or _NO_PROJECT for one in self.projects],
            "moves": [[source or _NO_PROJECT, target or _NO_PROJECT] for source, target in moves],
            "moving": self.moving,
        }

    def with_project(self, project: str | None) -> SessionNote:
        """Return the note with a session of a project, which may have been moved out of it before."""
        if project in self.projects:
            return self
        moves = {source: target for source, target in self.moves.items() if source != project}
        return replace(self, projects=(*self.projects, project), moves=moves)

    def without_project(self, project: str | None) -> SessionNote:
        """Return the note without the session of a project."""
        return replace(self, projects=tuple(one for one in self.projects if one != project))

    def moved(self, source: str | None, target: str | None) -> SessionNote:
        """Return the note after the first step of a move."""
        note = self.without_project(source).with_project(target)
        return replace(note, moves={**note.moves, source: target}, moving=True, last=(source, target))

    def complete(self) -> SessionNote:
        """Return the note after a move."""
        return replace(self, moving=False, last=None)

    def follow(self, project: str | None) -> str | None:
        """Return where the session of a project is now."""
        seen = set()
        while project not in self.projects and project in self.moves and project not in seen:
            seen.add(project)
            project = self.moves[project]
        return project


def session_note_id(name: SessionName) -> str:
    """Return the id of the note of a name."""
    return note_id("session", *name)


def in_project(profile: str, project: str | None) -> q.Filter:
    """Return the filter for the memories of a project, or for those of a profile without a project."""
    if project is not None:
        return matching(profile=profile, project=project)
    return q.Filter(must=[matching(profile=profile), q.IsEmptyCondition(is_empty=q.PayloadField(key="project"))])


def in_session(profile: str, project: str | None, session: str) -> q.Filter:
    """Return the filter for the memories of a session."""
    return q.Filter(must=[in_project(profile, project), matching(session=session)])
