"""Exports: of everything and of a scope, whole or not at all, and an import of one gives an equal store."""

from __future__ import annotations

import errno
import io
import json
import os
from datetime import timedelta

import numpy as np
import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid
from retentive.settings import Settings
from retentive.stores import open_store
from retentive.stores.base import Store
from tests.compass import Compass
from tests.conftest import NOW


def open_on(address: str, embedder=None, profile: str = "default") -> Engine:
    settings = Settings(store=address, profile=profile)
    return Engine(open_store(address), embedder, settings=settings, clock=lambda: NOW)


def fill(engine: Engine) -> None:
    """A store with something of everything that a store can hold."""
    key = engine.remember(
        "at10 The key lies under the \u2028 blue 🪴 pot", project="home", session="s1", speaker="Ana", importance=0.9,
        metadata={"deep": [{"a": None, "b": 1.5}], "text": "ü"}, occurred=NOW - timedelta(days=400), source="note",
    )  # fmt: skip
    engine.remember("at40 It was moved", project="home", session="s1", position=7, evergreen=True)
    engine.remember("at80 Ana is Ben's sister", kind="identity")
    engine.remember("at200 Ben's own", profile="ben", session="s1")
    cat = engine.remember("at300 The cat", profile="ben", kind="semantic", project="zoo")
    engine.recall("at10 key")
    engine.recall("at10 key")
    engine.judge("where is the key?", good={key.id: 3}, project="home", asked_at=NOW - timedelta(days=1))
    engine.judge("who is a cat?", good=[cat.id], profile="ben")
    engine.tuning.save({"rrf_k": 7, "fusion": "rrf"}, by="me")
    engine.tokens.create(access="admin")


def walked(store: Store) -> dict[str, object]:
    """Everything in a store, in an order that does not depend on it."""
    records = {record.memory.id: record for record in store.scan(limit=1000).records}
    profiles = [profile.name for profile in store.profiles()]
    return {
        "memories": {id: record.memory for id, record in sorted(records.items())},
        "vectors": {
            id: None if record.vectors is None else np.asarray(record.vectors).tolist()
            for id, record in sorted(records.items())
        },
        "profiles": store.profiles(),
        "sessions": [store.sessions(name) for name in profiles],
        "projects": [store.projects(name) for name in profiles],
        "judgements": [store.judgements(name) for name in profiles],
        "tuning": store.list_values("tuning"),
        "model": store.model(),
    }


@pytest.mark.parametrize("source", ["sqlite", "memory"])
@pytest.mark.parametrize("target", ["sqlite", "memory"])
def test_an_export_imported_into_an_empty_store_gives_an_equal_store_without_embedding(tmp_path, source, target):
    def address(kind: str, name: str) -> str:
        return str(tmp_path / f"{name}.db") if kind == "sqlite" else "memory://"

    silent = Compass()
    silent.down = True
    with open_on(address(source, "a"), Compass()) as one, open_on(address(target, "b"), silent) as two:
        fill(one)
        written = one.export_to(tmp_path / "all.jsonl", everything=True, vectors=True)
        done = two.import_from(tmp_path / "all.jsonl")

        assert (written.memories, written.judgements, written.settings, written.omitted_profiles) == (5, 2, 2, ())
        assert (done.added, done.judgements, done.settings, done.unembedded) == (5, 2, 2, 0)
        assert (done.skipped, done.warnings, done.truncated) == ({}, {}, ())
        assert walked(two.store) == walked(one.store)
        assert two.tokens.list() == []
        assert two.import_from(tmp_path / "all.jsonl").added == 0
        two.imports.undo(done.run)
        assert walked(two.store)["memories"] == {}
        assert two.tuning.saved() == {}


def test_without_vectors_they_are_made_anew_on_the_way_in(tmp_path):
    with open_on("memory://", Compass()) as one, open_on("memory://", Compass()) as two:
        fill(one)
        one.export_to(tmp_path / "all.jsonl", everything=True)
        two.import_from(tmp_path / "all.jsonl")

        assert "vectors" not in json.loads((tmp_path / "all.jsonl").read_text().split("\n")[1])
        assert walked(two.store) == walked(one.store)


def test_vectors_of_another_model_are_not_mixed_in(tmp_path):
    other = Compass()
    other.model = type(other.model)("other", "1", 2, "another fingerprint")
    with open_on("memory://", Compass()) as one, open_on("memory://", other) as two:
        fill(one)
        one.export_to(tmp_path / "all.jsonl", everything=True, vectors=True)
        two.import_from(tmp_path / "all.jsonl")

        assert two.stats().model == other.model
        assert two.stats().unembedded == 0


def test_an_export_holds_one_profile_unless_everything_is_asked_for(tmp_path):
    with open_on("memory://") as engine:
        fill(engine)
        done = engine.export_to(tmp_path / "mine.jsonl")

    lines = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text().split("\n")[:-1]]
    assert {line["memory"]["profile"] for line in lines if "memory" in line} == {"default"}
    assert (done.profile, done.memories, done.omitted_profiles) == ("default", 3, ("ben",))
    assert not any("kept" in line for line in lines)
    assert lines[-1] == {"end": {"memories": 3, "judgements": 1, "kept": 0}}


@pytest.mark.parametrize(
    ("scope", "count", "judgements"),
    [
        ({"project": "home"}, 2, 1),
        ({"session": "s1"}, 2, 1),
        ({"profile": "ben", "session": "s1"}, 1, 0),
        ({"project": "zoo"}, 0, 0),
    ],
)
def test_an_export_of_a_scope_holds_that_scope_alone(tmp_path, scope, count, judgements):
    with open_on("memory://") as engine:
        fill(engine)
        done = engine.export_to(tmp_path / "some.jsonl", **scope)

        assert (done.memories, done.judgements) == (count, judgements)
        with pytest.raises(Invalid, match="everything exports the whole store"):
            engine.export_to(tmp_path / "x.jsonl", everything=True, **scope)


def test_an_export_can_be_taken_into_another_profile_beside_the_first(tmp_path):
    with open_on("memory://", Compass()) as engine:
        fill(engine)
        engine.export_to(tmp_path / "all.jsonl", everything=True)
        done = engine.import_from(tmp_path / "all.jsonl", profile="carl")

        assert done.added == 5
        assert done.judgements == 2
        assert done.skipped == {"settings of a whole store are not imported into one profile": 2}
        assert {memory.profile for memory in engine.list(engine.scope(profile="carl")).memories} == {"carl"}
        judged = engine.judgements.list(profile="carl")
        assert {engine.get(one.memory).profile for one in judged} == {"carl"}
        assert engine.import_from(tmp_path / "all.jsonl", profile="carl").added == 0
        engine.imports.undo(done.run)
        assert [profile.name for profile in engine.profiles()] == ["ben", "default"]


def test_settings_of_the_store_are_not_replaced_and_wrong_ones_not_taken(tmp_path):
    path = tmp_path / "all.jsonl"
    with open_on("memory://") as one, open_on("memory://") as two:
        fill(one)
        one.export_to(path, everything=True)
        two.tuning.save({"rrf_k": 9})
        done = two.import_from(path)
        assert done.skipped == {"the store has saved settings of its own": 2}
        assert two.tuning.saved() == {"rrf_k": 9}

    for value in ('{"rrf_k": -1}', "not JSON", "[" * 100_000, '{"nonsense": 1}'):
        kept = {"kept": {"name": "tuning", "value": value}}
        lines = [
            path.read_text().split("\n")[0],
            json.dumps(kept),
            json.dumps({"kept": {"name": "token/x", "value": "y"}}),
        ]
        for wrong, reason in (
            (lines[:2], "settings that are not valid"),
            (lines, "settings that this version does not know"),
        ):
            path.with_name("wrong.jsonl").write_text("\n".join([*wrong, '{"end": {}}', ""]))
            with open_on("memory://") as three:
                assert three.import_from(path.with_name("wrong.jsonl")).skipped.keys() == {reason}
                assert three.store.list_values("") == {}


def test_a_parameter_that_was_changed_since_stays_when_an_import_is_undone(tmp_path):
    with open_on("memory://") as one, open_on("memory://") as two:
        fill(one)
        one.export_to(tmp_path / "all.jsonl", everything=True)
        done = two.import_from(tmp_path / "all.jsonl")
        two.tuning.save({"rrf_k": 11})
        two.imports.undo(done.run)

        assert two.tuning.saved() == {"rrf_k": 11, "fusion": "rrf"}


def test_a_file_is_replaced_only_with_force_and_only_by_a_complete_one(tmp_path, monkeypatch):
    path = tmp_path / "all.jsonl"
    path.write_text("something precious")
    with open_on("memory://") as engine:
        fill(engine)
        with pytest.raises(Conflict, match="--force"):
            engine.export_to(path)

        def stop(done: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.export_to(path, force=True, progress=stop)
        assert path.read_text() == "something precious"
        assert not list(tmp_path.glob(".all.jsonl.*"))
        engine.export_to(path, force=True)
        assert path.read_text().startswith('{"retentive": "memories"')
        assert path.stat().st_mode & 0o077 == 0
        with pytest.raises(Invalid, match="is a folder"):
            engine.export_to(tmp_path, format="jsonl")
        with pytest.raises(Invalid, match="cannot be written"):
            engine.export_to(tmp_path / "no" / "such" / "folder.jsonl")


def test_a_link_stays_one_and_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.jsonl").symlink_to(tmp_path / "folder" / "all.jsonl")
    os.mkfifo(tmp_path / "pipe")
    with open_on("memory://") as engine:
        engine.export_to(tmp_path / "link.jsonl")
        with pytest.raises(Invalid, match="not a regular file"):
            engine.export_to(tmp_path / "pipe", force=True)

    assert (tmp_path / "link.jsonl").is_symlink()
    assert (tmp_path / "folder" / "all.jsonl").is_file()
    assert (tmp_path / "pipe").is_fifo()


def test_people_read_a_whole_store_after_one_scan(tmp_path, monkeypatch):
    with open_on("memory://") as engine:
        for number in range(5):
            engine.remember("said", profile=f"p{number}")
        store, scans = engine.store, []
        scan = store.scan
        monkeypatch.setattr(store, "scan", lambda **options: scans.append(options) or scan(**options))

        done = engine.export_to(tmp_path / "all", format="markdown", everything=True)

    assert (done.memories, len(list((tmp_path / "all").rglob("memories.md"))), len(scans)) == (5, 5, 1)


def test_people_can_read_an_export_as_markdown(tmp_path):
    with open_on("memory://") as engine:
        fill(engine)
        done = engine.export_to(f"{tmp_path}/mine/")
        everything = engine.export_to(tmp_path / "all", format="markdown", everything=True)
        part = engine.export_to(tmp_path / "part", format="markdown", session="s1")

        assert (done.memories, done.omitted_profiles, everything.memories, part.memories) == (3, ("ben",), 5, 2)
        (session,) = (tmp_path / "mine" / "sessions").iterdir()
        text = session.read_text()
        assert text.startswith("---\ntitle: s1\nproject: home\n---\n\n## 2025-04-27 12:00 · Ana\n\nat10 The key lies")
        assert text.index("at10") < text.index("at40")
        assert "## 2026-06-01 12:00 · identity\n\nat80 Ana is" in (tmp_path / "mine" / "memories.md").read_text()
        assert len(list((tmp_path / "all").rglob("*.md"))) == 4
        again = engine.import_from(tmp_path / "mine", dry_run=True)
        assert (again.format, again.added > 2) == ("markdown", True)
        with pytest.raises(Conflict, match="name another one"):
            engine.export_to(tmp_path / "mine")
        with pytest.raises(Invalid, match="the formats are jsonl and markdown"):
            engine.export_to(tmp_path / "x", format="word")
        with pytest.raises(Invalid, match="without vectors"):
            engine.export_to(tmp_path / "x", format="markdown", vectors=True)


def test_names_lead_nowhere_and_a_folder_is_there_whole_or_not_at_all(tmp_path):
    with open_on("memory://") as engine:
        for name in ("../../x", "/etc/passwd", "A b", "a-b", "東京", "..", "x\ny: z"):
            engine.remember("hello", session=name)
            engine.remember("hello", project=name)
        engine.export_to(tmp_path / "out", format="markdown")

        def stop(done: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            engine.export_to(tmp_path / "half", format="markdown", progress=stop)

    files = list((tmp_path / "out").rglob("*.md"))
    assert len(files) == 14
    assert all(file.parent in (tmp_path / "out", tmp_path / "out" / "sessions") for file in files)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_sessions_of_one_name_and_of_a_name_like_a_path_have_a_file_each(tmp_path):
    with open_on("memory://") as engine:
        engine.remember("in work", session="phone", project="work")
        engine.remember("at home", session="phone", project="home")
        engine.remember("the path", session="work/phone")
        assert engine.export_to(tmp_path / "out", format="markdown").memories == 3

    written = "".join(file.read_text() for file in (tmp_path / "out" / "sessions").iterdir())
    assert all(text in written for text in ("in work", "at home", "the path"))


def test_an_export_goes_to_an_output_too(tmp_path):
    output = io.BytesIO()
    with open_on("memory://") as engine:
        fill(engine)
        engine.export_to("-", output=output)

    assert output.getvalue().endswith(b'{"end": {"memories": 3, "judgements": 1, "kept": 0}}\n')


def test_an_output_without_space_is_an_error_with_the_reason(tmp_path):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, "No space left on device")

    with open_on("memory://") as engine, pytest.raises(Invalid, match="cannot be written: No space left"):
        engine.export_to("-", output=Full())


def test_a_change_of_model_in_the_middle_of_an_export_is_noticed(tmp_path):
    other = Compass()
    other.model = type(other.model)("other", "1", 2, "another fingerprint")
    with open_on("memory://", Compass()) as engine:
        fill(engine)

        def change(done: int) -> None:
            Engine(engine.store, other).embeddings.reembed()

        with pytest.raises(Conflict, match="changed during the export"):
            engine.export_to(tmp_path / "all.jsonl", vectors=True, progress=change)
    assert not list(tmp_path.glob("*all.jsonl*"))
