"""A store that holds everything in Python objects and compares every memory with each query.

It is the reference that the other stores are tested against, and it serves tests and short-lived programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Repair, Undamaged
from retentive.stores.external_index import ExternalIndex, NoIndex, Outbox
from retentive.stores.in_memory.catalogue import InMemoryCatalogue
from retentive.stores.in_memory.entries import (
    Entry,
    make_entry,
    rounded,
    session_of,
    slot_of,
    turns,
)
from retentive.stores.in_memory.search import InMemorySearch
from retentive.stores.in_memory.transaction import InMemoryTransaction, NamedPlace
from retentive.stores.rules import (
    cursor_of,
    home_of,
    is_within,
    page_length,
    parse_cursor,
    stale_vectors,
)
from retentive.stores.values import (
    Backup,
    Compaction,
    IdempotencyKey,
    Judgement,
    Page,
    Progress,
    Record,
    ScanPage,
    SearchRequest,
    SearchResult,
    Vector,
    no_progress,
)
from retentive.stores.writes import Transaction, Writes

T = TypeVar("T")


class InMemoryStore(Writes[str, NamedPlace], InMemoryCatalogue, Undamaged):
    """Holds everything in dicts behind one lock. `retentive.stores.base.Store` documents the methods."""

    def __init__(self) -> None:
        super().__init__()
        self.index: ExternalIndex = NoIndex()
        self._values: dict[str, str] = {}
        self.requests: dict[str, tuple[IdempotencyKey, list[str]]] = {}
        self.all_judgements: dict[_JudgementKey, Judgement] = {}

    def compact(self, *, progress: Progress = no_progress) -> Compaction:
        return Compaction(0, 0, "a store in memory has no file")

    def backup(
        self, folder: Path | None = None, *, at: datetime, keep: int | None = None, progress: Progress = no_progress
    ) -> Backup:
        raise Invalid("a store in memory has no file to back up; export it: retentive export FILE --everything")

    def use_index(self, open_index: Callable[[Outbox], ExternalIndex]) -> None:
        raise Invalid("a store in memory has no index of its vectors on a server")

    def close(self) -> None:
        """Do nothing: there are no files and no connections."""

    def check(self) -> list[str]:
        """Check the vectors; there is one copy of everything else, so no two can differ."""
        with self._lock:
            return stale_vectors(sum(entry.is_stale for entry in self.entries.values()))

    def repair(self, *, at: datetime) -> Repair:
        with self._lock:
            return Repair(memories=len(self.entries))

    # Memories

    def _transaction(self, work: Callable[[Transaction[str, NamedPlace]], T]) -> T:
        with self._lock:
            before = dict(self.entries), self.containers.copy(), self.current_model
            try:
                return work(InMemoryTransaction(self))
            except BaseException:  # nothing that changes the other fields can fail
                self.entries, self.containers, self.current_model = before
                raise

    def with_known_turn(self, record: Record) -> Record:
        """Return the record; without the vector of two turns if the previous one is not stored with that text."""
        if record.previous is None:
            return record
        id, text_hash = record.previous
        return record if id in self.entries and self.entries[id].memory.text_hash == text_hash else record.alone()

    def previous(self, memories: Sequence[Memory]) -> list[Memory | None]:
        with self._lock:
            return [self._turn_before(memory) for memory in memories]

    def following(self, memories: Sequence[Memory]) -> list[Memory | None]:
        with self._lock:
            return [self._turn_after(memory) for memory in memories]

    def _turn_before(self, memory: Memory) -> Memory | None:
        most = memory.position
        before = [(at, one) for at, one in self._turns(memory) if most is None or at < most]
        return max(before, key=lambda found: found[0])[1] if before else None

    def _turn_after(self, memory: Memory) -> Memory | None:
        least = memory.position
        after = [(at, one) for at, one in self._turns(memory) if least is not None and at > least]
        return min(after, key=lambda found: found[0])[1] if after else None

    def _turns(self, memory: Memory) -> Iterator[tuple[int, Memory]]:
        """Yield the memories of a memory's session with their positions."""
        if memory.session is None:
            return
        try:
            known = self.containers.projects_of(memory.profile, memory.session)
            session = (memory.profile, home_of(memory.session, memory.project, known), memory.session)
        except Conflict:  # there are several
            return
        for one in (entry.memory for entry in self.entries.values()):
            if one.position is not None and session_of(one) == session:
                yield one.position, one

    def set_first_model(self, changed: Iterable[Entry], model: Model | None) -> None:
        """Search the vectors of the first model that has any."""
        if self.current_model is None and model and any(model.fingerprint in entry.vectors for entry in changed):
            self.current_model = model

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._lock:
            found = (self.entries[id].memory for id in ids if id in self.entries)
            return [memory for memory in found if is_within(memory, within)]

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> list[str]:
        with self._lock:
            found = (entry.memory for id, entry in self.entries.items() if id.startswith(prefix))
            return sorted(memory.id for memory in found if is_within(memory, within))[:limit]

    def superseded(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._lock:
            wanted = set(ids)
            slots = {slot_of(self.entries[id].memory) for id in ids if id in self.entries}
            found = (entry.memory for entry in self.entries.values())
            return [
                memory
                for memory in found
                if (memory.superseded_by in wanted or (memory.key is not None and slot_of(memory) in slots))
                and is_within(memory, within)
            ]

    def replacements(self) -> dict[str, str]:
        with self._lock:
            found = ((id, entry.memory.superseded_by) for id, entry in self.entries.items())
            return {id: by for id, by in found if by is not None}

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        with self._lock:
            removed = self.remove([entry.memory.id for entry in self._in_scope(scope)])
        progress(len(removed))
        return len(removed)

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        with self._lock:
            for memory in self.get(ids):
                used = max(memory.accessed or at, at)
                count = self.entries[memory.id].memory.access_count + 1
                self._replace_memory(memory._replace(accessed=used, access_count=count))

    # Searchable

    def search(self, request: SearchRequest) -> SearchResult:
        with self._lock:
            matches = self.containers.search_matcher(request.query.scope)
            in_scope = [entry for entry in self.entries.values() if matches(entry.memory)]
            search = InMemorySearch(request.query, dict(self.entries), in_scope, self.current_model)
        return search.run(request)

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        with self._lock:
            parts = {id: self.entries[id].parts(self.current_model) for id in ids if id in self.entries}
        return {id: rows[0] for id, rows in parts.items() if rows is not None}

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> list[str]:
        with self._lock:
            own = [one for one in self.entries.values() if one.memory.profile == profile]
        counts = Counter(term for one in own for term in set(one.terms) if term.startswith(prefix))
        return sorted(counts, key=lambda term: (-counts[term], term))[:limit]

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
            return self.current_model

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        with self._lock:
            return self._unembedded(model)[:limit]

    def count_unembedded(self, model: Model) -> int:
        with self._lock:
            return len(self._unembedded(model))

    def _unembedded(self, model: Model) -> list[Memory]:
        return [entry.memory for entry in self.entries.values() if model.fingerprint not in entry.vectors]

    def attach(self, records: Sequence[Record], *, model: Model) -> int:
        with self._lock:
            new = {one.memory.id: self.with_known_turn(one) for one in records}
            attached = 0
            for id, record in new.items():
                entry, vectors = self.entries.get(id), rounded(record.vectors, model)
                if entry is None or record.memory.indexed_text != entry.memory.indexed_text:
                    continue
                memory, known = entry.memory, entry.previous.get(model.fingerprint)
                missing = model.fingerprint not in entry.vectors
                if vectors and (missing or record.previous not in (None, known)):
                    previous = {**entry.previous, **turns(record, model)}
                    self.entries[memory.id] = replace(entry, vectors={**entry.vectors, **vectors}, previous=previous)
                    self.set_first_model([self.entries[memory.id]], model)
                    attached += 1
            return attached

    def remove_stale_vectors(self) -> int:
        with self._lock:
            stale = [entry.memory for entry in self.entries.values() if entry.is_stale]
            self.entries |= {memory.id: make_entry(memory, {}) for memory in stale}
            return len(stale)

    def switch_model(self, model: Model, *, without: Collection[str] = ()) -> bool:
        with self._lock:
            if any(memory.id not in without for memory in self._unembedded(model)):
                return False
            self.current_model = model
            for id, entry in self.entries.items():
                rows = {name: rows for name, rows in entry.vectors.items() if name == model.fingerprint}
                self.entries[id] = replace(entry, vectors=rows)
            return True

    # Relevance judgements

    def judge(self, judgements: Sequence[Judgement]) -> None:
        with self._lock:
            for one in judgements:
                if not self.get([one.memory], within=Scope(one.profile)):
                    raise NotFound(f"there is no memory {one.memory} in profile '{one.profile}'; nothing was judged")
            for one in judgements:
                if one.project is not None:
                    self.containers.projects.add((one.profile, one.project))
                asked_at = one.asked_at and one.asked_at.astimezone(UTC)
                self.all_judgements[_judgement_key(one)] = replace(
                    one, asked_at=asked_at, created=one.created.astimezone(UTC)
                )

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        with self._lock:
            of_profile = (one for one in self.all_judgements.values() if one.profile == profile)
            return [one for one in of_profile if project in (None, one.project)]

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        with self._lock:
            return sum(self.all_judgements.pop(_judgement_key(one), None) is not None for one in judgements)

    # Scan

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        with self._lock:
            ids = sorted(id for id in self.entries if cursor is None or id > cursor)[: limit + 1]
            entries = [self.entries[id] for id in ids]
            count = page_length((len(entry.memory.text) for entry in entries), limit)
            records = [
                Record(
                    entry.memory, entry.parts(self.current_model), entry.previous.get(self.current_model.fingerprint)
                )
                if self.current_model
                else Record(entry.memory)
                for entry in entries[:count]
            ]
            return ScanPage(records, ids[count - 1] if count < len(ids) else None)

    # `list` is the last method: behind it a type checker takes `list[...]` for this method.

    def list(
        self,
        scope: Scope,
        *,
        cursor: str | None = None,
        limit: int = 50,
        current_at: datetime | None = None,
        started_by: datetime | None = None,
        rules: bool = False,
    ) -> Page:
        start = parse_cursor(cursor)
        with self._lock:
            found = (
                (cursor_of(entry.memory), entry.memory)
                for entry in self._in_scope(scope)
                if (current_at is None or entry.memory.is_current(current_at))
                and (started_by is None or entry.memory.start <= started_by)
                and (not rules or entry.memory.metadata.get("rule") is True)
            )
            newest = sorted((one for one in found if one[0] < start), key=lambda one: one[0], reverse=True)
            count = page_length((len(memory.text) for _, memory in newest), limit)
            following = str(newest[count - 1][0]) if count < len(newest) else None
            return Page(tuple(memory for _, memory in newest[:count]), following)


_JudgementKey = tuple[str, str | None, str, str]


def _judgement_key(one: Judgement) -> _JudgementKey:
    """Return what identifies a judgement: a later one with the same key replaces it."""
    return one.profile, one.project, one.query, one.memory
