"""Looks behind a recall: why a memory ranked where it did, or why it did not appear.

Nothing is ranked here. What is said comes from the hits of the recall itself, from what it dropped and why, and, of a
memory that no search brought, from what the same searches say of it when they are asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retentive.models import Explanation, Hit, Key, Memory, Recall, Scope, Standing
from retentive.pipeline.recall import Query, RetrieverResult, SearchOutcome
from retentive.stores import Store

DEPTH = 100_000
"""How deep a search is followed to find a memory's place in it."""

BY = {"semantic": "by meaning", "keyword": "by words"}

STEPS = {
    **BY,
    "context": "from what stands around it",
    "time": "for the time asked about",
    "source": "for its source",
    "decay": "for its age",
    "quality": "for importance and use",
    "rerank": "from the reranker",
    "diversity": "for being different",
}
"""What each step of ranking gives a score for."""


def explain(memory: Memory, query: Query, found: SearchOutcome, given: Recall, store: Store) -> Explanation:
    """Where this memory is in the answer to a query, or what kept it out."""
    case = _Case(memory, query, found, given, store)
    for look in (_among_hits, _outside, _known, _dropped):
        seen = look(case)
        if seen:
            return seen
    return _not_found(case)


@dataclass(frozen=True, slots=True)
class _Case:
    """A memory, and the recall in which it is looked for."""

    memory: Memory
    query: Query
    found: SearchOutcome
    given: Recall
    store: Store

    def explained(self, **seen: Any) -> Explanation:
        """What was seen, with what is told of every memory."""
        whole: dict[str, Any] = {
            "query": self.query.text,
            "memory": self.memory,
            "standings": (),
            "degraded": self.given.degraded,
            "degraded_reason": self.given.degraded_reason,
            **seen,
        }
        return Explanation(**whole)

    def standings(self) -> tuple[Standing, ...]:
        """How each retriever sees the memory."""
        key = self.store.keys([self.memory.id]).get(self.memory.id)
        return tuple(_standing(searched, key, self.query, self.store) for searched in self.found.searches)

    def line(self) -> tuple[Hit, ...]:
        """Everything that has a place: the hits, and behind them those that the limit cut off."""
        return (*self.given.hits, *(hit for hit in self.given.dropped if hit.rank))


def _among_hits(case: _Case) -> Explanation | None:
    hit = next((hit for hit in case.given.hits if hit.id == case.memory.id), None)
    if hit is None:
        return None
    sentence = f"It is hit {hit.rank} of {len(case.given.hits)}, with a score of {hit.score:.3f}: {in_words(hit)}."
    return case.explained(
        outcome="hit", sentence=sentence, hit=hit, standings=case.standings(), **_beside(case.line(), hit)
    )


def _outside(case: _Case) -> Explanation | None:
    part = _outside_of(case.memory, case.query.scope, case.store)
    if part is None:
        return None
    what, of_memory, asked = part
    sentence = f"It was not looked at: its {what} is {of_memory}, and the recall asked for {asked}."
    return case.explained(outcome="outside", sentence=sentence, part=what)


def _outside_of(memory: Memory, scope: Scope, store: Store) -> tuple[str, str, str] | None:
    """What of a scope a memory is outside of: which part, what the memory has there, and what was asked for."""
    if memory.profile != scope.profile:
        return "profile", f"'{memory.profile}'", f"'{scope.profile}'"
    if scope.kinds is not None and memory.kind not in scope.kinds:
        return "kind", memory.kind, " or ".join(scope.kinds) or "none"
    if scope.project is not None and memory.project != scope.project:
        return "project", _named(memory.project), f"'{scope.project}'"
    if scope.sessions is None:
        return None
    homes = {one.name: one.project for one in store.sessions(scope.profile) if one.name in scope.sessions}
    stood_for = set() if scope.only_sessions else set(homes.values()) - {None}
    if memory.session in homes or memory.project in stood_for:
        return None
    asked = " or ".join(f"'{name}'" for name in scope.sessions) or "none"
    return "session", _named(memory.session), asked + (f" (project {_named(*stood_for)})" if stood_for else "")


def _named(*names: str | None) -> str:
    return ", ".join("none" if name is None else f"'{name}'" for name in names)


def _known(case: _Case) -> Explanation | None:
    if case.memory.id not in case.query.exclude:
        return None
    sentence = "It was left out because the caller said that it has it already (exclude)."
    return case.explained(outcome="recent", sentence=sentence, standings=case.standings())


def _dropped(case: _Case) -> Explanation | None:
    hit = next((hit for hit in case.given.dropped if hit.id == case.memory.id), None)
    if hit is None:
        return None
    if hit.rank:
        return _cut_off(case, hit)
    reason = hit.why[-1]
    seen = {"hit": hit, "standings": case.standings(), **_beside(case.line(), hit)}
    if reason.step == "duplicate":
        other = str(reason.figures[0])
        placed = next((one.rank for one in case.line() if one.id == other), None)
        where = f" (number {placed})" if placed else ""
        sentence = f"It was found, with a score of {hit.score:.3f}, but a higher hit says the same: {other}{where}."
        return case.explained(outcome="duplicate", sentence=sentence, same_as=other, **seen)
    floor = case.query.tuning.score_floor
    why = reason.note if reason.value is None else f"the score floor is {floor:g}"
    return case.explained(
        outcome="floor", sentence=f"It was found, with a score of {hit.score:.3f}, but {why}: {in_words(hit)}.", **seen
    )


def _cut_off(case: _Case, hit: Hit) -> Explanation:
    """A memory that came too late in the line."""
    last = case.given.hits[-1]
    seen = {"hit": hit, "standings": case.standings(), **_beside(case.line(), hit)}
    limit = len(case.given.hits)
    diversity = case.query.tuning.diversity
    ahead = sum(_relevance(other) > hit.score for other in case.line())
    if diversity > 0 and ahead < limit:
        sentence = (
            f"By its score of {hit.score:.3f} it would be number {ahead + 1}, but diversity ({diversity:g}) chose "
            f"others that are less like the higher hits."
        )
        return case.explained(outcome="diversity", sentence=sentence, **seen)
    more = _relevance(last) - hit.score
    sentence = (
        f"It was found, but it is number {hit.rank} with a score of {hit.score:.3f} ({in_words(hit)}), and "
        f"{limit} were asked for. The last hit has {_relevance(last):.3f}, {more:.3f} more{_mostly(last, hit)}."
    )
    return case.explained(outcome="behind", sentence=sentence, **seen)


def _relevance(hit: Hit) -> float:
    """What a hit was worth before diversity looked at its likeness to others."""
    return hit.score - sum(reason.change for reason in hit.why if reason.step == "diversity")


def _not_found(case: _Case) -> Explanation:
    """A memory that no search brought: how each of them sees it."""
    standings = case.standings()
    floor = case.query.tuning.semantic_floor
    low = next(
        (one for one in standings if one.retriever == "semantic" and one.score is not None and one.score < floor), None
    )
    if low and low.rank is not None and low.rank <= low.found:
        others = "; ".join(_seen_by(one) for one in standings if one is not low)
        sentence = f"By meaning its likeness is {low.score:.3f}, and the semantic floor is {floor:g}; {others}."
        return case.explained(outcome="floor", sentence=sentence, standings=standings)
    sentence = f"No search brought it among its candidates: {'; '.join(map(_seen_by, standings))}."
    return case.explained(outcome="not_found", sentence=sentence, standings=standings)


def _seen_by(one: Standing) -> str:
    """What one retriever says of a memory, such as "by meaning it would be 143rd with 0.410, the pool ends at …"."""
    by = BY.get(one.retriever, f"by {one.retriever}")
    if one.note:
        return f"{by}, {one.note}"
    ends = f"the pool ends at {one.found} with {one.last:.3f}" if one.last is not None else "nothing was found"
    if one.rank is None:
        return f"{by} it scores {one.score:.3f} and is beyond number {DEPTH:,}; {ends}"
    within = one.rank <= one.found
    return f"{by} it {'is' if within else 'would be'} {_ordinal(one.rank)} with {one.score:.3f}, {ends}"


def _standing(searched: RetrieverResult, key: Key | None, query: Query, store: Store) -> Standing:
    """How one retriever sees the memory behind a key."""
    if not searched.ran:
        return Standing(searched.name, ran=False, note=_why_silent(searched))
    found = searched.found[: query.pool]
    last = found[-1].score if found else None
    score = _score(searched, key, query, store)
    matches = score is not None and (searched.vector is not None or score > 0)
    rank = _place(searched, key, query, store) if matches else None
    note = "" if rank is not None else _why_blind(searched.name, score)
    return Standing(searched.name, True, score, rank, len(found), last, note)


def _why_silent(searched: RetrieverResult) -> str:
    note = searched.note.removeprefix("unavailable: ")
    return f"nothing was searched: {note}"


def _why_blind(retriever: str, score: float | None) -> str:
    """Why a retriever cannot find a memory however deep it goes; nothing if it may be deeper than we looked."""
    if retriever == "semantic":
        return "" if score is not None else "it has no vector of the present model yet (run: retentive reembed)"
    return "no word of the query occurs in it" if not score else "it has only words that are too common to search by"


def _score(searched: RetrieverResult, key: Key | None, query: Query, store: Store) -> float | None:
    scores: Mapping[Key, float]
    if searched.vector is None:
        scores = store.score_words(query.text, query.scope, [key])
    else:
        scores = store.score_vectors(searched.vector, [key])
    return scores.get(key)


def _place(searched: RetrieverResult, key: Key | None, query: Query, store: Store) -> int | None:
    """Its place in the search, followed deeper than the recall did if need be."""
    vector = searched.vector
    for at, found in enumerate(searched.found, 1):
        if found.key == key:
            return at
    # What the caller has already has a place too, if it is not left out.
    if vector is None:
        common = query.tuning.common_words
        everything = store.search_words(query.text, query.scope, limit=DEPTH, common=common)
    else:
        everything = store.search_vectors(vector, query.scope, limit=DEPTH)
    return next((at for at, found in enumerate(everything, 1) if found.key == key), None)


def in_words(hit: Hit) -> str:
    """What a score is made of, in words."""
    told = []
    for reason in hit.why:
        if reason.step in ("floor", "duplicate"):
            continue
        place = f" ({_ordinal(reason.rank)} there)" if reason.rank else ""
        told.append(f"{reason.change:+.3f} {STEPS.get(reason.step, reason.step)}{place}")
    return ", ".join(told) or "nothing speaks for it"


def _mostly(last: Hit, hit: Hit) -> str:
    """The step in which the last hit is furthest ahead."""
    lead = {step: _change(last, step) - _change(hit, step) for step in STEPS if step != "diversity"}
    step = max(lead, key=lambda one: lead[one])
    return f", most of it {STEPS[step]} ({lead[step]:+.3f})" if lead[step] > 0 else ""


def _change(hit: Hit, step: str) -> float:
    return sum(reason.change for reason in hit.why if reason.step == step)


def _beside(line: Sequence[Hit], hit: Hit) -> dict[str, Hit | None]:
    """The hits just above and just below, by place, or by score for one that has none."""
    if hit.rank:
        higher = [other for other in line if other.rank < hit.rank]
        lower = [other for other in line if other.rank > hit.rank]
    else:
        higher = [other for other in line if other.score >= hit.score]
        lower = [other for other in line if other.score < hit.score]
    return {"above": higher[-1] if higher else None, "below": lower[0] if lower else None}


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
