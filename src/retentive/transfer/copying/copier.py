"""Copies memories, judgements and settings from one store to another, in pages that are each durable.

A memory keeps its id, so a copy that was interrupted is run again and skips what is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from retentive.errors import Conflict, Invalid
from retentive.models import Model, Serializable
from retentive.pipeline.access_tokens import GRANTS
from retentive.pipeline.access_tokens import PREFIX as TOKENS
from retentive.pipeline.given import PREFIX as GIVEN
from retentive.pipeline.tuning_history import HISTORY, PARAMETERS
from retentive.stores.base import Store
from retentive.stores.damage import Damage
from retentive.stores.rules import scan_pages
from retentive.stores.values import Judgement, Record
from retentive.transfer.copying.contents import canonical_memory

PAGE = 500
"""How many memories or judgements are written at once."""

FEW = 20
"""How many memories are read at once where their size is not known."""

UNFINISHED = "copy"
"""The key-value entry of a target that names the source of an unfinished copy."""

_OWN = ("copy/", "copied/")
"""Entries of copies that were made by earlier versions."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What is copied, and into which target.

    `into` adds to a store that has other memories. `vectors` and `tokens` are copied too.
    """

    into: bool = False
    vectors: bool = True
    tokens: bool = False


@dataclass(frozen=True, slots=True)
class CopyResult(Serializable):
    """What a copy did.

    `existing` memories were in the target before and are equal; `conflicts` are the ids of those that are different.
    `tokens_skipped` were not copied. `target_kept` are settings and judgements of the target that are different in the
    source and were not overwritten. `damaged` are memories of the source that cannot be read, and were left out.
    """

    memories: int = 0
    existing: int = 0
    conflicts: tuple[str, ...] = ()
    judgements: int = 0
    settings: int = 0
    tokens: int = 0
    tokens_skipped: int = 0
    target_kept: int = 0
    damaged: tuple[Damage, ...] = ()


def copy_store(
    source: Store,
    target: Store,
    *,
    name: str,
    options: CopyOptions,
    progress: Callable[[int], None] = lambda done: None,
) -> CopyResult:
    """Copy a source store, which has this name, to a target store.

    The source is only read. An interrupted copy continues when it is called again. The target is marked as unfinished
    until `finish_copy` is called.
    """
    model = _model(source, target, options)
    _start(source, target, name, into=options.into)
    result = _copy_memories(source, target, model, options, progress)
    result = _copy_judgements(source, target, result)
    return _copy_entries(source, target, result, options)


def finish_copy(target: Store) -> None:
    """Mark the copy in a target as finished."""
    target.compare_and_set({UNFINISHED: None})


def _model(source: Store, target: Store, options: CopyOptions) -> Model | None:
    """Return the model whose vectors are copied."""
    ours, theirs = source.model(), target.model()
    if not options.vectors or ours is None:
        return None
    if theirs is not None and theirs.fingerprint != ours.fingerprint:
        raise Conflict(
            f"the vectors of the source are from {ours}, those of the target from {theirs}, and they cannot be mixed; "
            "copy with --without-vectors, then run retentive reembed on the target"
        )
    return ours


def _start(source: Store, target: Store, name: str, *, into: bool) -> None:
    """Mark the target as unfinished. `Conflict`, without a change, if it cannot be used."""
    if source.get_value(UNFINISHED) is not None:
        raise Conflict("the source is itself an unfinished copy; finish that one first")
    before = target.get_value(UNFINISHED)
    if before is None and not into and not _is_empty(target):
        raise Conflict("the target is not empty; name a new one, or use --into to add to it")
    if before is not None and not into and (other := json.loads(before)["source"]) != name:
        raise Conflict(f"the target is an unfinished copy of {other}; finish that one first, or use --into")
    target.compare_and_set({UNFINISHED: json.dumps({"source": name})})
    if source.get_value(UNFINISHED) is not None:
        target.compare_and_set({UNFINISHED: before})
        raise Invalid("both addresses are of the same store; name another target")


def _is_empty(store: Store) -> bool:
    """Whether a store has no memories and no entries that a copy could change. Tokens may have been created before."""
    names = (name for name in store.list_values("") if not _is_own_entry(name))
    return store.stats().memories == 0 and all(name.startswith((TOKENS, GRANTS)) for name in names)


def _copy_memories(
    source: Store, target: Store, model: Model | None, options: CopyOptions, progress: Callable[[int], None]
) -> CopyResult:
    result = CopyResult()
    for page in scan_pages(source, limit=PAGE):
        records = page.records if options.vectors else [Record(record.memory) for record in page.records]
        theirs = {memory.id: memory for memory in target.get([record.memory.id for record in records])}
        new = [record for record in records if record.memory.id not in theirs]
        if new:
            target.add(new, model=model, exact=True)
        old = [record.memory for record in records if record.memory.id in theirs]
        conflicts = [memory.id for memory in old if canonical_memory(memory) != canonical_memory(theirs[memory.id])]
        result = replace(
            result,
            memories=result.memories + len(new),
            existing=result.existing + len(old) - len(conflicts),
            conflicts=(*result.conflicts, *conflicts),
            damaged=(*result.damaged, *page.damaged),
        )
        progress(len(page.records))
    return result


def _copy_judgements(source: Store, target: Store, result: CopyResult) -> CopyResult:
    skipped = set(result.conflicts)
    for profile in source.profiles():
        existing = {judgement_key(one): one for one in target.judgements(profile.name)}
        ours = source.judgements(profile.name)
        new = [one for one in ours if judgement_key(one) not in existing and one.memory not in skipped]
        different = [
            one
            for one in ours
            if judgement_key(one) in existing and existing[judgement_key(one)].relevance != one.relevance
        ]
        for at in range(0, len(new), PAGE):
            page = new[at : at + PAGE]
            # A memory that was added and judged during the scan may not have been copied.
            copied = existing_ids(target, {one.memory for one in page})
            page = [one for one in page if one.memory in copied]
            target.judge(page)
            result = replace(result, judgements=result.judgements + len(page))
        result = replace(result, target_kept=result.target_kept + len(different))
    return result


def existing_ids(store: Store, ids: Iterable[str]) -> set[str]:
    """Return which memories a store has. Few are read at once, because each may have a million characters."""
    wanted = list(ids)
    pages = (wanted[at : at + FEW] for at in range(0, len(wanted), FEW))
    return {memory.id for page in pages for memory in store.get(page)}


def judgement_key(judgement: Judgement) -> tuple[str, str | None, str, str]:
    """Return what identifies a judgement."""
    return judgement.profile, judgement.project, judgement.query, judgement.memory


def _copy_entries(source: Store, target: Store, result: CopyResult, options: CopyOptions) -> CopyResult:
    ours = copied_entries(source, tokens=True)
    tokens = {name: value for name, value in ours.items() if name.startswith(TOKENS)}
    settings = {name: value for name, value in ours.items() if name not in tokens}
    different = 0
    if options.into:
        theirs = copied_entries(target, tokens=False)
        groups = {_entry_group(name) for name in theirs}
        different = sum(_entry_group(name) in groups and theirs.get(name) != value for name, value in settings.items())
        settings = {name: value for name, value in settings.items() if _entry_group(name) not in groups}
    copied = tokens if options.tokens else {}
    if settings or copied:
        target.compare_and_set({**settings, **copied})
    return replace(
        result,
        settings=len(settings),
        tokens=len(copied),
        tokens_skipped=len(tokens) - len(copied),
        target_kept=result.target_kept + different,
    )


def _is_own_entry(name: str) -> bool:
    """Whether a key-value entry is one of a copy itself, which is never copied."""
    return name == UNFINISHED or name.startswith(_OWN)


def _entry_group(name: str) -> str:
    """Return which entries are copied together or not at all: the saved tuning and its history are one group."""
    return PARAMETERS if name in (PARAMETERS, HISTORY) else name


def copied_entries(store: Store, *, tokens: bool) -> dict[str, str]:
    """Return the key-value entries that a copy includes. What was given is not: it is logged while a copy runs."""
    entries = {name: value for name, value in store.list_values("").items() if not _is_own_entry(name)}
    entries = {name: value for name, value in entries.items() if not name.startswith((GRANTS, GIVEN))}
    return {name: value for name, value in entries.items() if tokens or not name.startswith(TOKENS)}
