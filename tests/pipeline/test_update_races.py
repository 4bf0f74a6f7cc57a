"""Changes of one memory at the same time, by threads and processes: none is lost, and its vector is of its text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from retentive.engine import Engine
from retentive.errors import VersionConflict
from retentive.inference.embedders import Matrix
from retentive.models import Memory
from retentive.stores import open_store
from tests.compass import Compass
from tests.stores.build import first_vectors
from tests.stores.openers import OPENERS

PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.pipeline.test_update_races"])


class GatedCompass(Compass):
    """A compass that can be held while it embeds: `entered` tells that a call has come, `gate` lets it go on."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def embed(self, texts: Sequence[str]) -> Matrix:
        self.entered.set()
        assert self.gate.wait(60)
        return super().embed(texts)

    @contextmanager
    def held(self, work: Callable[[], Any]) -> Iterator[Future[Any]]:
        """Start `work` on a thread and hold it in its next call of the embedder until the block ends."""
        self.entered.clear()
        self.gate.clear()
        with ThreadPoolExecutor(1) as threads:
            try:
                future = threads.submit(work)
                assert self.entered.wait(60)
                yield future
            finally:
                self.gate.set()


@pytest.fixture(params=OPENERS)
def engines(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Engine, Engine, GatedCompass]]:
    """Two engines on each store; the embedder of the first can be held."""
    compass = GatedCompass()
    store = OPENERS[request.param](tmp_path)
    first, second = Engine(store, compass), Engine(store, Compass())
    yield first, second, compass
    assert store.check() == []
    first.close()


def assert_vector_is_of_the_text(engine: Engine, id: str) -> None:
    memory = engine.get(id)
    [expected] = Compass().embed([memory.indexed_text])
    assert first_vectors(engine.store, [id])[id] == pytest.approx(expected, abs=1e-3)


def test_a_change_made_while_a_new_text_is_embedded_is_kept(engines: tuple[Engine, Engine, GatedCompass]):
    first, second, compass = engines
    memory = first.remember("start at10", session="s", importance=0.1)

    with compass.held(lambda: first.update(memory.id, text="new at40")) as change:
        second.update(memory.id, importance=0.9, metadata={"by": "second"})
        second.move_session("s", project="p")

    assert change.result().text == "new at40"
    found = first.get(memory.id)
    assert (found.text, found.importance, found.metadata, found.project) == ("new at40", 0.9, {"by": "second"}, "p")
    assert_vector_is_of_the_text(first, memory.id)


def test_a_text_replaced_while_a_speaker_is_embedded_does_not_come_back(engines: tuple[Engine, Engine, GatedCompass]):
    first, second, compass = engines
    memory = first.remember("start at10")

    with compass.held(lambda: first.update(memory.id, speaker="Ana")) as change:
        second.update(memory.id, text="new at40")

    assert change.result().indexed_text == "Ana: new at40"
    assert_vector_is_of_the_text(first, memory.id)


def test_the_later_of_two_texts_has_its_own_vector(engines: tuple[Engine, Engine, GatedCompass]):
    first, second, compass = engines
    memory = first.remember("start at10")

    with compass.held(lambda: first.update(memory.id, text="slow at40")) as change:
        second.update(memory.id, text="quick at70")

    assert change.result().text == first.get(memory.id).text == "slow at40"
    assert_vector_is_of_the_text(first, memory.id)


def test_a_text_set_to_what_it_was_while_another_replaced_it_has_its_vector(
    engines: tuple[Engine, Engine, GatedCompass],
):
    first, second, compass = engines
    memory = first.remember("start at10")

    with compass.held(lambda: first.update(memory.id, text="start at10", importance=1)):
        second.update(memory.id, text="quick at70")

    assert first.get(memory.id).text == "start at10"
    assert_vector_is_of_the_text(first, memory.id)


def test_a_version_read_before_a_change_is_a_conflict_although_the_text_was_embedded(
    engines: tuple[Engine, Engine, GatedCompass],
):
    first, second, compass = engines
    memory = first.remember("start at10")

    with compass.held(lambda: first.update(memory.id, text="slow at40", if_version=memory.version)) as change:
        changed = second.update(memory.id, importance=1)

    with pytest.raises(VersionConflict):
        change.result()
    assert first.get(memory.id) == changed
    assert first.update(memory.id, text="slow at40", if_version=changed.version).importance == 1


def test_reembedding_does_not_attach_the_vector_of_a_text_that_changes_meanwhile(
    engines: tuple[Engine, Engine, GatedCompass],
):
    first, second, compass = engines
    compass.down = True
    memories = first.remember_many([{"text": f"number {n} at{10 * n}"} for n in range(3)])
    compass.down = False

    with compass.held(first.embeddings.reembed) as reembedding:
        Engine(second.store, None).update(memories[1].id, text="changed at80")

    assert reembedding.result() == 3
    for memory in memories:
        assert_vector_is_of_the_text(first, memory.id)


def test_repair_embeds_what_has_a_vector_of_another_text(engines: tuple[Engine, Engine, GatedCompass]):
    from tests.stores.test_contract_updates import set_text_hash

    first, _, _ = engines
    memories = first.remember_many([{"text": "right at10"}, {"text": "wrong at50"}])
    set_text_hash(first.store, memories[1].id, "11" * 16)
    assert len(first.check()) == 1

    assert first.embeddings.repair() == 1

    assert (first.check(), first.stats().unembedded, first.embeddings.repair()) == ([], 0, 0)
    assert_vector_is_of_the_text(first, memories[1].id)


# Processes

ROUNDS = 25


def change_field(address: str, id: str, field: str, start: Any, done: Any) -> None:
    """Change one field of a memory again and again, in a process of its own."""
    values: dict[str, Callable[[int], Any]] = {
        "text": lambda n: f"number {n} at{n}",
        "importance": lambda n: n / 100,
        "speaker": lambda n: f"speaker {n}",
    }
    with Engine(open_store(address), Compass()) as engine:
        start.wait(60)
        for n in range(1, ROUNDS + 1):
            engine.update(id, **{field: values[field](n)})  # type: ignore[misc]
    done.put(field)


def final_memory(address: str) -> tuple[Memory, Engine]:
    """Let three processes change one memory at the same time, and return it with an engine."""
    engine = Engine(open_store(address), Compass())
    memory = engine.remember("start at90", session="s")
    start, done = PROCESSES.Barrier(3), PROCESSES.Queue()
    fields = ("text", "importance", "speaker")
    children = [
        PROCESSES.Process(target=change_field, args=(address, memory.id, field, start, done)) for field in fields
    ]
    for child in children:
        child.start()
    finished = {done.get(timeout=90) for _ in children}
    for child in children:
        child.join()
    assert finished == set(fields)
    return engine.get(memory.id), engine


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_of_changes_by_processes_none_is_lost(kind: str, tmp_path: Path):
    from tests.stores import postgres_server

    address = str(tmp_path / "store.db") if kind == "sqlite" else postgres_server.address()

    memory, engine = final_memory(address)

    with engine:
        assert (memory.text, memory.importance, memory.speaker) == (
            f"number {ROUNDS} at{ROUNDS}",
            ROUNDS / 100,
            f"speaker {ROUNDS}",
        )
        assert_vector_is_of_the_text(engine, memory.id)
        assert engine.check() == []
