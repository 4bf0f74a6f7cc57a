"""The verbs, through the real store and the real model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import apsw
import numpy as np
import pytest

from retentive import AsyncEngine, Conflict, Draft, Engine, Invalid, NotFound
from retentive.pipeline.recall import INLINE, RecallLog
from retentive.stores import open_store
from tests.conftest import NOW


def texts(answer) -> list[str]:
    return [hit.memory.text for hit in answer.hits]


def test_a_memory_is_found_by_meaning_without_a_word_in_common(engine):
    engine.remember("Our cat is called Möbius and only eats salmon")
    engine.remember("The train to Basel leaves at nine")
    engine.remember("Quarterly taxes are due in April")

    assert texts(engine.recall("what is the name of the pet?"))[0].startswith("Our cat")


def test_a_memory_is_found_by_an_identifier_as_typed(engine):
    engine.remember("Rolled back because of ERR_CONN_42 in auth-service/login after v2.13.0")
    engine.remember("Rolled back because of ERR_CONN_24 in auth-service/logout after v2.31.0")

    for typed in ("ERR_CONN_42", "v2.13.0", "auth-service/login"):
        assert "ERR_CONN_42" in texts(engine.recall(typed))[0]


def test_input_of_the_wrong_kind_is_invalid(engine):
    stored = engine.remember("tea")

    with pytest.raises(Invalid, match="not valid JSON"):
        engine.update(stored.id, metadata={1: 2, "b": 1}, idempotency_key="k")
    with pytest.raises(Invalid, match="vector: a list of numbers"):
        engine.query("tea", vector=[1, "a"])
    assert engine.sweep(older_than=timedelta(days=3_000_000)) == 0
    assert texts(engine.recall("tea", exclude=stored.id)) == []


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda engine: engine.remember("x", colour="red"), "there is no field 'colour'; the fields are "),
        (lambda engine: engine.forget(["a", "b"]), r"ids: an id is text, not list; pass several as forget\(\*ids\)"),
        (lambda engine: engine.forget_scope({"project": "p"}, confirm=True), "scope: a Scope, which .* not dict"),
        (lambda engine: engine.get(7), "id: it must be text, not int"),
        (lambda engine: engine.get_many("abc"), "ids: a list of ids"),
        (lambda engine: engine.get_many([7]), "ids: a list of ids"),
        (lambda engine: engine.list(limit="10"), "limit: a number from 1 to 1000, not '10'"),
        (lambda engine: engine.list(cursor=7), "cursor: it must be text, not int"),
        (lambda engine: engine.list("p"), "scope: a Scope, which .* not str"),
        (lambda engine: engine.recall(7), "query: it must be text or a Query, not int"),
        (lambda engine: engine.recall("x", limit="3"), "limit: a whole number, not '3'"),
        (lambda engine: engine.recall("x", limit=2.5), r"limit: a whole number, not 2\.5"),
        (lambda engine: engine.recall("x", exclude=7), "exclude: ids of memories, not int"),
        (lambda engine: engine.recall("x", exclude=["abc"]), "exclude: 'abc' is not the id of a memory"),
        (lambda engine: engine.recall("x", kinds="semantic"), "kinds: a list such as"),
        (lambda engine: engine.recall("x", session=7), "session: a name or several names, not int"),
        (lambda engine: engine.recall("x", session=["a", 7]), "session: it must be text, not int"),
        (lambda engine: engine.recall("x", project=7), "project: it must be text, not int"),
        (lambda engine: engine.recall("x", since=7), "since"),
        (lambda engine: engine.recall("x", tuning=7), "tuning: a Tuning, parameters by name, or the name of a preset"),
        (lambda _: Engine.open(7), "store: a path or an address, not 7; leave it out for the default store"),
        (lambda _: Engine.open(""), "store: a path or an address, not ''"),
    ],
)
def test_an_argument_of_another_type_is_named(engine, call, named):
    with pytest.raises(Invalid, match=named):
        call(engine)

    assert engine.stats().memories == 0


def test_whole_numbers_and_parameters_of_other_libraries_are_accepted(engine):
    stored = engine.remember("tea")

    assert texts(engine.recall("tea", limit=np.int64(1), tuning={})) == ["tea"]
    assert engine.list(limit=np.int64(1)).memories == (stored,)


def test_what_was_remembered_comes_back_as_it_was_given(engine):
    given = {
        "project": "p", "session": "s", "kind": "semantic", "speaker": "Ana", "importance": 0.9,
        "metadata": {"tags": ["a", {"b": None}], "n": 1.5}, "source": "notes/a.md",
        "occurred": datetime(2025, 5, 8, 13, 56, 0, 123456, tzinfo=UTC), "evergreen": True,
    }  # fmt: skip
    stored = engine.remember("Zürich – «naïve» 東京 🎉\nsecond line\x00", **given)

    found = engine.get(stored.id)

    assert found == stored
    assert {name: getattr(found, name) for name in given} == given
    assert (found.text, found.position, found.created) == ("Zürich – «naïve» 東京 🎉\nsecond line\x00", 0, NOW)


@pytest.mark.parametrize("jump", [timedelta(days=400), -timedelta(days=400)])
def test_a_clock_that_jumps_drops_no_idempotency_key(jump):
    times = [NOW]
    with Engine(open_store("memory://"), clock=lambda: times[-1]) as engine:
        first = engine.remember_many([{"text": "a"}], idempotency_key="key")
        times.append(NOW + jump)
        engine.remember_many([{"text": "b"}], idempotency_key="another")

        assert engine.remember_many([{"text": "a"}], idempotency_key="key") == first
        assert engine.stats().memories == 2


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"text": ""}, "text"),
        ({"text": "   \n"}, "text"),
        ({"text": "x" * 1_000_001}, "1,000,000"),
        ({"text": "\ud800"}, "surrogate"),
        ({"text": 5}, "text"),
        ({"text": "x", "importance": 1.1}, "importance"),
        ({"text": "x", "importance": float("nan")}, "importance"),
        ({"text": "x", "importance": True}, "importance"),
        ({"text": "x", "kind": "rumour"}, "kind"),
        ({"text": "x", "project": ""}, "project"),
        ({"text": "x", "session": "x" * 501}, "session"),
        ({"text": "x", "position": -1, "session": "s"}, "position"),
        ({"text": "x", "occurred": "last week"}, "occurred"),
        ({"text": "x", "metadata": {"f": float("nan")}}, "metadata"),
        ({"text": "x", "metadata": {"f": object()}}, "metadata"),
        ({"text": "x", "metadata": 0}, "metadata"),
        ({"text": "x", "metadata": []}, "metadata"),
        ({"text": "x", "id": "not-a-uuid"}, "id"),
        ({"text": "x", "colour": "red"}, "colour"),
        ({"importance": 0.5}, "text"),
    ],
)
def test_bad_input_is_named_and_nothing_of_the_call_is_stored(engine, fields, named):
    with pytest.raises(Invalid, match=named):
        engine.remember_many([{"text": "good"}, fields])

    assert engine.stats().memories == 0


def test_an_import_to_undo_whose_name_is_no_text_is_invalid(engine):
    with pytest.raises(Invalid, match="surrogate"):
        engine.imports.undo("\ud800")


def test_a_time_without_a_zone_is_utc_and_one_with_a_zone_keeps_its_moment(engine):
    plain = engine.remember("x", occurred="2026-05-08T13:56:00")
    zoned = engine.remember("y", occurred="2026-05-08T13:56:00+02:00")

    assert plain.occurred == datetime(2026, 5, 8, 13, 56, tzinfo=UTC)
    assert engine.get(zoned.id).occurred == datetime(2026, 5, 8, 11, 56, tzinfo=UTC)


def test_remembering_the_same_text_twice_keeps_both_and_shows_one(engine):
    first = engine.remember("The door code is 4711.")
    second = engine.remember("the door code is 4711")

    assert engine.stats().memories == 2
    answer = engine.recall("door code")
    assert len(answer.hits) == 1
    assert {answer.hits[0].id, answer.dropped[0].id} == {first.id, second.id}
    assert answer.dropped[0].why[-1].step == "duplicate"


def test_an_id_that_exists_is_a_conflict_and_the_old_memory_stays(engine):
    memory = engine.remember("first")

    with pytest.raises(Conflict, match=memory.id):
        engine.remember("second", id=memory.id)

    assert engine.get(memory.id).text == "first"


def test_an_updated_text_is_found_by_its_new_words_and_meaning_only(engine):
    memory = engine.remember("The dog is called Rex")

    engine.update(memory.id, text="The parrot is called Coco", importance=0.9)

    assert texts(engine.recall("parrot", tuning={"semantic_weight": 0})) == ["The parrot is called Coco"]
    assert engine.recall("Rex", tuning={"semantic_weight": 0}).hits == ()
    assert engine.stats().vectors == 1
    assert engine.get(memory.id).created == memory.created
    assert engine.check() == []


def test_an_update_that_leaves_the_text_alone_keeps_the_vector(open_engine, model):
    memory = open_engine(model).remember("The dog is called Rex")

    engine = open_engine(None)  # nothing could embed it again
    engine.update(memory.id, importance=1.0, kind="identity")

    assert open_engine(model).recall("pet name", kinds=["identity"], tuning="semantic-only").hits[0].id == memory.id


def test_what_cannot_be_changed_or_is_not_there_is_said(engine):
    memory = engine.remember("x")

    with pytest.raises(Invalid, match="profile"):
        engine.update(memory.id, profile="other")
    with pytest.raises(NotFound, match="no memory"):
        engine.update("01976f3e-0000-7000-8000-000000000000", text="y")
    with pytest.raises(NotFound):
        engine.get("nonsense")


def test_a_forgotten_memory_is_found_by_neither_retriever(engine):
    gone, kept = engine.remember("red apples"), engine.remember("green apples")

    assert len(engine.forget(gone.id, gone.id, "nonsense")) == 1

    assert [hit.id for hit in engine.recall("apples").hits] == [kept.id]
    assert engine.check() == []


def test_to_forget_nothing_is_no_write(tmp_path):
    with Engine(open_store(str(tmp_path / "store.db"), busy_seconds=0.1)) as engine:
        other = apsw.Connection(str(tmp_path / "store.db"))
        other.execute("BEGIN IMMEDIATE")

        assert len(engine.forget()) == 0
        other.close()


def test_a_scope_is_forgotten_only_when_confirmed(engine):
    engine.remember("a", project="p", session="s1")
    engine.remember("b", project="p")
    engine.remember("c", project="q")

    with pytest.raises(Invalid, match="confirm"):
        engine.forget_scope(engine.scope(project="p"))
    assert engine.forget_scope(engine.scope(project="p"), confirm=True) == 2

    assert [memory.text for memory in engine.list().memories] == ["c"]


def test_to_forget_a_session_leaves_the_rest_of_its_project(engine):
    engine.remember("a", project="p", session="s1")
    engine.remember("b", project="p")

    assert engine.forget_scope(engine.scope(session="s1"), confirm=True) == 1

    assert [memory.text for memory in engine.list().memories] == ["b"]


def test_metadata_that_is_nested_too_deeply_is_refused(engine):
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    kept = engine.remember("deep", metadata={"x": deep[0]})
    with pytest.raises(Invalid, match="nested more than 100 levels"):
        engine.remember("too deep", metadata={"x": deep})
    loop: dict[str, Any] = {}
    loop["x"] = loop
    with pytest.raises(Invalid, match="nested more than 100 levels"):
        engine.remember("a ring", metadata=loop)

    assert [hit.id for hit in engine.recall("deep").hits] == [kept.id]


def test_a_long_idempotency_key_is_refused_and_metadata_of_any_mapping_taken(engine):
    draft = {"text": "a", "metadata": MappingProxyType({"x": 1})}
    first = engine.remember_many([draft], idempotency_key="k" * 500)
    assert engine.remember_many([draft], idempotency_key="k" * 500)[0].id == first[0].id
    with pytest.raises(Invalid, match="idempotency_key: at most 500"):
        engine.remember_many([draft], idempotency_key="k" * 501)


def test_an_identity_memory_of_the_profile_can_be_judged_in_a_project(engine):
    engine.remember("something", project="p")
    me = engine.remember("I am Ana", kind="identity").id
    assert me in [hit.id for hit in engine.recall("who am I? Ana", project="p").hits]
    assert engine.judge("who am I?", good=[me], project="p")


@pytest.mark.parametrize("write", [str.upper, lambda given: given.replace("-", ""), "{{{}}}".format])
def test_an_id_is_found_however_a_uuid_is_written(engine, write):
    memory = engine.remember("the key is under the pot", id=write("0190abcd-0000-7000-8000-0000000000aa"))
    new = engine.remember("the key is in the drawer")
    id = write(memory.id)

    assert engine.get(id) == memory == engine.get_many([id])[0]
    assert [hit.id for hit in engine.recall("where is the key?", exclude=[id]).hits] == [new.id]
    assert engine.explain("key", id).outcome == "hit"
    assert {one.memory for one in engine.judge("where?", good={id: 2})} == {memory.id}
    assert engine.update(id, importance=1.0).importance == 1.0
    assert engine.supersede(id, write(new.id)).superseded_by == new.id
    assert engine.restore(id).superseded_by is None
    assert engine.retract(id).valid_to is not None
    assert engine.forget(id) == [memory.id]


EMPTY_NAMES = [{"profile": ""}, {"project": ""}, {"session": ""}, {"session": []}, {"session": [""]}, {"kinds": []}]


@pytest.mark.parametrize("empty", EMPTY_NAMES)
def test_an_empty_name_finds_nothing_and_forgets_nothing(engine, empty):
    engine.remember("the key is under the pot", project="p", session="s")
    engine.remember("the key is in the drawer")

    assert not engine.recall("where is the key?", **empty).hits
    assert not engine.list(engine.scope(**empty)).memories
    assert engine.forget_scope(engine.scope(**empty), confirm=True) == 0

    assert engine.stats().memories == 2


def test_an_empty_profile_is_no_profile_in_any_verb(engine, tmp_path):
    one = engine.remember("the key is under the pot", session="s")
    engine.judge("key", good=[one.id])

    assert not engine.sessions(profile="")
    assert not engine.projects(profile="")
    assert not engine.timeline(profile="").buckets
    assert not engine.judgements.list(profile="")
    assert engine.export_to(tmp_path / "none.jsonl", profile="").memories == 0
    with pytest.raises(NotFound):
        engine.move_session("s", project="p", profile="")
    with pytest.raises(Invalid, match="profile"):
        Engine.open("memory://", profile="")


def test_listing_goes_on_where_the_last_page_ended(engine):
    ids = [engine.remember(f"memory {at}").id for at in range(7)]

    pages, cursor = [], None
    while True:
        page = engine.list(cursor=cursor, limit=3)
        pages.append([memory.id for memory in page.memories])
        if (cursor := page.next_cursor) is None:
            break

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [id for page in pages for id in page] == ids[::-1]


def test_what_a_recall_gave_out_counts_as_used(open_engine, model):
    engine = open_engine(model)
    used = engine.remember("red apples")
    engine.recall("apples")
    engine.recall("apples")
    engine.close()

    found = open_engine(model).get(used.id)

    assert (found.access_count, found.accessed) == (2, NOW)


def test_the_use_of_memories_is_recorded_after_some_time_without_further_recalls(engine):
    used = engine.remember("red apples")
    touched = threading.Event()

    class Noticed:
        def touch(self, ids: Sequence[str], *, at: datetime) -> None:
            engine.store.touch(ids, at=at)
            touched.set()

    log = RecallLog(Noticed(), INLINE, use_seconds=0.01)
    log.add(engine.recall("apples", record_use=False), NOW)

    assert touched.wait(60)
    assert engine.get(used.id).access_count == 1
    log.record_use()  # nothing is left to record
    assert engine.get(used.id).access_count == 1


def test_a_long_memory_is_found_by_what_stands_at_its_end(engine):
    filler = "We talked about the weather, the garden and the neighbours for a long while. " * 200
    engine.remember(filler + "The treasure is buried under the old lighthouse.")
    for at in range(5):
        engine.remember(f"Weather report number {at}: rain, and more rain.")

    found = engine.recall("where is the gold hidden?", tuning="semantic-only").hits[0]

    assert found.memory.text.endswith("lighthouse.")
    assert engine.stats().vectors > engine.stats().memories


def test_saved_parameters_hold_for_every_engine_and_can_be_reset(open_engine):
    engine, other = open_engine(), open_engine()

    engine.tuning.save({"keywordWeight": 2.0, "fusion": "rrf"})

    assert (other.tuning.current().keyword_weight, other.tuning.current().fusion) == (2.0, "rrf")
    other.tuning.save({"fusion": None})
    assert engine.tuning.saved() == {"keyword_weight": 2.0}
    with pytest.raises(Invalid, match="keyword_weight"):
        engine.tuning.save({"keyword_weight": 9})
    assert engine.tuning.saved() == {"keyword_weight": 2.0}


def test_the_async_engine_has_every_verb_of_the_engine(tmp_path):
    verbs = {name for name in dir(Engine) if callable(getattr(Engine, name)) and not name.startswith("_")}

    assert verbs - {"scope"} <= set(vars(AsyncEngine))

    async def run() -> list[str]:
        async with AsyncEngine.open(tmp_path / "async.db") as engine:
            await asyncio.gather(*(engine.remember(f"apple number {at}") for at in range(5)))
            return texts(await engine.recall("apple", limit=3))

    assert len(asyncio.run(run())) == 3


def test_drafts_and_plain_values_mean_the_same(engine):
    a, b = engine.remember_many([Draft("x", speaker="Ana", occurred=NOW - timedelta(days=1)), {"text": "x"}])

    assert (a.speaker, b.speaker, a.content_hash) == ("Ana", None, b.content_hash)


@pytest.mark.parametrize("wrong", [{"since": ""}, {"until": 0}, {"metadata": []}])
def test_an_empty_filter_of_another_type_is_refused(engine, wrong):
    with pytest.raises(Invalid, match=next(iter(wrong))):
        engine.recall("key", **wrong)


@pytest.mark.parametrize("address", [":memory:", "sqlite:///:memory:", "file::memory:?cache=shared"])
def test_the_address_of_a_database_in_memory_is_refused_with_ours(address):
    with pytest.raises(Invalid, match="memory://"):
        Engine.open(address)


@pytest.mark.parametrize("limit", [2**31, 2**63, 2**70])
def test_a_limit_of_any_size_returns_all(engine, limit):
    memory = engine.remember("the key is under the pot")
    assert [hit.id for hit in engine.recall("key", limit=limit).hits] == [memory.id]


def test_a_memory_after_the_last_position_can_be_updated(engine):
    engine.remember("the first", session="s", position=2**53 - 1)
    after = engine.remember("the second", session="s")

    assert engine.update(after.id, importance=1.0).position == 2**53 == after.position


def test_a_list_takes_the_parts_of_a_scope_and_its_page_is_a_sequence_of_memories(engine: Engine):
    engine.remember("one", project="p", session="s")
    engine.remember("two", project="p")
    engine.remember("three")

    page = engine.list(project="p")

    assert [memory.text for memory in page] == ["two", "one"]
    assert (len(page), page[0].text) == (2, "two")
    assert [memory.text for memory in engine.list(session="s", only_session=True)] == ["one"]
    assert len(engine.list(profile="nobody")) == 0
    with pytest.raises(Invalid, match="project: give a scope or its parts"):
        engine.list(engine.scope(), project="p")


def test_an_explanation_prints_one_sentence(engine: Engine):
    stored = engine.remember("the key is under the pot")
    explanation = engine.explain(engine.query("key"), stored.id)
    assert str(explanation) == f"Explanation(hit: {explanation.sentence})"


def test_a_backup_into_a_file_and_a_store_that_is_a_folder_are_refused_by_name(tmp_path):
    with (
        Engine.open(tmp_path / "m.db", embedder="none") as engine,
        pytest.raises(Invalid, match=r"tune.db .* a folder"),
    ):
        engine.backup(tmp_path / "tune.db")
    assert not (tmp_path / "tune.db").exists()
    with pytest.raises(Invalid, match="is a folder, and a store is a file"):
        Engine.open(tmp_path, embedder="none")
