"""Fuse the ranked lists of several retrievers into one.

Each list contributes a share to the score of each memory, and the score is the sum of the shares. The fusion methods
differ only in how a share is computed. The order in which the lists are given does not matter: they are sorted by name.

A scale makes the scores of different retrievers comparable. It is fitted to the scores of one retriever and can be
applied to any score of that retriever, also of a memory that it did not return. The result is always finite, also for
NaN and infinity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from math import fsum, hypot, isfinite
from operator import add
from statistics import fmean, median, pstdev
from typing import NamedTuple, overload

from retentive.errors import Invalid
from retentive.models import SPREAD_DEPTH, Hit, LazyTuple, Memory, Reason
from retentive.ranking.lists import TIME, RankedList
from retentive.ranking.tuning import Tuning

STANDOUT_PLACE = 10
"""A retriever's best score is compared with its score at this rank."""

SHORT_WORDS = 50
"""Up to this median length in words, the keyword candidates are short."""

NO_INFORMATION = 1e-3
"""BM25 gives terms of more than half of all memories a weight of a millionth. A sum of such weights tells nothing."""

_new = tuple.__new__
"""Makes a named tuple of all its fields, in a third of the time."""

_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
UNSPACED_LETTERS = 1.7
"""So many letters are a word, on average, where words are not separated by blanks (Chinese, Japanese, Thai, Lao)."""


class ScoreTable:
    """The memories that are ranked, with their scores after the steps so far."""

    __slots__ = ("_explain", "memories", "scores")

    def __init__(self, memories: Sequence[Memory], scores: Sequence[float], explain: Explain) -> None:
        self.memories, self.scores = memories, scores
        self._explain = [explain]

    @classmethod
    def of(cls, hits: Sequence[Hit]) -> ScoreTable:
        """Make a table of hits, which keep their reasons."""
        return cls([hit.memory for hit in hits], [hit.score for hit in hits], lambda row: hits[row].why)

    def apply(self, scores: Sequence[float], explain: Explain) -> None:
        """Replace the scores by those after a step."""
        self.scores = scores
        self._explain.append(explain)

    def hits(self) -> list[Hit]:
        """Return a hit of each memory."""
        return list(RankedRows(self, range(len(self.memories))))

    def hit(self, row: int) -> Hit:
        """Return the hit in a row."""
        why = LazyTuple(_reasons, self._explain, row)
        return _new(Hit, (self.memories[row], self.scores[row], why, 0, None))


def _reasons(explain: Iterable[Explain], row: int) -> Iterator[Reason]:
    return (reason for reasons_of_step in explain for reason in reasons_of_step(row))


class RankedRows(Sequence[Hit]):
    """The hits in some rows of a table, in their order. Each is made when it is read."""

    __slots__ = ("_rows", "_table")

    def __init__(self, table: ScoreTable, rows: Sequence[int]) -> None:
        self._table, self._rows = table, rows

    @overload
    def __getitem__(self, index: int) -> Hit: ...

    @overload
    def __getitem__(self, index: slice) -> RankedRows: ...

    def __getitem__(self, index: int | slice) -> Hit | RankedRows:
        if isinstance(index, slice):
            return RankedRows(self._table, self._rows[index])
        return self._table.hit(self._rows[index])

    def __iter__(self) -> Iterator[Hit]:
        return map(self._table.hit, self._rows)

    def __len__(self) -> int:
        return len(self._rows)


Explain = Callable[[int], Sequence[Reason]]
"""Makes the reasons of a step for the memory in a row of a table; none if it did not change the memory's score."""


def fuse(retrievers: Sequence[RankedList], tuning: Tuning, *, neighbours: Sequence[Memory] = ()) -> list[Hit]:
    """Return every memory that a retriever with a weight found, once, best first, and their neighbours by true score.

    Equal scores keep the order of the lists, sorted by name (lists of one name by what they hold), and within a
    list its order.
    """
    return fuse_scores(retrievers, tuning, neighbours=neighbours).hits()


def fuse_scores(retrievers: Sequence[RankedList], tuning: Tuning, *, neighbours: Sequence[Memory] = ()) -> ScoreTable:
    """Fuse lists as `fuse` does, into a table."""
    weighted = _in_order(retrievers, tuning)
    total = sum(weight for one, weight in weighted if one.name != TIME)
    memories: dict[str, Memory] = {}
    for retriever, _ in weighted:
        for memory, _ in retriever.candidates:
            memories.setdefault(memory.id, memory)
    for memory in neighbours:
        memories.setdefault(memory.id, memory)
    rows = {id: row for row, id in enumerate(memories)}
    totals = [0.0] * len(memories)
    lists = []
    for retriever, weight in weighted:
        of_list = _timed if retriever.name == TIME else _METHODS[tuning.fusion]
        method = of_list(retriever, weight, total, tuning)
        places, scores = _places_and_scores(retriever, rows)
        shares = method.shares(places, scores)
        totals = list(map(add, totals, shares))
        lists.append((retriever.name, places, scores, shares, method.describe))
    order = sorted(range(len(totals)), key=totals.__getitem__, reverse=True)

    def explain(row: int) -> list[Reason]:
        at, total, reasons = order[row], 0.0, []
        for name, places, scores, shares, describe in lists:
            place, score, share = places[at], scores[at], shares[at]
            total += share
            if place is not None or share != 0.0:
                rank = None if place is None else place + 1
                reasons.append(Reason(name, share, total, rank, score, *describe(place, score)))
        return reasons

    ranked = list(memories.values())
    return ScoreTable([ranked[at] for at in order], [totals[at] for at in order], explain)


def _in_order(retrievers: Sequence[RankedList], tuning: Tuning) -> list[tuple[RankedList, float]]:
    """Those with a weight, and it, in an order that does not depend on the order in which they are given."""
    of_tuning = {"semantic": tuning.semantic_weight, "keyword": tuning.keyword_weight}
    weights = [of_tuning.get(one.name, 1.0) if one.weight is None else one.weight for one in retrievers]
    weighted = [(one, weight) for one, weight in zip(retrievers, weights, strict=True) if weight > 0]
    if len({retriever.name for retriever, _ in weighted}) < len(weighted):
        weighted.sort(key=lambda one: _content(one[0]))
    return sorted(weighted, key=lambda one: one[0].name)


def _content(retriever: RankedList) -> str:
    """What a list holds, as text: unlike numbers, texts have an order even where a score is NaN."""
    candidates = [(candidate.memory.id, candidate.score) for candidate in retriever.candidates]
    others = sorted(retriever.elsewhere.items(), key=repr)
    return repr((candidates, retriever.weight, retriever.depth_scores, others, retriever.specific, retriever.terms))


class Method(NamedTuple):
    """What a retriever adds to the scores of memories, and the arithmetic for one as a template and its figures.

    Both are computed from a memory's position in the list (from 0; None if absent) and its score by the retriever.
    """

    shares: Callable[[Sequence[int | None], Sequence[float | None]], list[float]]
    describe: Callable[[int | None, float | None], tuple[str, tuple[float | str, ...]]]


def _places_and_scores(retriever: RankedList, rows: Mapping[str, int]) -> tuple[list[int | None], list[float | None]]:
    """The position and the score of each memory in one list; a memory listed twice keeps its better position."""
    places: list[int | None] = [None] * len(rows)
    scores: list[float | None] = [None] * len(rows)
    for id, score in retriever.elsewhere.items():
        if id in rows:
            scores[rows[id]] = score
    place = 0
    for memory, score in retriever.candidates:
        row = rows[memory.id]
        if places[row] is None:
            places[row], scores[row] = place, score
            place += 1
    return places, scores


def _rrf(_: RankedList, weight: float, _total: float, tuning: Tuning) -> Method:
    k = tuning.rrf_k

    def shares(places: Sequence[int | None], _: Sequence[float | None]) -> list[float]:
        return [0.0 if place is None else weight / (k + (place + 1)) for place in places]

    def describe(place: int | None, _: float | None) -> tuple[str, tuple[float, ...]]:
        return "{:g} / ({:g} + {})", (weight, k, (place or 0) + 1)

    return Method(shares, describe)


def _timed(retriever: RankedList, weight: float, total: float, tuning: Tuning) -> Method:
    """Shares by closeness, beside those of the others: a memory of the period gains as much as the weight."""
    unit = weight / (tuning.rrf_k + 1) if tuning.fusion == "rrf" else weight / (total or 1.0)
    note = "{:.3f} × {:.3f} {}"

    def shares(_: Sequence[int | None], scores: Sequence[float | None]) -> list[float]:
        return [0.0 if score is None else unit * score for score in scores]

    def describe(_: int | None, score: float | None) -> tuple[str, tuple[float | str, ...]]:
        return note, (unit, score or 0.0, retriever.note)

    return Method(shares, describe)


_SIGNED = ("z-score", "max", "l2", "none")
"""Scalings that can give negative values; there, an absent memory must not score more than a present one."""


def _scaled(retriever: RankedList, weight: float, total: float, tuning: Tuning) -> Method:
    """Shares by scores scaled within the list. Weights are normalised to a sum of 1, so the best score is 1.

    A memory that the retriever did not return has its true score if that is known, and else counts as the worst.
    """
    alone, weight = weight == total, weight / total
    scores = retriever.depth_scores or tuple(candidate.score for candidate in retriever.candidates)
    scaling = tuning.semantic_scaling if retriever.name == "semantic" else tuning.keyword_scaling
    scale = fit(scaling, scores, min_score_range=tuning.min_score_range)
    factor, whole = 1.0, weight
    if retriever.name == "keyword" and not alone:  # alone, it keeps its full weight
        factor = distinctness(scores, tuning.min_lead)
        factor *= (
            1.0 if retriever.specific else match_share(retriever, max(filter(isfinite, scores), default=0.0), tuning)
        )
        weight *= factor
    absent = weight * min(scale.all(scores), default=0.0) if scaling in _SIGNED else 0.0
    missing, full, scaled = min(absent, 0.0), tuning.fusion == "full", dict[float, float]()
    note = "{:.2f} × {:.3f}, from {:.3f}"
    figures: tuple[float, ...] = (weight,)
    if factor < 1.0:
        note, figures = "{:.2f} × {:.2f} for how specific the terms are × {:.3f}, from {:.3f}", (whole, factor)

    def shares(places: Sequence[int | None], scores: Sequence[float | None]) -> list[float]:
        counted = [score if place is not None or full else None for place, score in zip(places, scores, strict=True)]
        given = [score for score in counted if score is not None]
        scaled.update(zip(given, scale.all(given), strict=True))
        return [missing if score is None else weight * scaled[score] for score in counted]

    def describe(place: int | None, score: float | None) -> tuple[str, tuple[float, ...]]:
        if score is None or (place is None and not full):
            return "not found", ()
        return note, (*figures, scaled[score], score)

    return Method(shares, describe)


def distinctness(scores: Sequence[float], least: float) -> float:
    """How distinct the best scores are: 1 if the best is well above the tenth, 0 if they are equal.

    Ten memories that match equally well do not tell which is meant. With fewer matches the terms are rare: 1. If the
    best score is all but 0, only terms match that most memories have, such as the names of two people in their own
    conversation: 0.
    """
    finite = [score for score in scores if isfinite(score)]
    if least <= 0 or len(finite) < STANDOUT_PLACE:
        return 1.0
    best, *_, tenth = nlargest(STANDOUT_PLACE, finite)
    if 0 < best < NO_INFORMATION:
        return 0.0
    return min(1.0, (1.0 - tenth / best) / least) if best > 0 else 1.0


def match_share(keyword: RankedList, best: float, tuning: Tuning) -> float:
    """The share of the keyword weight that matches like these deserve.

    In a turn of ten words a match is one or two words, often common to a whole conversation: a fixed share. A long text
    can match most of a query, and does so seldom by chance: the whole weight, unless even the best score is low for so
    many terms. Then the terms are common here, or few of them match.
    """
    if not keyword.candidates or (tuning.short_keyword_share >= 1 and tuning.min_match <= 0):
        return 1.0
    typical = median(count_words(candidate.memory.text) for candidate in keyword.candidates)
    shortness = min(1.0, (SHORT_WORDS / max(typical, 1.0)) ** 2)
    enough = tuning.min_match * keyword.terms
    strength = min(1.0, max(best, 0.0) / enough) ** 2 if enough > 0 else 1.0
    return tuning.short_keyword_share * shortness + strength * (1.0 - shortness)


def _weighted(retriever: RankedList, weight: float, total: float, _tuning: Tuning) -> Method:
    """Shares by raw scores: the cosine itself, and BM25 mapped to 0..1."""
    weight = weight / total
    scale = _cosine if retriever.name == "semantic" else saturate

    def shares(places: Sequence[int | None], scores: Sequence[float | None]) -> list[float]:
        pairs = zip(places, scores, strict=True)
        return [0.0 if place is None or score is None else weight * scale(score) for place, score in pairs]

    def describe(_: int | None, score: float | None) -> tuple[str, tuple[float, ...]]:
        own_score = 0.0 if score is None else score
        return "{:.2f} × {:.3f}, from {:.3f}", (weight, scale(own_score), own_score)

    return Method(shares, describe)


def _cosine(score: float) -> float:
    return min(max(score, 0.0), 1.0) if isfinite(score) else 0.0


_METHODS: dict[str, Callable[[RankedList, float, float, Tuning], Method]] = {
    "rrf": _rrf,
    "relative": _scaled,
    "full": _scaled,
    "weighted": _weighted,
}


class Scale:
    """Maps the scores of a retriever to comparable ones, which are always finite. `fit` makes one."""

    __slots__ = ("_formula", "_highest", "_lowest")

    def __init__(self, formula: Formula, lowest: float = 0.0, highest: float = 0.0) -> None:
        """With the formula of finite scores, and the scores that stand for infinite ones."""
        self._formula, self._lowest, self._highest = formula, lowest, highest

    def __call__(self, score: float) -> float:
        """Scale one score."""
        if not isfinite(score):
            score = self._highest if score > 0 else self._lowest
        scaled = self._formula(score)
        return scaled if isfinite(scaled) else 0.0

    def all(self, scores: Sequence[float]) -> list[float]:
        """Scale many scores, in half the time."""
        if isfinite(sum(scores)):  # so that each of them is
            scaled = list(map(self._formula, scores))
            if isfinite(sum(scaled)):
                return scaled
        return [self(score) for score in scores]


Formula = Callable[[float], float]

_HUGE = 1e100
"""Scores with a larger one are divided by it first: their sums, squares and differences would be infinite."""

_ABSOLUTE = ("saturate", "none")
"""Scalings that depend on the size of the scores."""


def fit(scaling: str, scores: Sequence[float], *, min_score_range: float = 0.0) -> Scale:
    """Fit the named scale to a retriever's scores; without scores it maps everything to 0."""
    if scaling not in _FITS:
        raise Invalid(f"there is no scaling '{scaling}'; the scalings are {', '.join(_FITS)}")
    finite = sorted((score for score in scores if isfinite(score)), reverse=True)
    if not finite:
        return Scale(lambda _: 0.0)
    lowest, highest = finite[-1], finite[0]
    shrink = 1.0 / max(-lowest, highest) if max(-lowest, highest) > _HUGE and scaling not in _ABSOLUTE else 1.0
    fitted = [score * shrink for score in finite]
    formula = _spread(fitted, min_score_range) if scaling == "spread" else _FITS[scaling](fitted)
    return Scale(formula if shrink == 1.0 else lambda score: formula(score * shrink), lowest, highest)


def scale_all(scaling: str, scores: Sequence[float]) -> list[float]:
    """Scale all scores by the scale fitted to them."""
    return fit(scaling, scores).all(scores)


def saturate(score: float) -> float:
    """BM25 mapped to 0..1, whichever sign its source gives it: |r| / (1 + |r|)."""
    size = abs(score)
    return size / (1.0 + size) if isfinite(size) else float(size > 0)


def _between(low: float, high: float) -> Formula:
    """Map low and below to 0, high and above to 1. If they are equal, scores from there on map to 1."""
    width = high - low
    if not (width > 0 and isfinite(width)):
        return lambda score: 1.0 if score >= high else 0.0

    def between(score: float) -> float:
        share = (score - low) / width
        return 0.0 if share < 0.0 else min(share, 1.0)

    return between


def _divide(divisor: float, *, minus: float = 0.0) -> Formula:
    if not (divisor > 0 and isfinite(divisor)):
        return lambda score: 1.0 if score >= minus else 0.0
    return lambda score: (score - minus) / divisor


def _moments(scores: list[float]) -> tuple[float, float, float]:
    """Mean and standard deviation of the scores divided by their peak, against overflow; 0 if all are equal."""
    peak = max(abs(scores[0]), abs(scores[-1]))
    if scores[0] == scores[-1]:
        return 1.0, 0.0, peak
    parts = [score / peak for score in scores]
    return fmean(parts), pstdev(parts), peak


def _min_max(scores: list[float]) -> Formula:
    return _between(scores[-1], scores[0])


def _z_score(scores: list[float]) -> Formula:
    mean, deviation, peak = _moments(scores)
    if deviation <= 0:
        return lambda score: 0.0
    return lambda score: (score / peak - mean) / deviation


def _sum(scores: list[float]) -> Formula:
    share = _divide(fsum(score - scores[-1] for score in scores), minus=scores[-1])
    return lambda score: max(share(score), 0.0)  # a score from elsewhere may be far below the lowest of the list


def _max(scores: list[float]) -> Formula:
    return _divide(max(abs(scores[0]), abs(scores[-1])))


def _l2(scores: list[float]) -> Formula:
    return _divide(hypot(*scores))


def _distribution(scores: list[float]) -> Formula:
    mean, deviation, peak = _moments(scores)
    if deviation <= 0:
        return _between(scores[-1], scores[0])
    within = _between(mean - 3 * deviation, mean + 3 * deviation)
    return lambda score: within(score / peak)


def _spread(scores: list[float], least: float = 0.0) -> Formula:
    """Map the score at `SPREAD_DEPTH` to 0 and the best to 1, over a range of at least `least`.

    Fewer scores do not reach that depth: then the best is 1, and a score of `least` below it or less is 0.
    """
    low = scores[min(SPREAD_DEPTH, len(scores)) - 1]
    if len(scores) < SPREAD_DEPTH:
        return _between(min(low, scores[0] - least), scores[0])
    return _between(low, max(scores[0], low + least))


_FITS: dict[str, Callable[[list[float]], Formula]] = {
    "min-max": _min_max,
    "z-score": _z_score,
    "sum": _sum,
    "max": _max,
    "l2": _l2,
    "distribution": _distribution,
    "spread": _spread,
    "saturate": lambda known: saturate,
    "none": lambda known: lambda score: score,
}


def count_words(text: str) -> float:
    """How many words a text has, about."""
    words = text.count(" ") + 1.0
    return words if text.isascii() else words + len(_UNSPACED.findall(text)) / UNSPACED_LETTERS
