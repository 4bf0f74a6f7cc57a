"""Imports into a store: without duplicates, with a report of everything skipped, and undone as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound
from retentive.models import Scope
from retentive.stores import open_store
from retentive.stores.values import Judgement
from retentive.transfer.formats.base import ImportEntry, ImportItem, ReadWarning, Skipped, Truncated
from retentive.transfer.importing import importer
from retentive.transfer.importing import log as import_log
from retentive.transfer.importing.ids import imported_id
from retentive.transfer.importing.importer import ImportInterrupted, ImportTarget, file_source, import_source
from retentive.transfer.importing.log import Imports
from tests.compass import Compass
from tests.conftest import NOW
from tests.evaluation.build import write_set
from tests.transfer.formats.samples import (
    a_chatgpt_conversation,
    chatgpt_conversation,
    chatgpt_node,
    write_json,
    write_lines,
)


class Given:
    """A format that gives what it was given."""

    name = "given"

    def __init__(self, *entries: ImportEntry) -> None:
        self.entries = entries

    def recognises(self, path: Path) -> bool:
        return False

    def read(self, path: Path) -> Iterator[ImportEntry]:
        yield from self.entries


def item(number: int, **fields: object) -> ImportItem:
    return ImportItem({"text": f"note number {number}", **fields}, f"k{number}", f"line {number}")


def take(store, *entries: ImportEntry, embedder=None, path: Path = Path("given"), **options):
    target = options.pop("target", ImportTarget("default"))
    return import_source(
        store, embedder, file_source(Given(*entries), path), target=target, clock=lambda: NOW, **options
    )


def listed(engine: Engine, **scope) -> list[str]:
    return [memory.text for memory in engine.list(engine.scope(**scope), limit=1000).memories]


@pytest.fixture(params=["sqlite", "memory"])
def store(request, tmp_path):
    opened = open_store(str(tmp_path / "store.db") if request.param == "sqlite" else "memory://")
    yield opened
    opened.close()


def test_a_conversation_is_imported_with_sessions_speakers_times_and_order_and_found(engine, tmp_path):
    path = write_json(tmp_path / "conversations.json", [a_chatgpt_conversation()])

    done = engine.import_from(path)

    assert (done.format, done.added, done.existing, done.skipped, done.truncated) == ("chatgpt", 3, 0, {}, ())
    assert [session.name for session in engine.sessions()] == ["chatgpt:The kitchen"]
    memories = engine.list().memories
    assert [memory.position for memory in memories] == [3, 2, 1]  # newest first, by their own times
    assert (
        engine.recall("how much power is left on the board?", limit=1).hits[0].memory.session == "chatgpt:The kitchen"
    )
    assert engine.stats().unembedded == 0


def test_memories_without_a_time_are_listed_before_those_that_happened_before_the_import(store):
    take(store, item(1, occurred=NOW - timedelta(days=2)), item(2), item(3, occurred=NOW - timedelta(days=1)))

    assert listed(Engine(store)) == ["note number 2", "note number 3", "note number 1"]


@pytest.mark.parametrize("name", ["note.md", "MEMORY.md"])
def test_notes_are_cut_so_that_the_model_reads_each_part_whole(open_engine, model, tmp_path, name):
    engine = open_engine(model)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / name).write_text("日本語の文章です。" * 150)

    would = engine.import_from(tmp_path / "notes", dry_run=True)
    done = engine.import_from(tmp_path / "notes")

    assert would.added == done.added > 1
    assert all(len(model.split(memory.text)) == 1 for memory in engine.list().memories)
    assert engine.import_from(tmp_path / "notes").added == 0


def test_importing_again_adds_nothing_and_leaves_no_trace(open_engine, tmp_path):
    engine = open_engine()
    path = write_json(tmp_path / "conversations.json", [a_chatgpt_conversation()])
    engine.import_from(path)

    again = engine.import_from(path)

    assert (again.added, again.existing, again.run) == (0, 3, None)
    assert len(engine.imports.list()) == 1


def test_a_continued_conversation_adds_only_new_messages_and_a_changed_text_is_another_memory(open_engine, tmp_path):
    engine = open_engine()
    path = tmp_path / "conversations.json"
    turns = [chatgpt_node("a", "root", "user", "one"), chatgpt_node("b", "a", "assistant", "two")]
    engine.import_from(write_json(path, [chatgpt_conversation(*turns)]))

    edited = chatgpt_node("b", "a", "assistant", "two, corrected")
    done = engine.import_from(
        write_json(path, [chatgpt_conversation(turns[0], edited, chatgpt_node("c", "b", "user", "three"))])
    )

    assert (done.added, done.existing) == (2, 1)
    assert sorted(listed(engine)) == ["one", "three", "two", "two, corrected"]


def test_a_dry_run_reports_what_would_happen_and_changes_nothing(store):
    entries = [item(1), item(2), item(1), Skipped("line 3", "no text"), ReadWarning("line 4", "odd")]
    take(store, item(2))
    before = (store.stats(), store.list_values(""))

    trial = take(store, *entries, dry_run=True)

    assert (store.stats(), store.list_values("")) == before
    real = take(store, *entries)
    assert (trial.added, trial.existing, trial.skipped, trial.warnings) == (1, 2, {"no text": 1}, {"odd": 1})
    assert (real.added, real.existing, real.skipped, real.warnings) == (1, 2, {"no text": 1}, {"odd": 1})
    assert (trial.run, trial.dry_run) == (None, True)


def test_everything_skipped_is_counted_by_reason_and_reported_one_by_one(store):
    told: list[object] = []
    remarks = [Skipped("a", "no text"), Skipped("b", "no text"), Truncated("c", "cut off"), ReadWarning("d", "odd")]

    done = take(store, item(1, importance=7), item(2), *remarks, report=told.append)

    assert done.skipped == {"no text": 2, "importance: a number from 0 to 1, not 7": 1}
    assert done.truncated == ("c: cut off",)
    assert done.warnings == {"odd": 1}
    assert told == [Skipped("line 1", "importance: a number from 0 to 1, not 7"), *remarks]
    assert done.added == 1


def test_reasons_without_number_are_counted_together(store):
    done = take(store, *(Skipped("x", f"reason {at}") for at in range(1000)))

    assert len(done.skipped) == importer.MAX_REASONS + 1
    assert done.skipped[importer.OTHER_REASONS] == 1000 - importer.MAX_REASONS


def test_undo_removes_what_an_import_added_and_nothing_else(store):
    take(store, item(1), item(2), path=Path("first"))
    done = take(store, item(2), item(3), item(4), path=Path("second"))

    undone = Imports(store).undo(done.run)

    assert (undone.memories, done.added) == (2, 2)
    assert store.stats().memories == 2
    assert [run.path.rsplit("/", 1)[-1] for run in Imports(store).list()] == ["first"]
    assert take(store, item(1), item(2), item(3), item(4)).added == 2
    with pytest.raises(NotFound, match="there is no import"):
        Imports(store).undo(done.run)


def test_many_batches_are_recorded_and_undone(store, monkeypatch):
    monkeypatch.setattr(importer, "BATCH_WITHOUT_VECTORS", 2)
    monkeypatch.setattr(import_log, "GROUP", 3)
    heard: list[int] = []

    done = take(store, *map(item, range(21)), progress=heard.append)

    (run,) = Imports(store).list()
    assert (run.added, run.groups, sum(heard)) == (21, 4, 21)
    assert Imports(store).undo(done.run).memories == 21
    assert store.stats().memories == 0
    assert store.list_values("import") == {}


def test_an_interrupted_import_continues_in_the_same_run(store, monkeypatch):
    monkeypatch.setattr(importer, "BATCH_WITHOUT_VECTORS", 2)

    class Stops(Given):
        def read(self, path: Path) -> Iterator[ImportEntry]:
            yield from super().read(path)
            raise KeyboardInterrupt

    take(store, item(0), path=Path("before"))
    stops = file_source(Stops(*map(item, range(5))), Path("given"))
    with pytest.raises(ImportInterrupted) as stopped:
        import_source(store, None, stops, target=ImportTarget("default"), clock=lambda: NOW)
    assert store.stats().memories == 4
    (broken_off,) = [run for run in Imports(store).list() if not run.ended]
    assert broken_off.added == 3
    assert (stopped.value.result.run, stopped.value.result.added) == (broken_off.id, 3)

    done = take(store, *map(item, range(8)))

    assert (done.run, done.resumed, done.added, done.existing) == (broken_off.id, True, 4, 4)
    assert {run.added for run in Imports(store).list()} == {1, 7}
    assert Imports(store).undo(done.run).memories == 7
    assert store.stats().memories == 1


def test_what_was_noted_and_not_added_when_it_was_killed_is_counted_once(store, monkeypatch):
    def killed(records, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "add", killed)
        with pytest.raises(KeyboardInterrupt):
            take(store, item(1), item(2))

    done = take(store, item(1), item(2), item(3))

    assert (done.added, done.resumed, Imports(store).list()[0].added) == (3, True, 3)
    assert Imports(store).undo(done.run).memories == 3


def test_an_interrupted_undo_can_be_run_again(store, monkeypatch):
    monkeypatch.setattr(importer, "BATCH_WITHOUT_VECTORS", 2)
    done = take(store, *map(item, range(9)))

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Imports(store).undo(done.run, progress=stop)
    Imports(store).undo(done.run)

    assert store.stats().memories == 0
    assert store.list_values("import") == {}


def test_two_concurrent_imports_of_the_same_file_add_it_once_and_each_undo_removes_its_own(store, monkeypatch):
    """The other one is faster by one batch, each time just before ours is added."""
    monkeypatch.setattr(importer, "BATCH_WITHOUT_VECTORS", 3)
    add, others = store.add, []

    def slow_add(records, **options):
        if not others:
            others.append(take_other(item(1), item(2), path=Path("other")))
        return add(records, **options)

    def take_other(*entries, **options):
        monkeypatch.setattr(store, "add", add)
        return take(store, *entries, **options)

    monkeypatch.setattr(store, "add", slow_add)
    done = take(store, *map(item, range(6)))

    assert (done.added, done.existing, others[0].added) == (4, 2, 2)
    assert Imports(store).undo(done.run).memories == 4
    assert store.stats().memories == 2


def test_an_import_that_ends_first_keeps_the_record_of_another_in_its_run(store, monkeypatch):
    monkeypatch.setattr(import_log, "GROUP", 1)
    ids = [imported_id("default", "given", str(number), "x", when=None) for number in range(3)]
    first = import_log.ImportLog(store, format="given", path="p", profile="default", now=NOW)
    first.record_memories(ids[:1])
    second = import_log.ImportLog(store, format="given", path="p", profile="default", now=NOW)
    second.record_memories(ids[1:2])
    second.record_memories(ids[2:])

    first.finish(added=1, at=NOW)

    assert [run.groups for run in Imports(store).list()] == [3]


def test_a_run_that_two_imports_wrote_counts_the_memories_of_both_whichever_ends_last(store, monkeypatch):
    monkeypatch.setattr(importer, "BATCH_WITHOUT_VECTORS", 2)
    add, others = store.add, []

    def slow_add(records, **options):
        monkeypatch.setattr(store, "add", add)
        added = add(records, **options)
        others.append(take(store, *map(item, range(6))))
        return added

    monkeypatch.setattr(store, "add", slow_add)
    done = take(store, *map(item, range(6)))

    (run,) = Imports(store).list()
    assert (others[0].run, others[0].resumed, run.added) == (done.run, True, 6)
    assert Imports(store).undo(done.run).memories == 6


def homes(store):
    return [(one.name, one.project, one.memories) for one in store.sessions("default")]


def test_an_import_leaves_sessions_of_the_same_name_in_other_projects_as_they_are(store):
    take(store, item(1, session="s", project="a"))
    store.move_session("default", "s", project="b")

    done = take(store, item(2, session="s", project="a"), item(3, session="new", project="a"), item(4, session="new"))

    assert (done.added, done.skipped, done.warnings) == (3, {}, {})
    assert homes(store) == [("new", "a", 2), ("s", "a", 1), ("s", "b", 1)]


def test_an_item_without_a_project_is_skipped_if_several_projects_have_its_session(store):
    take(store, item(1, session="s", project="a"), item(2, session="s", project="b"))

    done = take(store, item(3, session="s"), item(4, session="t"))

    assert (done.added, homes(store)) == (1, [("s", "a", 1), ("s", "b", 1), ("t", None, 1)])
    [reason] = done.skipped
    assert "there are several sessions 's'" in reason


def test_an_emptied_session_is_not_moved_by_an_import_into_another_project(store):
    take(store, item(1, session="s", project="a"))
    store.remove([one.memory.id for one in store.scan().records])

    take(store, item(2, session="s", project="b"))

    assert homes(store) == [("s", "a", 0), ("s", "b", 1)]


@pytest.mark.parametrize("project", ["right", None])
def test_the_sessions_of_an_undone_import_can_go_into_another_project(store, project):
    wrong = take(store, item(1, session="s"), item(2, session="t"), target=ImportTarget("default", project="wrong"))
    Imports(store).undo(wrong.run)

    done = take(store, item(1, session="s"), item(3, session="t"), target=ImportTarget("default", project=project))

    assert (done.added, done.warnings) == (2, {})
    assert {session.project for session in store.sessions("default")} == {project}
    assert {record.memory.project for record in store.scan().records} == {project}


def test_taking_back_an_import_leaves_sessions_that_hold_something_where_they_are(store):
    take(store, item(1, session="s", project="home"))
    more = take(store, item(2, session="s", project="home"), path=Path("more"))

    Imports(store).undo(more.run)

    assert [(one.project, one.memories) for one in store.sessions("default")] == [("home", 1)]


def test_a_file_that_puts_one_session_into_two_projects_is_taken_into_the_first(store):
    done = take(store, item(1, session="s", project="a"), item(2, session="s", project="b"))

    assert (done.added, done.skipped) == (2, {})
    assert store.sessions("default")[0].project == "a"


def test_imports_go_into_the_profile_and_project_that_were_named(store):
    take(store, item(1, session="s", project="own"), target=ImportTarget("default", "ana", "kitchen"))
    take(store, item(1, session="s"))

    assert [(profile.name, profile.memories) for profile in store.profiles()] == [("ana", 1), ("default", 1)]
    assert [session.project for session in store.sessions("ana")] == ["kitchen"]


def test_memories_wait_for_an_embedder_that_is_down_and_are_counted(store):
    compass = Compass()
    compass.down = True

    done = take(store, item(1), item(2), embedder=compass)

    assert (done.added, done.unembedded, store.stats().unembedded) == (2, 2, 2)


def test_long_texts_are_stored_in_smaller_batches(store, monkeypatch):
    monkeypatch.setattr(importer, "MAX_BATCH_CHARACTERS", 1000)
    sizes: list[int] = []
    add = store.add
    monkeypatch.setattr(store, "add", lambda records, **options: sizes.append(len(records)) or add(records, **options))

    take(store, *(ImportItem({"text": f"{at} " + "x" * 400}, str(at), "") for at in range(7)))

    assert sizes == [3, 3, 1]


def test_an_evaluation_set_is_imported_with_its_judgements_and_undone(open_engine, tmp_path):
    engine = open_engine()
    folder = write_set(tmp_path / "set")

    done = engine.import_from(folder)
    again = engine.import_from(folder)

    said = engine.judgements.list()
    assert done.judgements == len(said) > 0
    assert again.judgements == 0
    assert all(engine.get(one.memory).source.startswith("beir:") for one in said)
    assert engine.imports.undo(done.run).judgements == len(said)
    assert engine.stats().memories == 0


def test_a_judged_document_that_cannot_be_stored_does_not_stop_the_set(open_engine, tmp_path):
    folder = write_set(tmp_path / "set")
    bad = {"_id": "bad", "text": "said by nobody", "metadata": {"speaker": "x" * 900}}
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write(json.dumps(bad) + "\n")
    query = json.loads((folder / "queries.jsonl").read_text().splitlines()[0])["_id"]
    with (folder / "qrels/test.tsv").open("a") as qrels:
        qrels.write(f"{query}\tbad\t1\n")
    engine = open_engine()

    done = engine.import_from(folder)

    assert done.judgements > 0
    assert done.skipped["the judged memory does not exist"] == 1
    assert any(reason.startswith("speaker:") for reason in done.skipped)


def test_judgements_of_memories_that_were_there_before_are_taken_back_too(open_engine, tmp_path):
    engine = open_engine()
    folder = write_set(tmp_path / "set", qrels="query-id\tcorpus-id\tscore\n")
    engine.import_from(folder)
    write_set(tmp_path / "more")
    done = engine.import_from(tmp_path / "more")

    assert (done.added, done.judgements > 0) == (0, True)
    engine.imports.undo(done.run)
    assert engine.judgements.list() == []
    assert engine.stats().memories > 0


def test_lines_of_jsonl_without_a_header_are_imported_once(open_engine, tmp_path):
    engine = open_engine()
    path = write_lines(
        tmp_path / "a.jsonl", [{"text": "one", "occurred": "2026-05-08"}, {"text": "two"}, {"text": "one"}]
    )

    done = engine.import_from(path, project="home")

    assert (done.format, done.added, done.existing) == ("jsonl", 3, 0)  # one with a time and one without are two
    assert engine.import_from(path).existing == 3
    assert engine.list(engine.scope(project="home")).memories[0].text == "one"


def test_a_path_that_cannot_be_imported_is_an_error_with_a_hint(open_engine, tmp_path):
    engine = open_engine()
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")

    with pytest.raises(NotFound, match="there is no"):
        engine.import_from(tmp_path / "nothing")
    with pytest.raises(NotFound, match="there is no"):
        engine.import_from(tmp_path / "nothing.md", format="markdown")
    with pytest.raises(Invalid, match="--format"):
        engine.import_from(tmp_path / "x.bin")
    with pytest.raises(Invalid, match="unknown format"):
        engine.import_from(tmp_path / "x.bin", format="word")
    with pytest.raises(Invalid, match="project"):
        engine.import_from(write_json(tmp_path / "a.json", [a_chatgpt_conversation()]), project=" ")


def test_a_conflict_that_stays_is_skipped_with_its_reason(store, monkeypatch):
    add = store.add

    def refuse(records, **options):
        if any("2" in record.memory.text for record in records):
            raise Conflict("not this one")
        return add(records, **options)

    monkeypatch.setattr(store, "add", refuse)
    done = take(store, item(1), item(2), item(3))

    assert (done.added, done.existing, done.skipped) == (2, 0, {"not this one": 1})
    monkeypatch.setattr(store, "add", add)
    assert Imports(store).undo(done.run).memories == 2
    assert json.dumps(done.to_dict())


def test_a_log_written_before_the_project_was_renamed_can_be_undone(store):
    done = take(store, item(1))
    (memory,) = store.list(Scope("default")).memories
    store.judge([Judgement("where?", memory.id, 3, NOW)])
    judged = (
        f'{{"question": "where?", "memory": "{memory.id}", "relevance": 3, "created": "2026-05-08T13:56:00+00:00",'
        ' "profile": "default", "project": null, "asked_at": null}'
    )
    store.compare_and_set({f"imported/{done.run}/000000/00000001": f'{{"kind": "judgements", "value": [{judged}]}}'})

    undone = Imports(store).undo(done.run)

    assert (undone.memories, undone.judgements) == (1, 1)
    assert store.list_values("import") == {}


def test_the_log_of_judgements_has_the_names_that_earlier_versions_read(store):
    log = import_log.ImportLog(store, format="given", path="p", profile="default", now=NOW)
    log.record_judgements([Judgement("where?", imported_id("default", "f", "k", "x", when=None), 3, NOW)])

    (batch,) = store.list_values("imported/").values()
    assert json.loads(batch)["kind"] == "judgements"
    assert json.loads(batch)["value"][0]["question"] == "where?"
    (run,) = store.list_values("imports/").values()
    assert set(json.loads(run)) == {"id", "format", "path", "profile", "started", "ended", "added", "groups"}
