"""Compares two stores by counts and checksums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from retentive.models import Serializable
from retentive.stores.base import Store
from retentive.stores.values import Judgement
from retentive.transfer.copying.contents import Checksum, Contents, read_contents
from retentive.transfer.copying.copier import CopyOptions, copied_entries, judgement_key

_Key = TypeVar("_Key")


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
    progress: Callable[[int], None] = lambda done: None,
) -> Verification:
    """Compare the contents of two stores; with `into`, only the part of the target that the source has too."""
    ours = read_contents(source, progress=progress)
    theirs = read_contents(target, only=ours.id_hashes if options.into else None, progress=progress)
    return Verification(
        (
            *_memory_checks(ours, theirs, options),
            *_vector_checks(source, target, ours, theirs, options),
            _judgement_check(source, target, options, damaged=ours.damaged),
            _settings_check(source, target, options),
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
