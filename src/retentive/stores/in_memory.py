"""A store that holds everything in Python objects and compares every memory with each query.

It is the reference that the other stores are tested against, and it serves tests and short-lived programs.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime

from retentive.errors import Conflict, NotFound
from retentive.models import (
    KINDS,
    Compaction,
    Day,
    Judgement,
    Kind,
    Memory,
    Model,
    Page,
    Profile,
    Project,
    Query,
    Repair,
    Scope,
    Session,
    Stats,
)
from retentive.stores.base import (
    IdempotencyKey,
    Progress,
    Record,
    ScanPage,
    check_same_request,
    check_version,
    is_within,
    merge_fields,
    no_progress,
    stale_vectors,
)
from retentive.stores.damage import Undamaged
from retentive.stores.in_memory_search import Containers, Entry, InMemorySearch, make_entry, rounded
from retentive.stores.paging import cursor_of, page_length, parse_cursor


class InMemoryStore(Undamaged):
    """Holds everything in dicts behind one lock. `retentive.stores.base.Store` documents the methods.

    BM25 takes the mean length of a profile's memories, or `mean_length` to score as a store does that uses a fixed one.
    """

    def __init__(self, *, mean_length: float | None = None) -> None:
        self._lock = threading.RLock()
        self._mean_length = mean_length
        self._entries: dict[str, Entry] = {}  # by memory id, in the order of writing
        self._containers = Containers()
        self._values: dict[str, str] = {}
        self._requests: dict[str, tuple[IdempotencyKey, list[str]]] = {}
        self._judgements: dict[_JudgementKey, Judgement] = {}
        self._model: Model | None = None

    def compact(self, *, progress: Progress = no_progress) -> Compaction:  # noqa: ARG002
        return Compaction(0, 0, "a store in memory has no file")

    def close(self) -> None:
        """Do nothing: there are no files and no connections."""

    def check(self) -> list[str]:
        """Check the vectors; there is one copy of everything else, so no two can differ."""
        with self._lock:
            return stale_vectors(sum(entry.is_stale for entry in self._entries.values()))

    def repair(self, *, at: datetime) -> Repair:  # noqa: ARG002 - nothing is set aside here
        with self._lock:
            return Repair(memories=len(self._entries))

    # Memories

    def add(
        self, records: Sequence[Record], *, model: Model | None, idempotency_key: IdempotencyKey | None = None
    ) -> list[Memory]:
        with self._lock:
            earlier = self._ids_of_request(idempotency_key)
            if earlier is not None:
                return self.get(earlier)
            containers = self._containers.copy()
            new: dict[str, Entry] = {}
            last_positions: dict[tuple[str, str], int] = {}
            for record in records:
                id = record.memory.id
                if id in self._entries or id in new:
                    raise Conflict(f"there is a memory with the id {id} already; nothing was stored")
                memory = _normalized(containers.register(record.memory))
                if memory.session is not None:
                    session = (memory.profile, memory.session)
                    last = last_positions[session] if session in last_positions else self._last_position(session)
                    position = last + 1 if memory.position is None else memory.position
                    memory = memory._replace(position=position)
                    last_positions[session] = max(last, position)
                new[id] = make_entry(memory, rounded(record.vectors, model))
            # Nothing fails from here on, so all records are written or none.
            self._record_request(idempotency_key, list(new))
            self._containers = containers
            self._entries |= new
            self._set_first_model(new.values(), model)
            return [entry.memory for entry in new.values()]

    def _last_position(self, session: tuple[str, str]) -> int:
        memories = (entry.memory for entry in self._entries.values())
        positions = (memory.position for memory in memories if (memory.profile, memory.session) == session)
        return max((position for position in positions if position is not None), default=-1)

    def _set_first_model(self, changed: Iterable[Entry], model: Model | None) -> None:
        """Search the vectors of the first model that has any."""
        if self._model is None and model and any(model.fingerprint in entry.vectors for entry in changed):
            self._model = model

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._lock:
            found = (self._entries[id].memory for id in ids if id in self._entries)
            return [memory for memory in found if is_within(memory, within)]

    def update(
        self,
        record: Record,
        *,
        model: Model | None,
        fields: Collection[str] | None = None,
        if_version: str | None = None,
        within: Scope | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> Memory:
        with self._lock:
            id = record.memory.id
            entry = self._entries.get(id)
            if entry is None or not is_within(entry.memory, within):
                raise NotFound(f"there is no memory {id}")
            if self._ids_of_request(idempotency_key) is not None:
                return entry.memory
            containers = self._containers.copy()
            check_version(entry.memory, if_version)
            merged = merge_fields(entry.memory, record, fields)
            memory = _normalized(containers.register(merged))
            vectors = entry.vectors
            if memory.indexed_text != entry.memory.indexed_text:
                bound = memory.indexed_text == record.memory.indexed_text
                vectors = rounded(record.vectors, model) if bound else {}
            self._record_request(idempotency_key, [id])
            self._containers = containers
            self._entries[id] = make_entry(memory, vectors)
            self._set_first_model([self._entries[id]], model)
            return memory

    def remove(
        self, ids: Sequence[str], *, within: Scope | None = None, idempotency_key: IdempotencyKey | None = None
    ) -> list[str]:
        with self._lock:
            earlier = self._ids_of_request(idempotency_key)
            if earlier is not None:
                return earlier
            removed = [memory.id for memory in self.get(list(dict.fromkeys(ids)), within=within)]
            if removed:
                self._record_request(idempotency_key, removed)
            for id in removed:
                del self._entries[id]
            gone = set(removed)
            self._judgements = {key: one for key, one in self._judgements.items() if one.memory not in gone}
            return removed

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        with self._lock:
            removed = self.remove([entry.memory.id for entry in self._in_scope(scope)])
        progress(len(removed))
        return len(removed)

    def _in_scope(self, scope: Scope) -> Iterator[Entry]:
        matches = self._containers.matcher(scope)
        return (entry for entry in self._entries.values() if matches(entry.memory))

    def _ids_of_request(self, key: IdempotencyKey | None) -> list[str] | None:
        """Return the ids that an earlier write with this key changed; None if the key is new."""
        if key is None or key.name not in self._requests:
            return None
        earlier, ids = self._requests[key.name]
        check_same_request(key, earlier.fingerprint)
        return list(ids)

    def _record_request(self, key: IdempotencyKey | None, ids: list[str]) -> None:
        if key:
            kept = {name: one for name, one in self._requests.items() if one[0].at >= key.expires_before}
            self._requests = {**kept, key.name: (key, list(ids))}

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        with self._lock:
            for memory in self.get(ids):
                used = max(memory.accessed or at, at)
                count = self._entries[memory.id].memory.access_count + 1
                self._replace_memory(memory._replace(accessed=used, access_count=count))

    def _replace_memory(self, memory: Memory) -> None:
        """Replace a memory by one with the same text."""
        self._entries[memory.id] = replace(self._entries[memory.id], memory=memory)

    def stats(self) -> Stats:
        with self._lock:
            kinds = Counter(entry.memory.kind for entry in self._entries.values())
            parts = [entry.parts(self._model) for entry in self._entries.values()]
            return Stats(
                memories=len(self._entries),
                by_kind={kind: kinds[kind] for kind in KINDS},
                profiles=len(self._containers.profiles),
                projects=len(self._containers.projects),
                sessions=len(self._containers.sessions),
                vectors=sum(len(rows) for rows in parts if rows is not None),
                unembedded=sum(rows is None for rows in parts),
                model=self._model,
                bytes=0,
            )

    # Searchable

    def open_search(self, query: Query) -> InMemorySearch:
        with self._lock:
            matches = self._containers.search_matcher(query.scope)
            in_scope = [entry for entry in self._entries.values() if matches(entry.memory)]
            return InMemorySearch(query, dict(self._entries), in_scope, self._model, self._mean_length)

    # Catalogue

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        with self._lock:
            return [
                self._session(profile, name)
                for (owner, name), its_project in sorted(self._containers.sessions.items())
                if owner == profile and project in (None, its_project)
            ]

    def _session(self, profile: str, name: str) -> Session:
        memories = (entry.memory for entry in self._entries.values())
        times = [memory.when for memory in memories if (memory.profile, memory.session) == (profile, name)]
        project = self._containers.sessions[profile, name]
        return Session(name, profile, project, len(times), min(times, default=None), max(times, default=None))

    def projects(self, profile: str) -> list[Project]:
        with self._lock:
            sessions = Counter(its for (owner, _), its in self._containers.sessions.items() if owner == profile)
            memories = Counter(entry.memory.project for entry in self._in_scope(Scope(profile)))
            names = sorted(name for owner, name in self._containers.projects if owner == profile)
            return [Project(name, profile, sessions[name], memories[name]) for name in names]

    def move_session(
        self, profile: str, session: str, *, project: str | None, progress: Progress = no_progress
    ) -> Session:
        with self._lock:
            if (profile, session) not in self._containers.sessions:
                raise NotFound(f"there is no session '{session}' in profile '{profile}'")
            self._containers.sessions[profile, session] = project
            if project is not None:
                self._containers.projects.add((profile, project))
            for memory in [entry.memory for entry in self._entries.values()]:
                if (memory.profile, memory.session) == (profile, session):
                    self._replace_memory(memory._replace(project=project))
                    progress(1)
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
            days: dict[date, Counter[Kind]] = {}
            for entry in self._in_scope(Scope(profile, project)):
                days.setdefault(entry.memory.when.date(), Counter())[entry.memory.kind] += 1
            return [Day(day, dict(days[day])) for day in sorted(days)]

    # Key-value entries

    def get_value(self, name: str) -> str | None:
        with self._lock:
            return self._values.get(name)

    def list_values(self, prefix: str) -> dict[str, str]:
        with self._lock:
            return {name: self._values[name] for name in sorted(self._values) if name.startswith(prefix)}

    def compare_and_set(
        self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None
    ) -> bool:
        with self._lock:
            if any(self._values.get(name) != value for name, value in (expected or {}).items()):
                return False
            changed: dict[str, str | None] = {**self._values, **changes}
            self._values = {name: value for name, value in changed.items() if value is not None}
            return True

    # Vector models

    def model(self) -> Model | None:
        with self._lock:
            return self._model

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        with self._lock:
            return self._unembedded(model)[:limit]

    def count_unembedded(self, model: Model) -> int:
        with self._lock:
            return len(self._unembedded(model))

    def _unembedded(self, model: Model) -> list[Memory]:
        return [entry.memory for entry in self._entries.values() if model.fingerprint not in entry.vectors]

    def attach(self, records: Sequence[Record], *, model: Model) -> int:
        with self._lock:
            new = {one.memory.id: (one.memory.indexed_text, rounded(one.vectors, model)) for one in records}
            attached = 0
            for memory in self._unembedded(model):
                text, vectors = new.get(memory.id, ("", {}))
                if vectors and text == memory.indexed_text:
                    entry = self._entries[memory.id]
                    self._entries[memory.id] = replace(entry, vectors={**entry.vectors, **vectors})
                    self._set_first_model([self._entries[memory.id]], model)
                    attached += 1
            return attached

    def remove_stale_vectors(self) -> int:
        with self._lock:
            stale = [entry.memory for entry in self._entries.values() if entry.is_stale]
            self._entries |= {memory.id: make_entry(memory, {}) for memory in stale}
            return len(stale)

    def switch_model(self, model: Model, *, without: Collection[str] = ()) -> bool:
        with self._lock:
            if any(memory.id not in without for memory in self._unembedded(model)):
                return False
            self._model = model
            for id, entry in self._entries.items():
                rows = {name: rows for name, rows in entry.vectors.items() if name == model.fingerprint}
                self._entries[id] = replace(entry, vectors=rows)
            return True

    # Relevance judgements

    def judge(self, judgements: Sequence[Judgement]) -> None:
        with self._lock:
            for one in judgements:
                if not self.get([one.memory], within=Scope(one.profile)):
                    raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
            for one in judgements:
                if one.project is not None:
                    self._containers.projects.add((one.profile, one.project))
                asked_at = one.asked_at and one.asked_at.astimezone(UTC)
                self._judgements[_judgement_key(one)] = replace(
                    one, asked_at=asked_at, created=one.created.astimezone(UTC)
                )

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        with self._lock:
            of_profile = (one for one in self._judgements.values() if one.profile == profile)
            return [one for one in of_profile if project in (None, one.project)]

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        with self._lock:
            return sum(self._judgements.pop(_judgement_key(one), None) is not None for one in judgements)

    # Scan

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        with self._lock:
            ids = sorted(id for id in self._entries if cursor is None or id > cursor)[: limit + 1]
            entries = [self._entries[id] for id in ids]
            count = page_length((len(entry.memory.text) for entry in entries), limit)
            records = [Record(entry.memory, entry.parts(self._model)) for entry in entries[:count]]
            return ScanPage(records, ids[count - 1] if count < len(ids) else None)

    # `list` is the last method: behind it a type checker takes `list[...]` for this method.

    def list(self, scope: Scope, *, cursor: str | None = None, limit: int = 50) -> Page:
        start = parse_cursor(cursor)
        with self._lock:
            found = ((cursor_of(entry.memory), entry.memory) for entry in self._in_scope(scope))
            newest = sorted((one for one in found if one[0] < start), key=lambda one: one[0], reverse=True)
            count = page_length((len(memory.text) for _, memory in newest), limit)
            following = str(newest[count - 1][0]) if count < len(newest) else None
            return Page(tuple(memory for _, memory in newest[:count]), following)


def _normalized(memory: Memory) -> Memory:
    """Return a memory as a file would return it: metadata copied, times in UTC."""
    return memory._replace(
        created=memory.created.astimezone(UTC),
        occurred=memory.occurred and memory.occurred.astimezone(UTC),
        accessed=memory.accessed and memory.accessed.astimezone(UTC),
        metadata=json.loads(json.dumps(dict(memory.metadata))),
    )


_JudgementKey = tuple[str, str | None, str, str]


def _judgement_key(one: Judgement) -> _JudgementKey:
    """Return what identifies a judgement: a later one with the same key replaces it."""
    return one.profile, one.project, one.query, one.memory
