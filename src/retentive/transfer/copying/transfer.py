"""Memories, judgements and settings from one store to another, in stretches that are durable each on its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from retentive.errors import Conflict, Invalid
from retentive.models import Judgement, Model, Serializable
from retentive.pipeline.access_tokens import PREFIX as TOKENS
from retentive.pipeline.tuning_history import HISTORY, PARAMETERS
from retentive.stores import Record, Store
from retentive.transfer.copying.canonical import written
from retentive.transfer.copying.checkpoint import NOTE, SOURCE, HalfDone, Noted, begin
from retentive.transfer.copying.incremental import changed_records, forget_gone, move_sessions

STRETCH = 500
"""How many memories, or judgements, one write takes."""

Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What goes along, and whether the target may hold something already: others' memories, or an earlier copy."""

    into: bool = False
    again: bool = False
    vectors: bool = True
    tokens: bool = False
    sample: int = 20


@dataclass(frozen=True, slots=True)
class Copied(Serializable):
    """What a copy did. `there` were there before, alike; `conflicts` are ids that the target has with other contents.

    `changed` and `forgotten` are memories of an earlier copy that were brought up to date. `kept` are settings and
    judgements of the target that stayed though the source has others. `resumed` is how many memories an earlier run
    had looked at.
    """

    memories: int = 0
    changed: int = 0
    forgotten: int = 0
    there: int = 0
    conflicts: tuple[str, ...] = ()
    judgements: int = 0
    settings: int = 0
    tokens: int = 0
    tokens_left: int = 0
    kept: int = 0
    resumed: int = 0


def copy_store(
    source: Store, target: Store, *, named: str, options: Options, progress: Progress = lambda done: None
) -> Copied:
    """What was brought from the source, of this name, into the target.

    The source is only read. Broken off at any point, it goes on from there when it is called again. The target knows
    that it is a copy in the making until `finish` is called.
    """
    model = _model(source, target, options)
    if options.into and options.again:
        raise Invalid("--into keeps what is there, --again does not; say one of them")
    if options.into:
        _check_sessions(source, target)
    noted = begin(source, target, HalfDone(named, options.vectors, options.again), into=options.into)
    done = Copied(resumed=noted.at.done)
    progress(noted.at.done)
    if options.again:
        move_sessions(source, target)
    done = _copy_memories(source, target, done, noted, model, options, progress)
    if options.again:
        done = replace(done, forgotten=forget_gone(source, target, limit=STRETCH))
    done = _copy_judgements(source, target, done, options)
    return _copy_notes(source, target, done, options)


def _model(source: Store, target: Store, options: Options) -> Model | None:
    """The model whose vectors go along."""
    ours, theirs = source.model(), target.model()
    if not options.vectors or ours is None:
        return None
    if theirs is not None and theirs.fingerprint != ours.fingerprint:
        raise Conflict(
            f"the vectors to copy come from {ours}, those in the store to copy into from {theirs}, and they cannot be "
            "mixed; copy with --without-vectors, then run retentive reembed on it"
        )
    return ours


def _check_sessions(source: Store, target: Store) -> None:
    """A session is in one project: where the two stores do not agree which, nothing can be added to it."""
    for profile in source.profiles():
        there = {session.name: session.project for session in target.sessions(profile.name)}
        apart = [one for one in source.sessions(profile.name) if there.get(one.name, one.project) != one.project]
        if apart:
            names = ", ".join(f"'{one.name}'" for one in apart[:5])
            raise Conflict(
                f"{len(apart)} sessions of profile '{profile.name}' are in another project in the store to copy into "
                f"({names}); nothing was copied. Move them there first: retentive sessions move"
            )


def _copy_memories(
    source: Store,
    target: Store,
    done: Copied,
    noted: Noted,
    model: Model | None,
    options: Options,
    progress: Progress,
) -> Copied:
    cursor, at_end = noted.at.cursor, noted.at.walked
    while not at_end:
        stretch = source.walk(cursor=cursor, limit=STRETCH)
        records = stretch.records if options.vectors else [Record(record.memory) for record in stretch.records]
        changed = changed_records(target, records, vectors=options.vectors) if options.again else []
        if changed:
            # Broken off behind this, they are new to the next run.
            target.remove([record.memory.id for record in changed])
        new, there, conflicts = _divided(target, records)
        if new:
            target.add(new, model=model)
        done = replace(
            done,
            memories=done.memories + len(new) - len(changed),
            changed=done.changed + len(changed),
            there=done.there + there,
            conflicts=(*done.conflicts, *conflicts),
        )
        cursor = stretch.next_cursor
        noted.move_on(cursor=cursor, by=len(stretch.records))
        progress(len(stretch.records))
        at_end = cursor is None
    return done


def _divided(target: Store, records: Sequence[Record]) -> tuple[list[Record], int, list[str]]:
    """Those that are new to the target, how many it has alike, and the ids that it has with other contents."""
    known = target.keys([record.memory.id for record in records])
    if not known:
        return list(records), 0, []
    theirs = {memory.id: memory for memory in target.get(list(known))}
    old = [record.memory for record in records if record.memory.id in theirs]
    conflicts = [memory.id for memory in old if written(memory) != written(theirs[memory.id])]
    return [one for one in records if one.memory.id not in theirs], len(old) - len(conflicts), conflicts


def _copy_judgements(source: Store, target: Store, done: Copied, options: Options) -> Copied:
    skipped = set(done.conflicts)
    for profile in source.profiles():
        known = {judged(one): one for one in target.judgements(profile.name)} if options.into else {}
        ours = source.judgements(profile.name)
        if options.again and target.judgements(profile.name) != ours:
            target.unjudge(target.judgements(profile.name))
        new = [one for one in ours if judged(one) not in known and one.memory not in skipped]
        kept = sum(judged(one) in known and known[judged(one)].relevance != one.relevance for one in ours)
        for at in range(0, len(new), STRETCH):
            some = new[at : at + STRETCH]
            # What was remembered and judged during the walk may not have come along.
            there = target.keys([one.memory for one in some])
            said = [one for one in some if one.memory in there]
            target.judge(said)
            done = replace(done, judgements=done.judgements + len(said))
        done = replace(done, kept=done.kept + kept)
    return done


def judged(one: Judgement) -> tuple[str, str | None, str, str]:
    """What there is one judgement for."""
    return one.profile, one.project, one.query, one.memory


def _copy_notes(source: Store, target: Store, done: Copied, options: Options) -> Copied:
    ours = notes_of(source, tokens=True)
    tokens = {name: text for name, text in ours.items() if name.startswith(TOKENS)}
    settings = {name: text for name, text in ours.items() if name not in tokens}
    kept = 0
    if options.into:
        theirs = notes_of(target, tokens=False)
        rooms = {_room(name) for name in theirs}
        kept = sum(_room(name) in rooms and theirs.get(name) != text for name, text in settings.items())
        settings = {name: text for name, text in settings.items() if _room(name) not in rooms}
    going = tokens if options.tokens else {}
    gone = dict.fromkeys(notes_of(target, tokens=False).keys() - settings.keys()) if options.again else {}
    if settings or going or gone:
        target.keep({**settings, **going, **gone})
    return replace(
        done,
        settings=len(settings),
        tokens=len(going),
        tokens_left=len(tokens) - len(going),
        kept=done.kept + kept,
    )


def _room(name: str) -> str:
    """What a note belongs to: the parameters and their history come from one store."""
    return PARAMETERS if name in (PARAMETERS, HISTORY) else name


def notes_of(store: Store, *, tokens: bool) -> dict[str, str]:
    """The notes that a copy takes along."""
    found = store.list_values("")
    ours = {name: text for name, text in found.items() if name not in (NOTE, SOURCE)}
    return {name: text for name, text in ours.items() if tokens or not name.startswith(TOKENS)}
