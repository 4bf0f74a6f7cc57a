"""Copies memories, judgements and settings from one store to another, in pages that are each durable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from retentive.errors import Conflict, Invalid
from retentive.models import Memory, Model, Serializable, counted
from retentive.pipeline.access_tokens import GRANTS
from retentive.pipeline.access_tokens import PREFIX as TOKENS
from retentive.pipeline.given import PREFIX as GIVEN
from retentive.pipeline.tuning_history import HISTORY, PARAMETERS
from retentive.stores.base import Store
from retentive.stores.damage import Damage
from retentive.stores.rules import scan_pages
from retentive.stores.values import Judgement, Record, Vector
from retentive.transfer.copying.checkpoint import Checkpoint, CheckpointStore, is_own_entry, start_copy
from retentive.transfer.copying.contents import IdHashes, canonical_memory, canonical_use, canonical_vector, hash_ids
from retentive.transfer.copying.copied_ids import CopiedIds

PAGE = 500
"""How many memories or judgements are written at once."""

FEW = 20
"""How many memories are read at once where their size is not known."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What is copied, and into which target.

    `into` adds to a store that has other memories. `again` updates an earlier copy of the same source. `vectors` and
    `tokens` are copied too. `sample` is how many recalls are compared by the verification.
    """

    into: bool = False
    again: bool = False
    vectors: bool = True
    tokens: bool = False
    sample: int = 20


@dataclass(frozen=True, slots=True)
class CopyResult(Serializable):
    """What a copy did.

    `existing` memories were in the target before and are equal; `conflicts` are the ids of those that are different.
    `changed` and `forgotten` are memories of an earlier copy that were updated or deleted. `tokens_skipped` were not
    copied. `target_kept` are settings and judgements of the target that are different in the source and were not
    overwritten. `resumed` is how many memories an interrupted run had processed. `damaged` are memories of the source
    that cannot be read, and were left out.
    """

    memories: int = 0
    changed: int = 0
    forgotten: int = 0
    existing: int = 0
    conflicts: tuple[str, ...] = ()
    judgements: int = 0
    settings: int = 0
    tokens: int = 0
    tokens_skipped: int = 0
    target_kept: int = 0
    resumed: int = 0
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
    if options.into and options.again:
        raise Invalid("--into keeps other memories, --again deletes them; use only one of them")
    checkpoints = start_copy(source, target, Checkpoint(name, options.vectors, options.again), into=options.into)
    copied_ids = None if options.into else CopiedIds(target)
    result = CopyResult(resumed=checkpoints.current.done)
    progress(checkpoints.current.done)
    if options.again:
        _move_sessions(source, target)
    result = _copy_memories(source, target, result, checkpoints, copied_ids, model, options, progress)
    if copied_ids is not None and options.again:
        try:
            result = replace(result, forgotten=_forget_missing(source, target, copied_ids))
        except Conflict:  # the source may be changed before the next run
            checkpoints.restart()
            raise
    result = _copy_judgements(source, target, result, options)
    return _copy_entries(source, target, result, options)


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


def _move_sessions(source: Store, target: Store) -> None:
    """Move every session of the target that has another project in the source, where it is clear which one that is."""
    for profile in source.profiles():
        ours, theirs = (_projects_of(store, profile.name) for store in (source, target))
        for name, projects in ours.items():
            gone, new = theirs[name] - projects, projects - theirs[name]
            if len(gone) == len(new) == 1:
                target.move_session(profile.name, name, from_project=gone.pop(), project=new.pop())


def _projects_of(store: Store, profile: str) -> defaultdict[str, set[str | None]]:
    """Return the projects of the sessions of each name."""
    found: defaultdict[str, set[str | None]] = defaultdict(set)
    for session in store.sessions(profile):
        found[session.name].add(session.project)
    return found


def _copy_memories(
    source: Store,
    target: Store,
    result: CopyResult,
    checkpoints: CheckpointStore,
    copied_ids: CopiedIds | None,
    model: Model | None,
    options: CopyOptions,
    progress: Callable[[int], None],
) -> CopyResult:
    cursor, done = checkpoints.current.cursor, checkpoints.current.scanned
    while not done:
        page = source.scan(cursor=cursor, limit=PAGE)
        records = page.records if options.vectors else [Record(record.memory) for record in page.records]
        ids = [record.memory.id for record in records]
        if copied_ids is not None:
            copied_ids.add(ids)
        theirs = {memory.id: memory for memory in target.get(ids)}
        changed = _changed_ids(target, records, theirs, vectors=options.vectors) if options.again else []
        if changed:
            target.remove(changed)  # interrupted after this, the next run copies them as new ones
            theirs = {id: memory for id, memory in theirs.items() if id not in set(changed)}
        new = [record for record in records if record.memory.id not in theirs]
        if new:
            target.add(new, model=model, exact=True)
        old = [record.memory for record in records if record.memory.id in theirs]
        conflicts = [memory.id for memory in old if canonical_memory(memory) != canonical_memory(theirs[memory.id])]
        result = replace(
            result,
            memories=result.memories + len(new) - len(changed),
            changed=result.changed + len(changed),
            existing=result.existing + len(old) - len(conflicts),
            conflicts=(*result.conflicts, *conflicts),
            damaged=(*result.damaged, *page.damaged),
        )
        cursor = page.next_cursor
        checkpoints.advance(cursor=cursor, count=len(page.records))
        progress(len(page.records))
        done = cursor is None
    return result


def _changed_ids(target: Store, records: Sequence[Record], theirs: Mapping[str, Memory], *, vectors: bool) -> list[str]:
    """Return the ids of the memories that are different in the target, in their contents, use or vectors."""
    rows = target.vectors(list(theirs)) if vectors else {}
    changed = []
    for record in records:
        id, ours = record.memory.id, record.memory
        if id in theirs and not (
            canonical_memory(ours) == canonical_memory(theirs[id])
            and canonical_use(ours) == canonical_use(theirs[id])
            and (not vectors or _same_vector(record.vectors, rows.get(id)))
        ):
            changed.append(id)
    return changed


def _same_vector(ours: Vector | None, theirs: Vector | None) -> bool:
    if ours is None or theirs is None:
        return ours is None and theirs is None
    return canonical_vector(ours[0]) == canonical_vector(theirs)


def _forget_missing(source: Store, target: Store, copied_ids: CopiedIds) -> int:
    """Delete the memories of the target that the source no longer has, and return how many.

    `Conflict`, and none is deleted, if one of them was not copied: then the target is used on its own.
    """
    missing: list[str] = []
    present: list[IdHashes] = []
    for page in scan_pages(target, limit=PAGE):
        ids = [record.memory.id for record in page.records]
        existing = {memory.id for memory in source.get(ids)}
        if len(existing) < len(ids):  # a memory that is damaged in the source is not missing there
            existing |= {damage.id for damage in source.damaged(ids)}
        missing += [id for id in ids if id not in existing]
        present.append(hash_ids([*existing, *(damage.id for damage in page.damaged)]))
    own = copied_ids.others(missing)
    if own:
        raise Conflict(
            f"the copy has {counted(len(own), 'memory')} of its own, which --again would delete: the source does not "
            f"have them, and there is no record that they were copied (the first is {own[0]}); "
            "delete them there first, or do not use --again"
        )
    count = sum(len(target.remove(missing[at : at + PAGE])) for at in range(0, len(missing), PAGE))
    copied_ids.keep(np.concatenate(present) if present else np.empty(0, np.uint64))
    return count


def _copy_judgements(source: Store, target: Store, result: CopyResult, options: CopyOptions) -> CopyResult:
    skipped = set(result.conflicts)
    for profile in source.profiles():
        existing = {judgement_key(one): one for one in target.judgements(profile.name)} if options.into else {}
        ours = source.judgements(profile.name)
        if options.again and target.judgements(profile.name) != ours:
            target.unjudge(target.judgements(profile.name))
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
    theirs = copied_entries(target, tokens=False) if options.into or options.again else {}
    different = 0
    if options.into:
        groups = {_entry_group(name) for name in theirs}
        different = sum(_entry_group(name) in groups and theirs.get(name) != value for name, value in settings.items())
        settings = {name: value for name, value in settings.items() if _entry_group(name) not in groups}
    copied = tokens if options.tokens else {}
    deleted = dict.fromkeys(theirs.keys() - settings.keys()) if options.again else {}
    if settings or copied or deleted:
        target.compare_and_set({**settings, **copied, **deleted})
    return replace(
        result,
        settings=len(settings),
        tokens=len(copied),
        tokens_skipped=len(tokens) - len(copied),
        target_kept=result.target_kept + different,
    )


def _entry_group(name: str) -> str:
    """Return which entries are copied together or not at all: the saved tuning and its history are one group."""
    return PARAMETERS if name in (PARAMETERS, HISTORY) else name


def copied_entries(store: Store, *, tokens: bool) -> dict[str, str]:
    """Return the key-value entries that a copy includes. What was given is not: it is logged while a copy runs."""
    entries = {name: value for name, value in store.list_values("").items() if not is_own_entry(name)}
    entries = {name: value for name, value in entries.items() if not name.startswith((GRANTS, GIVEN))}
    return {name: value for name, value in entries.items() if tokens or not name.startswith(TOKENS)}
