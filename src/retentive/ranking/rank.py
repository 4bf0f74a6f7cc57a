"""The ranking steps in order, from the candidates of the retrievers to hits. Every step appends a reason to each hit.

Pure arithmetic: the time is passed in, and nothing here reads a clock, a disk or a network.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fnmatch import translate
from functools import lru_cache
from itertools import chain
from statistics import median
from typing import NamedTuple

from retentive.models import DEFAULT_MIN_RELEVANCE, JUDGED_MIN_RELEVANCE, Hit, Kind, LazyTuple, Memory, Period, Reason
from retentive.ranking.diversity import Vectors, diversify
from retentive.ranking.fusion import RankedRows, ScoreTable, count_words, fuse_scores
from retentive.ranking.judged import Judged
from retentive.ranking.lists import Context, RankedList, Ranking, closeness, is_near
from retentive.ranking.relevance import Relevance
from retentive.ranking.tuning import Tuning
from retentive.text.normal_form import normalised, without_punctuation

NO_CONTEXT = Context()

USER = "user"
"""The speaker of what the user of an assistant said, in every importer, in chat and in hooks."""

_new = tuple.__new__
"""Makes a named tuple of all its fields, in a third of the time."""

CONTEXT_WORDS = 28
"""Up to this median length in words, neighbours count fully."""

RELEVANCE_SHARE = 0.80
"""The share of relevance in the quality step."""

_DAY = 86400.0
_LEAST_DIVISOR = 1e-3
_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself)\b", re.IGNORECASE)
_SECOND_PERSON = re.compile(r"\byou(?:r|rs|rself)?\b", re.IGNORECASE)
_LINES = re.compile(r"#L\d+(?:-L?\d+)?$")

STEPS = {
    "semantic": "semantic",
    "keyword": "keyword",
    "time": "for the time in the query",
    "context": "from neighbouring memories",
    "speaker": "because the user said it",
    "source": "for its source",
    "decay": "for its age",
    "quality": "for importance and use",
    "judge": "from the judge",
    "diversity": "for diversity",
}
"""How each step of ranking is named in a sentence."""


def rank(
    retrievers: Sequence[RankedList],
    tuning: Tuning,
    *,
    limit: int,
    now: datetime,
    context: Context = NO_CONTEXT,
    vectors: Vectors | None = None,
) -> Ranking:
    """Return the best `limit` memories of all retrievers (0 or less: all), best first, and those dropped."""
    return pick(order(retrievers, tuning, now=now, context=context), tuning, limit=limit, vectors=vectors)


def order(
    retrievers: Sequence[RankedList],
    tuning: Tuning,
    *,
    now: datetime,
    context: Context = NO_CONTEXT,
    about_asker: bool = False,
    check: Callable[[], None] = lambda: None,
) -> Ranking:
    """Order all memories that pass the floors, each text once, best first. The judge may read the best.

    `check` is called before each step that can take long; what it raises ends the ranking.
    """
    check()
    table = fuse_scores(
        [_above_floor(retriever, tuning.min_cosine) for retriever in retrievers],
        tuning,
        neighbours=_near_enough(context.memories, retrievers, tuning.min_cosine),
    )
    by_context(table, context, tuning)
    by_speaker(table, about_asker=about_asker, tuning=tuning)
    removed: list[Hit] = []
    if tuning.source_weights:
        weighted, removed = by_source(table.hits(), SourceWeights(tuning.source_weights, check))
        table = ScoreTable.of(weighted)
    by_age(table, tuning, now=now)
    by_quality(table, tuning, now=now)
    rows = sorted(range(len(table.scores)), key=table.scores.__getitem__, reverse=True)
    kept, twins = _first_of_each_text(table, rows) if tuning.dedup else (rows, [])
    hits, low = _drop_low(RankedRows(table, kept), tuning.min_score)
    return Ranking(hits, (*twins, *low, *removed))


def pick(
    ranking: Ranking,
    tuning: Tuning,
    *,
    limit: int,
    vectors: Vectors | None = None,
    kinds: Sequence[Kind] = (),
    relevance: Relevance | Judged | None = None,
    period: Period | None = None,
) -> Ranking:
    """Return the best `limit` hits (0 or less: all) with their ranks, and those dropped with the reason.

    If several kinds are asked for, the best hit of each is among them, after the others if its rank is too low. With
    `relevance`, each hit gets its relevance, and those below the tuning's threshold are dropped. If the query asks for
    nothing but a `period`, its memories come first.
    """
    if period is not None and period.alone:
        ranking = _list_period(ranking, period, limit=limit)
    hits, low = _drop_low(ranking.hits, tuning.min_score)  # the judge may have lowered some
    least = threshold(tuning, judged=isinstance(relevance, Judged))
    if relevance is not None and least > 0:
        every = tuning.diversity > 0 or len(set(kinds)) > 1  # then hits after the limit may be chosen, too
        unread = tuning.judge == "filter"
        hits, irrelevant = _drop_irrelevant(hits, relevance, least, limit=0 if every else limit, unread=unread)
        low += irrelevant
    last = len(hits) if limit <= 0 else limit
    picked, late = hits[:last], hits[last:]
    if tuning.diversity > 0:
        picked, late = diversify(hits, tuning.diversity, vectors or {}, limit=limit)
    if len(set(kinds)) > 1:
        picked, late = _one_of_each(kinds, list(picked), list(late))
    picked, lowered = _drop_low(picked, tuning.min_score)
    if lowered:  # MMR's scores never increase, so all later choices are below the floor too
        lowered += [
            hit.after("floor", hit.score, None, "too similar to a higher hit to pass the floor") for hit in late
        ]
        late = []
    if relevance is not None:
        picked = [hit if hit.relevance is not None else relevance.of(hit) for hit in picked]
    placed = tuple(hit.at(place) for place, hit in enumerate(picked, 1))
    return Ranking(placed, LazyTuple(_dropped, late, limit, (*lowered, *low), ranking.dropped))


def _list_period(ranking: Ranking, period: Period, *, limit: int) -> Ranking:
    """Put the memories of a period first, in the order of time; if there are more than the limit, evenly chosen.

    For a query that asks for nothing but the period. The other hits follow.
    """
    near = [hit for hit in ranking.hits if is_near(hit.memory, period)]
    within = [hit for hit in near if closeness(hit.memory.when, period) == 1.0] or near
    within.sort(key=lambda hit: (hit.memory.when, hit.memory.session or "", hit.memory.position or 0))
    count = len(within) if limit <= 0 else min(limit, len(within))
    chosen = [within[at * len(within) // count] for at in range(count)]
    top, note = max((hit.score for hit in ranking.hits), default=0.0), "one of {} in the period “{}”, in order"
    listed = [
        hit.after("time", max(top, 0.0) + 1.0 - at / count, None, note, len(within), period.text)
        for at, hit in enumerate(chosen)
    ]
    ids = {hit.id for hit in chosen}
    return replace(ranking, hits=(*listed, *(hit for hit in ranking.hits if hit.id not in ids)))


def threshold(tuning: Tuning, *, judged: bool = True) -> float:
    """The smallest relevance of a hit, which is the judge's or not; 0 if none is left out for it."""
    usual = JUDGED_MIN_RELEVANCE if judged else DEFAULT_MIN_RELEVANCE
    return tuning.min_relevance or (usual if tuning.judge == "filter" else 0.0)


def _dropped(late: Sequence[Hit], limit: int, *others: Sequence[Hit]) -> Iterable[Hit]:
    """The hits after the limit, with their ranks, and then the others."""
    return chain((hit.at(place) for place, hit in enumerate(late, limit + 1)), *others)


def _above_floor(retriever: RankedList, floor: float) -> RankedList:
    """Drop semantic candidates below the floor; other retrievers have no absolute scale.

    A memory that the keyword retriever found keeps its true semantic score.
    """
    if retriever.name != "semantic" or floor <= -1:
        return retriever
    low = {candidate.memory.id: candidate.score for candidate in retriever.candidates if candidate.score < floor}
    if not low:
        return retriever
    similar = tuple(candidate for candidate in retriever.candidates if candidate.memory.id not in low)
    return replace(retriever, candidates=similar, elsewhere={**retriever.elsewhere, **low})


def _near_enough(neighbours: Sequence[Memory], retrievers: Sequence[RankedList], floor: float) -> Sequence[Memory]:
    """The neighbours without those whose cosine is below the floor and that no term of the query finds."""
    scores = {retriever.name: retriever.elsewhere for retriever in retrievers}
    cosines, keyword = scores.get("semantic", {}), scores.get("keyword", {})
    if floor <= -1:
        return neighbours
    return [
        memory for memory in neighbours if cosines.get(memory.id, floor) >= floor or keyword.get(memory.id, 0.0) > 0
    ]


def by_context(table: ScoreTable, context: Context, tuning: Tuning) -> None:
    """Add the shares of neighbours and session to the scores.

    A turn is short and depends on the turns around it. The answer to "which one?" has none of the query's words. So a
    memory gains a share of its better neighbour's score, and a share of its session's best. Long memories depend less
    on context: the neighbour's share falls with the square of their length, and the longest, which match a little of
    everything, gain less from their session. A memory without a session keeps its score.
    """
    if not context.neighbours or not (tuning.neighbour_weight or tuning.session_weight):
        return
    before, pairs = table.scores, context.neighbours
    typical, shortness = _typical_length(table.memories, pairs)
    weight, whole = tuning.neighbour_weight * shortness, 1.0 + tuning.session_weight
    gains = _context_gains(table, pairs, tuning.session_weight, typical, 1.0 - shortness)
    after = [
        score if gain is None else (score + weight * gain.neighbour + gain.share * gain.session) / whole
        for score, gain in zip(before, gains, strict=True)
    ]

    def explain(row: int) -> list[Reason]:
        gain = gains[row]
        if gain is None:
            return []
        note = "({:.3f} + {:.2f} × neighbour {:.3f} + {:.2f} × session {:.3f}) / {:.2f}"
        figures = (before[row], weight, gain.neighbour, gain.share, gain.session, whole)
        return [reason("context", before[row], after[row], gain.neighbour, note, *figures)]

    table.apply(after, explain)


class _ContextGain(NamedTuple):
    """The score of a memory's better neighbour, its share of the session's best score, and that score."""

    neighbour: float
    share: float
    session: float


_Pairs = Mapping[str, tuple[str | None, str | None]]


def _typical_length(memories: Sequence[Memory], pairs: _Pairs) -> tuple[float, float]:
    """The median length in words of the memories of sessions, and how short that is: 1 up to `CONTEXT_WORDS`."""
    words = [count_words(memory.text) for memory in memories if memory.id in pairs]
    typical = median(words) if words else 1.0
    return typical, min(1.0, (CONTEXT_WORDS / max(typical, 1.0)) ** 2)


def _context_gains(
    table: ScoreTable, pairs: _Pairs, session_weight: float, typical: float, length_matters: float
) -> list[_ContextGain | None]:
    """What each memory gains from its context; None for a memory without a session."""
    positive: dict[str | None, float] = {
        memory.id: score for memory, score in zip(table.memories, table.scores, strict=True) if score > 0.0
    }
    score_of = positive.get
    best: dict[tuple[str | None, str | None], float] = {}
    sessions = [(memory.project, memory.session) if memory.id in pairs else None for memory in table.memories]
    for session, score in zip(sessions, table.scores, strict=True):
        if session is not None and score > best.setdefault(session, 0.0):
            best[session] = score
    by_length = length_matters > 0.0 and len(best) > 1  # among short memories, or in one session, it tells nothing
    gains: list[_ContextGain | None] = []
    for memory, session in zip(table.memories, sessions, strict=True):
        if session is None:
            gains.append(None)
            continue
        previous, following = pairs[memory.id]
        neighbour, other = score_of(previous, 0.0), score_of(following, 0.0)
        share = session_weight
        if by_length:
            share *= min(1.0, typical / count_words(memory.text)) ** length_matters
        gains.append(_new(_ContextGain, (max(neighbour, other), share, best[session])))
    return gains


def reason(step: str, before: float, after: float, value: float | None, note: str, *figures: float | str) -> Reason:
    """The reason of a step that changed a score."""
    return Reason(step, after - before, after, None, value, note, figures)


@lru_cache(maxsize=16)
def _compiled(patterns: tuple[str, ...]) -> list[tuple[str, re.Pattern[str]]]:
    return [(pattern, re.compile(translate(pattern))) for pattern in patterns]


class SourceWeights:
    """The weights of sources by pattern. Each source is matched once; `check` is called before."""

    def __init__(self, weights: Mapping[str, float], check: Callable[[], None] = lambda: None) -> None:
        self.weights = weights
        self._check = check
        self._patterns = _compiled(tuple(weights))
        self._found: dict[str, str | None] = {}

    def pattern(self, memory: Memory) -> str | None:
        """The first pattern that matches a memory's source, with or without the lines at its end (`notes.md#L1-L3`)."""
        source = memory.source or ""
        if source not in self._found:
            self._check()
            names = {source, _LINES.sub("", source)}
            matching = (pattern for pattern, regex in self._patterns if any(map(regex.match, names)))
            self._found[source] = next(matching, None)
        return self._found[source]

    def remove(self, memory: Memory) -> bool:
        """Whether the weight of a memory's source is 0."""
        pattern = self.pattern(memory) if self.weights else None
        return pattern is not None and not self.weights[pattern]


def by_source(hits: Sequence[Hit], sources: SourceWeights) -> tuple[list[Hit], list[Hit]]:
    """Multiply scores by the weight of the first pattern that a memory's source matches; a weight of 0 removes it.

    Return the hits, and those removed with the reason.
    """
    kept: list[Hit] = []
    removed: list[Hit] = []
    for hit in hits:
        pattern = sources.pattern(hit.memory)
        if pattern is None:
            kept.append(hit)
        elif weight := sources.weights[pattern]:
            note, figure = _times_note(hit.score, weight, "{:g}")
            kept.append(hit.after("source", _times(hit.score, weight), weight, f"{note} for {{}}", figure, pattern))
        else:
            removed.append(hit.after("source", hit.score, None, "the weight of {} is 0", pattern))
    return kept, removed


def is_about_asker(text: str) -> bool:
    """Whether a query asks about the one who asks, in English: it says I, me or my, and does not address anybody."""
    return bool(_FIRST_PERSON.search(text)) and not _SECOND_PERSON.search(text)


def by_speaker(table: ScoreTable, *, about_asker: bool, tuning: Tuning) -> None:
    """If the query is about the one who asks, raise the scores of those that the user said, or nobody in particular."""
    factor = 1.0 + tuning.speaker_weight
    if not about_asker or factor == 1.0:
        return
    memories, before = table.memories, table.scores
    rows = zip(memories, before, strict=True)
    after = [_times(score, factor) if memory.speaker in (USER, None) else score for memory, score in rows]

    def explain(row: int) -> list[Reason]:
        if memories[row].speaker not in (USER, None):
            return []
        note, figure = _times_note(before[row], factor, "{:.2f}")
        note += ": the query is about the asker, and the user said it"
        return [reason("speaker", before[row], after[row], None, note, figure)]

    table.apply(after, explain)


def by_age(table: ScoreTable, tuning: Tuning, *, now: datetime) -> None:
    """Halve scores for every half-life of age. Identity and evergreen memories do not decay."""
    if not tuning.decay:
        return
    memories, before = table.memories, table.scores

    def decay(memory: Memory) -> tuple[float, float] | None:
        """The age and the factor."""
        if memory.evergreen or memory.kind == "identity":
            return None
        age = days_between(memory.when, now)
        half_life = tuning.half_life_days * (1.0 + tuning.importance_slows_decay * memory.importance)
        return age, 0.5 ** (age / half_life)

    decays = [decay(memory) for memory in memories]
    after = [
        score if age_and_factor is None else _times(score, age_and_factor[1])
        for score, age_and_factor in zip(before, decays, strict=True)
    ]

    def explain(row: int) -> list[Reason]:
        if (age_and_factor := decays[row]) is None:
            return []
        age, factor = age_and_factor
        note, figure = _times_note(before[row], factor)
        return [reason("decay", before[row], after[row], age, note + " at {:.1f} days", figure, age)]

    table.apply(after, explain)


def by_quality(table: ScoreTable, tuning: Tuning, *, now: datetime) -> None:
    """Adjust scores by importance and recent use.

    The additive form divides relevance by the best in the set first, or the terms would outweigh all of RRF's range.
    The multiplicative form keeps the scale: an irrelevant memory stays irrelevant however important it is.
    """
    before = table.scores
    best = max(before, default=0.0)
    if tuning.quality == "off" or best <= 0:
        return
    recency_share, importance_share = tuning.recency_share, tuning.importance_share
    half_life = tuning.access_half_life_days * _DAY
    extras = []
    for memory in table.memories:
        idle = (now - (memory.accessed or memory.created)).total_seconds()
        recency = 0.5 ** (idle / half_life) if idle > 0 else 1.0
        extras.append(recency_share * recency + importance_share * memory.importance)
    if tuning.quality == "add":
        _add_quality(table, extras, RELEVANCE_SHARE / max(best, 1e-100))  # or the others could be infinite
    else:
        _multiply_quality(table, extras, tuning)


def _add_quality(table: ScoreTable, extras: Sequence[float], share: float) -> None:
    before = table.scores
    after = [share * score + extra for score, extra in zip(before, extras, strict=True)]

    def explain(row: int) -> list[Reason]:
        figures = (share * before[row], extras[row])
        return [reason("quality", before[row], after[row], extras[row], "{:.3f} + {:.3f}", *figures)]

    table.apply(after, explain)


def _multiply_quality(table: ScoreTable, extras: Sequence[float], tuning: Tuning) -> None:
    before, base = table.scores, RELEVANCE_SHARE
    shares = tuning.recency_share + tuning.importance_share
    qualities = [extra / shares if shares > 0 else 1.0 for extra in extras]
    factors = [base + (1.0 - base) * quality for quality in qualities]
    after = [_times(score, factor) for score, factor in zip(before, factors, strict=True)]

    def explain(row: int) -> list[Reason]:
        note, figure = _times_note(before[row], factors[row])
        quality = qualities[row]
        return [reason("quality", before[row], after[row], quality, note + " for quality {:.2f}", figure, quality)]

    table.apply(after, explain)


def _times(score: float, factor: float) -> float:
    """The score times a factor. A negative score (of z-score scaling) is divided, so that a penalty never raises it."""
    return score * factor if score >= 0 else score / max(factor, _LEAST_DIVISOR)


def _times_note(score: float, factor: float, figure: str = "{:.3f}") -> tuple[str, float]:
    """What `_times` computes, as a template and its figure."""
    return (f"× {figure}", factor) if score >= 0 else (f"÷ {figure}", max(factor, _LEAST_DIVISOR))


def days_between(earlier: datetime, later: datetime) -> float:
    """Days from one time to a later one; 0 if it is not later."""
    return max((later - earlier).total_seconds() / _DAY, 0.0)


def _drop_low(hits: Sequence[Hit], floor: float) -> tuple[Sequence[Hit], list[Hit]]:
    if floor <= 0:  # off: half of any pool has negative z-scores, which does not mean irrelevant
        return hits, []
    kept = [hit for hit in hits if hit.score >= floor]
    low = [hit.after("floor", hit.score, floor, "scores below {:g}", floor) for hit in hits if hit.score < floor]
    return kept, low


def drop_duplicates(hits: Sequence[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Return the first hit of each text, and the others with the reason."""
    kept, dropped = _first_of_each_text(ScoreTable.of(hits), range(len(hits)))
    return [hits[row] for row in kept], dropped


def _first_of_each_text(table: ScoreTable, rows: Sequence[int]) -> tuple[list[int], list[Hit]]:
    """Return the rows of the first memory of each text, and the hits of the others with the reason."""
    seen = Texts()
    kept: list[int] = []
    dropped: list[Hit] = []
    for row in rows:
        memory = table.memories[row]
        higher = seen.first(memory)
        if higher is memory:
            kept.append(row)
        else:
            dropped.append(table.hit(row).after("duplicate", table.scores[row], None, "same text as {}", higher.id))
    return kept, dropped


class Texts:
    """The texts of the memories seen so far.

    Texts are compared only if their content hashes are equal, because the hash costs a sixth of the comparison.
    """

    def __init__(self) -> None:
        self._first: dict[str, Memory] = {}
        self._alike: dict[str, dict[str, Memory]] = {}

    def first(self, memory: Memory) -> Memory:
        """The first memory seen with the same text, which may be this one."""
        hash = memory.content_hash or without_punctuation(memory.text)
        first = self._first.setdefault(hash, memory)
        if first is memory:
            return memory
        alike = self._alike.setdefault(hash, {normalised(first.text): first})
        return alike.setdefault(normalised(memory.text), memory)


def _drop_irrelevant(
    hits: Sequence[Hit], relevance: Relevance | Judged, least: float, *, limit: int, unread: bool
) -> tuple[list[Hit], list[Hit]]:
    """Drop hits below a relevance, and with `unread` those that the judge has not read.

    After `limit` hits that are kept, the others are not estimated: they rank lower.
    """
    kept: list[Hit] = []
    dropped: list[Hit] = []
    nothing = relevance.answer < least  # and no hit has more
    for place, hit in enumerate(hits):
        if 0 < limit <= len(kept):
            return kept + list(hits[place:]), dropped
        if nothing and 0 < limit <= place:
            note = "the relevance of the whole answer is {:.2f}, and min_relevance is {:g}"
            dropped.append(hit.after("min_relevance", hit.score, None, note, relevance.answer, least))
            continue
        rated = relevance.of(hit._replace(why=tuple(hit.why)))  # they are made here, for a stack that is less deep
        if (rated.relevance is not None and rated.relevance >= least) or (rated.relevance is None and not unread):
            kept.append(rated)
        elif rated.relevance is None:
            dropped.append(rated.after("min_relevance", rated.score, None, "the judge has not read it"))
        else:
            dropped.append(rated.after("min_relevance", rated.score, rated.relevance, "min_relevance is {:g}", least))
    return kept, dropped


def _one_of_each(kinds: Sequence[Kind], picked: list[Hit], late: list[Hit]) -> tuple[list[Hit], list[Hit]]:
    """Replace the last hits of kinds with several by the best of each kind that has none, after the others.

    MMR lowers the scores of what it chooses, but not those of the rest: the score of what is added is limited.
    """
    count = Counter(hit.memory.kind for hit in picked)
    added: list[Hit] = []
    for kind in dict.fromkeys(kinds):
        best = next((hit for hit in late if hit.memory.kind == kind), None)
        last = next((hit for hit in reversed(picked) if count[hit.memory.kind] > 1), None)
        if count[kind] or best is None or last is None:
            continue
        picked = [hit for hit in picked if hit is not last]
        added.append(best)
        late = sorted([last, *(hit for hit in late if hit is not best)], key=lambda hit: -hit.score)
        count.subtract({last.memory.kind: 1, kind: -1})
    if not added:
        return picked, late
    lowest = min(hit.score for hit in picked)
    added.sort(key=lambda hit: -hit.score)
    note = "the best of the kind {}"
    return [*picked, *(hit.after("kind", min(hit.score, lowest), None, note, hit.memory.kind) for hit in added)], late


def score_parts(hit: Hit) -> str:
    """The parts of a hit's score in words."""
    parts = []
    for reason in hit.why:
        if reason.step in ("floor", "duplicate", "relevance", "min_relevance"):
            continue
        rank = f" (rank {reason.rank})" if reason.rank else ""
        parts.append(f"{reason.change:+.3f} {STEPS.get(reason.step, reason.step)}{rank}")
    return ", ".join(parts) or "no part of the score is positive"
