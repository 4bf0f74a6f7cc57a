"""What a search stands on, asked for in one request: the scope in numbers, how common words are, the model in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, NamedTuple

from retentive.models import Model, Scope
from retentive.stores.postgres.pools import Connection
from retentive.stores.sql_codec import KIND_NUMBERS, SCOPE_TOKENS
from retentive.text.analysis import BM25, MAX_QUERY_TERMS, query_terms, searching_terms

COUNTED = 2_000
"""A term is counted in a scope if it cannot occur there more often than this."""

FOOTING = resources.files("retentive.stores.postgres").joinpath("sql", "footing.sql").read_bytes()


@dataclass(frozen=True, slots=True)
class ResolvedScope:
    """A scope in numbers; None means any. `query` is the scope as part of a search for words."""

    profile: int
    projects: Sequence[int] | None
    sessions: Sequence[int] | None
    kinds: Sequence[int] | None
    memories: int
    query: str | None

    @property
    def condition(self) -> str:
        """What is true of rows in reach, in terms of their columns and of our parameters.

        One text for each shape of a scope: a general one could not use an index.
        """
        in_projects = "profile = %(profile)s AND project = ANY (%(projects)s)"
        in_sessions = "session = ANY (%(sessions)s)"
        if self.projects is None:
            there = "profile = %(profile)s"
        elif self.projects and self.sessions:
            there = f"({in_sessions} OR ({in_projects}))"
        else:
            there = in_projects if self.projects else in_sessions
        return there if self.kinds is None else f"{there} AND kind = ANY (%(kinds)s)"

    @property
    def parameters(self) -> dict[str, Any]:
        """The values that the condition is about."""
        return {
            "profile": self.profile,
            "projects": list(self.projects or ()),
            "sessions": list(self.sessions or ()),
            "kinds": self.kinds,
        }


@dataclass(frozen=True, slots=True)
class ActiveModel:
    """The model whose vectors are searched, by its number here; whether there is an index; vectors to a memory."""

    number: int
    model: Model
    indexed: bool
    parts: float


@dataclass(frozen=True, slots=True)
class Extension:
    """A server's own BM25: the schema it is in, as SQL, and the name of its index here, if that is there."""

    schema: str
    index: str | None


@dataclass(frozen=True, slots=True)
class SearchStats:
    """The terms of a query, rarest first, with how many memories hold each: everywhere, and in reach."""

    reach: ResolvedScope | None
    memories: int
    length: int
    serving: ActiveModel | None
    extension: Extension | None
    everywhere: Mapping[str, int]
    inside: Mapping[str, int]

    @property
    def mean_length(self) -> float:
        """How long a memory is in the mean."""
        return self.length / max(self.memories, 1)

    def searched(self, common: float) -> list[str]:
        """The terms that search; the others only score. Common ones cost most of the time and find little."""
        return searching_terms(self.everywhere, self.everywhere, memories=self.memories, common=common)

    def scorer(self) -> BM25:
        """BM25 by how common each term is in reach."""
        memories = self.reach.memories if self.reach else 0
        return BM25(self.everywhere, self.inside, memories=memories, mean_length=self.mean_length)


def score(scorer: BM25, terms: str) -> float:
    """The score of a memory's terms, joined by blanks as they are stored."""
    return scorer(terms.split(), extra_length=SCOPE_TOKENS)


class _Found(NamedTuple):
    """What `footing.sql` answers, column by column."""

    profile: int | None
    projects: Sequence[int] | None
    sessions: Sequence[int] | None
    inside: int
    query: str | None
    memories: int
    length: int
    number: int | None
    name: str
    revision: str
    dimension: int
    fingerprint: str
    indexed: bool
    parts: float
    extension: str | None
    extension_index: str | None
    terms: Sequence[str]
    everywhere: Sequence[int]
    here: Sequence[int | None]


def read_search_stats(connection: Connection, scope: Scope, query: str | None = None) -> SearchStats:
    """What there is to know before searching a scope."""
    kinds = None if scope.kinds is None else [KIND_NUMBERS[kind] for kind in scope.kinds]
    row = connection.execute(
        FOOTING,
        {
            "profile": scope.profile,
            "project": scope.project,
            "sessions": None if scope.sessions is None else list(scope.sessions),
            "only_sessions": scope.only_sessions,
            "kinds": kinds,
            "any_kinds": list(KIND_NUMBERS.values()) if kinds is None else kinds,
            "terms": list(query_terms(query)) if query is not None else [],
            "most_terms": MAX_QUERY_TERMS,
            "counted": COUNTED,
        },
        binary=True,
    ).fetchall()[0]
    found = _Found(*row)
    reach = None
    nowhere = found.projects is not None and not found.projects and not found.sessions
    if found.profile is not None and kinds != [] and not nowhere:
        reach = ResolvedScope(found.profile, found.projects, found.sessions, kinds, found.inside, found.query)
    share = found.inside / max(found.memories, 1)
    serving = None
    if found.number is not None:
        model = Model(found.name, found.revision, found.dimension, found.fingerprint)
        serving = ActiveModel(found.number, model, found.indexed, found.parts)
    return SearchStats(
        reach,
        found.memories,
        found.length,
        serving,
        None if found.extension is None else Extension(found.extension, found.extension_index),
        dict(zip(found.terms, found.everywhere, strict=True)),
        {
            # Where it was not counted it is as common inside as outside, or nearly.
            term: round(everywhere * share) if here is None else here
            for term, everywhere, here in zip(found.terms, found.everywhere, found.here, strict=True)
        },
    )
