"""Two stores compared: counts, checksums, and a sample of recalls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeVar

from retentive.models import Judgement, Serializable
from retentive.stores import Store
from retentive.transfer.copying.contents import Checksum, Contents, read_contents
from retentive.transfer.copying.recall_check import LIMIT, Agreement, compare_recalls
from retentive.transfer.copying.transfer import Options, judged, notes_of

_Place = TypeVar("_Place")

Likeness = Literal["same", "alike", "otherwise"]
"""How two stores search: exactly the same, by the same scores but not all candidates, or by other scores for words."""

ENOUGH: dict[Likeness, float] = {"same": 1.0, "alike": 0.9, "otherwise": 0.6}
"""The share of hits that recalls must have in common; where the searches are the same, in the same order too."""

_BECAUSE: dict[Likeness, str] = {
    "same": "",
    "alike": ", because these stores look at the likeliest candidates, each in its own way",
    "otherwise": ", because these stores score words in different ways",
}


@dataclass(frozen=True, slots=True)
class Check(Serializable):
    """One thing in which two stores should agree, as each has it, and what exactly was compared.

    `agrees` is None where it could not be compared, and the note says why.
    """

    name: str
    source: str
    target: str
    agrees: bool | None
    note: str


@dataclass(frozen=True, slots=True)
class Verified(Serializable):
    """Every comparison of two stores."""

    checks: tuple[Check, ...]

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        return all(check.agrees is not False for check in self.checks)


def verify_stores(
    source: Store,
    target: Store,
    *,
    options: Options,
    now: datetime,
    likeness: Likeness = "same",
    progress: Callable[[int], None] = lambda done: None,
) -> Verified:
    """What both stores hold, side by side; with `into`, only what of the target the source has too.

    How alike the two search says how alike their recalls must be.
    """
    ours = read_contents(source, sample=options.sample, progress=progress)
    theirs = read_contents(target, only=ours.numbers if options.into else None, progress=progress)
    return Verified(
        (
            *_memory_checks(ours, theirs, options),
            *_vector_checks(source, target, ours, theirs, options),
            _judgement_check(source, target, options),
            _settings_check(source, target, options),
            _recall_check(source, target, ours, theirs, options, likeness=likeness, now=now),
        )
    )


def _memory_checks(ours: Contents, theirs: Contents, options: Options) -> list[Check]:
    many = tuple(contents.memories.things for contents in (ours, theirs))
    use = _sums("use", ours.use, theirs.use, "how often and when each memory was last used")
    if options.into:
        use = Check("use", str(ours.use), str(theirs.use), None, "not compared: a memory that was there keeps its own")
    return [
        Check("memories", f"{many[0]:,}", f"{many[1]:,}", many[0] == many[1], "how many there are"),
        _counts("profiles", ours.by_profile, theirs.by_profile, "how many memories each profile has"),
        _counts("kinds", ours.by_kind, theirs.by_kind, "how many memories there are of each kind"),
        _counts("sessions", ours.by_session, theirs.by_session, "how many memories each session has, and its project"),
        _sums(
            "contents", ours.memories, theirs.memories, "id, text, place, times and every other field of each memory"
        ),
        use,
    ]


def _counts(name: str, ours: Counter[_Place], theirs: Counter[_Place], what: str) -> Check:
    apart = [at for at in {**ours, **theirs} if ours[at] != theirs[at]]
    note = f"{what}; {len(apart):,} differ" if apart else what
    return Check(name, f"{len(ours):,}", f"{len(theirs):,}", not apart, note)


def _sums(name: str, ours: Checksum, theirs: Checksum, what: str) -> Check:
    return Check(name, str(ours), str(theirs), ours == theirs, f"{what}: {ours.things:,} and {theirs.things:,}")


def _vector_checks(
    source: Store, target: Store, ours: Contents, theirs: Contents, options: Options
) -> tuple[Check, Check]:
    one, other = ("none" if model is None else str(model) for model in (source.model(), target.model()))
    if not options.vectors:
        left = "not compared: vectors were left behind; retentive reembed makes them anew"
        return (
            Check("model", one, other, None, left),
            Check("vectors", str(ours.vectors), str(theirs.vectors), None, left),
        )
    same = one == other or not (ours.vectors.things or theirs.vectors.things)
    return (
        Check("model", one, other, same, "which model's vectors are searched"),
        _sums("vectors", ours.vectors, theirs.vectors, "every part of every memory, rounded to float16"),
    )


def _judgement_check(source: Store, target: Store, options: Options) -> Check:
    ours = [one for profile in source.profiles() for one in source.judgements(profile.name)]
    theirs = [one for profile in target.profiles() for one in target.judgements(profile.name)]
    if options.into:
        known = {judged(one) for one in ours}
        theirs = [one for one in theirs if judged(one) in known]
        agrees = len(ours) == len(theirs)
        return Check(
            "judgements", f"{len(ours):,}", f"{len(theirs):,}", agrees, "who judged what; relevance may be TO's"
        )
    what = "query, memory, relevance and times of each, and their order"
    return _sums("judgements", _judgement_sum(ours), _judgement_sum(theirs), what)


def _judgement_sum(judgements: list[Judgement]) -> Checksum:
    total, places = Checksum(), dict.fromkeys((one.profile for one in judgements), 0)
    for one in judgements:
        places[one.profile] += 1
        total.add(str(places[one.profile]).encode(), repr(sorted(one.to_dict().items())).encode())
    return total


def _settings_check(source: Store, target: Store, options: Options) -> Check:
    ours, theirs = (notes_of(store, tokens=options.tokens) for store in (source, target))
    if options.into:
        theirs = {name: text for name, text in theirs.items() if name in ours}
        agrees = ours.keys() == theirs.keys()
        return Check("settings", f"{len(ours)}", f"{len(theirs)}", agrees, "which are kept; what they say may be TO's")
    tokens = "and tokens" if options.tokens else "without tokens"
    return _sums("settings", _note_sum(ours), _note_sum(theirs), f"parameters, their history and other notes, {tokens}")


def _note_sum(notes: dict[str, str]) -> Checksum:
    total = Checksum()
    for name, text in notes.items():
        total.add(name.encode(), text.encode())
    return total


def _recall_check(
    source: Store,
    target: Store,
    ours: Contents,
    theirs: Contents,
    options: Options,
    *,
    likeness: Likeness,
    now: datetime,
) -> Check:
    records = ours.sampled
    if options.into and target.stats().memories > theirs.memories.things:
        note = "not compared: the target holds memories besides, which may come before these"
        return Check("recalls", "–", "–", None, note)
    if not records:
        return Check("recalls", "–", "–", None, "not compared: none were asked for, or there is nothing to ask about")
    with_vectors = options.vectors and bool(ours.vectors.things)
    found = compare_recalls(source, target, records, now=now, vectors=with_vectors)
    retrievers = "own words and vector" if with_vectors else "own words"
    asked = f"{found.queries} memories asked for by their {retrievers}, every second one in its session or project"
    return _verdict(found, asked, likeness)


def _verdict(found: Agreement, asked: str, likeness: Likeness) -> Check:
    seen = f"{found.in_order} in the same order, {100 * found.overlap:.0f} % of the hits in common"
    if likeness == "same":
        note = f"{asked}; the first {LIMIT} hits and their order"
        return Check("recalls", f"{found.queries}", seen, found.all_in_order, note)
    least = ENOUGH[likeness]
    note = (
        f"{asked}; the first {LIMIT} hits, of which {100 * least:.0f} % must be in common{_BECAUSE[likeness]}; "
        f"{found.itself} found themselves"
    )
    return Check("recalls", f"{found.queries}", seen, found.overlap >= least, note)
