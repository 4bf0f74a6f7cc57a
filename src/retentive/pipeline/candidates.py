"""Fetch the candidates of one retriever: enough different texts, and enough of each kind that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from retentive.models import Candidate, Kind, Memory, Query, RetrieverReport
from retentive.ranking.boosts import is_removed
from retentive.ranking.duplicates import Texts
from retentive.stores.base import Searchable
from retentive.stores.values import Retrieved
from retentive.text.keyword_syntax import KeywordQuery, parse_keyword_query

MAX_FETCHED = 30_000
"""How far down a retriever is searched for other texts than those it returned first."""


MAX_EXPANDED = 50
"""How many terms a prefix in a keyword query stands for."""


NOTHING = Retrieved()


@dataclass(frozen=True, slots=True)
class RetrieverResult:
    """What one retriever found, or why it did not run. `failure` is set if it should have run and could not."""

    name: str
    weight: float
    retrieved: Retrieved = NOTHING
    ran: bool = True
    note: str = ""
    failure: str | None = None
    elapsed_ms: float = 0.0

    def report(self) -> RetrieverReport:
        """The part of it that the caller sees."""
        note = self.note if self.failure is None else f"unavailable: {self.failure}"
        return RetrieverReport(self.name, self.weight, self.ran, len(self.retrieved.candidates), self.elapsed_ms, note)


@dataclass(frozen=True, slots=True)
class SearchedQuery:
    """A query as the retrievers see it. `keywords` are the operators in its text, if there are any.

    They apply where the keyword retriever runs alone: the semantic retriever would find what they exclude.
    """

    query: Query
    keywords: KeywordQuery | None = None

    def matches(self, memory: Memory) -> bool:
        """Whether a memory has what the operators demand."""
        return self.keywords is None or self.keywords.matches(memory.indexed_text)


def prepare(query: Query, store: Searchable) -> SearchedQuery:
    """Read the operators in the text of a query for the keyword retriever alone."""
    keywords = parse_keyword_query(query.text) if query.tuning.semantic_weight <= 0 else None
    if keywords is None:
        return SearchedQuery(query)
    words = [keywords.text]
    if keywords.prefixes:
        with store.open_search(query) as reads:
            for prefix in keywords.prefixes:
                words += [*prefix.stems, *reads.terms_with_prefix(prefix.text, limit=MAX_EXPANDED)]
    return SearchedQuery(replace(query, text=" ".join(words)), keywords)


def complete(searched: SearchedQuery, first: Retrieved, retrieve: Callable[[int, Kind | None], Retrieved]) -> Retrieved:
    """The candidates of a retriever, given its pool and a function that fetches more, or more of one kind.

    Copies of one text, or memories of sources that are left out, can fill the whole pool; then the retriever is
    searched further down for others. A kind of which the pool has few memories is searched for alone.
    """
    query = searched.query
    if query.limit > 0 and len(first.candidates) >= query.pool:  # otherwise it has returned everything
        found = _by_id(first.candidates)
        found |= _other_texts(searched, first, lambda limit: retrieve(limit, None))
        kinds = dict.fromkeys(query.scope.kinds or ())
        if len(kinds) > 1:
            count = Counter(candidate.memory.kind for candidate in found.values())
            for kind in kinds:
                if count[kind] < query.pool:
                    found |= _by_id(retrieve(query.pool, kind).candidates)
        if len(found) > len(first.candidates):
            first = Retrieved(list(found.values()), first.depth_scores)
    if searched.keywords is None:
        return first
    return Retrieved([one for one in first.candidates if searched.matches(one.memory)], first.depth_scores)


def _other_texts(
    searched: SearchedQuery, first: Retrieved, retrieve: Callable[[int], Retrieved]
) -> dict[str, Candidate]:
    """Candidates after the pool with texts that it does not have, if it has few different ones."""
    query = searched.query
    texts, tuning = Texts(), query.tuning

    def is_new(candidate: Candidate) -> bool:
        memory = candidate.memory
        if is_removed(memory, tuning.source_weights) or not searched.matches(memory):
            return False
        return not tuning.dedup or texts.first(memory) is memory

    missing = max(query.pool // 2, query.limit) - sum(map(is_new, first.candidates))
    seen = {candidate.memory.id for candidate in first.candidates}
    others: dict[str, Candidate] = {}
    limit, last = query.pool, first
    while len(others) < missing and len(last.candidates) >= limit and limit < MAX_FETCHED:
        limit *= 4
        last = retrieve(limit)
        for candidate in last.candidates:
            if candidate.memory.id not in seen and len(others) < missing and is_new(candidate):
                others[candidate.memory.id] = candidate
            seen.add(candidate.memory.id)
    return others


def _by_id(candidates: Iterable[Candidate]) -> dict[str, Candidate]:
    return {candidate.memory.id: candidate for candidate in candidates}
