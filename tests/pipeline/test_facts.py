"""Facts that change, through the engine: verbs, and every way to read memories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import Memory, Scope
from retentive.stores import open_store
from retentive.stores.values import Record
from retentive.tenancy import ProfileView
from tests.compass import Compass
from tests.stores.openers import OPENERS

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)


@pytest.fixture(params=OPENERS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with Engine(OPENERS[request.param](tmp_path), Compass(), clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Engine]:
    with Engine(OPENERS["sqlite"](tmp_path), Compass(), clock=lambda: NOW) as opened:
        yield opened


def texts(engine: Engine, query: str = "lives at10", **options: object) -> list[str]:
    return [hit.memory.text for hit in engine.recall(query, **options)]  # type: ignore[arg-type]


def paris_and_berlin(engine: Engine) -> tuple[Memory, Memory]:
    paris = engine.remember("Ana lives in Paris at10", occurred="2024-01-01", session="s")
    berlin = engine.remember("Ana lives in Berlin at12", occurred="2025-01-01", session="s")
    return paris, berlin


# What each function returns must not contain a memory that is not current. They are the ways to read memories by which
# `tests/attack/isolation.py` attempts to read another profile's.
READS: dict[str, Callable[[Engine], object]] = {
    "recall": lambda engine: engine.recall("lives at10").hits,
    "keyword": lambda engine: engine.recall("lives", tuning="keyword-only").hits,
    "semantic": lambda engine: engine.recall("at10", tuning="semantic-only").hits,
    "neighbours": lambda engine: engine.recall("Berlin", session="s", tuning={"neighbour_weight": 1.0}).hits,
    "all": lambda engine: engine.recall("lives at10", limit=0).hits,
    "list": lambda engine: engine.list().memories,
    "list of a session": lambda engine: engine.list(Scope(sessions=("s",))).memories,
    "view": lambda engine: ProfileView(engine, "default").list().memories,
    "view recall": lambda engine: ProfileView(engine, "default").recall("lives at10").hits,
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("retire", ["supersede", "retract", "expire", "not yet"])
def test_no_way_to_read_returns_what_is_not_current(local: Engine, read: str, retire: str) -> None:
    paris, berlin = paris_and_berlin(local)
    if retire == "supersede":
        local.supersede(paris.id, berlin.id)
    elif retire == "retract":
        local.retract(paris.id)
    elif retire == "expire":
        local.update(paris.id, expires=NOW)
    else:
        local.update(paris.id, valid_from=NOW + timedelta(days=1))
    found = str(READS[read](local))
    assert "Berlin" in found
    assert "Paris" not in found


def test_a_superseded_memory_is_dropped_with_what_replaced_it_and_the_past_stays_askable(engine: Engine) -> None:
    paris, berlin = paris_and_berlin(engine)
    old = engine.supersede(paris.id, berlin.id, reason="she moved", actor="ana")
    assert (old.valid_to, old.superseded_by, old.reason, old.actor) == (berlin.start, berlin.id, "she moved", "ana")

    answer = engine.recall("lives at10")
    assert [hit.id for hit in answer] == [berlin.id]
    [left_out] = [hit for hit in answer.dropped if hit.why[-1].step == "retired"]
    assert (left_out.memory, left_out.why[-1].note) == (old, f"it is retired: memory {berlin.id} has replaced it")
    assert texts(engine, as_of="2024-06-01") == ["Ana lives in Paris at10"]
    assert texts(engine, as_of="2023-06-01") == []
    assert sorted(texts(engine, include_retired=True)) == sorted([paris.text, berlin.text])
    assert [one.id for one in engine.history(paris.id)] == [one.id for one in engine.history(berlin.id)] == [
        paris.id, berlin.id,
    ]  # fmt: skip
    assert engine.explain("lives at10", paris.id).outcome == "retired"


@pytest.mark.parametrize("retire", ["supersede", "retract"])
def test_restore_undoes_it_exactly(engine: Engine, retire: str) -> None:
    paris, berlin = paris_and_berlin(engine)
    before = engine.get(paris.id)
    if retire == "supersede":
        engine.supersede(paris.id, berlin.id, reason="moved", actor="ana")
    else:
        engine.retract(paris.id, reason="wrong", actor="ana")
    assert engine.get(paris.id).version != before.version
    assert engine.restore(paris.id) == before
    assert engine.get(paris.id).version == before.version
    assert engine.restore(paris.id) == before
    assert sorted(texts(engine)) == sorted([paris.text, berlin.text])


def test_a_newer_memory_of_a_key_wins_whatever_arrives_first_and_restore_needs_a_free_key(engine: Engine) -> None:
    berlin = engine.remember("lives in Berlin at10", key="ana/home", occurred="2025-01-01")
    paris = engine.remember("lives in Paris at10", key="ana/home", occurred="2024-01-01")
    assert (paris.valid_to, paris.superseded_by) == (berlin.start, berlin.id)
    assert texts(engine) == [berlin.text]
    with pytest.raises(Conflict, match="has the key 'ana/home' now"):
        engine.restore(paris.id)
    engine.retract(berlin.id)
    assert engine.restore(paris.id).valid_to is None
    assert texts(engine) == [paris.text]


def test_of_supersedes_at_once_that_would_close_a_ring_one_is_refused(engine: Engine) -> None:
    for attempt in range(10):
        ids = [engine.remember(f"fact {attempt} {name} at10").id for name in "abc"]
        start = Barrier(3)

        def replace(number: int, ids: list[str] = ids, start: Barrier = start) -> bool:
            start.wait()
            try:
                engine.supersede(ids[number], ids[(number + 1) % 3])
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(3) as threads:
            done = list(threads.map(replace, range(3)))

        assert not all(done)
        assert any(one.valid_to is None for one in engine.get_many(ids))
    assert engine.check() == []


def test_doctor_finds_memories_that_replaced_one_another_and_opens_the_one_that_starts_last(engine: Engine) -> None:
    first, last = paris_and_berlin(engine)
    ring = [one._replace(valid_to=NOW, superseded_by=by.id) for one, by in ((first, last), (last, first))]
    other = Engine(open_store("memory://"))
    other.store.add([Record(one) for one in ring], model=None)
    [problem] = other.check()
    assert problem.startswith("2 memories have replaced one another")

    other.repair()

    assert other.check() == []
    assert [one.superseded_by for one in other.get_many([first.id, last.id])] == [last.id, None]


def test_an_older_fact_of_a_key_that_is_restored_ends_where_the_next_one_starts(engine: Engine) -> None:
    oslo = engine.remember("lives in Oslo at10", key="ana/home", occurred="2022-01-01", valid_to="2022-06-01")
    paris, berlin, rome = (
        engine.remember(f"lives in {city} at10", key="ana/home", occurred=f"{year}-01-01")
        for city, year in (("Paris", 2023), ("Berlin", 2024), ("Rome", 2025))
    )
    restored = engine.restore(oslo.id)
    assert (restored.valid_to, restored.superseded_by) == (paris.start, paris.id)

    engine.retract(rome.id)
    with pytest.raises(Conflict, match=f"memory {berlin.id} has the key 'ana/home'"):
        engine.restore(paris.id)  # it ends there already
    assert texts(engine, as_of="2024-06-01") == [berlin.text]
    assert engine.restore(berlin.id).valid_to is None


def test_verbs_refuse_what_makes_no_sense_and_repeat_without_harm(local: Engine) -> None:
    paris, berlin = paris_and_berlin(local)
    once = local.supersede(paris.id, berlin.id)
    assert local.supersede(paris.id, berlin.id) == once
    with pytest.raises(Conflict, match="retired already"):
        local.retract(paris.id)
    with pytest.raises(Conflict, match="has replaced"):
        local.supersede(berlin.id, paris.id)
    with pytest.raises(Invalid, match="cannot replace itself"):
        local.supersede(berlin.id, berlin.id)
    with pytest.raises(NotFound):
        local.supersede(berlin.id, "01900000-0000-7000-8000-000000000000")
    once = local.retract(berlin.id)
    assert local.retract(berlin.id) == once


def test_what_is_valid_until_later_can_be_retracted_or_replaced_now(local: Engine) -> None:
    lease = local.remember("the lease", valid_to="2099-01-01")
    assert local.retract(lease.id, reason="moved out").reason == "moved out"
    for verb in (local.retract, lambda old: local.supersede(old, local.remember("it is 2222").id)):
        code = local.remember("it is 1111", key="gate", occurred="2024-01-01")
        local.remember("it is 9999", key="gate", valid_from="2098-01-01")
        assert local.get(code.id).valid_to is not None
        ended = verb(code.id).valid_to
        assert ended is not None
        assert ended <= local.now()
        with pytest.raises(Conflict, match="retired already"):
            local.supersede(code.id, local.remember("it is 4444").id)
    with pytest.raises(Conflict, match="has replaced it"):
        local.retract(local.remember("it is 3333", key="gate").id, at="2099-01-01")


def test_retract_with_a_time_replaces_an_end_and_keeps_the_notes_that_are_not_given(local: Engine) -> None:
    memory = local.remember("the gym is open")
    local.retract(memory.id, at="2026-05-08", reason="closed", actor="ana")
    changed = local.retract(memory.id, at="2026-10-01", reason="a typing error in the date")
    assert (changed.valid_to, changed.reason, changed.actor) == (
        datetime(2026, 10, 1, tzinfo=UTC), "a typing error in the date", "ana",
    )  # fmt: skip


def test_a_memory_that_was_over_before_another_one_started_does_not_replace_it(local: Engine) -> None:
    paris = local.remember("lives in Paris", occurred="2024-01-01", valid_to="2024-06-01")
    berlin = local.remember("lives in Berlin", occurred="2025-01-01")
    with pytest.raises(Conflict, match="was over before"):
        local.supersede(berlin.id, paris.id)
    assert local.get(berlin.id).valid_to is None


def test_a_memory_of_another_profile_neither_replaces_nor_is_replaced(local: Engine) -> None:
    mine = local.remember("lives in Paris")
    theirs = local.remember("lives in Rome", profile="bob", key="k")
    view = ProfileView(local, "default")
    for attempt in (
        lambda: view.supersede(mine.id, theirs.id),
        lambda: view.supersede(theirs.id, mine.id),
        lambda: view.retract(theirs.id),
        lambda: view.restore(theirs.id),
        lambda: view.history(theirs.id),
    ):
        with pytest.raises(NotFound):
            attempt()
    with pytest.raises(Invalid, match="same profile"):
        local.supersede(mine.id, theirs.id)
    view.remember([{"text": "mine", "key": "k"}])
    assert local.get(theirs.id) == theirs


@pytest.mark.parametrize(
    ("given", "end"),
    [("90m", timedelta(minutes=90)), ("2w", timedelta(weeks=2)), (timedelta(days=3), timedelta(days=3))],
)
def test_an_expiry_is_a_time_or_a_duration(local: Engine, given: str | timedelta, end: timedelta) -> None:
    assert local.remember("tea", expires=given).expires == NOW + end
    assert local.remember("tea", expires="2030-01-31").expires == datetime(2030, 1, 31, tzinfo=UTC)
    with pytest.raises(Invalid, match="expires"):
        local.remember("tea", expires="soon")


def test_a_sweep_deletes_what_has_expired_long_enough_ago(engine: Engine) -> None:
    kept = engine.remember("kept")
    gone = engine.remember("gone", expires=NOW - timedelta(days=2))
    recent = engine.remember("recent", expires=NOW - timedelta(hours=1))
    assert [one.id for one in engine.list().memories] == [kept.id]
    assert engine.sweep(older_than=timedelta(days=1)) == 1
    assert [one.id for one in engine.get_many([kept.id, gone.id, recent.id])] == [kept.id, recent.id]
    assert engine.sweep() == 1
    assert engine.sweep() == 0


def test_the_version_of_a_memory_without_validity_is_that_of_earlier_programs() -> None:
    memory = Memory("01900000-0000-7000-8000-000000000001", "tea", NOW)
    assert memory.version == "496b3e2c97906406ffbfc0fdc0728d22"
    assert memory._replace(expires=NOW).version != memory.version


def test_an_export_brings_back_every_field_and_another_profile_its_own_ids(local: Engine, tmp_path: Path) -> None:
    paris, berlin = paris_and_berlin(local)
    local.supersede(paris.id, berlin.id, reason="moved", actor="ana")
    local.remember("tea", key="drink", expires="30d", valid_from="2020-01-01")
    local.export_to(tmp_path / "all.jsonl", everything=True)
    with Engine(OPENERS["memory"](tmp_path), Compass(), clock=lambda: NOW) as other:
        other.import_from(tmp_path / "all.jsonl")
        assert other.list(include_retired=True).memories == local.list(include_retired=True).memories
        other.import_from(tmp_path / "all.jsonl", profile="bob")
        found = {one.text: one for one in other.list(Scope("bob"), include_retired=True).memories}
        assert found[paris.text].superseded_by == found[berlin.text].id


def test_a_verb_that_is_sent_again_with_its_idempotency_key_is_made_once(engine: Engine) -> None:
    paris, berlin = paris_and_berlin(engine)
    rome = engine.remember("Ana lives in Rome at14", occurred="2026-01-01")
    engine.supersede(paris.id, berlin.id, idempotency_key="a")
    engine.restore(paris.id, idempotency_key="b")
    engine.supersede(paris.id, rome.id)

    assert engine.supersede(paris.id, berlin.id, idempotency_key="a").superseded_by == rome.id
    assert engine.restore(paris.id, idempotency_key="b").superseded_by == rome.id
    assert engine.get(paris.id).superseded_by == rome.id


def test_a_verb_that_changed_nothing_is_not_made_when_it_is_sent_again(engine: Engine) -> None:
    paris, _ = paris_and_berlin(engine)
    assert engine.restore(paris.id, idempotency_key="a") == paris
    retracted = engine.retract(paris.id)

    assert engine.restore(paris.id, idempotency_key="a") == retracted == engine.get(paris.id)


def test_the_idempotency_key_of_a_verb_with_other_values_is_a_conflict(engine: Engine) -> None:
    paris, berlin = paris_and_berlin(engine)
    retracted = engine.retract(paris.id, at="2025-02-01", idempotency_key="a")
    assert engine.retract(paris.id.upper(), at="2025-02-01T02:00:00+02:00", idempotency_key="a") == retracted
    for values in ({"at": "2025-03-01"}, {"at": "2025-02-01", "reason": "moved"}, {}):
        with pytest.raises(Conflict, match="for another request"):
            engine.retract(paris.id, idempotency_key="a", **values)
    engine.supersede(berlin.id, paris.id, reason="one", idempotency_key="b")
    with pytest.raises(Conflict, match="for another request"):
        engine.supersede(berlin.id, paris.id, reason="two", idempotency_key="b")

    assert engine.get(paris.id) == retracted
    assert engine.get(berlin.id).reason == "one"


def test_a_verb_that_was_refused_is_made_when_it_is_sent_again(engine: Engine) -> None:
    paris, berlin = paris_and_berlin(engine)
    engine.retract(paris.id)
    with pytest.raises(Conflict):
        engine.supersede(paris.id, berlin.id, idempotency_key="a")
    engine.restore(paris.id)

    assert engine.supersede(paris.id, berlin.id, idempotency_key="a").superseded_by == berlin.id
