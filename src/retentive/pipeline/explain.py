"""Explain a recall: why a memory ranked where it did, or why it did not appear.

Nothing is ranked here. The explanation comes from the hits of the recall itself, from what it dropped and why, and, for
a memory that no retriever returned, from the score and rank that each retriever gives it.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from retentive.models import Hit, Memory, Query, Recall, Serializable
from retentive.pipeline.recall import retired_hit
from retentive.pipeline.scopes import ScopeTest
from retentive.pipeline.search import RetrieverResult, SearchOutcome
from retentive.ranking.rank import STEPS, score_parts
from retentive.stores.base import Store
from retentive.stores.values import KnownVector, SearchRequest, SearchResult


@dataclass(frozen=True, slots=True)
class RetrieverRank(Serializable):
    """The score and rank that one retriever gives a memory, whether it returned it or not.

    `rank` is among all memories of the scope, and None if the retriever cannot find the memory at all. `found` is the
    number of candidates that the retriever returned, and `last` the score of the last one.
    """

    retriever: str
    ran: bool
    score: float | None = None
    rank: int | None = None
    found: int = 0
    last: float | None = None
    note: str = ""


Outcome = Literal[
    "hit", "behind", "diversity", "duplicate", "floor", "irrelevant", "excluded", "outside", "retired", "not_found"
]


@dataclass(frozen=True, slots=True)
class Explanation(Serializable):
    """Why a memory ranked where it did for a query, or why it did not appear.

    `hit` is the memory as ranked, if it was; `above` and `below` are the adjacent hits. `part` is the part of the scope
    that the memory is outside of, and `same_as` the id of the hit with the same text.
    """

    query: str
    memory: Memory
    outcome: Outcome
    sentence: str
    retriever_ranks: tuple[RetrieverRank, ...] = ()
    hit: Hit | None = None
    above: Hit | None = None
    below: Hit | None = None
    part: str | None = None
    same_as: str | None = None
    degraded: str | None = None
    degraded_reason: str | None = None

    def __repr__(self) -> str:
        return f"Explanation({self.outcome}: {self.sentence})"

    def _repr_html_(self) -> str:
        """The explanation with a bar for each ranking step, for notebooks."""
        from retentive.notebook import explanation_html

        return explanation_html(self)


DEPTH = 100_000
"""How far down a retriever is searched for a memory's rank."""

TOLERANCE = 1e-6
"""Two computations of the same cosine may differ by rounding."""


def explain(memory: Memory, query: Query, outcome: SearchOutcome, recall: Recall, store: Store) -> Explanation:
    """Explain the rank of a memory in a recall, or its absence."""
    case = _Case(memory, query, outcome, recall, store)
    for explain_case in (_hit, _out_of_scope, _out_of_filter, _retired, _excluded, _unmet_operator, _dropped):
        explanation = explain_case(case)
        if explanation:
            return explanation
    return _not_retrieved(case)


@dataclass(frozen=True, slots=True)
class _Case:
    """A memory and the recall to explain."""

    memory: Memory
    query: Query
    outcome: SearchOutcome
    recall: Recall
    store: Store

    def explanation(self, **fields: Any) -> Explanation:
        """An explanation with the fields that every one has."""
        common: dict[str, Any] = {
            "query": self.query.text,
            "memory": self.memory,
            "retriever_ranks": (),
            "degraded": self.recall.degraded,
            "degraded_reason": self.recall.degraded_reason,
        }
        return Explanation(**common | fields)

    def retriever_ranks(self) -> tuple[RetrieverRank, ...]:
        """The score and rank that each retriever gives the memory, also if the caller excludes it."""
        vector = self.outcome.embedding
        request = SearchRequest(
            self.searched,
            semantic=0 if vector is None else 1,
            vector=None if vector is None else KnownVector(vector),
            depth=DEPTH,
            ids=[self.memory.id],
            scores=True,
        )
        read = self.store.search(request)
        return _retriever_rank(self.outcome.semantic, self, read), _retriever_rank(self.outcome.keyword, self, read)

    @property
    def searched(self) -> Query:
        """The query as the retrievers saw it, with the memories that the caller excludes."""
        searched = self.outcome.searched
        return replace(searched.query if searched else self.query, exclude=())

    def admits(self, memory: Memory) -> bool:
        """Whether a memory has what the operators of the query demand."""
        return self.outcome.searched is None or self.outcome.searched.matches(memory)

    def placed(self) -> tuple[Hit, ...]:
        """All hits with a rank: those returned, and those after the limit."""
        return (*self.recall.hits, *(hit for hit in self.recall.dropped if hit.rank))


def _hit(case: _Case) -> Explanation | None:
    hit = next((hit for hit in case.recall.hits if hit.id == case.memory.id), None)
    if hit is None:
        return None
    sentence = f"It is hit {hit.rank} of {len(case.recall.hits)}, with a score of {hit.score:.3f}: {score_parts(hit)}."
    return case.explanation(
        outcome="hit",
        sentence=sentence,
        hit=hit,
        retriever_ranks=case.retriever_ranks(),
        **_adjacent(case.placed(), hit),
    )


def _out_of_scope(case: _Case) -> Explanation | None:
    difference = ScopeTest(case.query.scope, case.store).difference(case.memory)
    if difference is None:
        return None
    part, of_memory, wanted = difference
    sentence = f"It is outside the scope: its {part} is {of_memory}, and the recall searched {wanted}."
    return case.explanation(outcome="outside", sentence=sentence, part=part)


def _out_of_filter(case: _Case) -> Explanation | None:
    memory, wanted = case.memory, case.query.filter
    part = wanted.unmet_by(memory)
    if part is None:
        return None
    if part == "start":
        start = wanted.started_by.isoformat() if wanted.started_by else ""
        difference = f"it is valid from {memory.start.isoformat()} on, and the recall asks for {start}"
    elif part == "time":
        bounds = (("from", wanted.since), ("before", wanted.until))
        searched = " ".join(f"{word} {time.isoformat()}" for word, time in bounds if time)
        difference = f"its time is {memory.when.isoformat()}, and the recall searched {searched}"
    else:
        difference = f"its metadata does not have {json.dumps(dict(wanted.metadata), ensure_ascii=False)}"
    sentence = f"It is outside the filter: {difference}."
    return case.explanation(outcome="outside", sentence=sentence, part=part)


def _retired(case: _Case) -> Explanation | None:
    at = case.query.current_at
    if at is None or case.memory.is_current(at):
        return None
    return case.explanation(outcome="retired", sentence=f"It is not current: {retired_hit(case.memory).why[0].note}.")


def _excluded(case: _Case) -> Explanation | None:
    if case.memory.id not in case.query.exclude:
        return None
    sentence = "It was left out because the caller excluded it (exclude)."
    return case.explanation(outcome="excluded", sentence=sentence, retriever_ranks=case.retriever_ranks())


def _unmet_operator(case: _Case) -> Explanation | None:
    keywords = case.outcome.keywords
    unmet = keywords.unmet_by(case.memory.indexed_text) if keywords else None
    if unmet is None:
        return None
    sentence = f"An operator of the query removed it: {unmet}."
    return case.explanation(outcome="excluded", sentence=sentence, retriever_ranks=case.retriever_ranks())


def _dropped(case: _Case) -> Explanation | None:
    hit = next((hit for hit in case.recall.dropped if hit.id == case.memory.id), None)
    if hit is None:
        return None
    if hit.rank:
        return _after_limit(case, hit)
    reason = hit.why[-1]
    if reason.step == "min_relevance":
        return _irrelevant(case, hit)
    fields = {"hit": hit, "retriever_ranks": case.retriever_ranks(), **_adjacent(case.placed(), hit)}
    if reason.step == "duplicate":
        other = str(reason.figures[0])
        rank = next((hit_above.rank for hit_above in case.placed() if hit_above.id == other), None)
        where = f" (rank {rank})" if rank else ""
        sentence = f"It was found, with a score of {hit.score:.3f}, but a higher hit has the same text: {other}{where}."
        return case.explanation(outcome="duplicate", sentence=sentence, same_as=other, **fields)
    floor = case.query.tuning.min_score
    why = reason.note if reason.value is None else f"the score floor is {floor:g}"
    sentence = f"It was found, with a score of {hit.score:.3f}, but {why}: {score_parts(hit)}."
    return case.explanation(outcome="floor", sentence=sentence, **fields)


def _irrelevant(case: _Case, hit: Hit) -> Explanation:
    """Explain a hit below the smallest relevance."""
    least, answer = case.query.tuning.min_relevance, case.recall.relevance
    own = f"its relevance is {hit.relevance:.2f}" if hit.relevance is not None else "its relevance is not higher"
    whole = f" (that of the whole answer is {answer:.2f})"
    sentence = f"It was found, with a score of {hit.score:.3f}, but {own}{whole}, and min_relevance is {least:g}."
    fields = {"hit": hit, "retriever_ranks": case.retriever_ranks(), **_adjacent(case.placed(), hit)}
    return case.explanation(outcome="irrelevant", sentence=sentence, **fields)


def _after_limit(case: _Case, hit: Hit) -> Explanation:
    """Explain a hit that ranked after the limit."""
    last = case.recall.hits[-1]
    fields = {"hit": hit, "retriever_ranks": case.retriever_ranks(), **_adjacent(case.placed(), hit)}
    limit = len(case.recall.hits)
    diversity = case.query.tuning.diversity
    better = sum(_without_diversity(other) > hit.score for other in case.placed())
    if diversity > 0 and better < limit:
        sentence = (
            f"By its score of {hit.score:.3f} it would rank {better + 1}, but diversity ({diversity:g}) preferred "
            f"memories that are less similar to the higher hits."
        )
        return case.explanation(outcome="diversity", sentence=sentence, **fields)
    difference = _without_diversity(last) - hit.score
    sentence = (
        f"It was found, but it ranks {hit.rank} with a score of {hit.score:.3f} ({score_parts(hit)}), and the limit is "
        f"{limit}. The last hit has {_without_diversity(last):.3f}, {difference:.3f} more{_main_difference(last, hit)}."
    )
    return case.explanation(outcome="behind", sentence=sentence, **fields)


def _without_diversity(hit: Hit) -> float:
    """A hit's score before diversity changed it."""
    return hit.score - sum(reason.change for reason in hit.why if reason.step == "diversity")


def _not_retrieved(case: _Case) -> Explanation:
    """Explain a memory that no retriever returned."""
    ranks = case.retriever_ranks()
    floor = case.query.tuning.min_cosine
    low = next(
        (rank for rank in ranks if rank.retriever == "semantic" and rank.score is not None and rank.score < floor),
        None,
    )
    if low and low.rank is not None and low.rank <= low.found:
        others = "; ".join(_rank_sentence(rank) for rank in ranks if rank is not low)
        sentence = f"Its cosine is {low.score:.3f}, and the semantic floor is {floor:g}; {others}."
        return case.explanation(outcome="floor", sentence=sentence, retriever_ranks=ranks)
    sentence = f"No retriever returned it: {'; '.join(map(_rank_sentence, ranks))}."
    return case.explanation(outcome="not_found", sentence=sentence, retriever_ranks=ranks)


def _rank_sentence(rank: RetrieverRank) -> str:
    """One retriever's view of a memory: "semantic: it would rank 143rd with 0.410, the pool ends at 30 with 0.512"."""
    if rank.note:
        return f"{rank.retriever}: {rank.note}"
    end = f"the pool ends at {rank.found} with {rank.last:.3f}" if rank.last is not None else "nothing was found"
    if rank.rank is None:
        return f"{rank.retriever}: it scores {rank.score:.3f} and ranks below {DEPTH:,}; {end}"
    verb = "ranks" if rank.rank <= rank.found else "would rank"
    return f"{rank.retriever}: it {verb} {_ordinal(rank.rank)} with {rank.score:.3f}, {end}"


def _retriever_rank(result: RetrieverResult, case: _Case, read: SearchResult) -> RetrieverRank:
    """The score and rank that one retriever gives the memory, given the scores of a search."""
    if not result.ran:
        return RetrieverRank(result.name, ran=False, note=f"it did not run: {result.failure or result.note}")
    candidates = result.candidates
    last = candidates[-1].score if candidates else None
    score = read.scores[result.name].get(case.memory.id)
    matches = score is not None and (result.name == "semantic" or score > 0)
    rank = _rank(result, case, score, read) if matches and score is not None else None
    note = "" if rank is not None else _why_not_retrievable(result.name, score)
    return RetrieverRank(result.name, True, score, rank, len(candidates), last, note)


def _rank(result: RetrieverResult, case: _Case, score: float, read: SearchResult) -> int | None:
    """The memory's rank in one retriever, also below the pool; None if it is deeper than `DEPTH` or cannot be found."""
    id = case.memory.id
    for at, candidate in enumerate(result.candidates, 1):
        if candidate.memory.id == id:
            return at
    if result.name == "semantic":
        better = bisect_left(read.tails["semantic"], -(score + TOLERANCE), key=lambda one: -one)
        return better + 1 if better < len(read.tails["semantic"]) else None
    candidates = case.store.search(SearchRequest(case.searched, keyword=DEPTH)).candidates["keyword"]
    place = next((at for at, candidate in enumerate(candidates) if candidate.memory.id == id), None)
    return None if place is None else 1 + sum(case.admits(candidate.memory) for candidate in candidates[:place])


def _why_not_retrievable(retriever: str, score: float | None) -> str:
    """Why a retriever cannot return a memory at any depth; empty if the memory is only deeper than was searched."""
    if retriever == "semantic":
        return "" if score is not None else "it has no vector of the current model yet (run: retentive reembed)"
    return "no term of the query occurs in it" if not score else "its matching terms are too common to retrieve it"


def _main_difference(last: Hit, hit: Hit) -> str:
    """The step in which the last hit is furthest ahead."""
    lead = {step: _change(last, step) - _change(hit, step) for step in STEPS if step != "diversity"}
    step = max(lead, key=lambda step_name: lead[step_name])
    return f", most of it {STEPS[step]} ({lead[step]:+.3f})" if lead[step] > 0 else ""


def _change(hit: Hit, step: str) -> float:
    return sum(reason.change for reason in hit.why if reason.step == step)


def _adjacent(placed: Sequence[Hit], hit: Hit) -> dict[str, Hit | None]:
    """The hits just above and below, by rank, or by score for a hit without one."""
    if hit.rank:
        higher = [other for other in placed if other.rank < hit.rank]
        lower = [other for other in placed if other.rank > hit.rank]
    else:
        higher = [other for other in placed if other.score >= hit.score]
        lower = [other for other in placed if other.score < hit.score]
    return {"above": higher[-1] if higher else None, "below": lower[0] if lower else None}


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
