"""Statistics of a profile: what a search reads first, in one statement, and how writers keep the counts.

Memories are counted by term and by scope, for each profile. A writer appends its changes to the table `count_changes`,
so that no writer waits for another; compaction adds them to the table `counts` from time to time; readers add up both.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from retentive.models import Filter, Model, Scope
from retentive.stores.postgres.connections import Execute
from retentive.stores.postgres.pool import Connection
from retentive.stores.postgres.sql import Statements
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS, ScopeIds, to_micros
from retentive.text.bm25 import BM25, rare_terms, searching_terms
from retentive.text.terms import MAX_QUERY_TERMS, query_terms

IDENTITY = KIND_NUMBERS["identity"]

MAX_COUNTED = 2_000
"""The frequency of a term in a scope is counted if it cannot be higher than this, and estimated otherwise."""

_SEARCH_STATS = Statements("search_stats")("search_stats")

ScopedTerms = tuple[ScopeIds, Sequence[str]]
"""The scope of a memory, and its terms."""

CountName = tuple[int, str]
"""A profile and what is counted in it: a term, '=' for all memories, or a part of the scope. Profile 0 is the store."""

_COPY = b"COPY count_changes (profile, name, memories, length) FROM STDIN (FORMAT BINARY)"


@dataclass(frozen=True, slots=True)
class ResolvedScope:
    """A scope as ids; None means any. `memories` is how many it has, `query` the scope as a part of a tsquery.

    `shared` has the keys of memories that a search of the scope finds beside its own. With `outside_projects` it has
    only what is in no project.
    """

    profile: int
    projects: Sequence[int] | None
    sessions: Sequence[int] | None
    kinds: Sequence[int] | None
    memories: int
    query: str | None
    shared: Sequence[int] = ()
    outside_projects: bool = False

    @property
    def condition(self) -> str:
        """The scope as an SQL condition on the columns of a memory or a vector, with `parameters`.

        Each form of a scope has its own text, because a general one could not use an index.
        """
        in_projects = "profile = %(profile)s AND project = ANY (%(projects)s)"
        in_sessions = "session = ANY (%(sessions)s)"
        if self.projects is None:
            condition = "profile = %(profile)s"
        elif self.projects and self.sessions:
            condition = f"({in_sessions} OR ({in_projects}))"
        else:
            condition = in_projects if self.projects else in_sessions
        if self.shared:
            condition = f"({condition} OR memory = ANY (%(shared)s::bigint[]))"
        if self.outside_projects:
            condition = f"{condition} AND project IS NULL"
        return condition if self.kinds is None else f"{condition} AND kind = ANY (%(kinds)s)"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of `condition`."""
        return {
            "profile": self.profile,
            "projects": list(self.projects or ()),
            "sessions": list(self.sessions or ()),
            "kinds": self.kinds,
            "shared": list(self.shared),
        }


def filter_condition(wanted: Filter) -> tuple[str, dict[str, Any]]:
    """Return a filter as an SQL condition on the columns of a memory, with AND before it, and its parameters.

    jsonb cannot hold the character NUL, which metadata can.
    """
    conditions = {
        "since": "coalesce(occurred, created) >= %(since)s",
        "until": "coalesce(occurred, created) < %(until)s",
        "started_by": "coalesce(valid_from, occurred, created) <= %(started_by)s",
        "metadata": r"replace(metadata, '\u0000', '\ufffd')::jsonb @> %(metadata)s::jsonb",
    }
    times = {"since": wanted.since, "until": wanted.until, "started_by": wanted.started_by}
    parameters: dict[str, Any] = {name: to_micros(time) for name, time in times.items()}
    if wanted.metadata:
        parameters["metadata"] = json.dumps(dict(wanted.metadata), ensure_ascii=False).replace(r"\u0000", r"\ufffd")
    given = {name: value for name, value in parameters.items() if value is not None}
    return "".join(f" AND {conditions[name]}" for name in given), given


@dataclass(frozen=True, slots=True)
class ActiveModel:
    """The model whose vectors are searched: its id, whether it has an HNSW index, and its mean vectors per memory."""

    id: int
    model: Model
    indexed: bool
    vectors_per_memory: float


@dataclass(frozen=True, slots=True)
class Bm25Extension:
    """The schema of the extension pg_textsearch, quoted, and the name of our index of it, if that exists."""

    schema: str
    index: str | None


@dataclass(frozen=True, slots=True)
class SearchStats:
    """The scope, None if it cannot contain a memory, and the statistics of the scope and of the query's terms.

    `profile_memories` is how many memories the profile has, `mean_length` their mean number of terms. `frequencies`
    has the number of memories in the scope that contain each term, rarest first. `scorer` is BM25 with these
    frequencies. `dated` is whether the validity of some memories of the profile has an end or a given start.
    """

    scope: ResolvedScope | None
    profile_memories: int
    mean_length: float
    active: ActiveModel | None
    extension: Bm25Extension | None
    frequencies: Mapping[str, int]
    scorer: BM25
    dated: bool = False

    @property
    def memories(self) -> int:
        """How many memories are in the scope."""
        return self.scope.memories if self.scope else 0

    def retrieving_terms(self, max_share: float) -> list[str]:
        """Return the terms that retrieve candidates; the more common ones only affect scoring."""
        return searching_terms(self.frequencies, self.frequencies, memories=self.memories, common=max_share)


def read_search_stats(execute: Execute, scope: Scope, text: str | None = None) -> SearchStats:
    """Return the statistics for a search of a scope for a text; without a text, the scope as it is to list."""
    kinds = None if scope.kinds is None else [KIND_NUMBERS[kind] for kind in scope.kinds]
    parameters = {
        "profile": scope.profile,
        "project": scope.project,
        "sessions": None if scope.sessions is None else list(scope.sessions),
        "only_sessions": scope.only_sessions,
        "outside_projects": scope.outside_projects,
        "kinds": kinds,
        "any_kinds": list(KIND_NUMBERS.values()) if kinds is None else kinds,
        "shared_kind": IDENTITY if text is not None and IDENTITY in (kinds or [IDENTITY]) else None,
        "terms": list(query_terms(text or "")),
        "max_terms": MAX_QUERY_TERMS,
        "max_counted": MAX_COUNTED,
    }
    [row] = execute(_SEARCH_STATS, parameters)
    profile, projects, sessions, shared, scope_memories, scope_query, memories, length = row[:8]
    model_id, name, revision, dimension, fingerprint, indexed, vectors_per_memory = row[8:15]
    extension, extension_index, dated, terms, in_profile, in_scope = row[15:]
    resolved = active = None
    if profile is not None and not scope.is_empty and (projects is None or projects or sessions):
        outside = scope.outside_projects
        resolved = ResolvedScope(profile, projects, sessions, kinds, scope_memories, scope_query, shared, outside)
    if model_id is not None:
        model = Model(name, revision, dimension, fingerprint)
        active = ActiveModel(model_id, model, indexed, vectors_per_memory)
    share, mean_length = scope_memories / max(memories, 1), length / max(memories, 1)
    found = {
        # Where it was not counted, a term is taken to be as common in the scope as in the profile.
        term: max(round(overall * share), 1) if counted is None else counted
        for term, overall, counted in zip(terms, in_profile, in_scope, strict=True)
    }
    frequencies = {term: found[term] for term in rare_terms(found, found, memories=scope_memories, common=1.0)}
    return SearchStats(
        resolved,
        memories,
        mean_length,
        active,
        None if extension is None else Bm25Extension(extension, extension_index),
        frequencies,
        BM25(frequencies, frequencies, memories=scope_memories, mean_length=mean_length),
        dated,
    )


def count_names(ids: ScopeIds, terms: Iterable[str]) -> set[CountName]:
    """Return the names under which a memory is counted."""
    containers = (("p", ids.profile), ("r", ids.project), ("s", ids.session))
    parts = {f"={letter}{id}k{ids.kind}" for letter, id in containers if id}
    return {(0, "="), *((ids.profile, name) for name in {"=", *parts, *terms})}


def record_changes(
    connection: Connection, added: Iterable[ScopedTerms] = (), removed: Iterable[ScopedTerms] = ()
) -> None:
    """Count memories that were added or removed."""
    changes: Counter[CountName] = Counter()
    lengths: Counter[CountName] = Counter()
    for sign, entries in ((+1, added), (-1, removed)):
        for ids, terms in entries:
            lengths[ids.profile, "="] += sign * (len(terms) + SCOPE_TOKENS)
            for name in count_names(ids, terms):
                changes[name] += sign
    append_changes(connection, changes, lengths)


def append_changes(
    connection: Connection, changes: Mapping[CountName, int], lengths: Mapping[CountName, int] = MappingProxyType({})
) -> None:
    """Append changes of numbers of memories, and of their total lengths."""
    rows = [(*name, count, lengths.get(name, 0)) for name, count in sorted(changes.items())]
    rows = [row for row in rows if row[2] or row[3]]
    if rows:
        with connection.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(("int4", "text", "int8", "int8"))
            for row in rows:
                copy.write_row(row)
