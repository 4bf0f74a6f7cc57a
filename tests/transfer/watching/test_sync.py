"""Memories follow the files of a folder: what stays the same keeps its memory, wherever it goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Unavailable
from retentive.settings import Settings
from retentive.stores import open_store
from retentive.transfer.formats import passages
from retentive.transfer.watching.sync import MIN_FILES_TO_HOLD
from tests.transfer.watching.build import ids, memories, sync, syncing, told, write

TWO = "# House\n\nBuilt 1932.\n\n# Garden\n\nPears.\n"


@pytest.fixture
def engine(open_engine) -> Engine:
    return open_engine()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "notes"
    made.mkdir()
    return made


def test_a_folder_becomes_memories_in_a_project_of_its_name_and_a_second_sync_changes_nothing(engine, folder):
    write(folder, "a.md", TWO)
    write(folder, "sub/b.txt")

    assert told(sync(engine, folder)) == [("added", "a.md"), ("added", "sub/b.txt")]
    found = memories(engine)
    assert sync(engine, folder) == []

    assert memories(engine) == found
    assert set(found) == {"a.md#L1-L3", "a.md#L5-L7", "sub/b.txt#L1-L1"}
    assert {(memory.project, memory.kind) for memory in found.values()} == {("notes", "semantic")}


def test_an_edit_leaves_the_memories_of_what_was_not_edited(engine, folder):
    file = write(folder, "a.md", TWO)
    sync(engine, folder)
    before = ids(engine)
    file.write_text(TWO.replace("Pears.", "Pears and plums."))

    [change] = sync(engine, folder)

    assert (change.change, change.added, change.updated, change.forgotten) == ("changed", 1, 0, 1)
    after = memories(engine)
    assert after["a.md#L1-L3"].id == before["a.md#L1-L3"]
    assert after["a.md#L5-L7"].id != before["a.md#L5-L7"]
    assert after["a.md#L5-L7"].text == "# Garden\n\nPears and plums."


def test_lines_that_move_take_their_memory_along_with_its_use_and_what_was_added_to_it(engine, folder):
    file = write(folder, "a.md", TWO)
    sync(engine, folder)
    before = memories(engine)["a.md#L5-L7"]
    engine.update(before.id, importance=0.9, metadata={**before.metadata, "mine": True})
    file.write_text("# New\n\nFirst of all.\n\n" + TWO)

    [change] = sync(engine, folder)

    after = memories(engine)["a.md#L9-L11"]
    assert (change.added, change.updated, change.forgotten) == (1, 2, 0)
    assert (after.id, after.created, after.importance) == (before.id, before.created, 0.9)
    assert after.metadata == {"file": "a.md", "lines": [9, 11], "headings": ["Garden"], "mine": True}


def test_the_same_words_twice_in_a_file_are_two_memories_that_stay(engine, folder):
    file = write(folder, "a.md", "# A\n\nsame\n\n# A\n\nsame\n")
    sync(engine, folder)
    before = ids(engine)
    file.write_text("# A\n\nsame\n\n# A\n\nsame\n\n# B\n\nother\n")
    sync(engine, folder)

    after = ids(engine)
    assert len(after) == 3
    assert after.items() > before.items()


def test_a_file_that_is_deleted_is_forgotten_and_nothing_else(engine, folder):
    write(folder, "a.md")
    write(folder, "b.md", "Other words.")
    engine.remember("said by hand", project="notes")
    sync(engine, folder)
    (folder / "a.md").unlink()

    assert told(sync(engine, folder)) == [("forgotten", "a.md")]
    assert {memory.text for memory in engine.list().memories} == {"Other words.", "said by hand"}


def test_a_file_that_is_renamed_keeps_its_memories(engine, folder):
    write(folder, "a.md", TWO)
    sync(engine, folder)
    before = ids(engine)
    (folder / "a.md").rename(folder / "house and garden.md")

    [change] = sync(engine, folder)

    assert (change.change, change.before, change.file) == ("moved", "a.md", "house and garden.md")
    assert ids(engine) == {source.replace("a.md", "house and garden.md"): id for source, id in before.items()}
    assert memories(engine)["house and garden.md#L1-L3"].metadata["file"] == "house and garden.md"


def test_a_folder_that_is_moved_takes_its_files_along_even_where_they_say_the_same(engine, folder):
    for name in ("a", "b", "c"):
        write(folder, f"old/{name}.md", "# The same\n\nin each of them\n")
    sync(engine, folder)
    before = ids(engine)
    (folder / "new").mkdir()
    (folder / "old").rename(folder / "new/place")

    changes = sync(engine, folder)

    assert [(change.change, change.before, change.file) for change in changes] == [
        ("moved", f"old/{name}.md", f"new/place/{name}.md") for name in "abc"
    ]
    assert ids(engine) == {source.replace("old/", "new/place/"): id for source, id in before.items()}


def test_a_file_that_is_renamed_and_edited_keeps_the_memories_of_unchanged_passages(engine, folder):
    write(folder, "a.md", TWO)
    sync(engine, folder)
    before = ids(engine)
    (folder / "a.md").unlink()
    write(folder, "b.md", TWO.replace("Pears", "Plums"))

    sync(engine, folder)

    after = ids(engine)
    assert after["b.md#L1-L3"] == before["a.md#L1-L3"]
    assert set(after) == {"b.md#L1-L3", "b.md#L5-L7"}
    assert before["a.md#L5-L7"] not in after.values()


def test_files_that_changed_their_names_with_each_other_keep_their_memories(engine, folder):
    a, b = write(folder, "a.md", "Said in a."), write(folder, "b.md", "Said in b.")
    sync(engine, folder)
    before = ids(engine)
    a.rename(folder / "x")
    b.rename(folder / "a.md")
    (folder / "x").rename(folder / "b.md")

    changes = sync(engine, folder)

    assert [(change.added, change.updated, change.forgotten) for change in changes] == [(0, 1, 0), (0, 1, 0)]
    assert ids(engine) == {"a.md#L1-L1": before["b.md#L1-L1"], "b.md#L1-L1": before["a.md#L1-L1"]}
    assert sync(engine, folder) == []


def test_files_renamed_in_a_row_and_a_paragraph_put_into_another_file_keep_their_memories(engine, folder):
    write(folder, "log.md", "Today.")
    write(folder, "log-1.md", "Yesterday.")
    write(folder, "house.md", TWO)
    write(folder, "more.md", "# More\n\nThings.\n")
    sync(engine, folder)
    before = ids(engine)
    (folder / "log-1.md").rename(folder / "log-2.md")
    (folder / "log.md").rename(folder / "log-1.md")
    write(folder, "log.md", "A new day.")
    write(folder, "house.md", "# House\n\nBuilt 1932.\n")
    write(folder, "more.md", "# More\n\nThings.\n\n# Garden\n\nPears.\n")

    sync(engine, folder)

    after = ids(engine)
    assert after["log-2.md#L1-L1"] == before["log-1.md#L1-L1"]
    assert after["log-1.md#L1-L1"] == before["log.md#L1-L1"]
    assert after["more.md#L5-L7"] == before["house.md#L5-L7"]
    assert sync(engine, folder) == []


def test_one_file_moved_over_another_is_the_one_that_moved(engine, folder):
    write(folder, "a.md", "the one that stays")
    write(folder, "b.md", "the one that goes")
    sync(engine, folder)
    before = ids(engine)
    (folder / "a.md").replace(folder / "b.md")

    sync(engine, folder)

    assert ids(engine) == {"b.md#L1-L1": before["a.md#L1-L1"]}


def test_a_file_written_anew_with_the_same_bytes_changes_nothing(engine, folder):
    file = write(folder, "a.md", TWO)
    sync(engine, folder)
    before = memories(engine)
    file.unlink()
    write(folder, "a.md", TWO)
    os.utime(file, (1, 1))

    assert sync(engine, folder) == []
    assert memories(engine) == before


def test_an_edit_that_leaves_size_and_time_as_they_were_is_seen(engine, folder):
    file = write(folder, "a.md", "one")
    os.utime(file, ns=(10**18, 10**18))
    sync(engine, folder)
    file.write_text("two")
    os.utime(file, ns=(10**18, 10**18))

    assert told(sync(engine, folder)) == [("changed", "a.md")]


def test_a_memory_that_was_forgotten_or_changed_by_hand_is_restored_from_the_file(engine, folder):
    file = write(folder, "a.md", TWO)
    sync(engine, folder)
    before = memories(engine)
    engine.forget(before["a.md#L1-L3"].id)
    engine.update(before["a.md#L5-L7"].id, text="something else")

    sync(engine, folder)

    assert {source: memory.text for source, memory in memories(engine).items()} == {
        source: memory.text for source, memory in before.items()
    }
    assert file.read_text() == TWO


def test_a_new_day_in_the_front_matter_is_followed(engine, folder):
    file = write(folder, "a.md", "---\ndate: 2026-05-08\n---\nwords\n")
    sync(engine, folder)
    before = memories(engine)["a.md#L4-L4"]
    file.write_text("---\ndate: 2026-05-09\n---\nwords\n")

    [change] = sync(engine, folder)

    after = memories(engine)["a.md#L4-L4"]
    assert (change.added, change.updated, after.id) == (0, 1, before.id)
    assert (before.when.day, after.when.day) == (8, 9)


def test_a_dry_run_tells_everything_and_changes_nothing(engine, folder):
    write(folder, "a.md", TWO)
    write(folder, "b.md")
    write(folder, "c.md", "third")
    sync(engine, folder)
    before = memories(engine), engine.store.list_values("watch/")
    (folder / "a.md").rename(folder / "z.md")
    (folder / "b.md").unlink()
    write(folder, "c.md", "other")
    write(folder, "d.md", "new")

    changes = sync(engine, folder, dry_run=True)

    assert told(changes) == [("changed", "c.md"), ("added", "d.md"), ("moved", "z.md"), ("forgotten", "b.md")]
    assert (memories(engine), engine.store.list_values("watch/")) == before
    assert told(sync(engine, folder)) == told(changes)


def test_a_folder_that_is_replaced_by_a_link_is_not_followed_and_its_memories_are_kept(engine, folder, tmp_path):
    write(folder, "a.md", "the spare key")
    running = syncing(engine, folder)
    assert told(list(running.sync())) == [("added", "a.md")]
    write(tmp_path / "other", "a.md", "a secret")
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "other")

    with pytest.raises(Unavailable, match="is a link to another folder now; its memories are kept"):
        list(running.sync())
    assert [memory.text for memory in memories(engine).values()] == ["the spare key"]


def test_an_unreadable_file_is_reported_once_keeps_its_memories_and_is_retried(engine, folder):
    now = 0.0
    write(folder, "a.md", "words")
    watcher = syncing(engine, folder, clock=lambda: now)
    list(watcher.sync())
    before = ids(engine)
    (folder / "a.md").unlink()
    os.mkfifo(folder / "a.md")

    assert told(list(watcher.sync())) == [("unreadable", "a.md")]
    now = 1.5
    assert list(watcher.sync()) == []
    assert ids(engine) == before

    assert watcher.next_due() == 1.5 + 2
    (folder / "a.md").unlink()
    write(folder, "a.md", "words again")
    assert told(list(watcher.sync())) == [("changed", "a.md")]
    assert watcher.next_due() is None


def test_a_file_that_stays_unreadable_is_left_alone_until_its_time_has_come(engine, folder):
    now = 0.0
    write(folder, "a.md", b"\0")
    watcher = syncing(engine, folder, clock=lambda: now)
    times = []
    for now in (float(second) for second in range(40)):
        due = watcher.next_due()
        list(watcher.sync())
        if watcher.next_due() != due:
            times.append(now)

    assert times == [0, 1, 3, 7, 15, 31]


def test_an_encoding_that_was_guessed_is_reported(engine, folder):
    write(folder, "a.md", "Fuß".encode("cp1252"))

    assert told(sync(engine, folder)) == [("warning", "a.md"), ("added", "a.md")]
    assert memories(engine)["a.md#L1-L1"].text == "Fuß"


def test_links_are_not_followed_and_a_file_that_becomes_one_is_forgotten(engine, folder, tmp_path):
    secret = write(tmp_path, "outside/secret.md", "the secret")
    write(folder, "a.md")
    sync(engine, folder)
    (folder / "a.md").unlink()
    (folder / "a.md").symlink_to(secret)
    (folder / "loop").symlink_to(folder)
    (folder / "passwd.txt").symlink_to("/etc/passwd")

    changes = sync(engine, folder)

    assert set(told(changes)) == {
        ("skipped", "a.md"), ("skipped", "loop"), ("skipped", "passwd.txt"), ("forgotten", "a.md")
    }  # fmt: skip
    assert memories(engine) == {}


def test_when_most_of_many_files_are_missing_their_memories_are_kept_unless_forced(engine, folder):
    for number in range(MIN_FILES_TO_HOLD + 2):
        write(folder, f"{number:02}.md", f"note {number}")
    sync(engine, folder)
    for number in range(MIN_FILES_TO_HOLD):
        (folder / f"{number:02}.md").unlink()
    write(folder, "new.md", "a new note")

    watcher = syncing(engine, folder)
    assert told(list(watcher.sync())) == [("held", ""), ("added", "new.md")]
    assert list(watcher.sync()) == []
    assert watcher.held == MIN_FILES_TO_HOLD
    assert len(memories(engine)) == MIN_FILES_TO_HOLD + 3

    assert len(sync(engine, folder, force=True)) == MIN_FILES_TO_HOLD
    assert len(memories(engine)) == 3


def test_a_folder_of_many_files_may_be_reordered_without_being_sure(engine, folder):
    for number in range(MIN_FILES_TO_HOLD + 2):
        write(folder, f"old/{number:02}.md", f"note {number}")
    sync(engine, folder)
    before = set(ids(engine).values())
    (folder / "old").rename(folder / "new")

    changes = sync(engine, folder)

    assert {change.change for change in changes} == {"moved"}
    assert set(ids(engine).values()) == before


def test_a_folder_that_is_not_there_keeps_everything(engine, folder):
    write(folder, "a.md")
    sync(engine, folder)
    folder.rename(folder.with_name("elsewhere"))

    with pytest.raises(Unavailable, match="its memories are kept"):
        sync(engine, folder)
    assert len(memories(engine)) == 1


def test_a_folder_that_was_moved_as_a_whole_is_known_again(engine, folder):
    write(folder, "a.md", TWO)
    sync(engine, folder)
    before = ids(engine)
    (moved := folder.parent / "somewhere" / "notes").parent.mkdir()
    folder.rename(moved)

    assert sync(engine, moved) == []
    assert ids(engine) == before


def test_two_folders_of_one_name_do_not_forget_each_others_files(engine, folder, tmp_path):
    write(folder, "a.md", "one")
    other = tmp_path / "other" / "notes"
    write(other, "b.md", "two")

    sync(engine, folder)
    sync(engine, other)
    folder.rename(tmp_path / "away")
    sync(engine, other)

    assert {memory.text for memory in engine.list().memories} == {"one", "two"}


def test_a_folder_stays_in_the_project_of_its_first_time(engine, folder):
    write(folder, "a.md")
    sync(engine, folder, project="house")
    write(folder, "b.md", "more")

    sync(engine, folder)

    assert {memory.project for memory in memories(engine).values()} == {"house"}
    with pytest.raises(Conflict, match="--forget"):
        sync(engine, folder, project="garden")


def test_a_folder_that_is_forgotten_leaves_no_state(engine, folder):
    write(folder, "a.md", TWO)
    sync(engine, folder)

    assert syncing(engine, folder).forget_all() == 2
    assert memories(engine) == {}
    assert engine.store.list_values("watch/") == {}


def test_each_profile_follows_a_folder_for_itself(tmp_path, folder):
    write(folder, "a.md")
    store = open_store(str(tmp_path / "store.db"))
    for profile in ("ana", "ben"):
        engine = Engine(store, settings=Settings(store="", profile=profile))
        sync(engine, folder)
        assert len(memories(engine)) == 1
    assert [profile.name for profile in engine.profiles()] == ["ana", "ben"]
    engine.close()


def test_within_its_grace_a_file_may_come_back_or_turn_up_under_another_name(engine, folder):
    now = 0.0
    write(folder, "a.md", "one")
    write(folder, "b.md", "two")
    write(folder, "c.md", "three")
    watcher = syncing(engine, folder, grace=2.0, clock=lambda: now)
    list(watcher.sync())
    before = ids(engine)
    for name in "abc":
        (folder / f"{name}.md").unlink()
    assert list(watcher.sync()) == []
    assert watcher.next_due() == 2.0
    now = 1.0
    write(folder, "a.md", "one")
    write(folder, "z.md", "two")

    assert told(list(watcher.sync())) == [("moved", "z.md")]
    now = 2.5
    assert told(list(watcher.sync())) == [("forgotten", "c.md")]

    assert ids(engine) == {"a.md#L1-L1": before["a.md#L1-L1"], "z.md#L1-L1": before["b.md#L1-L1"]}
    assert watcher.next_due() is None


class Killed(BaseException):
    """The end of a process, at a point of the test's choosing."""


class Dying:
    """A store whose process ends at its nth write, before or after it is made."""

    def __init__(self, store, *, at: int, after: bool) -> None:
        self._store, self._left, self._after = store, at, after

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in ("add", "update", "remove", "compare_and_set"):
            return method

        def write(*given, **named):
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            done = method(*given, **named)
            if self._left == 0:
                raise Killed
            return done

        return write


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_write_the_next_sync_completes_it_with_nothing_twice_and_nothing_lost(
    tmp_path, after, monkeypatch
):
    monkeypatch.setattr("retentive.transfer.watching.sync.BATCH_FILES", 2)
    died = 0
    for at in range(1, 100):
        folder = tmp_path / str(at) / "notes"
        store = open_store("memory://")
        engine = Engine(store)
        write(folder, "a.md", TWO)
        write(folder, "b.md", TWO.replace("Pears", "Plums"))
        write(folder, "c.md", "third")
        write(folder, "d.md", "fourth")
        sync(engine, folder)
        before = ids(engine)
        (folder / "a.md").rename(folder / "moved.md")
        write(folder, "b.md", "# Top\n\nnew\n\n# House\n\nBuilt 1932.\n")
        (folder / "c.md").unlink()
        write(folder, "e.md", "fifth")
        write(folder, "f.md", "sixth")

        dying = Engine(Dying(store, at=at, after=after))  # type: ignore[arg-type]
        try:
            sync(dying, folder)
        except Killed:
            died += 1
        sync(engine, folder)

        assert sorted((memory.source, memory.text) for memory in memories(engine).values()) == [
            ("b.md#L1-L3", "# Top\n\nnew"),
            ("b.md#L5-L7", "# House\n\nBuilt 1932."),
            ("d.md#L1-L1", "fourth"),
            ("e.md#L1-L1", "fifth"),
            ("f.md#L1-L1", "sixth"),
            ("moved.md#L1-L3", "# House\n\nBuilt 1932."),
            ("moved.md#L5-L7", "# Garden\n\nPears."),
        ]
        after = ids(engine)
        assert after["moved.md#L5-L7"] == before["a.md#L5-L7"]
        assert after["b.md#L5-L7"] == before["b.md#L1-L3"]
        assert all(json.loads(note)["print"] for note in engine.store.list_values("watch/file/").values())
        if died < at:
            break
    assert died > 8


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_write_while_files_swap_names_the_next_sync_completes_it(tmp_path, after):
    died = 0
    for at in range(1, 100):
        folder = tmp_path / str(at) / "notes"
        store = open_store("memory://")
        engine = Engine(store)
        write(folder, "a.md", "Said in a.")
        write(folder, "b.md", "Said in b.")
        sync(engine, folder)
        before = ids(engine)
        write(folder, "a.md", "Said in b.")
        write(folder, "b.md", "Said in a.")

        dying = Engine(Dying(store, at=at, after=after))  # type: ignore[arg-type]
        try:
            sync(dying, folder)
        except Killed:
            died += 1
        sync(engine, folder)

        assert ids(engine) == {"a.md#L1-L1": before["b.md#L1-L1"], "b.md#L1-L1": before["a.md#L1-L1"]}
        assert all(json.loads(note)["print"] for note in engine.store.list_values("watch/file/").values())
        assert sync(engine, folder) == []
        if died < at:
            break
    assert died > 3


def test_passages_that_the_model_must_read_whole_are_cut_for_it(open_engine, model, folder):
    engine = open_engine(model)
    write(folder, "a.md", "日本語の文章です。" * 150)

    sync(engine, folder, fits=passages.passage_limit(engine.embeddings.embedder()))

    found = engine.list().memories
    assert len(found) > 1
    assert all(len(model.split(memory.text)) == 1 for memory in found)
    assert engine.recall("日本語").degraded is None


@pytest.mark.parametrize("imported", [".", "sub", "sub/b.md", ".."])
def test_what_was_imported_before_is_not_stored_again(engine, tmp_path, imported):
    folder = tmp_path / "above" / "notes"
    write(folder, "a.md", "# One\n\nThe key is under the pot.\n\n# Two\n\nThe key is under the pot.")
    write(folder, "sub/b.md", "---\ndate: 2026-05-08\n---\nAna called.")
    engine.import_from((folder / imported).resolve(), project="notes")
    before = {memory.id for memory in engine.list().memories}

    sync(engine, folder)

    assert sorted(memories(engine)) == ["a.md#L1-L3", "a.md#L5-L7", "sub/b.md#L4-L4"]
    assert before <= set(ids(engine).values())
    assert told(sync(engine, folder)) == []
    write(folder, "sub/b.md", "Ana did not call.")
    sync(engine, folder)
    assert len(memories(engine)) == 3


def test_imported_memories_move_to_the_project_of_the_watched_folder(engine, tmp_path):
    folder = tmp_path / "workspace"
    write(folder, "MEMORY.md", "The boat is called Freya.")
    write(folder, "memory/2026-05-08.md", "Ana called about the boat.")
    assert engine.import_from(folder).format == "openclaw"

    sync(engine, folder, project="boat")

    assert {memory.project for memory in memories(engine).values()} == {"boat"}
    assert len(memories(engine)) == 2


@pytest.mark.parametrize("path", [".", "sub", "a.md", ".."])
def test_a_watched_folder_is_not_imported_too(engine, tmp_path, path):
    folder = tmp_path / "above" / "notes"
    write(folder, "a.md")
    write(folder, "sub/b.md")
    sync(engine, folder)

    with pytest.raises(Conflict, match="is watched"):
        engine.import_from((folder / path).resolve())

    other = write(tmp_path / "elsewhere", "c.md", "Other words.")
    assert engine.import_from(other.parent).added == 1
    assert engine.import_from(folder, profile="ben").added == 2
