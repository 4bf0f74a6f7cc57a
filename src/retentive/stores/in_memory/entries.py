"""The contents of a store in memory: a memory with its terms and vectors, and the names of profiles and sessions."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC

import numpy as np

from retentive.errors import Invalid
from retentive.models import Memory, Model, Scope
from retentive.stores.rules import home_of, is_within
from retentive.stores.values import PreviousTurn, Record, Vector
from retentive.text.terms import index_terms

NO_TURNS: Mapping[str, PreviousTurn] = {}


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory with its terms, its vectors by the fingerprint of their model, and the hash of their text.

    `previous` has, by model, the turn whose text is in the last vector too.
    """

    memory: Memory
    terms: tuple[str, ...]
    vectors: Mapping[str, Vector]
    text_hash: str | None
    previous: Mapping[str, PreviousTurn] = field(default_factory=dict)

    def parts(self, model: Model | None) -> Vector | None:
        """Return the vectors of a model, one row for each part of the memory; None if there are none."""
        return None if model is None else self.vectors.get(model.fingerprint)

    @property
    def is_stale(self) -> bool:
        """Whether its vectors were made of another text."""
        return bool(self.vectors) and self.text_hash not in (None, self.memory.text_hash)


def make_entry(memory: Memory, vectors: Mapping[str, Vector], previous: Mapping[str, PreviousTurn] = NO_TURNS) -> Entry:
    """Return an entry with the terms of the memory's text."""
    return Entry(memory, tuple(index_terms(memory.indexed_text)), vectors, memory.text_hash, previous)


def without_turns(entry: Entry, ids: Collection[str]) -> Entry:
    """Return an entry without the vectors that contain the text of one of these memories."""
    gone = [model for model, turn in entry.previous.items() if turn.id in ids]
    if not gone:
        return entry
    kept = {model: rows[:-1] if model in gone else rows for model, rows in entry.vectors.items()}
    vectors = {model: rows for model, rows in kept.items() if len(rows)}
    return replace(entry, vectors=vectors, previous={k: turn for k, turn in entry.previous.items() if k not in gone})


def turns(record: Record, model: Model | None) -> Mapping[str, PreviousTurn]:
    """Return the previous turn of a record that is embedded, by the fingerprint of its model."""
    embedded = record.vectors is not None and model is not None
    return {model.fingerprint: record.previous} if embedded and record.previous and model else NO_TURNS


def rounded(vectors: Vector | None, model: Model | None) -> dict[str, Vector]:
    """Return vectors in the precision of the other stores, 16 bits, by the fingerprint of their model."""
    if vectors is None or model is None:
        return {}
    if vectors.ndim != 2 or vectors.shape[1] != model.dimension:
        raise Invalid(
            f"every vector of {model} has {model.dimension} components, and one of these has not; nothing was stored"
        )
    return {model.fingerprint: vectors.astype(np.float16).astype(np.float32)}


def normalized(memory: Memory) -> Memory:
    """Return a memory as a file would return it: metadata copied, times in UTC."""
    names = ("created", "occurred", "accessed", "valid_from", "valid_to", "expires")
    times = {name: time.astimezone(UTC) for name in names if (time := getattr(memory, name)) is not None}
    return memory._replace(metadata=json.loads(json.dumps(dict(memory.metadata))), **times)


Session = tuple[str, str | None, str]
"""The profile, project and name of a session."""

Slot = tuple[str, str | None, str | None]
"""The profile, project and key of memories of which one is open."""


def session_of(memory: Memory) -> Session | None:
    """Return the session of a memory."""
    return None if memory.session is None else (memory.profile, memory.project, memory.session)


def slot_of(memory: Memory) -> Slot:
    """Return the slot of a memory; its key may be missing."""
    return memory.profile, memory.project, memory.key


@dataclass(slots=True)
class Containers:
    """The profiles, projects and sessions that exist, and the project of each session."""

    profiles: set[str] = field(default_factory=set)
    projects: set[tuple[str, str]] = field(default_factory=set)
    sessions: set[Session] = field(default_factory=set)

    def copy(self) -> Containers:
        """Return a copy, which is dropped if a write fails."""
        return Containers(set(self.profiles), set(self.projects), set(self.sessions))

    def projects_of(self, profile: str, session: str) -> list[str | None]:
        """Return the projects of the sessions of a name."""
        return [project for owner, project, name in self.sessions if (owner, name) == (profile, session)]

    def register(self, memory: Memory, *, exact: bool = False) -> Memory:
        """Add the names of a memory, and return the memory with the project of its session."""
        self.profiles.add(memory.profile)
        if memory.project is not None:
            self.projects.add((memory.profile, memory.project))
        if memory.session is None:
            return memory._replace(position=None)
        project = memory.project
        if not exact:
            project = home_of(memory.session, project, self.projects_of(memory.profile, memory.session))
        self.sessions.add((memory.profile, project, memory.session))
        return memory._replace(project=project)

    def matcher(self, scope: Scope) -> Callable[[Memory], bool]:
        """Return a function that tells whether a memory is in a scope.

        A session of a project stands for all memories of that project, unless the scope has `only_sessions`.
        """
        names = scope.sessions
        if names is None:
            return lambda memory: is_within(memory, scope)
        projects = self._projects_of(scope) - {None}
        without_sessions = replace(scope, sessions=None)
        return lambda memory: (
            is_within(memory, without_sessions) and (memory.session in names or memory.project in projects)
        )

    def search_matcher(self, scope: Scope) -> Callable[[Memory], bool]:
        """Return a function that tells whether a search of a scope finds a memory.

        In a project it finds the identity memories of the profile without a project, too.
        """
        inside = self.matcher(scope)
        if scope.is_empty:
            return lambda memory: False
        names = (scope.project,) if scope.sessions is None else self._projects_of(scope)
        if not any((scope.profile, name) in self.projects for name in names if name is not None):
            return inside
        shared = Scope(scope.profile, kinds=("identity",))
        wanted = scope.kinds is None or "identity" in scope.kinds
        return lambda memory: inside(memory) or (wanted and memory.project is None and is_within(memory, shared))

    def _projects_of(self, scope: Scope) -> set[str | None]:
        """Return the projects that the sessions of a scope stand for."""
        found = {project for name in scope.sessions or () for project in self.projects_of(scope.profile, name)}
        if scope.only_sessions or scope.outside_projects:
            return set()
        return found & {scope.project} if scope.project is not None else found


class Contents:
    """Everything in dicts behind one lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.entries: dict[str, Entry] = {}  # by memory id, in the order of writing
        self.containers = Containers()
        self.current_model: Model | None = None

    def _in_scope(self, scope: Scope) -> Iterator[Entry]:
        matches = self.containers.matcher(scope)
        return (entry for entry in self.entries.values() if matches(entry.memory))

    def _of_slot(self, slot: Slot) -> list[Memory]:
        return [entry.memory for entry in self.entries.values() if slot_of(entry.memory) == slot]

    def _replace_memory(self, memory: Memory) -> None:
        """Replace a memory by one with the same text."""
        self.entries[memory.id] = replace(self.entries[memory.id], memory=memory)
