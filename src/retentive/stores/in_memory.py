"""The store as plain Python: nothing on disk, every search by looking at everything.

It is what the other stores are compared with, and serves tests and throw-away programs. Words and vectors score as in
the SQLite store; with a `mean_length`, as in stores that cannot weigh all their words anew at every change.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import numpy as np

from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import (
    KINDS,
    Day,
    Judgement,
    Key,
    Kind,
    Memory,
    Model,
    Page,
    Profile,
    Project,
    Scope,
    Session,
    Stats,
)
from retentive.stores import Found, IdempotencyKey, Record, ScanPage, Vector, check_same
from retentive.stores.sql_codec import SCOPE_TOKENS
from retentive.text.analysis import BM25, index_terms, query_terms, rare_terms


class InMemoryStore:
    """Everything in dicts behind one lock. See `retentive.stores.Store` for what each method promises."""

    def __init__(self, *, mean_length: float | None = None) -> None:
        self._lock = threading.RLock()
        self._mean_length = mean_length
        self._names = _Names()
        self._entries: dict[Key, _Entry] = {}
        self._keys: dict[str, Key] = {}
        self._next_key = 1
        self._kept: dict[str, str] = {}
        self._made: dict[str, tuple[IdempotencyKey, list[str]]] = {}
        self._judged: dict[_Judged, Judgement] = {}
        self._models: dict[str, Model] = {}
        self._active: str | None = None

    def close(self) -> None:
        """Nothing to let go of."""

    def check(self) -> list[str]:
        """There is only one copy of everything, so nothing can disagree."""
        return []

    # Keeping

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        with self._lock:
            written = self._made_before(idempotency_key)
            if written is not None:
                return self.get(written)
            names = self._names.copy()
            new: dict[str, _Entry] = {}
            free: dict[tuple[str, str], int] = {}
            for record in records:
                memory = record.memory
                if memory.id in self._keys or memory.id in new:
                    raise Conflict(f"there is a memory with the id {memory.id} already; nothing was stored")
                memory = _as_kept(names.place(memory))
                if memory.session is not None:
                    session = (memory.profile, memory.session)
                    following = free[session] if session in free else self._following(session)
                    memory = memory._replace(position=following if memory.position is None else memory.position)
                    free[session] = max(following, (memory.position or 0) + 1)
                new[memory.id] = _Entry(memory, self._rounded(record.vectors, model))
            # Nothing can fail from here on.
            self._note_made(idempotency_key, [record.memory.id for record in records])
            self._names = names
            for id, entry in new.items():
                self._keys[id] = self._next_key
                self._entries[self._next_key] = entry
                self._next_key += 1
                self._register(entry, model)
            return [entry.memory for entry in new.values()]

    def _following(self, session: tuple[str, str]) -> int:
        memories = (entry.memory for entry in self._entries.values())
        taken = (memory.position for memory in memories if (memory.profile, memory.session) == session)
        return max((position for position in taken if position is not None), default=-1) + 1

    def _rounded(self, vectors: Vector | None, model: Model | None) -> dict[str, Vector]:
        if vectors is None or model is None:
            return {}
        if vectors.ndim != 2 or vectors.shape[1] != model.dimension:
            raise Invalid(f"every vector of {model} has {model.dimension} numbers, one of these has not")
        return {model.fingerprint: vectors.astype(np.float16).astype(np.float32)}

    def _register(self, entry: _Entry, model: Model | None) -> None:
        if model is not None and model.fingerprint in entry.vectors:
            self._models.setdefault(model.fingerprint, model)
            self._active = self._active or model.fingerprint

    def get(self, ids: Sequence[str]) -> list[Memory]:
        with self._lock:
            return [self._entries[self._keys[id]].memory for id in ids if id in self._keys]

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        keep_vectors: bool = False,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        with self._lock:
            key = self._keys.get(record.memory.id)
            if key is None:
                raise NotFound(f"there is no memory {record.memory.id}")
            if self._made_before(idempotency_key) is not None:
                return self._entries[key].memory
            names = self._names.copy()
            memory = _as_kept(names.place(record.memory))
            vectors = self._entries[key].vectors if keep_vectors else self._rounded(record.vectors, model)
            self._names = names
            self._entries[key] = _Entry(memory, vectors)
            self._register(self._entries[key], model)
            self._note_made(idempotency_key, [memory.id])
            return memory

    def _made_before(self, idempotency_key: IdempotencyKey | None) -> list[str] | None:
        """The ids that the write of this name wrote, None if it is new."""
        if idempotency_key is None or idempotency_key.name not in self._made:
            return None
        earlier, ids = self._made[idempotency_key.name]
        check_same(idempotency_key, earlier.fingerprint)
        return ids

    def _note_made(self, idempotency_key: IdempotencyKey | None, ids: list[str]) -> None:
        if idempotency_key:
            self._made = {
                name: made for name, made in self._made.items() if made[0].at >= idempotency_key.forget_before
            }
            self._made[idempotency_key.name] = (idempotency_key, ids)

    def remove(self, ids: Sequence[str], *, idempotency_key: IdempotencyKey | None = None) -> int:
        with self._lock:
            earlier = self._made_before(idempotency_key)
            if earlier is not None:
                return len(earlier)
            found = {id for id in ids if id in self._keys}
            if found:
                self._note_made(idempotency_key, sorted(found))
            for id in found:
                del self._entries[self._keys.pop(id)]
            self._judged = {at: one for at, one in self._judged.items() if one.memory not in found}
            return len(found)

    def remove_scope(self, scope: Scope) -> int:
        with self._lock:
            return self.remove([entry.memory.id for _, entry in self._within(scope)])

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        with self._lock:
            for entry in (self._entries[self._keys[id]] for id in ids if id in self._keys):
                used = max(entry.memory.accessed or at, at)
                entry.memory = entry.memory._replace(accessed=used, access_count=entry.memory.access_count + 1)

    def stats(self) -> Stats:
        with self._lock:
            kinds = [entry.memory.kind for entry in self._entries.values()]
            parts = [len(entry.vectors.get(self._active or "", ())) for entry in self._entries.values()]
            return Stats(
                memories=len(kinds),
                by_kind={kind: kinds.count(kind) for kind in KINDS},
                profiles=len(self._names.profiles),
                projects=len(self._names.projects),
                sessions=len(self._names.sessions),
                vectors=sum(parts),
                unembedded=parts.count(0),
                model=self.model(),
                bytes=0,
            )

    # Searching

    def search_words(
        self, query: str, scope: Scope, *, limit: int, exclude: Sequence[str] = (), common: float = 1.0
    ) -> list[Found]:
        with self._lock:
            searched = set(self._rare_terms(query, common))
            score = self._word_score(query, scope)
            inside = [(key, entry) for key, entry in self._within(scope, exclude) if searched & set(entry.terms)]
            return _best(((key, score(entry)) for key, entry in inside), limit)

    def _rare_terms(self, query: str, common: float) -> list[str]:
        documents = [set(entry.terms) for entry in self._entries.values()]
        asked = query_terms(query)
        found_in = {term: sum(term in document for document in documents) for term in asked}
        return rare_terms(asked, found_in, memories=len(documents), common=common)

    def _word_score(self, query: str, scope: Scope) -> Callable[[_Entry], float]:
        """BM25 by how common each term is in the scope; lengths by the mean of all, or the one given."""
        terms = self._rare_terms(query, 1.0)
        inside = [set(entry.terms) for _, entry in self._within(scope)]
        found_in = {term: sum(term in document for document in inside) for term in terms}
        mean_length = self._mean_length
        if mean_length is None:
            lengths = [len(entry.terms) + SCOPE_TOKENS for entry in self._entries.values()]
            mean_length = sum(lengths) / max(len(lengths), 1)
        bm25 = BM25(terms, found_in, memories=len(inside), mean_length=mean_length)
        return lambda entry: bm25(entry.terms, extra_length=SCOPE_TOKENS)

    def search_vectors(self, vector: Vector, scope: Scope, *, limit: int, exclude: Sequence[str] = ()) -> list[Found]:
        with self._lock:
            return _best(self.score_vectors(vector, [key for key, _ in self._within(scope, exclude)]).items(), limit)

    def fetch(self, keys: Sequence[Key]) -> Mapping[Key, Memory]:
        with self._lock:
            return {key: self._entries[key].memory for key in keys if key in self._entries}

    def keys(self, ids: Sequence[str]) -> Mapping[str, Key]:
        with self._lock:
            return {id: self._keys[id] for id in ids if id in self._keys}

    def score_words(self, query: str, scope: Scope, keys: Sequence[Key]) -> Mapping[Key, float]:
        with self._lock:
            score = self._word_score(query, scope)
            return {key: score(self._entries[key]) for key in keys if key in self._entries}

    def score_vectors(self, vector: Vector, keys: Sequence[Key]) -> Mapping[Key, float]:
        with self._lock:
            return {key: float((rows @ vector).max()) for key, rows in self._active_vectors(keys)}

    def neighbours(self, keys: Sequence[Key]) -> Mapping[Key, tuple[Key | None, Key | None]]:
        with self._lock:
            sessions: dict[tuple[str, str | None], list[Key]] = {}
            for key, entry in sorted(self._entries.items(), key=lambda item: item[1].memory.position or 0):
                sessions.setdefault((entry.memory.profile, entry.memory.session), []).append(key)
            found: dict[Key, tuple[Key | None, Key | None]] = {}
            for (_, session), line in sessions.items():
                for at, key in enumerate(line):
                    if session is not None and key in keys:
                        found[key] = (line[at - 1] if at else None, line[at + 1] if at + 1 < len(line) else None)
            return found

    def vectors(self, keys: Sequence[Key]) -> Mapping[Key, Vector]:
        with self._lock:
            return {key: rows[0] for key, rows in self._active_vectors(keys)}

    def _active_vectors(self, keys: Sequence[Key]) -> Iterable[tuple[Key, Vector]]:
        for key in keys:
            entry = self._entries.get(key)
            if entry is not None and self._active in entry.vectors:
                yield key, entry.vectors[self._active]

    def _within(self, scope: Scope, exclude: Sequence[str] = ()) -> Iterable[tuple[Key, _Entry]]:
        inside = self._names.reach(scope)
        without = set(exclude)
        for key, entry in self._entries.items():
            if inside(entry.memory) and entry.memory.id not in without:
                yield key, entry

    # Cataloguing

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._lock:
            return [
                self._session(profile, name)
                for (owner, name), home in sorted(self._names.sessions.items())
                if owner == profile and project in (None, home)
            ]

    def _session(self, profile: str, name: str) -> Session:
        memories = (entry.memory for entry in self._entries.values())
        times = [memory.when for memory in memories if (memory.profile, memory.session) == (profile, name)]
        home = self._names.sessions[profile, name]
        return Session(name, profile, home, len(times), min(times, default=None), max(times, default=None))

    def projects(self, profile: str) -> list[Project]:
        with self._lock:
            homes = [(owner, home) for (owner, _), home in self._names.sessions.items()]
            of_memories = [(entry.memory.profile, entry.memory.project) for entry in self._entries.values()]
            return [
                Project(name, profile, homes.count((profile, name)), of_memories.count((profile, name)))
                for owner, name in sorted(self._names.projects)
                if owner == profile
            ]

    def move_session(self, profile: str, session: str, *, project: str | None) -> Session:
        with self._lock:
            if (profile, session) not in self._names.sessions:
                raise NotFound(f"there is no session '{session}' in profile '{profile}'")
            self._names.sessions[profile, session] = project
            if project is not None:
                self._names.projects.add((profile, project))
            for entry in self._entries.values():
                if (entry.memory.profile, entry.memory.session) == (profile, session):
                    entry.memory = entry.memory._replace(project=project)
            return self._session(profile, session)

    def profiles(self) -> list[Profile]:
        with self._lock:
            counts = Counter(entry.memory.profile for entry in self._entries.values())
            return [
                Profile(name, len(self.projects(name)), len(self.sessions(name)), counts[name])
                for name in sorted(counts)
            ]

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        with self._lock:
            found: dict[date, Counter[Kind]] = {}
            for _, entry in self._within(Scope(profile, project)):
                found.setdefault(entry.memory.when.date(), Counter())[entry.memory.kind] += 1
            return [Day(day, dict(found[day])) for day in sorted(found)]

    # Noting

    def get_value(self, name: str) -> str | None:
        with self._lock:
            return self._kept.get(name)

    def list_values(self, prefix: str) -> dict[str, str]:
        with self._lock:
            return {name: self._kept[name] for name in sorted(self._kept) if name.startswith(prefix)}

    def keep(self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None) -> bool:
        with self._lock:
            if any(self._kept.get(name) != value for name, value in (expected or {}).items()):
                return False
            for name, value in changes.items():
                self._kept.pop(name, None)
                if value is not None:
                    self._kept[name] = value
            return True

    # Modelling

    def model(self) -> Model | None:
        with self._lock:
            return None if self._active is None else self._models[self._active]

    def unembedded(self, model: Model, *, limit: int) -> Mapping[Key, Memory]:
        with self._lock:
            waiting = [key for key, entry in self._entries.items() if model.fingerprint not in entry.vectors]
            return self.fetch(waiting[:limit])

    def count_unembedded(self, model: Model) -> int:
        with self._lock:
            return sum(model.fingerprint not in entry.vectors for entry in self._entries.values())

    def attach(self, vectors: Mapping[Key, Vector], *, model: Model) -> None:
        with self._lock:
            new = {key: self._rounded(rows, model) for key, rows in vectors.items()}
            for key, rounded in new.items():
                entry = self._entries.get(key)
                if entry is not None and model.fingerprint not in entry.vectors:
                    entry.vectors |= rounded
                    self._register(entry, model)

    def switch_model(self, model: Model) -> bool:
        with self._lock:
            if self.unembedded(model, limit=1):
                return False
            self._models = {model.fingerprint: model}
            self._active = model.fingerprint
            for entry in self._entries.values():
                entry.vectors = {model.fingerprint: entry.vectors[model.fingerprint]}
            return True

    # Judging

    def judge(self, judgements: Sequence[Judgement]) -> None:
        with self._lock:
            for one in judgements:
                if not any(memory.profile == one.profile for memory in self.get([one.memory])):
                    raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
            for one in judgements:
                if one.project is not None:
                    self._names.projects.add((one.profile, one.project))
                asked_at = one.asked_at and one.asked_at.astimezone(UTC)
                self._judged[_judged(one)] = replace(one, asked_at=asked_at, created=one.created.astimezone(UTC))

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        with self._lock:
            ours = (one for one in self._judged.values() if one.profile == profile)
            return [one for one in ours if project in (None, one.project)]

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        with self._lock:
            return sum(self._judged.pop(_judged(one), None) is not None for one in judgements)

    # Walking

    def walk(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        with self._lock:
            ahead = sorted(id for id in self._keys if cursor is None or id > cursor)
            entries = [self._entries[self._keys[id]] for id in ahead[:limit]]
            records = [Record(entry.memory, entry.vectors.get(self._active or "")) for entry in entries]
            return ScanPage(records, records[-1].memory.id if len(ahead) > limit else None)

    # The last of the methods: to a type checker `list` is this one from here on.

    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        with self._lock:
            inside = sorted((entry.memory for _, entry in self._within(scope)), key=lambda one: one.id, reverse=True)
        rest = [memory for memory in inside if cursor is None or memory.id < cursor]
        return Page(tuple(rest[:limit]), rest[limit - 1].id if len(rest) > limit else None)


_Judged = tuple[str, str | None, str, str]


def _judged(one: Judgement) -> _Judged:
    """What there is one judgement for."""
    return one.profile, one.project, one.query, one.memory


@dataclass(slots=True)
class _Entry:
    """A memory with its terms, and its vectors by the fingerprint of their model."""

    memory: Memory
    vectors: dict[str, Vector]
    terms: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.terms = index_terms(self.memory.indexed_text)


@dataclass(slots=True)
class _Names:
    """The profiles, projects and sessions that exist, and which project a session belongs to."""

    profiles: set[str] = field(default_factory=set)
    projects: set[tuple[str, str]] = field(default_factory=set)
    sessions: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def copy(self) -> _Names:
        """The same, to be changed and thrown away if something fails."""
        return _Names(set(self.profiles), set(self.projects), dict(self.sessions))

    def place(self, memory: Memory) -> Memory:
        """The memory in its session's project; names that are new come into being."""
        self.profiles.add(memory.profile)
        if memory.project is not None:
            self.projects.add((memory.profile, memory.project))
        if memory.session is None:
            return memory._replace(position=None)
        home = self.sessions.setdefault((memory.profile, memory.session), memory.project)
        if memory.project not in (None, home):
            raise Conflict(f"session '{memory.session}' does not belong to project '{memory.project}'")
        return memory._replace(project=home)

    def reach(self, scope: Scope) -> Callable[[Memory], bool]:
        """Whether a memory is inside this scope."""
        named = {name for name in scope.sessions or () if (scope.profile, name) in self.sessions}
        homes = {name: self.sessions[scope.profile, name] for name in named}
        if scope.project is not None:
            homes = {name: home for name, home in homes.items() if home == scope.project}
        stood_for = set() if scope.only_sessions else set(homes.values()) - {None}

        def inside(memory: Memory) -> bool:
            if memory.profile != scope.profile or (scope.kinds is not None and memory.kind not in scope.kinds):
                return False
            if scope.sessions is None:
                return scope.project in (None, memory.project)
            return memory.session in homes or memory.project in stood_for

        return inside


def _as_kept(memory: Memory) -> Memory:
    """The memory as it would come back from a file: a copy, its times in UTC."""
    return memory._replace(
        created=memory.created.astimezone(UTC),
        occurred=memory.occurred and memory.occurred.astimezone(UTC),
        accessed=memory.accessed and memory.accessed.astimezone(UTC),
        metadata=json.loads(json.dumps(dict(memory.metadata))),
    )


def _best(found: Iterable[tuple[Key, float]], limit: int) -> list[Found]:
    """The best first; equal scores in the order of writing, which is the order they come in."""
    return [Found(*pair) for pair in sorted(found, key=lambda pair: -pair[1])[:limit]]
