"""The protocols that every store implements.

A store has six parts, each a Protocol: memories, the catalogue of sessions and projects, key-value entries, the models
of its vectors, relevance judgements, and a scan of everything. A recall reads by `Searchable.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from retentive.models import Memory, Model, Scope
from retentive.stores.damage import Damage, Repair, SetAside
from retentive.stores.external_index import ExternalIndex, Outbox
from retentive.stores.values import (
    Backup,
    Compaction,
    Day,
    Duplicates,
    IdempotencyKey,
    Judgement,
    Page,
    Profile,
    Progress,
    Project,
    Record,
    ScanPage,
    SearchRequest,
    SearchResult,
    Session,
    Stats,
    Vector,
    no_progress,
)


class Memories(Protocol):
    """Write and read memories. A method returns when its change is durable; one that fails has changed nothing.

    `within` limits a method to the memories of a scope, checked in the same transaction: a memory outside it is
    treated as one that does not exist. Here a session never stands for its project.
    """

    def add(
        self,
        records: Sequence[Record],
        *,
        model: Model | None,
        idempotency_key: IdempotencyKey | None = None,
        exact: bool = False,
        duplicates: Duplicates | None = None,
    ) -> list[Memory]:
        """Store new memories and return them with their session's project and, if none was given, the next position.

        A session is identified by its profile, project and name. A memory without a project goes into the session of
        this name that is in no project, or else into the only one; with `exact`, always into that in no project.
        All are written or none. `Conflict` if an id exists, or if several sessions have the name, all in projects. If
        the idempotency key was used before, nothing is written and what remains of that write is returned.
        With `duplicates`, a memory whose text (`normalised`) its profile and project have already is not stored: it is
        counted in the metadata `repeats` of the stored memory, which is returned in its place, or the write is refused
        by `Conflict`. That is decided in the same transaction.
        Of the memories of a key in a project, each is valid until the next one starts (see `stores/validity.py`): those
        that a new one replaces are retired in the same transaction, and a new one that starts before others is stored
        as retired. So a key never has two open memories.
        """
        ...

    def get(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        """Return the memories with these ids that exist, in the order of the ids. Damaged ones are left out."""
        ...

    def ids_with_prefix(self, prefix: str, *, within: Scope | None = None, limit: int = 10) -> list[str]:
        """Return ids that start with a prefix, in ascending order: all of them, or `limit` of them."""
        ...

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
        """Change some fields of a memory to those of the record and return it; None changes all but its use.

        Other fields keep the values that they have at the moment of writing, whatever the record has. `NotFound` if the
        memory does not exist, `VersionConflict` if `if_version` is not its version. If its indexed text does not
        change, its vectors stay. If it does, it gets the record's vectors where those are of its new text; otherwise it
        waits to be embedded. One that names another project or session goes there as in `add`; otherwise it stays
        in its session. If the idempotency key was used before, nothing is written and the memory as it is now is
        returned.
        """
        ...

    def remove(
        self,
        ids: Sequence[str],
        *,
        within: Scope | None = None,
        if_version: str | None = None,
        idempotency_key: IdempotencyKey | None = None,
    ) -> list[str]:
        """Delete memories with their terms and vectors; return the ids of those that existed, in the order given.

        `VersionConflict`, and nothing is deleted, if one has another version than `if_version`. If the idempotency key
        was used before, nothing is deleted and the ids deleted then are returned.
        """
        ...

    def remove_scope(self, scope: Scope, *, progress: Progress = no_progress) -> int:
        """Delete the memories that a scope has now, and return how many there were.

        Many are deleted in several transactions, so that other writers get their turn. If it is interrupted, some are
        deleted, and running it again deletes the rest. `progress` is called with the size of each part.
        """
        ...

    def superseded(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Memory]:
        """Return the memories that these have replaced, and all those with the same key in the same project."""
        ...

    def replacements(self) -> dict[str, str]:
        """Return the id of what has replaced each memory that was replaced, by its id."""
        ...

    def remove_expired(self, before: datetime, *, limit: int = 1000, profile: str | None = None) -> list[str]:
        """Delete some memories that have expired by a time, and return their ids; an empty list if there are none."""
        ...

    def touch(self, ids: Sequence[str], *, at: datetime) -> None:
        """Record that these memories were used."""
        ...

    def stats(self) -> Stats:
        """Return what the store holds."""
        ...

    # Defined last: after it, `list` in this class is no longer the type.
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
        """Return one page of the memories of a scope: by the time they happened or were stored, then id, newest first.

        Only those that are current at a time and whose `Memory.start` is not after a time, where these are given.
        `rules`: those whose metadata has `"rule": true`, which an index finds, and perhaps some that only look so. A
        page ends at `limit` memories or after `rules.PAGE_BYTES` of text. `Invalid` if the cursor was not returned
        with a page.
        """
        ...


class Searchable(Protocol):
    """What a recall needs of a store."""

    def search(self, request: SearchRequest) -> SearchResult:
        """Read everything that a recall ranks, in one snapshot.

        The query's scope, filter and exclusions are applied inside the retrievers: what they leave out hides nothing.
        So is its `current_at`: memories that are not current then are not found, and are no neighbours. In a project,
        the identity memories of the profile that belong to no project are found as well. Candidates of equal score
        are in the order of writing.

        `keyword` scores by BM25; any text is a safe query. Terms above the document frequency
        `query.tuning.max_document_frequency` retrieve no candidates, unless there is no rarer term; they only affect
        scoring. Document frequencies are those in the scope (in a large one perhaps estimated from the profile's), and
        the mean length is the profile's: other profiles have no effect. `semantic` scores by the cosine of the nearest
        part.

        Neighbours are by position; memories without a session have none, and exclusions, kinds and the filter do not
        apply to them.
        """
        ...

    def vectors(self, ids: Sequence[str]) -> Mapping[str, Vector]:
        """Return the vector of each memory's first part, by the model that is searched."""
        ...

    def terms_with_prefix(self, profile: str, prefix: str, *, limit: int) -> Sequence[str]:
        """Return index terms of a profile that start with a prefix, the most frequent first."""
        ...


class Catalogue(Protocol):
    """Sessions and projects. They come into being with their first memory."""

    def sessions(self, profile: str, *, project: str | None = None) -> list[Session]:
        """Return the sessions of a profile or of one of its projects, by name; those of one name by project."""
        ...

    def projects(self, profile: str) -> list[Project]:
        """Return the projects of a profile, by name."""
        ...

    def move_session(
        self,
        profile: str,
        session: str,
        *,
        project: str | None,
        from_project: str | None = None,
        progress: Progress = no_progress,
    ) -> Session:
        """Move a session with all its memories to another project, or out of its project.

        `from_project` is its project. Without it, the session of this name that is in no project is moved, or else the
        only one. `NotFound` if there is none; `Conflict` if there are several, all in projects, or if there is another
        session of this name, with memories, where it is to move.
        Many memories may be moved in several transactions: if it is interrupted, running it again moves the rest.
        """
        ...

    def drop_session(self, profile: str, session: str, *, project: str | None) -> bool:
        """Delete a session without memories from the list of sessions; return whether there was one."""
        ...

    def profiles(self) -> list[Profile]:
        """Return all profiles that have memories, by name."""
        ...

    def days(self, profile: str, *, project: str | None = None) -> list[Day]:
        """Return the number of memories of each UTC day, by kind, oldest first.

        A memory belongs to the day on which it happened, or else to the day on which it was stored. Days without
        memories are left out, and so are kinds without memories on a day.
        """
        ...


class KeyValue(Protocol):
    """Short texts by name, shared by every process on the store: saved tuning, access tokens, import logs."""

    def get_value(self, name: str) -> str | None:
        """Return the value of a name."""
        ...

    def list_values(self, prefix: str) -> dict[str, str]:
        """Return all entries whose name starts with the prefix."""
        ...

    def compare_and_set(
        self, changes: Mapping[str, str | None], *, expected: Mapping[str, str | None] | None = None
    ) -> bool:
        """Write all changes if every expected value still holds; None deletes an entry. Return whether it did."""
        ...


class VectorModels(Protocol):
    """Which model made the vectors, and the change to another one."""

    index: ExternalIndex
    """The index of the vectors. `check` compares it with the store, and `repair` mends it."""

    def use_index(self, open_index: Callable[[Outbox], ExternalIndex]) -> None:
        """Use an index of the vectors from now on. `Invalid` if the store cannot have one."""
        ...

    def model(self) -> Model | None:
        """Return the model whose vectors are searched; None before the first vector."""
        ...

    def unembedded(self, model: Model, *, limit: int) -> list[Memory]:
        """Return some memories that have no vector of this model yet."""
        ...

    def count_unembedded(self, model: Model) -> int:
        """Return how many memories have no vector of this model yet."""
        ...

    def previous(self, memories: Sequence[Memory]) -> list[Memory | None]:
        """Return the memory before each of these in its session; for one without a position, the session's last.

        A memory without a project is one of the session into which `add` would put it; None if there are several.
        """
        ...

    def following(self, memories: Sequence[Memory]) -> list[Memory | None]:
        """Return the memory after each of these in its session, by position."""
        ...

    def attach(self, records: Sequence[Record], *, model: Model) -> int:
        """Store vectors of a model beside those being searched; return how many memories got theirs.

        A memory is left as it is if its text is no longer that of the record, or if it has vectors of this model,
        unless the record names a previous turn that they were not made with.
        """
        ...

    def remove_stale_vectors(self) -> int:
        """Delete vectors that were made of another text than their memory has; return of how many memories.

        Vectors that were stored without the hash of their text are taken to be right.
        """
        ...

    def switch_model(self, model: Model, *, without: Collection[str] = ()) -> bool:
        """Search this model's vectors from now on and delete all others; False if a memory still lacks one.

        The memories with the ids `without` may lack one: the model does not accept their texts.
        """
        ...


class Judgements(Protocol):
    """Relevance judgements. A judgement is deleted with its memory."""

    def judge(self, judgements: Sequence[Judgement]) -> None:
        """Store all or none; each replaces an earlier one of the same profile, project, query and memory.

        `NotFound` if the profile has no such memory.
        """
        ...

    def judgements(self, profile: str, *, project: str | None = None) -> list[Judgement]:
        """Return the judgements of a profile or of one project, in the order in which they were first given."""
        ...

    def unjudge(self, judgements: Sequence[Judgement]) -> int:
        """Delete judgements, by profile, project, query and memory; return how many existed."""
        ...


class Scan(Protocol):
    """Read everything in a store, to copy it elsewhere. Key-value entries are listed with an empty prefix."""

    def scan(self, *, cursor: str | None = None, limit: int = 500) -> ScanPage:
        """Return memories of every profile after the cursor, with their vectors of the model that is searched.

        Each memory comes once, in the store's own order, whatever is written meanwhile; what is added during the scan
        may come or not. A page ends at `limit` memories or after `rules.PAGE_BYTES` of text.
        """
        ...


class Integrity(Protocol):
    """Find damage and repair it.

    A memory is damaged if it cannot be read, or if its text is not the one that was stored: another program changed it.
    """

    def check(self) -> list[str]:
        """Return one sentence for each problem of the store; an empty list means that it is healthy."""
        ...

    def damaged(self, ids: Sequence[str], *, within: Scope | None = None) -> list[Damage]:
        """Return which of these memories are damaged."""
        ...

    def repair(self, *, at: datetime) -> Repair:
        """Rebuild every index from the texts.

        A text that was changed is indexed as it is now, and waits to be embedded. A memory that cannot be read is set
        aside: it is no memory any more, and what is left of it can be listed. `Damaged` if that is not enough.
        """
        ...

    def set_aside(self) -> list[SetAside]:
        """Return the memories that repairs have set aside. Forgetting one by its id deletes it here too."""
        ...


class Store(Memories, Searchable, Catalogue, KeyValue, VectorModels, Judgements, Scan, Integrity, Protocol):
    """Everything that a store does."""

    def compact(self, *, progress: Progress = no_progress) -> Compaction:
        """Return the space of deleted memories to the file system, while others read and write."""
        ...

    def backup(
        self, folder: Path | None = None, *, at: datetime, keep: int | None = None, progress: Progress = no_progress
    ) -> Backup:
        """Write a checked copy of one snapshot into a new file of the folder, while others read and write.

        The folder is `backups` beside the store by default. If `keep` is given, only that many of the newest backups
        stay. `progress` is called with the megabytes copied. `Invalid` if the store has tools of its own for this.
        """
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
