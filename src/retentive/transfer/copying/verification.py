"""Compares two stores: counts, checksums, and the recalls of some of their memories."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from retentive.models import Hit, Memory, Query, Scope, Serializable, counted
from retentive.pipeline.recall import recall
from retentive.pipeline.tuning_history import saved_parameters
from retentive.ranking.tuning import Tuning, parse_tuning
from retentive.stores.base import Store
from retentive.stores.values import Judgement, Record
from retentive.transfer.copying.contents import Checksum, Contents, read_contents
from retentive.transfer.copying.copier import CopyOptions, copied_entries, judgement_key

_Key = TypeVar("_Key")

SearchSimilarity = Literal["identical", "same-scores"]
"""How the searches of two stores compare: identical; or equal scores, but perhaps not the same candidates."""

MIN_OVERLAP: dict[SearchSimilarity, float] = {"identical": 1.0, "same-scores": 0.9}
"""The share of common hits that recalls must have. If the searches are identical, the order must be equal too."""

_REASONS: dict[SearchSimilarity, str] = {
    "identical": "",
    "same-scores": ", because each of these stores selects candidates in its own way",
}

LIMIT = 10
TOLERANCE = 1e-4
"""Scores that differ by less are equal: stores add float32 numbers in different orders."""

QUERY_CHARACTERS = 100
"""How many characters of a memory are its query: more words only make the search slower."""

POOL = 300
"""How many candidates each retriever returns, more than in an ordinary recall: which candidates a store selects among
many with equal scores is no sign of a bad copy."""


@dataclass(frozen=True, slots=True)
class Check(Serializable):
    """One comparison of two stores: the figure of each, whether they agree, and what was compared.

    `agrees` is None if it could not be compared; the note has the reason.
    """

    name: str
    source: str
    target: str
    agrees: bool | None
    note: str


@dataclass(frozen=True, slots=True)
class Verification(Serializable):
    """All comparisons of two stores."""

    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Whether no comparison found a difference."""
        return all(check.agrees is not False for check in self.checks)


def verify_stores(
    source: Store,
    target: Store,
    *,
    options: CopyOptions,
    now: datetime,
    similarity: SearchSimilarity = "identical",
    progress: Callable[[int], None] = lambda done: None,
) -> Verification:
    """Compare the contents of two stores; with `into`, only the part of the target that the source has too.

    `similarity` decides how similar the recalls must be.
    """
    ours = read_contents(source, sample=options.sample, progress=progress)
    theirs = read_contents(target, only=ours.id_hashes if options.into else None, progress=progress)
    return Verification(
        (
            *_memory_checks(ours, theirs, options),
            *_vector_checks(source, target, ours, theirs, options),
            _judgement_check(source, target, options, damaged=ours.damaged),
            _settings_check(source, target, options),
            _recall_check(source, target, ours, theirs, options, similarity=similarity, now=now),
        )
    )


def _memory_checks(ours: Contents, theirs: Contents, options: CopyOptions) -> list[Check]:
    counts = tuple(contents.memories.count for contents in (ours, theirs))
    use = _compare_sums("use", ours.use, theirs.use, "the use count and last use of each memory")
    if options.into:
        use = Check("use", str(ours.use), str(theirs.use), None, "not compared: memories of the target keep their use")
    fields = "id, text, scope, times and every other field of each memory"
    return [
        Check("memories", f"{counts[0]:,}", f"{counts[1]:,}", counts[0] == counts[1], "the number of memories"),
        _compare_counts("profiles", ours.by_profile, theirs.by_profile, "the number of memories of each profile"),
        _compare_counts("kinds", ours.by_kind, theirs.by_kind, "the number of memories of each kind"),
        _compare_counts(
            "sessions", ours.by_session, theirs.by_session, "the number of memories of each session, and its project"
        ),
        _compare_sums("contents", ours.memories, theirs.memories, fields),
        use,
    ]


def _compare_counts(name: str, ours: Counter[_Key], theirs: Counter[_Key], what: str) -> Check:
    different = [key for key in {**ours, **theirs} if ours[key] != theirs[key]]
    note = f"{what}; {len(different):,} are different" if different else what
    return Check(name, f"{len(ours):,}", f"{len(theirs):,}", not different, note)


def _compare_sums(name: str, ours: Checksum, theirs: Checksum, what: str) -> Check:
    return Check(name, str(ours), str(theirs), ours == theirs, f"{what}: {ours.count:,} and {theirs.count:,}")


def _vector_checks(
    source: Store, target: Store, ours: Contents, theirs: Contents, options: CopyOptions
) -> tuple[Check, Check]:
    one, other = ("none" if model is None else str(model) for model in (source.model(), target.model()))
    if not options.vectors:
        note = "not compared: vectors were not copied; retentive reembed creates them"
        return (
            Check("model", one, other, None, note),
            Check("vectors", str(ours.vectors), str(theirs.vectors), None, note),
        )
    same = one == other or not (ours.vectors.count or theirs.vectors.count)
    return (
        Check("model", one, other, same, "the model of the vectors"),
        _compare_sums("vectors", ours.vectors, theirs.vectors, "every part of every memory, rounded to float16"),
    )


def _judgement_check(source: Store, target: Store, options: CopyOptions, *, damaged: set[str]) -> Check:
    ours = [one for profile in source.profiles() for one in source.judgements(profile.name)]
    ours = [one for one in ours if one.memory not in damaged]
    theirs = [one for profile in target.profiles() for one in target.judgements(profile.name)]
    if options.into:
        known = {judgement_key(one) for one in ours}
        theirs = [one for one in theirs if judgement_key(one) in known]
        agrees = len(ours) == len(theirs)
        note = "query and memory of each; the relevance may be the target's"
        return Check("judgements", f"{len(ours):,}", f"{len(theirs):,}", agrees, note)
    what = "query, memory, relevance and times of each, and their order"
    return _compare_sums("judgements", _judgement_sum(ours), _judgement_sum(theirs), what)


def _judgement_sum(judgements: list[Judgement]) -> Checksum:
    total, places = Checksum(), dict.fromkeys((one.profile for one in judgements), 0)
    for one in judgements:
        places[one.profile] += 1
        total.add(str(places[one.profile]).encode(), repr(sorted(one.to_dict().items())).encode())
    return total


def _settings_check(source: Store, target: Store, options: CopyOptions) -> Check:
    ours, theirs = (copied_entries(store, tokens=options.tokens) for store in (source, target))
    if options.into:
        theirs = {name: text for name, text in theirs.items() if name in ours}
        agrees = ours.keys() == theirs.keys()
        note = "the names of the settings; their values may be the target's"
        return Check("settings", f"{len(ours)}", f"{len(theirs)}", agrees, note)
    tokens = "and tokens" if options.tokens else "without tokens"
    what = f"the saved tuning, its history and other entries, {tokens}"
    return _compare_sums("settings", _entry_sum(ours), _entry_sum(theirs), what)


def _entry_sum(entries: dict[str, str]) -> Checksum:
    total = Checksum()
    for name, value in entries.items():
        total.add(name.encode(), value.encode())
    return total


def _recall_check(
    source: Store,
    target: Store,
    ours: Contents,
    theirs: Contents,
    options: CopyOptions,
    *,
    similarity: SearchSimilarity,
    now: datetime,
) -> Check:
    if options.into and target.stats().memories > theirs.memories.count:
        note = "not compared: other memories of the target may rank before these"
        return Check("recalls", "–", "–", None, note)
    if ours.damaged:
        note = "not compared: the damaged memories of the source affect its scores"
        return Check("recalls", "–", "–", None, note)
    if not ours.sample:
        return Check("recalls", "–", "–", None, "not compared: the sample is empty")
    with_vectors = options.vectors and bool(ours.vectors.count)
    found = compare_recalls(source, target, ours.sample, now=now, vectors=with_vectors)
    by = "text and vector" if with_vectors else "text"
    recalls = (
        f"recalls of {counted(found.queries, 'memory')} by the own {by}, every second one in its session or project"
    )
    result = f"{found.in_order} in the same order, {100 * found.overlap:.0f} % of the hits in common"
    if similarity == "identical":
        note = f"{recalls}; the first {LIMIT} hits and their order"
        return Check("recalls", f"{found.queries}", result, found.all_in_order, note)
    least = MIN_OVERLAP[similarity]
    note = (
        f"{recalls}; the first {LIMIT} hits, of which {100 * least:.0f} % must be in common{_REASONS[similarity]}; "
        f"{found.self_found} found themselves"
    )
    return Check("recalls", f"{found.queries}", result, found.overlap >= least, note)


@dataclass(frozen=True, slots=True)
class RecallComparison:
    """The same recalls on two stores: how many had equal hits in the same order, and the mean share of common hits.

    `self_found` is how many memories were among the hits of their own query in the target.
    """

    queries: int
    in_order: int
    overlap: float
    self_found: int

    @property
    def all_in_order(self) -> bool:
        """Whether every recall had equal hits in the same order."""
        return self.in_order == self.queries


def compare_recalls(
    source: Store, target: Store, records: Sequence[Record], *, now: datetime, vectors: bool = True
) -> RecallComparison:
    """Recall each of these memories by its own text and vector on both stores, with the saved tuning of the source.

    Every second query is in the memory's session, or else its project; the others are in its whole profile.
    """
    tuning = _tuning(source, vectors=vectors)
    in_order, shares, self_found = 0, [], 0
    with ThreadPoolExecutor(2, thread_name_prefix="retentive-copy") as threads:
        for number, record in enumerate(records):
            query = Query(
                text=record.memory.text[:QUERY_CHARACTERS],
                scope=_scope(record.memory, narrow=bool(number % 2)),
                tuning=tuning,
                now=now,
                limit=LIMIT,
                vector=None if record.vectors is None else record.vectors[0],
                include_retired=True,
            )
            ours, theirs = (recall(query, store, lambda: None, threads).hits for store in (source, target))
            in_order += same_order(ours, theirs)
            shares.append(overlap(ours, theirs))
            self_found += record.memory.id in {hit.id for hit in theirs}
    return RecallComparison(len(records), in_order, sum(shares) / max(len(shares), 1), self_found)


def _tuning(store: Store, *, vectors: bool) -> Tuning:
    # A cross-encoder would only cost time. Of duplicates one is dropped, and which one may depend on a tie.
    changed: dict[str, object] = {"judge": "off", "dedup": False, "min_candidates": POOL}
    if not vectors:
        changed["semantic_weight"] = 0.0
    return parse_tuning({**saved_parameters(store), **changed})


def _scope(memory: Memory, *, narrow: bool) -> Scope:
    if not narrow:
        return Scope(memory.profile)
    if memory.session is not None:
        return Scope(memory.profile, memory.project, (memory.session,), only_sessions=True)
    return Scope(memory.profile, project=memory.project)


def same_order(ours: Sequence[Hit], theirs: Sequence[Hit]) -> bool:
    """Whether these are the same hits with equal scores in the same order; tied hits may change places."""
    if len(ours) != len(theirs):
        return False
    if any(abs(one.score - other.score) > TOLERANCE for one, other in zip(ours, theirs, strict=True)):
        return False
    last = min((hit.score for hit in ours), default=0.0) + TOLERANCE
    scores = {hit.id: hit.score for hit in theirs}
    # A hit that ties with the last one may have been replaced by another.
    return all(abs(scores[hit.id] - hit.score) <= TOLERANCE if hit.id in scores else hit.score <= last for hit in ours)


def overlap(ours: Sequence[Hit], theirs: Sequence[Hit]) -> float:
    """Return the share of hits that both have; 1 if neither has any."""
    one, other = {hit.id for hit in ours}, {hit.id for hit in theirs}
    return len(one & other) / len(one | other) if one | other else 1.0
