"""The entries, names and search of the store in memory: every memory of a snapshot is compared with the query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self

import numpy as np

from retentive.errors import Conflict, Invalid
from retentive.models import Candidate, Damage, Kind, Memory, Model, Query, Scope
from retentive.stores.base import Retrieved, Scores, Vector, is_within
from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.text.analysis import index_terms, query_terms
from retentive.text.bm25 import BM25, rare_terms


@dataclass(frozen=True, slots=True)
class Entry:
    """A memory with its terms, its vectors by the fingerprint of their model, and the hash of their text."""

    memory: Memory
    terms: tuple[str, ...]
    vectors: Mapping[str, Vector]
    text_hash: str | None

    def parts(self, model: Model | None) -> Vector | None:
        """Return the vectors of a model, one row for each part of the memory; None if there are none."""
        return None if model is None else self.vectors.get(model.fingerprint)

    @property
    def is_stale(self) -> bool:
        """Whether its vectors were made of another text."""
        return bool(self.vectors) and self.text_hash not in (None, self.memory.text_hash)


def make_entry(memory: Memory, vectors: Mapping[str, Vector]) -> Entry:
    """Return an entry with the terms of the memory's text."""
    return Entry(memory, tuple(index_terms(memory.indexed_text)), vectors, memory.text_hash)


def rounded(vectors: Vector | None, model: Model | None) -> dict[str, Vector]:
    """Return vectors in the precision of the other stores, 16 bits, by the fingerprint of their model."""
    if vectors is None or model is None:
        return {}
    if vectors.ndim != 2 or vectors.shape[1] != model.dimension:
        raise Invalid(
            f"every vector of {model} has {model.dimension} components, and one of these has not; nothing was stored"
        )
    return {model.fingerprint: vectors.astype(np.float16).astype(np.float32)}


@dataclass(slots=True)
class Containers:
    """The profiles, projects and sessions that exist, and the project of each session."""

    profiles: set[str] = field(default_factory=set)
    projects: set[tuple[str, str]] = field(default_factory=set)
    sessions: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def copy(self) -> Containers:
        """Return a copy, which is dropped if a write fails."""
        return Containers(set(self.profiles), set(self.projects), dict(self.sessions))

    def register(self, memory: Memory) -> Memory:
        """Add the names of a memory, and return the memory with the project of its session."""
        self.profiles.add(memory.profile)
        if memory.project is not None:
            self.projects.add((memory.profile, memory.project))
        if memory.session is None:
            return memory._replace(position=None)
        project = self.sessions.setdefault((memory.profile, memory.session), memory.project)
        if memory.project not in (None, project):
            raise Conflict(f"session '{memory.session}' does not belong to project '{memory.project}'")
        return memory._replace(project=project)

    def matcher(self, scope: Scope) -> Callable[[Memory], bool]:
        """Return a function that tells whether a memory is in a scope.

        A session of a project stands for all memories of that project, unless the scope has `only_sessions`.
        """
        if scope.sessions is None:
            return lambda memory: is_within(memory, scope)
        known = {name: self.sessions.get((scope.profile, name)) for name in scope.sessions}
        projects = set() if scope.only_sessions else set(known.values()) - {None}
        without_sessions = replace(scope, sessions=None)
        return lambda memory: (
            is_within(memory, without_sessions) and (memory.session in known or memory.project in projects)
        )

    def search_matcher(self, scope: Scope) -> Callable[[Memory], bool]:
        """Return a function that tells whether a search of a scope finds a memory.

        In a project it finds the identity memories of the profile without a project, too.
        """
        inside = self.matcher(scope)
        names = (scope.project,) if scope.sessions is None else self._projects_of(scope)
        if not any((scope.profile, name) in self.projects for name in names if name is not None):
            return inside
        shared = Scope(scope.profile, kinds=("identity",))
        wanted = scope.kinds is None or "identity" in scope.kinds
        return lambda memory: inside(memory) or (wanted and memory.project is None and is_within(memory, shared))

    def _projects_of(self, scope: Scope) -> set[str | None]:
        """Return the projects that the sessions of a scope stand for."""
        found = {self.sessions.get((scope.profile, name)) for name in scope.sessions or ()}
        return set() if scope.only_sessions else found & {scope.project} if scope.project is not None else found


@dataclass(eq=False)
class InMemorySearch:
    """The reads of one recall. `retentive.stores.base.Search` documents the methods.

    `entries` is a copy of the store's dict, and entries are never changed: together they are a snapshot. BM25 takes the
    mean length of all memories of the profile, or `mean_length` if it is given.
    """

    query: Query
    entries: Mapping[str, Entry]
    in_scope: Sequence[Entry]
    model: Model | None
    mean_length: float | None = None
    damaged: Sequence[Damage] = ()
    _vector: Vector | None = None

    def keyword(self, limit: int, *, kind: Kind | None = None) -> Retrieved:
        terms = set(self._query_terms(self.query.tuning.common_words))
        matching = (entry for entry in self._candidates(kind) if not terms.isdisjoint(entry.terms))
        return _best([Candidate(entry.memory, self._keyword_score(entry)) for entry in matching], limit)

    def nearest(self, vector: Vector, limit: int, *, depth: int = 0, kind: Kind | None = None) -> Retrieved:
        self._vector = vector
        scores = self._semantic_scores(self._candidates(kind))
        return _best([Candidate(self.entries[id].memory, score) for id, score in scores.items()], limit, depth)

    def neighbours(self, ids: Sequence[str]) -> Mapping[str, tuple[Memory | None, Memory | None]]:
        sessions: dict[tuple[str, str], list[Memory]] = {}
        for memory in (entry.memory for entry in self.entries.values()):
            if memory.session is not None:
                sessions.setdefault((memory.profile, memory.session), []).append(memory)
        found: dict[str, tuple[Memory | None, Memory | None]] = {}
        for memories in sessions.values():
            memories.sort(key=lambda memory: memory.position or 0)
            for before, memory, after in zip([None, *memories[:-1]], memories, [*memories[1:], None], strict=True):
                found[memory.id] = (before, after)
        return {id: found[id] for id in ids if id in found}

    def scores(self, ids: Sequence[str]) -> Scores:
        entries = self._existing(ids)
        keyword = {entry.memory.id: self._keyword_score(entry) for entry in entries}
        return Scores(keyword, self._semantic_scores(entries))

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        return {id: parts[0] for id, parts in self._parts(self._existing(ids)).items()}

    def terms_with_prefix(self, prefix: str, *, limit: int) -> list[str]:
        profile = self.query.scope.profile
        own = (one for one in self.entries.values() if one.memory.profile == profile)
        counts = Counter(term for one in own for term in set(one.terms))
        found = sorted((-count, term) for term, count in counts.items() if term.startswith(prefix))
        return [term for _, term in found[:limit]]

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _candidates(self, kind: Kind | None) -> list[Entry]:
        """Return what is in the scope, matches the filter and is not excluded, or what of it is of one kind."""
        excluded, wanted = set(self.query.exclude), self.query.filter
        return [
            entry
            for entry in self.in_scope
            if entry.memory.id not in excluded
            and wanted.unmet_by(entry.memory) is None
            and kind in (None, entry.memory.kind)
        ]

    def _existing(self, ids: Sequence[str]) -> list[Entry]:
        return [self.entries[id] for id in ids if id in self.entries]

    @cached_property
    def _frequencies(self) -> Counter[str]:
        """Document frequencies in the scope."""
        return Counter(term for entry in self.in_scope for term in set(entry.terms))

    def _query_terms(self, common_words: float) -> list[str]:
        """Return the terms of the query that the scope has, without those above this document frequency."""
        terms = query_terms(self.query.text)
        return rare_terms(terms, self._frequencies, memories=len(self.in_scope), common=common_words)

    @cached_property
    def _bm25(self) -> BM25:
        """BM25 with document frequencies of the scope; lengths are relative to all memories of the profile."""
        mean_length = self.mean_length
        if mean_length is None:
            profile = self.query.scope.profile
            lengths = [len(one.terms) + SCOPE_TOKENS for one in self.entries.values() if one.memory.profile == profile]
            mean_length = sum(lengths) / max(len(lengths), 1)
        return BM25(self._query_terms(1.0), self._frequencies, memories=len(self.in_scope), mean_length=mean_length)

    def _keyword_score(self, entry: Entry) -> float:
        return self._bm25(entry.terms, extra_length=SCOPE_TOKENS)

    def _semantic_scores(self, entries: Iterable[Entry]) -> dict[str, float]:
        """Return the cosine of each memory's nearest part."""
        if self._vector is None:
            return {}
        return {id: float((parts @ self._vector).max()) for id, parts in self._parts(entries).items()}

    def _parts(self, entries: Iterable[Entry]) -> dict[str, Vector]:
        found = {entry.memory.id: entry.parts(self.model) for entry in entries}
        return {id: parts for id, parts in found.items() if parts is not None}


def _best(candidates: list[Candidate], limit: int, depth: int = 0) -> Retrieved:
    """Return the best candidates; those of equal score stay in the order of writing."""
    candidates = sorted(candidates, key=lambda candidate: -candidate.score)
    return Retrieved(candidates[:limit], [candidate.score for candidate in candidates[: max(limit, depth)]])
