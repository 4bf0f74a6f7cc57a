"""Changes of the same memories at the same time, by threads of one engine and by other processes on the file.

Each field of a memory is changed by one worker only, so its last acknowledged value must be there at the end. Meanwhile
others forget, move sessions, judge, save tuning, repeat idempotency keys, count under `if_version`, and change the
model of the vectors. At the end every vector must be of its memory's text.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from retentive.engine import Engine
from retentive.errors import Conflict, NotFound, VersionConflict
from retentive.stores import open_store
from tests.attack.harness import Child, Run, TextVectors, all_records, children, is_vector_of, main, words
from tests.stores.build import NOW, id_of

COUNTED = ("acknowledged changes", "conflicts", "recalls")
WRONG = ("lost", "wrong vectors", "problems")

SHARED = 12
"""Memories that every worker changes: few, so that changes meet."""

FORGOTTEN = 30
COUNTER = id_of(999)


class Outcome(NamedTuple):
    """What a worker knows to be acknowledged: fields by memory and name, ids it forgot, keys, increments, reads."""

    fields: dict[tuple[str, str], Any]
    forgotten: list[str]
    keys: dict[str, str]
    added: int = 0
    conflicts: int = 0
    recalls: int = 0
    changes: int = 0


Worker = Callable[[Engine, random.Random, int], Outcome]


def _outcome(**known: Any) -> Outcome:
    return Outcome(**{"fields": {}, "forgotten": [], "keys": {}, **known})


def change_field(name: str, make: Callable[[random.Random, int], Any]) -> Worker:
    """A worker that changes one field of the shared memories."""

    def work(engine: Engine, dice: random.Random, operations: int) -> Outcome:
        fields: dict[tuple[str, str], Any] = {}
        for number in range(operations):
            id, value = id_of(dice.randrange(SHARED)), make(dice, number)
            changed = engine.update(id, **{name: value})
            assert getattr(changed, name) == value, f"{name} was acknowledged as {getattr(changed, name)!r}"
            fields[id, name] = value
        return _outcome(fields=fields, changes=operations)

    return work


def forget(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Forget memories that another worker forgets at the same time: each must be forgotten by one of them."""
    ids = [id_of(100 + number) for number in range(FORGOTTEN)]
    dice.shuffle(ids)
    forgotten = [one for id in ids for one in engine.forget(id)]
    return _outcome(forgotten=forgotten, changes=len(forgotten))


def count_up(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Add 1 to a number in the metadata of one memory under `if_version`."""
    added = conflicts = 0
    for _ in range(operations):
        memory = engine.get(COUNTER)
        try:
            engine.update(COUNTER, metadata={"n": memory.metadata["n"] + 1}, if_version=memory.version)
            added += 1
        except VersionConflict:
            conflicts += 1
    return _outcome(added=added, conflicts=conflicts, changes=added)


def repeat_keys(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Store memories under keys that another worker uses too: both must get the same memory."""
    numbers = list(range(max(operations // 2, 1)))
    dice.shuffle(numbers)
    keys = {}
    for number in numbers:
        stored = engine.remember_many([{"text": f"kept under key {number}"}], idempotency_key=f"key {number}")
        keys[f"key {number}"] = stored[0].id
    return _outcome(keys=keys, changes=len(keys))


def move(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Move the session of the shared memories."""
    project = None
    for _ in range(operations):
        project = dice.choice((None, "red", "blue"))
        engine.move_session("shared", project=project)
    fields = {(id_of(number), "project"): project for number in range(SHARED)}
    return _outcome(fields=fields, changes=operations)


def change_model(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Embed everything by another model and back again."""
    for number in range(max(operations // 5, 2)):
        other = Engine(engine.store, TextVectors("other" if number % 2 == 0 else "hashed"))
        other.embeddings.reembed()
    return _outcome()


def judge(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Judge the shared memories for one query, each worker with its own query."""
    query = f"query {dice.random()}"
    fields: dict[tuple[str, str], Any] = {}
    for _ in range(operations):
        id, relevance = id_of(dice.randrange(SHARED)), dice.randrange(1, 4)
        engine.judge(query, good={id: relevance})
        fields[id, f"judgement {query}"] = relevance
    return _outcome(fields=fields, changes=operations)


def save_tuning(name: str) -> Worker:
    """A worker that saves one parameter of the tuning."""

    def work(engine: Engine, dice: random.Random, operations: int) -> Outcome:
        fields: dict[tuple[str, str], Any] = {}
        conflicts = 0
        for _ in range(operations):
            value = round(dice.random(), 3)
            try:
                engine.tuning.save({name: value})
                fields["", f"tuning {name}"] = value
            except Conflict:  # the other worker was faster each time that it was tried
                conflicts += 1
        return _outcome(fields=fields, conflicts=conflicts, changes=operations - conflicts)

    return work


def recall(engine: Engine, dice: random.Random, operations: int) -> Outcome:
    """Recall while everything changes."""
    for _ in range(operations):
        with suppress(NotFound):
            engine.recall(words(dice, 3), session="shared")
    return _outcome(recalls=operations)


def _text(dice: random.Random, number: int) -> str:
    return f"text {number} {words(dice, dice.choice((3, 30)))}"


WORKERS: Mapping[str, Worker] = {
    "text": change_field("text", _text),
    "importance": change_field("importance", lambda dice, number: round(dice.random(), 6)),
    "speaker": change_field("speaker", lambda dice, number: f"speaker {number}"),
    "metadata": change_field("metadata", lambda dice, number: {"n": number, "x": dice.random()}),
    "source": change_field("source", lambda dice, number: f"source {number}"),
    "occurred": change_field("occurred", lambda dice, number: NOW - timedelta(days=number)),
    "evergreen": change_field("evergreen", lambda dice, number: dice.random() < 0.5),
    "forget": forget,
    "count_up": count_up,
    "repeat_keys": repeat_keys,
    "move": move,
    "change_model": change_model,
    "judge": judge,
    "tune neighbours": save_tuning("neighbour_weight"),
    "tune sessions": save_tuning("session_weight"),
    "recall": recall,
}
THREADS = ("text", "importance", "forget", "count_up", "repeat_keys", "judge", "recall", "evergreen", "tune sessions")
OTHERS = (
    ("speaker", "metadata", "forget", "move", "tune neighbours"),
    ("source", "occurred", "count_up", "repeat_keys", "judge"),
)
OTHERS_WITH_MODEL = (*OTHERS, ("change_model", "recall"))


def work_on_threads(engine: Engine, names: Sequence[str], seed: float, operations: int) -> list[Outcome]:
    """Run workers on threads of one engine."""
    with ThreadPoolExecutor(len(names)) as threads:
        seeds = [random.Random(f"{seed} {name}") for name in names]
        started = [
            threads.submit(WORKERS[name], engine, own, operations) for name, own in zip(names, seeds, strict=True)
        ]
        return [future.result() for future in started]


def work_in_process(path: str, names: Sequence[str], seed: float, operations: int, line: Connection) -> None:
    """Run workers on threads of another process, and send their outcomes."""
    with Engine(open_store(path), TextVectors()) as engine:
        line.send("ready")
        line.recv()
        try:
            line.send(work_on_threads(engine, names, seed, operations))
        except Exception as error:
            line.send(f"{type(error).__name__}: {error}")


def fill(engine: Engine) -> None:
    """Store the memories that the workers change."""
    dice = random.Random(0)
    drafts = [{"id": id_of(number), "text": _text(dice, number), "session": "shared"} for number in range(SHARED)]
    drafts += [{"id": id_of(100 + number), "text": _text(dice, number)} for number in range(FORGOTTEN)]
    drafts += [{"id": COUNTER, "text": "a counter", "metadata": {"n": 0}}]
    drafts += [{"id": id_of(2000 + number), "text": _text(dice, number)} for number in range(60)]
    engine.remember_many(drafts)


def attack(run: Run) -> None:
    """Run rounds, each on a new store."""
    for number in run.rounds():
        path = run.folder / f"{number}.db"
        with_model = number % 2 == 1
        with Engine(open_store(str(path)), TextVectors()) as engine:
            fill(engine)
            outcomes = run_round(engine, path, run, OTHERS_WITH_MODEL if with_model else OTHERS)
            if outcomes is not None:
                check(engine, outcomes, run)
        path.unlink()


def run_round(engine: Engine, path: Path, run: Run, others: Sequence[Sequence[str]]) -> list[Outcome] | None:
    """Run all workers at the same time; return what they know, or None if one has failed."""
    operations = run.dice.randrange(20, 40)
    started = [Child(work_in_process, str(path), names, run.dice.random(), operations) for names in others]
    received: list[list[Outcome] | str] = []
    with children(*started):
        for child in started:
            child.receive(120)
        for child in started:
            child.line.send("go")
        try:
            received.append(work_on_threads(engine, THREADS, run.dice.random(), operations))
        except Exception as error:
            received.append(f"{type(error).__name__}: {error}")
        received += [child.receive(300) for child in started]
    failures = [one for one in received if isinstance(one, str)]
    for failure in failures:
        run.fail("problems", f"a worker failed with {failure}")
    return None if failures else [outcome for one in received if not isinstance(one, str) for outcome in one]


def check(engine: Engine, outcomes: Sequence[Outcome], run: Run) -> None:
    """Compare the store with what was acknowledged."""
    for outcome in outcomes:
        run.count("acknowledged changes", outcome.changes)
        run.count("conflicts", outcome.conflicts)
        run.count("recalls", outcome.recalls)
        check_fields(engine, outcome, run)
    check_once(engine, outcomes, run)
    for problem in engine.check():
        run.fail("problems", problem)
    engine.embeddings.reembed()
    model = TextVectors().model
    for record in all_records(engine.store):
        if record.vectors is None or not is_vector_of(record, model):
            has = "no vector" if record.vectors is None else "a vector of another text"
            run.fail("wrong vectors", f"{record.memory.id} has {has}")


def check_fields(engine: Engine, outcome: Outcome, run: Run) -> None:
    """The last acknowledged value of each field is there."""
    others = {(one.memory, f"judgement {one.query}"): one.relevance for one in engine.judgements.list()}
    others |= {("", f"tuning {name}"): value for name, value in engine.tuning.saved().items()}
    for (id, name), value in outcome.fields.items():
        found = others.get((id, name)) if " " in name else getattr(engine.get(id), name)
        if found != value:
            run.fail("lost", f"{name} of {id} was acknowledged as {value!r} and is {found!r}")


def check_once(engine: Engine, outcomes: Sequence[Outcome], run: Run) -> None:
    """Each memory was forgotten once, each key stored one memory, each increment was counted."""
    forgotten = sorted(id for outcome in outcomes for id in outcome.forgotten)
    if forgotten != [id_of(100 + number) for number in range(FORGOTTEN)]:
        run.fail("problems", f"{len(forgotten)} times a memory was reported as forgotten, of {FORGOTTEN} memories")
    for id in forgotten:
        if engine.get_many([id]):
            run.fail("lost", f"{id} was forgotten and is there")
    keys: dict[str, str] = {}
    for outcome in outcomes:
        for key, id in outcome.keys.items():
            if keys.setdefault(key, id) != id:
                run.fail("problems", f"{key} stored two memories, {id} and {keys[key]}")
    texts = [record.memory.text for record in all_records(engine.store)]
    repeated = [text for text in texts if text.startswith("kept under") and texts.count(text) > 1]
    if repeated:
        run.fail("problems", f"{len(repeated)} memories were stored twice under one key")
    added = sum(outcome.added for outcome in outcomes)
    if engine.get(COUNTER).metadata["n"] != added:
        run.fail("lost", f"{added} increments were acknowledged, the number is {engine.get(COUNTER).metadata['n']}")


if __name__ == "__main__":
    main("concurrency")
