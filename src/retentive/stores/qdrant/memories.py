"""Write and read memories.

Qdrant has no transactions. The requests of a write are in such an order that a process which ends in between leaves
nothing half written visible, or something that a later write completes.
"""

from __future__ import annotations

import builtins
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from qdrant_client import models as q

from retentive.errors import Conflict, Invalid, NotFound, RetentiveError, Unavailable, VersionConflict
from retentive.models import Memory, Model, Scope
from retentive.stores.duplicates import Home, counted_repeats, find_repeated
from retentive.stores.qdrant.connection import PAGE, first_by, matching, payload_of, with_ids
from retentive.stores.qdrant.listing import FEW, ids_with_prefix, newest, until_full
from retentive.stores.qdrant.model_collections import ModelCollection
from retentive.stores.qdrant.notes import EarlierRequest, find_earlier, record_request, remove_judgements, request_notes
from retentive.stores.qdrant.points import (
    NewPoint,
    Rows,
    following_point,
    memory_of,
    new_point_of,
    point_of,
    points_of,
    to_rows,
)
from retentive.stores.qdrant.session_notes import in_session
from retentive.stores.qdrant.sessions import Placement, StoreParts
from retentive.stores.qdrant.validity import (
    FACTS,
    Slot,
    close_others,
    expired_ids,
    listed,
    of_slots,
    slot_of,
    superseded,
)
from retentive.stores.rules import (
    check_version,
    check_versions,
    cursor_of,
    is_within,
    merge_fields,
    parse_cursor,
    stays_in_session,
)
from retentive.stores.sql_codec import RULE
from retentive.stores.validity import check_no_ring, concerns_keys, settle_keys, settle_session, settle_update
from retentive.stores.values import Duplicates, IdempotencyKey, Page, Progress, Record, ScanPage, no_progress

MAX_POINTS = 500
"""How many memories one request writes at most."""

REMOVE_BATCH = 1000
"""How many memories of a scope one request deletes."""

MAX_BYTES = 8_000_000
"""How large a request that writes memories becomes, roughly; the server accepts 32 MB."""


UPDATE_ATTEMPTS = 100
"""How often an update is tried while other processes change the same memory."""


class ConcurrentUpdate(Unavailable):
    """Another process has changed the memory since it was read; try again."""


class GivenUpdate(NamedTuple):
    """The arguments of an update, and the rows of the record's vectors."""

    record: Record
    rows: Rows | None
    model: Model | None
    fields: Collection[str] | None
    if_version: str | None
    within: Scope | None
    idempotency_key: IdempotencyKey | None


class QdrantMemories(StoreParts):
    """See `retentive.stores.base.Memories` and `Scan`."""

    # Adding

    def add(
        self,
        records: Sequence[Record],
        *,
        model: Model | None,
        idempotency_key: IdempotencyKey | None = None,
        exact: bool = False,
        duplicates: Duplicates | None = None,
    ) -> list[Memory]:
        if not records:
            return []
        with self._lock:
            stored = self._add(records, model, idempotency_key, duplicates, exact=exact)
            slots = {slot for memory in stored if (slot := slot_of(memory)) is not None}
            if not slots:
                return stored
            self.close_others(slots)
            found = {memory.id: memory for memory in self.get([memory.id for memory in stored])}
            return [found.get(memory.id, memory) for memory in stored]

    def close_others(self, slots: Collection[Slot]) -> None:
        """Retire all open memories of each slot but the last."""
        close_others(self._connection, slots, self._retire)

    def settle_moved(self, session: str, source: str | None, slots: Collection[Slot]) -> None:
        """Change what a session changes that was moved into these slots from another project."""
        for profile, project, key in slots:
            here, former = (
                [memory for _, of_slot in of_slots(self._connection, [(profile, home, key)]) for _, memory in of_slot]
                for home in (project, source)
            )
            moved = [one._replace(project=source) for one in here if one.session == session]
            others = [one for one in here if one.session != session]
            changed = settle_session(moved, project, here=others, former=former)
            unchanged = [*here, *former]
            for one in sorted(changed, key=lambda one: one.valid_to is None):  # only then may another one be open
                if one not in unchanged:
                    self._retire(one)

    def _retire(self, memory: Memory) -> None:
        with suppress(NotFound):  # it was forgotten meanwhile
            self.update(Record(memory), model=None, fields=FACTS)

    def _settled(self, memories: Sequence[Memory]) -> tuple[builtins.list[Memory], builtins.list[Memory]]:
        """Return new memories as they are to be stored, and the stored ones that they replace by their keys."""
        slots = [slot_of(memory) for memory in memories]
        if not any(slots):
            return list(memories), []
        stored: dict[Slot | None, builtins.list[Memory]] = {
            slot: [memory for _, memory in of_slot]
            for slot, of_slot in of_slots(self._connection, [slot for slot in slots if slot is not None])
        }
        return settle_keys(list(zip(slots, memories, strict=True)), stored)

    def _add(
        self,
        records: Sequence[Record],
        model: Model | None,
        key: IdempotencyKey | None,
        duplicates: Duplicates | None,
        *,
        exact: bool,
    ) -> list[Memory]:
        given = [record.memory for record in records]
        notes = self._names.load(given, notes=request_notes(key))
        earlier = find_earlier(self._connection, key, notes)
        resumed = None if earlier is None else self._resumed(earlier, key)
        if resumed is not None:
            return resumed
        placement, ids = self._names.place(given, exact=exact), [memory.id for memory in given]
        if duplicates is not None:
            homes = [(memory.profile, memory.project) for memory in placement.memories]
            repeated = find_repeated(given, homes, self._same_text, duplicates)
            ids = [one or id for one, id in zip(repeated, ids, strict=True)]
            records = [record for record, one in zip(records, repeated, strict=True) if one is None]
            placement = self._names.place([record.memory for record in records], exact=exact)
        new = [record.memory.id for record in records]
        if len(set(new)) < len(new):
            raise Conflict("two of these memories have the same id; nothing was stored")
        rows = [to_rows(record.alone().vectors, model) for record in records]
        memories, replaced = self._settled(self._with_positions(placement.memories))
        stored = sorted(set(ids) - set(new))
        with record_request(self._connection, key, ids, earlier, operations=placement.operations, stored=stored):
            if model is not None and any(one is not None for one in rows):
                self._collections.prepare(model)
            stamp = self._connection.clock.take(len(records) or 1)
            points = [NewPoint.of(memory, stamp + at, stamp, rows[at], model) for at, memory in enumerate(memories)]
            self._names.register(placement)
            projects = self._insert(points, placement) if points else {}
            self._count_repeats(ids, stored, key)
        self._collections.change_count(len(records))
        for memory in replaced:  # after the new ones: a process that ends in between leaves one too many, not none
            self._retire(memory)
        if len(new) < len(ids):
            return self.get(ids)
        return [_moved(point.memory, projects) for point in points]

    def _resumed(self, earlier: EarlierRequest, key: IdempotencyKey | None) -> builtins.list[Memory] | None:
        """The memories of an earlier request, which is completed; None if nothing of it is left."""
        if not earlier.done:
            if not self._is_complete(set(earlier.ids) - set(earlier.stored)):
                return None
            with record_request(self._connection, key, earlier.ids, earlier, stored=earlier.stored):
                self._count_repeats(earlier.ids, earlier.stored, key)
        return self.get(earlier.ids)

    def _same_text(self, home: Home, memory: Memory) -> Iterator[Memory]:
        """Yield the memories of a profile and project with the content hash of a memory."""
        profile, project = home
        same = matching(profile=profile, content_hash=memory.content_hash)
        for record in self._connection.scroll(self._connection.memories, same):
            found = memory_of(payload_of(record))
            if found.project == project:
                yield found

    def _count_repeats(self, ids: Sequence[str], stored: Collection[str], key: IdempotencyKey | None) -> None:
        """Count in the metadata of memories how often a request repeats them. A request with a key counts once.

        `ids` are those of the whole request, with the memories that were `stored` before it.
        """
        for id, times in (Counter(ids) - Counter(set(ids) - set(stored))).items():
            own = None if key is None else replace(key, name=f"{key.name} repeat {id}")
            for _ in range(UPDATE_ATTEMPTS):
                found = self.get([id])
                if not found:
                    break
                counted = found[0]._replace(metadata=counted_repeats(found[0], times))
                try:
                    self.update(
                        Record(counted),
                        model=None,
                        fields=("metadata",),
                        if_version=found[0].version,
                        idempotency_key=own,
                    )
                except (VersionConflict, NotFound):  # others have changed it meanwhile, or forgotten it
                    continue
                break

    def _is_complete(self, ids: Collection[str]) -> bool:
        """Whether every collection has all memories of a write that was not finished. If not, they are removed.

        The removal after a failed write applies to what has its stamp, and may be carried out after it has timed out.
        So the memories get another stamp before they are counted.
        """
        if not ids:
            return True
        connection, points = self._connection, list(points_of(ids).values())
        written = connection.clock.take()
        stamped = q.SetPayload(payload={"written": written}, filter=with_ids(points))
        counts: set[int] = set()

        def stamp(collection: ModelCollection) -> None:
            connection.update(collection.name, [q.SetPayloadOperation(set_payload=stamped)])
            counts.add(connection.count(collection.name, _written(points, written)))

        self._collections.for_each_collection(stamp)
        if counts == {len(points)}:
            return True
        self._remove_written(points, written)
        return False

    def _remove_written(self, points: Sequence[str], written: int) -> None:
        """Remove those of these points that have the stamp of a write, from every collection."""
        ours = _written(points, written)
        self._collections.for_each_collection(lambda collection: self._connection.delete_where(collection.name, ours))

    def _with_positions(self, memories: Sequence[Memory]) -> builtins.list[Memory]:
        """Give memories without a position the next one of their session. `Conflict` if an id exists already."""
        points = [new_point_of(memory.id) for memory in memories]
        sessions = list(
            dict.fromkeys((one.profile, one.project, one.session) for one in memories if one.session is not None)
        )
        known = [with_ids(points[at : at + PAGE]) for at in range(0, len(points), PAGE)]
        last = q.OrderBy(key="position", direction=q.Direction.DESC)
        requests = [q.QueryRequest(filter=some, limit=PAGE, with_payload=False) for some in known]
        requests += [first_by(last, in_session(*session), fields=["position"]) for session in sessions]
        answers = self._connection.query(requests)
        existing = {str(point.id) for answer in answers[: len(known)] for point in answer.points}
        for memory, point in zip(memories, points, strict=True):
            if point in existing:
                raise Conflict(f"there is a memory with the id {memory.id} already; nothing was stored")
        following: dict[tuple[str, str | None, str | None], int] = {
            session: max((payload_of(point)["position"] + 1 for point in answer.points), default=0)
            for session, answer in zip(sessions, answers[len(known) :], strict=True)
        }
        positions: list[int | None] = []
        for memory in memories:
            place = (memory.profile, memory.project, memory.session)
            position = memory.position if memory.position is not None else following.get(place)
            if position is not None:
                following[place] = max(following[place], position + 1)
            positions.append(position)
        return [memory._replace(position=at) for memory, at in zip(memories, positions, strict=True)]

    def _insert(self, points: Sequence[NewPoint], placement: Placement) -> dict[str, str | None]:
        """Write new points to every collection, all or none. Return the projects of those that followed their session.

        An id that another process stores at the same moment is not overwritten: reading the points back shows which
        process was first.
        """
        by_id = {point.id: point for point in points}

        def write(collection: ModelCollection) -> None:
            for portion in _portions(points):
                encoded = [point.encode(collection) for point in portion]
                self._connection.upsert(collection.name, encoded, mode=q.UpdateMode.INSERT_ONLY)

        try:
            notes = self._collections.for_each_collection(write, then_read=placement.session_notes)
            stored = self._connection.retrieve(self._connection.memories, by_id, fields=["born"])
            for id, record in stored.items():
                if payload_of(record)["born"] != by_id[id].born:
                    raise Conflict(f"there is a memory with the id {by_id[id].memory.id} already; nothing was stored")
            moved = self._names.check_sessions(placement, notes)
        except RetentiveError:
            self._remove_written(list(by_id), points[0].written)
            raise
        return moved

    # Changing

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
        given = GivenUpdate(
            record, to_rows(record.alone().vectors, model), model, fields, if_version, within, idempotency_key
        )
        with self._lock:
            for _ in range(UPDATE_ATTEMPTS):
                try:
                    return self._update(given)
                except ConcurrentUpdate:
                    continue  # another process has changed it, and so was successful
        raise ConcurrentUpdate(f"other processes keep changing memory {record.memory.id}; try again")

    def _update(self, given: GivenUpdate) -> Memory:
        """Replace a point if nobody has changed it since it was read. `ConcurrentUpdate` if somebody has."""
        id, key = given.record.memory.id, given.idempotency_key
        payload, current = self._current(id, given.within)
        memory = merge_fields(current, given.record, given.fields)
        check_no_ring(current, memory, self._replaced_by)
        staying = stays_in_session(memory, current)
        if staying:
            memory = memory._replace(project=current.project)
        requests = request_notes(key)
        notes = self._names.load([memory], notes=requests, fresh=True)
        earlier = find_earlier(self._connection, key, notes)
        if earlier is not None and earlier.done:
            return current
        if earlier is None or payload.get("request") not in requests:
            check_version(current, given.if_version)  # in the other case, the earlier request has written the memory
        placement = self._names.place([memory], staying=staying)
        replaced: builtins.list[Memory] = []
        slot, before = slot_of(placement.memories[0]), slot_of(current)
        if concerns_keys(current, placement.memories[0]):
            slots = [one for one in (slot, before) if one is not None]
            stored = {of: [one for _, one in some if one.id != id] for of, some in of_slots(self._connection, slots)}
            others = stored.pop(slot, []) if slot else []
            former = stored.pop(before, []) if before else []
            placement.memories[0], replaced = settle_update(
                current, placement.memories[0], given.fields, others, former
            )
        rows = given.rows if memory.indexed_text == given.record.memory.indexed_text else None
        same_text = memory.indexed_text == current.indexed_text
        with record_request(self._connection, key, [id], earlier, operations=placement.operations):
            if given.model is not None and rows is not None and not same_text:
                self._collections.prepare(given.model)
            self._names.register(placement)
            written = self._connection.clock.take()
            new = NewPoint.of(placement.memories[0], payload["born"], written, None if same_text else rows, given.model)
            new = new._replace(request=next(iter(requests), None))
            found_notes = self._collections.for_each_collection(
                lambda collection: self._overwrite(collection, new, replaces=payload["written"], same_text=same_text),
                then_read=placement.session_notes,
            )
            found = self._connection.retrieve(self._connection.memories, [new.id], fields=["written"])
            if new.id not in found or payload_of(found[new.id])["written"] != written:
                raise ConcurrentUpdate
            projects = self._names.check_sessions(placement, found_notes)
            try:
                check_no_ring(current, memory, self._replaced_by)
            except Conflict:  # another process has closed a ring at the same moment
                self._retire(current)
                raise
        for one in sorted(replaced, key=lambda one: one.valid_to is None):  # only then may another one be open
            self._retire(one)
        if slot is not None and new.memory.valid_to is None:
            self.close_others([slot])
        return _moved(new.memory, projects)

    def _current(self, id: str, within: Scope | None) -> tuple[dict[str, Any], Memory]:
        """Return the payload of a memory and the memory. `NotFound` if the scope has no such memory."""
        point = point_of(id)
        found = self._connection.retrieve(self._connection.memories, [point] if point else [])
        if point in found:
            payload = payload_of(found[point])
            memory = memory_of(payload)
            if is_within(memory, within):
                return payload, memory
        raise NotFound(f"there is no memory {id}")

    def _overwrite(self, collection: ModelCollection, new: NewPoint, *, replaces: int, same_text: bool) -> None:
        """Replace a point in one write, so that new terms are never visible beside old vectors.

        It is left as it is if its last write is not `replaces`. The collection that is searched gets no point that it
        does not have, which would bring back a deleted memory; one that is being filled does.
        """
        point = new.encode(collection)
        if same_text and collection.vector is not None:
            old = self._connection.retrieve(
                collection.name, [new.id], fields=["text_hash"], vectors=[collection.vector]
            )
            stored: Any = (old[new.id].vector if new.id in old else None) or {}
            if collection.vector in stored:
                vectors: Any = point.vector
                vectors[collection.vector] = stored[collection.vector]
                kept = {"parts": len(stored[collection.vector]), **payload_of(old[new.id])}
                point.payload = {**(point.payload or {}), **kept}
        active = collection == self._collections.known.active
        points = q.PointsList(
            points=[point],
            update_mode=q.UpdateMode.UPDATE_ONLY if active else q.UpdateMode.UPSERT,
            update_filter=matching(written=replaces),
        )
        self._connection.update(collection.name, [q.UpsertOperation(upsert=points)])

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        used = at.astimezone(UTC)
        points = points_of(ids).values()
        with self._lock:
            found = self._connection.retrieve(self._connection.memories, points, fields=["access_count", "accessed"])
            operations = []
            for id, record in found.items():
                payload = payload_of(record)
                before = payload.get("accessed")
                latest = used if before is None else max(used, datetime.fromisoformat(before))
                counted = {"access_count": payload.get("access_count", 0) + 1, "accessed": latest.isoformat()}
                # Unlike an upsert this does not bring back a memory that was deleted meanwhile.
                operations.append(q.SetPayloadOperation(set_payload=q.SetPayload(payload=counted, points=[id])))
            if operations:
                self._collections.for_each_collection(
                    lambda collection: self._connection.update(collection.name, operations)
                )

    # Removing

    def remove(
        self,
        ids: Sequence[str],
        *,
        within: Scope | None = None,
        if_version: str | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> builtins.list[str]:
        with self._lock:
            notes = self._names.load([], notes=request_notes(idempotency_key))
            earlier = find_earlier(self._connection, idempotency_key, notes)
            if earlier is not None and earlier.done:
                return earlier.ids
            points = points_of(ids)
            checked = within is not None or if_version is not None
            found = self._connection.retrieve(self._connection.memories, points.values(), fields=checked)
            existing = [id for id, point in points.items() if point in found]
            if checked:
                memories = {id: memory_of(payload_of(found[points[id]])) for id in existing}
                existing = [id for id in existing if is_within(memories[id], within)]
                if earlier is None:
                    check_versions(existing, [memories[id] for id in existing], if_version)
            if earlier is not None:
                existing = earlier.ids  # the earlier request has deleted some of them
            key = idempotency_key if existing else None
            with record_request(self._connection, key, existing, earlier):
                self._remove_points(existing)
        return existing

    def superseded(self, ids: Sequence[str], *, within: Scope | None = None) -> builtins.list[Memory]:
        found = superseded(self._connection, self.get(ids), ids)
        return [memory for memory in found if is_within(memory, within)]

    def replacements(self) -> dict[str, str]:
        replaced = q.Filter(must_not=[q.IsEmptyCondition(is_empty=q.PayloadField(key="superseded_by"))])
        records = self._connection.scroll(self._connection.memories, replaced, fields=["id", "superseded_by"])
        return {payload["id"]: payload["superseded_by"] for payload in map(payload_of, records)}

    def _replaced_by(self, id: str) -> str | None:
        found = self.get([id])
        return found[0].superseded_by if found else None

    def remove_expired(self, before: datetime, *, limit: int = 1000, profile: str | None = None) -> builtins.list[str]:
        with self._lock:
            return self.remove(expired_ids(self._connection, before, limit=limit, profile=profile))

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        with self._lock:
            where = self._names.scope_filter(scope)
            if where is None:
                return 0
            records = self._connection.scroll(self._connection.memories, where, fields=["id"])
            existing = [payload_of(record)["id"] for record in records]
        for at in range(0, len(existing), REMOVE_BATCH):
            batch = existing[at : at + REMOVE_BATCH]
            with self._lock:
                self._remove_points(batch)
            progress(len(batch))
        return len(existing)

    def _remove_points(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        remove_judgements(self._connection, ids)
        points = list(points_of(ids).values())
        self._collections.for_each_collection(lambda collection: self._connection.delete(collection.name, points))
        self._collections.change_count(-len(ids))

    # Reading

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> builtins.list[Memory]:
        points = points_of(ids)
        if within is not None:
            # The profile first: a memory outside the scope takes as long as one that does not exist.
            placed = self._connection.retrieve(self._connection.memories, points.values(), fields=["profile"])
            own = {point for point, record in placed.items() if payload_of(record)["profile"] == within.profile}
            points = {id: point for id, point in points.items() if point in own}
        found = self._connection.retrieve(self._connection.memories, points.values())
        memories = [memory_of(payload_of(found[points[id]])) for id in ids if points.get(id) in found]
        return [memory for memory in memories if is_within(memory, within)]

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> builtins.list[str]:
        return ids_with_prefix(self._connection, prefix, within, limit)

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
        where = self._names.scope_filter(scope)
        if where is None:
            return Page(())
        where = listed(where, current_at=current_at, started=started_by)
        if rules:
            rule = q.FieldCondition(key="metadata", match=q.MatchText(text=RULE))
            where = q.Filter(must=[where, rule])
        memories, more = until_full(newest(self._connection, where, start, limit + 1), limit)
        return Page(tuple(memories), str(cursor_of(memories[-1])) if more else None)

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        vector = self._collections.read().active.vector
        start = None
        if cursor is not None:
            point = point_of(cursor)
            if point is None:
                raise Invalid("cursor: not a cursor of this store")
            start = following_point(point)
            if start is None:
                return ScanPage(())
        rows: dict[str, Any] = {}

        def memories() -> Iterator[Memory]:
            wanted = [vector] if vector else False
            for point in self._connection.scroll(
                self._connection.memories, start=start, limit=limit + 1, vectors=wanted, page=FEW
            ):
                memory = memory_of(payload_of(point))
                stored: Any = point.vector or {}
                rows[memory.id] = stored.get(vector)
                yield memory

        found, more = until_full(memories(), limit)
        records = [
            Record(memory, np.asarray(rows[memory.id], np.float32) if rows[memory.id] else None) for memory in found
        ]
        return ScanPage(records, found[-1].id if more else None)


def _moved(memory: Memory, projects: Mapping[str, str | None]) -> Memory:
    """Return a memory with the project that its session has now, if the session was moved meanwhile."""
    return memory._replace(project=projects.get(memory.id, memory.project))


def _written(points: Sequence[str], stamp: int) -> q.Filter:
    """Return a filter for those of these points that have the stamp of a write."""
    stamped = q.FieldCondition(key="written", match=q.MatchValue(value=stamp))
    return q.Filter(must=[q.HasIdCondition(has_id=list(points)), stamped])


def _portions(points: Sequence[NewPoint]) -> Iterator[list[NewPoint]]:
    """Split points into requests that the server accepts."""
    portion: list[NewPoint] = []
    size = 0
    for point in points:
        if portion and (len(portion) == MAX_POINTS or size + point.size > MAX_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(point)
        size += point.size
    yield portion
