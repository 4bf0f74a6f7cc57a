"""Laws of validity on every store: what was current at a time, and one open memory for each key."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retentive.engine import Engine
from retentive.errors import Conflict
from retentive.stores import open_store
from tests.stores.build import NOW, id_of
from tests.stores.openers import OPENERS

HOURS = range(10)
PROCESSES = get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.stores.test_validity_laws"])


def hour(number: int) -> datetime:
    return NOW + timedelta(hours=number)


class Remember(NamedTuple):
    """Remember a fact that is valid from an hour on, perhaps under a key, perhaps until it expires."""

    start: int
    key: str | None
    expires: int | None


class Supersede(NamedTuple):
    old: int
    new: int


class Retract(NamedTuple):
    memory: int
    at: int


class Restore(NamedTuple):
    memory: int


numbers = st.integers(0, 5)
writes = st.lists(
    st.one_of(
        st.builds(
            Remember, st.sampled_from(HOURS), st.sampled_from([None, "home", "job"]), st.sampled_from([None, None, 7])
        ),
        st.builds(Supersede, numbers, numbers),
        st.builds(Retract, numbers, st.sampled_from(HOURS)),
        st.builds(Restore, numbers),
    ),
    min_size=1,
    max_size=10,
)


class Replay:
    """What is current after each write, kept as plain sets of events: the meaning of validity, not how it is stored."""

    def __init__(self) -> None:
        self.facts: list[Remember] = []
        self.ends: dict[int, tuple[str, int]] = {}  # an end that was given: by a verb, or never by a key

    def current(self, at: int) -> set[int]:
        return {number for number in range(len(self.facts)) if self.is_current(number, at)}

    def is_current(self, number: int, at: int) -> bool:
        fact = self.facts[number]
        ended = number in self.ends and max(self.ends[number][1], fact.start) <= at
        expired = fact.expires is not None and fact.expires <= at
        return fact.start <= at and not ended and not expired and not self.followed(number, at)

    def followed(self, number: int, at: int) -> bool:
        """Whether a later fact of the key had started; those that a verb has ended follow nothing that came after."""
        return number not in self.ends and any(start <= at for start in self.followers(number))

    def followers(self, number: int) -> list[int]:
        fact = self.facts[number]
        return [
            other.start
            for at, other in enumerate(self.facts)
            if fact.key is not None and other.key == fact.key and (other.start, at) > (fact.start, number)
        ]


@pytest.mark.parametrize("name", OPENERS)
def test_what_was_current_at_a_time_equals_a_replay_of_the_writes_up_to_it(name: str, tmp_path: Path) -> None:
    folders = iter(range(10_000))

    # Writes without keys: any of them in any order. With keys, the order of arrival is what the test is about.
    @settings(max_examples=12 if name in ("sqlite", "memory") else 5, deadline=None, database=None,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(writes)
    def law(sequence: list[object]) -> None:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        with Engine(OPENERS[name](folder), clock=lambda: NOW) as engine:
            replay, verbs = Replay(), 0
            for write in sequence:
                verbs += not isinstance(write, Remember)
                if isinstance(write, Remember):
                    keyed = None if verbs else write.key  # a verb ends a fact; keys follow one another before
                    replay.facts.append(write._replace(key=keyed))
                    engine.remember(
                        f"fact {len(replay.facts)}",
                        id=id_of(len(replay.facts) - 1),
                        valid_from=hour(write.start),
                        key=keyed,
                        expires=None if write.expires is None else hour(write.expires),
                    )
                else:
                    apply(engine, replay, write)
            for at in HOURS:
                found = engine.list(as_of=hour(at)).memories
                assert {int(one.id[-4:]) for one in found} == replay.current(at), (at, sequence)
                recalled = engine.recall("fact", limit=0, as_of=hour(at))
                assert {hit.id for hit in recalled} == {one.id for one in found}

    law()


def apply(engine: Engine, replay: Replay, write: object) -> None:
    """Apply a verb to both, if the engine accepts it."""
    count = len(replay.facts)
    if any(number >= count for number in write if not isinstance(write, Retract)):  # type: ignore[attr-defined]
        return
    if isinstance(write, Retract) and write.memory >= count:
        return
    try:
        if isinstance(write, Supersede) and write.old != write.new:
            engine.supersede(id_of(write.old), id_of(write.new))
            replay.ends[write.old] = ("supersede", replay.facts[write.new].start)
        elif isinstance(write, Retract):
            engine.retract(id_of(write.memory), at=hour(write.at))
            replay.ends[write.memory] = ("retract", write.at)
        elif isinstance(write, Restore) and not replay.followers(write.memory):
            engine.restore(id_of(write.memory))
            replay.ends.pop(write.memory, None)
    except Conflict:
        pass


# A key under eight writers


def write_key(address: str, writer: int) -> None:
    with Engine(open_store(address)) as engine:
        for number in range(6):
            engine.remember(
                f"writer {writer} number {number}", key="home", occurred=hour((number * 7 + writer * 3) % 50)
            )


def one_open_and_a_whole_line(engine: Engine) -> None:
    memories = sorted(engine.list(include_retired=True, limit=1000).memories, key=lambda one: one.start)
    assert len(memories) == 48
    assert [one for one in memories if one.valid_to is None] == [engine.list().memories[0]]
    newest = max(one.start for one in memories)
    assert engine.list().memories[0].start == newest
    for at in HOURS:
        assert len(engine.list(as_of=hour(at)).memories) == (1 if memories[0].start <= hour(at) else 0)


def in_processes(address: str) -> None:
    running = [PROCESSES.Process(target=write_key, args=(address, writer)) for writer in range(8)]
    for process in running:
        process.start()
    for process in running:
        process.join(120)
        assert process.exitcode == 0


def test_eight_processes_leave_one_open_memory_of_a_key_in_a_sqlite_file(tmp_path: Path) -> None:
    address = str(tmp_path / "memories.db")
    open_store(address).close()
    in_processes(address)
    with Engine(open_store(address)) as engine:
        one_open_and_a_whole_line(engine)


def test_eight_processes_leave_one_open_memory_of_a_key_on_postgres() -> None:
    from tests.stores import postgres_server

    address = postgres_server.address()
    open_store(address).close()
    in_processes(address)
    with Engine(open_store(address)) as engine:
        one_open_and_a_whole_line(engine)


def test_eight_threads_leave_one_open_memory_of_a_key() -> None:
    def write(writer: int) -> None:
        for number in range(6):
            engine.remember(
                f"writer {writer} number {number}", key="home", occurred=hour((number * 7 + writer * 3) % 50)
            )

    with Engine(open_store("memory://")) as engine, ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
        one_open_and_a_whole_line(engine)
