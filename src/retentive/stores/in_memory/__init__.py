"""A store that holds everything in Python objects and compares every memory with each query.

It is the reference that the other stores are tested against, and it serves tests and short-lived programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Repair, Undamaged
from retentive.stores.duplicates import Home, counted_repeats, find_repeated
from retentive.stores.in_memory.catalogue import InMemoryCatalogue
from retentive.stores.in_memory.entries import (
    Entry,
    Session,
    make_entry,
    normalized,
    rounded,
    session_of,
    slot_of,
    turns,
    without_turns,
)
from retentive.stores.in_memory.search import InMemorySearch
from retentive.stores.rules import (
    check_version,
    check_versions,
    cursor_of,
    home_of,
    is_sent_again,
    is_within,
    merge_fields,
    page_length,
    parse_cursor,
    stale_vectors,
    stays_in_session,
)
from retentive.stores.sql_codec import to_micros
from retentive.stores.validity import check_no_ring, concerns_keys, settle_keys, settle_update
from retentive.stores.values import (
    Backup,
    Compaction,
    Duplicates,
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


class InMemoryStore(InMemoryCatalogue, Undamaged):
    """Holds everything in dicts behind one lock. `retentive.stores.base.Store` documents the methods."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, str] = {}
        self._requests: dict[str, tuple[IdempotencyKey, list[str]]] = {}
        self._judgements: dict[_JudgementKey, Judgement] = {}

    def compact(self, *, progress: Progress = no_progress) -> Compaction:
        return Compaction(0, 0, "a store in memory has no file")

    def backup(
        self, folder: Path | None = None, *, at: datetime, keep: int | None = None, progress: Progress = no_progress
    ) -> Backup:
        raise Invalid("a store in memory has no file to back up; export it: retentive export FILE --everything")

    def close(self) -> None:
        """Do nothing: there are no files and no connections."""

    def check(self) -> list[str]:
        """Check the vectors; there is one copy of everything else, so no two can differ."""
        with self._lock:
            return stale_vectors(sum(entry.is_stale for entry in self._entries.values()))

    def repair(self, *, at: datetime) -> Repair:
        with self._lock:
            return Repair(memories=len(self._entries))

    # Memories

    def add(
        self,
        records: Sequence[Record],
        *,
        model: Model | None,
        idempotency_key: IdempotencyKey | None = None,
        exact: bool = False,
        duplicates: Duplicates | None = None,
    ) -> list[Memory]:
        with self._lock:
            earlier = self._ids_of_request(idempotency_key)
            if earlier is not None:
                return self.get(earlier)
            ids = [record.memory.id for record in records]
            repeated = self._repeated([record.memory for record in records], duplicates, exact=exact)
            records = [record for record, one in zip(records, repeated, strict=True) if one is None]
            containers = self._containers.copy()
            new: dict[str, Entry] = {}
            last_positions: dict[Session, int] = {}
            for record in records:
                id = record.memory.id
                if id in self._entries or id in new:
                    raise Conflict(f"there is a memory with the id {id} already; nothing was stored")
                memory = normalized(containers.register(record.memory, exact=exact))
                session = session_of(memory)
                if session is not None:
                    last = last_positions[session] if session in last_positions else self._last_position(session)
                    position = last + 1 if memory.position is None else memory.position
                    memory = memory._replace(position=position)
                    last_positions[session] = max(last, position)
                given = self._with_known_turn(record, records)
                new[id] = make_entry(memory, rounded(given.vectors, model), turns(given, model))
            new |= self._settle([entry.memory for entry in new.values()], new)
            # Nothing fails from here on, so all records are written or none.
            ids = [one or id for one, id in zip(repeated, ids, strict=True)]
            self._record_request(idempotency_key, ids)
            self._containers = containers
            self._entries |= new
            self._set_first_model(new.values(), model)
            for id in filter(None, repeated):
                memory = self._entries[id].memory
                self._replace_memory(memory._replace(metadata=counted_repeats(memory, 1)))
            return [self._entries[id].memory for id in ids]

    def _repeated(
        self, memories: Sequence[Memory], duplicates: Duplicates | None, *, exact: bool
    ) -> Sequence[str | None]:
        """Return the id of the memory that each of these repeats; None for a new one."""
        if duplicates is None:
            return [None] * len(memories)
        containers = self._containers.copy()
        homes = [(one.profile, containers.register(one, exact=exact).project) for one in memories]

        def stored(home: Home, memory: Memory) -> Iterator[Memory]:
            found = (entry.memory for entry in self._entries.values())
            return (
                one for one in found if one.content_hash == memory.content_hash and (one.profile, one.project) == home
            )

        return find_repeated(memories, homes, stored, duplicates)

    def _settle(self, memories: Sequence[Memory], new: Mapping[str, Entry]) -> dict[str, Entry]:
        """Return the entries that are not as given because another memory has their key."""
        if all(memory.key is None for memory in memories):
            return {}
        slots = [slot_of(memory) for memory in memories]
        final, changed = settle_keys(
            list(zip(slots, memories, strict=True)), {slot: self._of_slot(slot) for slot in slots if slot[2]}
        )
        return {
            **{memory.id: replace(self._entries[memory.id], memory=memory) for memory in changed},
            **{memory.id: replace(new[memory.id], memory=memory) for memory in final},
        }

    def _with_known_turn(self, record: Record, others: Sequence[Record] = ()) -> Record:
        """Return the record; without the vector of two turns if the previous one is not stored with that text."""
        if record.previous is None:
            return record
        id, text_hash = record.previous
        stored = [one.memory for one in others if one.memory.id == id]
        stored += [self._entries[id].memory] if id in self._entries else []
        return record if any(memory.text_hash == text_hash for memory in stored) else record.alone()

    def _drop_turns(self, ids: Collection[str]) -> None:
        """Delete the vectors that contain the text of these memories."""
        self._entries = {id: without_turns(entry, ids) for id, entry in self._entries.items()}

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
            known = self._containers.projects_of(memory.profile, memory.session)
            session = (memory.profile, home_of(memory.session, memory.project, known), memory.session)
        except Conflict:  # there are several
            return
        for one in (entry.memory for entry in self._entries.values()):
            if one.position is not None and session_of(one) == session:
                yield one.position, one

    def _last_position(self, session: Session) -> int:
        memories = (entry.memory for entry in self._entries.values())
        positions = (memory.position for memory in memories if session_of(memory) == session)
        return max((position for position in positions if position is not None), default=-1)

    def _set_first_model(self, changed: Iterable[Entry], model: Model | None) -> None:
        """Search the vectors of the first model that has any."""
        if self._model is None and model and any(model.fingerprint in entry.vectors for entry in changed):
            self._model = model

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._lock:
            found = (self._entries[id].memory for id in ids if id in self._entries)
            return [memory for memory in found if is_within(memory, within)]

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> list[str]:
        with self._lock:
            found = (entry.memory for id, entry in self._entries.items() if id.startswith(prefix))
            return sorted(memory.id for memory in found if is_within(memory, within))[:limit]

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
            check_no_ring(entry.memory, merged, self.replacements().get)
            if stays_in_session(merged, entry.memory):
                merged = merged._replace(project=entry.memory.project)
            memory = normalized(containers.register(merged))
            changed: list[Memory] = []
            if concerns_keys(entry.memory, memory):
                slot, before = slot_of(memory), slot_of(entry.memory)
                others, former = (
                    [one for one in self._of_slot(of) if one.id != id] if of[-1] is not None else []
                    for of in (slot, before)
                )
                memory, changed = settle_update(entry.memory, memory, fields, others, former if before != slot else ())
            new = make_entry(memory, entry.vectors, entry.previous)
            if memory.indexed_text != entry.memory.indexed_text:
                self._drop_turns([id])
                bound = memory.indexed_text == record.memory.indexed_text
                given = self._with_known_turn(record) if bound else Record(memory)
                new = make_entry(memory, rounded(given.vectors, model), turns(given, model))
            self._record_request(idempotency_key, [id])
            self._containers = containers
            self._entries[id] = new
            for one in changed:
                self._replace_memory(one)
            self._set_first_model([self._entries[id]], model)
            return memory

    def remove(
        self,
        ids: Sequence[str],
        *,
        within: Scope | None = None,
        if_version: str | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> list[str]:
        with self._lock:
            earlier = self._ids_of_request(idempotency_key)
            if earlier is not None:
                return earlier
            found = self.get(list(dict.fromkeys(ids)), within=within)
            removed = [memory.id for memory in found]
            check_versions(removed, found, if_version)
            if removed:
                self._record_request(idempotency_key, removed)
            for id in removed:
                del self._entries[id]
            gone = set(removed)
            self._drop_turns(gone)
            self._judgements = {key: one for key, one in self._judgements.items() if one.memory not in gone}
            return removed

    def superseded(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        with self._lock:
            wanted = set(ids)
            slots = {slot_of(self._entries[id].memory) for id in ids if id in self._entries}
            found = (entry.memory for entry in self._entries.values())
            return [
                memory
                for memory in found
                if (memory.superseded_by in wanted or (memory.key is not None and slot_of(memory) in slots))
                and is_within(memory, within)
            ]

    def replacements(self) -> dict[str, str]:
        with self._lock:
            found = ((id, entry.memory.superseded_by) for id, entry in self._entries.items())
            return {id: by for id, by in found if by is not None}

    def remove_expired(self, before: datetime, *, limit: int = 1000, profile: str | None = None) -> list[str]:
        with self._lock:
            memories = (entry.memory for entry in self._entries.values() if profile in (None, entry.memory.profile))
            expired = [memory.id for memory in memories if memory.expires is not None and memory.expires <= before]
            return self.remove(expired[:limit])

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        with self._lock:
            removed = self.remove([entry.memory.id for entry in self._in_scope(scope)])
        progress(len(removed))
        return len(removed)

    def _ids_of_request(self, key: IdempotencyKey | None) -> list[str] | None:
        """Return the ids that an earlier write with this key changed; None if the key is new."""
        if key is None or key.name not in self._requests:
            return None
        earlier, ids = self._requests[key.name]
        return list(ids) if is_sent_again(key, earlier.fingerprint, to_micros(earlier.at)) else None

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

    # Searchable

    def search(self, request: SearchRequest) -> SearchResult:
        with self._lock:
            matches = self._containers.search_matcher(request.query.scope)
            in_scope = [entry for entry in self._entries.values() if matches(entry.memory)]
            search = InMemorySearch(request.query, dict(self._entries), in_scope, self._model)
        return search.run(request)

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        with self._lock:
            parts = {id: self._entries[id].parts(self._model) for id in ids if id in self._entries}
        return {id: rows[0] for id, rows in parts.items() if rows is not None}

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> list[str]:
        with self._lock:
            own = [one for one in self._entries.values() if one.memory.profile == profile]
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
            new = {one.memory.id: self._with_known_turn(one) for one in records}
            attached = 0
            for id, record in new.items():
                entry, vectors = self._entries.get(id), rounded(record.vectors, model)
                if entry is None or record.memory.indexed_text != entry.memory.indexed_text:
                    continue
                memory, known = entry.memory, entry.previous.get(model.fingerprint)
                missing = model.fingerprint not in entry.vectors
                if vectors and (missing or record.previous not in (None, known)):
                    previous = {**entry.previous, **turns(record, model)}
                    self._entries[memory.id] = replace(entry, vectors={**entry.vectors, **vectors}, previous=previous)
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
            records = [
                Record(entry.memory, entry.parts(self._model), entry.previous.get(self._model.fingerprint))
                if self._model
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
