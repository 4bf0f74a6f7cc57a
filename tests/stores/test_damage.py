"""Texts that were damaged in the file, or changed by another program: found, left out, reported, repaired."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from retentive.engine import Engine
from retentive.errors import Damaged, NotFound
from retentive.inference.embedders import Embedder
from retentive.models import Memory
from retentive.settings import Settings
from retentive.stores.base import Store
from retentive.stores.damage import NOT_ITS_TEXT, UNREADABLE, Damage
from retentive.stores.postgres.address import parse_address
from retentive.stores.sqlite.recovery import recover
from retentive.transfer.copying import CopyOptions, copy_store, verify_stores
from tests.stores import postgres_server
from tests.stores.build import NOW
from tests.stores.openers import OPENERS

TEXTS = ("The red kettle is broken.", "The blue kettle whistles.", "The green kettle is new.", "Trains to Porto leave.")


def flip(path: Path, text: bytes, *, to: bytes) -> None:
    """Overwrite the one place where the closed file has this text; the terms of a memory are in lower case."""
    assert len(text) == len(to)
    content = path.read_bytes()
    assert content.count(text) == 1
    path.write_bytes(content.replace(text, to))


@pytest.fixture
def memories(tmp_path: Path, model: Embedder) -> tuple[Path, list[Memory]]:
    """The file of a store with four memories, closed."""
    path = tmp_path / "memories.db"
    with Engine.open(path, embedder=model) as engine:
        memories = [engine.remember(text, session="s", created=f"2026-01-0{n}") for n, text in enumerate(TEXTS, 1)]
        engine.judge("which kettle?", good=[memories[0].id, memories[1].id])
    return path, memories


@pytest.fixture(params=["not UTF-8", "other letters"])
def damaged(request: pytest.FixtureRequest, memories: tuple[Path, list[Memory]]) -> tuple[Path, list[Memory], str]:
    """The same file with one text damaged, its memories, and the reason that is given."""
    path, stored = memories
    unreadable = request.param == "not UTF-8"
    flip(path, b"blue kettle whistles", to=b"blue kettle \xffhistles" if unreadable else b"blue kettle Thistles")
    return path, stored, UNREADABLE if unreadable else NOT_ITS_TEXT


def test_a_recall_leaves_out_a_damaged_memory_and_says_so(damaged: tuple[Path, list[Memory], str], model: Embedder):
    path, (red, blue, green, _), reason = damaged
    with Engine.open(path, embedder=model) as engine:
        answer = engine.recall("kettle")

        assert {red.id, green.id} <= {hit.id for hit in answer} <= {one.id for one in engine.list().memories}
        assert answer.degraded == "incomplete"
        assert f"1 damaged memory was left out ({blue.id}: {reason})" in str(answer.degraded_reason)


def test_a_list_names_a_damaged_memory_beside_the_others_and_get_says_what_it_has(
    damaged: tuple[Path, list[Memory], str], model: Embedder
):
    path, (red, blue, green, trains), reason = damaged
    with Engine.open(path, embedder=model) as engine:
        page = engine.list()

        assert [one.id for one in page.memories] == [trains.id, green.id, red.id]
        assert page.damaged == (Damage(blue.id, reason),)
        assert [one.id for one in engine.get_many([red.id, blue.id, green.id])] == [red.id, green.id]
        with pytest.raises(Damaged, match=rf"{blue.id} is damaged: {reason}; run: retentive doctor --repair"):
            engine.get(blue.id)
        with pytest.raises(NotFound):
            engine.get(blue.id, within=engine.scope(profile="another"))


def test_a_damaged_memory_can_be_forgotten(damaged: tuple[Path, list[Memory], str], model: Embedder):
    path, (_, blue, *_), _ = damaged
    with Engine.open(path, embedder=model) as engine:
        assert engine.forget(blue.id) == [blue.id]

        assert (engine.check(), engine.stats().memories, engine.recall("kettle").degraded) == ([], 3, None)


def test_an_export_saves_the_rest_and_reports_what_it_left_out(
    damaged: tuple[Path, list[Memory], str], model: Embedder, tmp_path: Path
):
    path, (red, blue, green, trains), reason = damaged
    with Engine.open(path, embedder=model) as engine:
        lines = engine.export_to(tmp_path / "export.jsonl", vectors=True)
        pages = engine.export_to(f"{tmp_path}/pages/")
        elsewhere = engine.export_to(tmp_path / "other.jsonl", profile="another")

    exported = [json.loads(line) for line in (tmp_path / "export.jsonl").read_text().splitlines()]
    ids = [line["memory"]["id"] for line in exported if "text" in line.get("memory", {})]
    assert ids == [red.id, green.id, trains.id]
    assert (lines.memories, lines.judgements, lines.damaged) == (3, 1, (Damage(blue.id, reason),))
    assert (pages.memories, pages.damaged) == (3, (Damage(blue.id, reason),))
    assert elsewhere.damaged == ()


def test_a_copy_saves_the_rest(memories: tuple[Path, list[Memory]], model: Embedder, tmp_path: Path):
    path, (_, blue, *_) = memories
    flip(path, b"blue kettle whistles", to=b"blue kettle \xffhistles")
    with Engine.open(path, embedder=model) as engine, closing(OPENERS["memory"](tmp_path)) as new:
        fresh = copy_store(engine.store, new, name="source", options=CopyOptions())
        verified = verify_stores(engine.store, new, options=CopyOptions())

    assert (fresh.memories, fresh.judgements, fresh.damaged) == (3, 1, (Damage(blue.id, UNREADABLE),))
    assert verified.agrees


def test_a_repair_indexes_and_embeds_a_changed_text_as_it_is(memories: tuple[Path, list[Memory]], model: Embedder):
    path, (_, blue, *_) = memories
    flip(path, b"blue kettle whistles", to=b"blue kettle Thistles")
    with Engine.open(path, embedder=model) as engine:
        problem = engine.check()[0]
        assert f"1 memory has another text than the one that was stored ({blue.id})" in problem

        done = engine.repair()

        assert (done.memories, done.changed, done.set_aside) == (4, (blue.id,), ())
        assert (engine.check(), engine.stats().unembedded) == ([], 0)
        assert engine.get(blue.id).text == "The blue kettle Thistles."
        found = engine.recall("thistles")
        assert (found[0].id, found.degraded) == (blue.id, None)
        assert blue.id not in {hit.id for hit in engine.recall("whistles", tuning={"semantic_weight": 0})}


def test_a_repair_sets_aside_what_cannot_be_read_until_it_is_forgotten(
    memories: tuple[Path, list[Memory]], model: Embedder
):
    path, (_, blue, *_) = memories
    flip(path, b"blue kettle whistles", to=b"blue kettle \xffhistles")
    with Engine.open(path, embedder=model) as engine:
        problem = engine.check()[0]
        assert problem.startswith(f"1 memory cannot be read ({blue.id})")

        done = engine.repair()

        assert (done.memories, done.changed, done.set_aside) == (3, (), (blue.id,))
        assert (engine.check(), engine.recall("kettle").degraded) == ([], None)
        with pytest.raises(NotFound):
            engine.get(blue.id)
        [kept] = engine.store.set_aside()
        assert (kept.id, kept.text) == (blue.id, "The blue kettle �histles.")
        assert engine.forget(blue.id, within=engine.scope(profile="another")) == []
        assert engine.forget(blue.id) == [blue.id]
        assert engine.store.set_aside() == []
    assert b"blue kettle" not in path.read_bytes()


def test_a_repair_rebuilds_what_another_program_has_put_out_of_step(
    memories: tuple[Path, list[Memory]], model: Embedder
):
    path, (red, *_) = memories
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("DELETE FROM term_counts")
        other.execute("UPDATE profiles SET memories = 77")
        other.execute("UPDATE blocks SET slots = zeroblob(length(slots))")
        other.execute("UPDATE memories SET terms = CAST(x'ff' AS TEXT) WHERE id = ?", (red.id,))
        other.execute("INSERT INTO vectors (slot, memory, embedding) VALUES (99, 99, x'00')")
    with Engine.open(path, embedder=model) as engine:
        assert len(engine.check()) >= 3

        done = engine.repair()

        assert (done.memories, done.set_aside, done.vectors_removed) == (4, (), 1)
        assert engine.check() == []
        assert engine.recall("red")[0].id == red.id
        assert {hit.id for hit in engine.recall("kettle", tuning={"keyword_weight": 0})} >= {red.id}


def test_a_vector_of_a_wrong_length_is_none_until_a_repair_has_made_a_new_one(
    memories: tuple[Path, list[Memory]], model: Embedder
):
    path, (_, blue, *_) = memories
    shorten = "UPDATE vectors SET embedding = substr(embedding, 1, 101) WHERE memory = 2"
    with closing(sqlite3.connect(path)) as other, other:
        with pytest.raises(sqlite3.IntegrityError, match="length"):
            other.execute(shorten)
        other.execute("DROP TRIGGER vector_length_on_update")  # as a file that was damaged, or written before
        other.execute(shorten)
    with Engine.open(path, embedder=model) as engine:
        found = engine.recall("kettle")
        assert (len(found), found.degraded) == (4, None)
        assert engine.recall(blue.text, tuning={"keyword_weight": 0})[0].id != blue.id
        assert engine.export_to(path.parent / "all.jsonl", vectors=True).memories == 4
        [problem] = engine.check()
        assert problem.startswith("1 memory has a vector of the wrong length")

        done = engine.repair()

        assert (done.vectors_removed, engine.check(), engine.stats().unembedded) == (2, [], 0)  # one of two turns
        assert engine.recall(blue.text, tuning={"keyword_weight": 0})[0].id == blue.id


def test_a_repair_that_would_leave_damaged_pages_changes_nothing_and_names_recover(tmp_path: Path):
    path = tmp_path / "memories.db"
    with Engine.open(path, embedder="none") as engine:
        memories = engine.remember_many([{"text": f"note number{number} " * 30} for number in range(300)])
    content = bytearray(path.read_bytes())
    tree = content.rindex(b"note number299 ") // 4096 * 4096
    assert content[tree] == 13  # a leaf of the table of memories
    content[tree + 3 : tree + 5] = (1).to_bytes(2)  # of its rows, one is left: the others are bytes that nothing names
    path.write_bytes(content)
    with Engine.open(path, embedder="none") as engine:
        assert engine.check() != []
        left = engine.stats()

        with pytest.raises(Damaged, match=r"nothing was changed; .*retentive recover FILE"):
            engine.repair()

        assert engine.stats() == left
    with closing(OPENERS["memory"](tmp_path)) as target:
        assert recover(path, target).memories > 290
        assert target.get([memories[0].id])


def test_a_row_that_has_lost_its_text_is_left_out_of_lists_and_scans(
    memories: tuple[Path, list[Memory]], model: Embedder
):
    path, (_, blue, *_) = memories
    content = bytearray(path.read_bytes())
    row = content.rindex(blue.id.encode(), 0, content.index(b"The blue kettle whistles."))
    length = content.rindex(bytes([2 * len("The blue kettle whistles.") + 13]), 0, row)
    content[length] = 0  # in the header of the row: NULL instead of a text of this length
    path.write_bytes(content)
    with Engine.open(path, embedder=model) as engine:
        assert blue.id not in {one.id for one in engine.list().memories}
        assert blue.id not in {one.memory.id for one in engine.store.scan().records}
        assert engine.check() != []


def test_a_recall_on_damaged_pages_of_the_vector_index_is_our_error(
    memories: tuple[Path, list[Memory]], model: Embedder
):
    path, _ = memories
    with closing(sqlite3.connect(path)) as other:
        [(root,)] = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'blocks'")
    content = bytearray(path.read_bytes())
    content[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(content)
    with Engine.open(path, embedder=model) as engine, pytest.raises(Damaged, match="retentive doctor --repair"):
        engine.recall("kettle")


def test_a_file_without_text_hashes_is_checked_by_its_terms_and_gets_hashes_by_a_repair(
    memories: tuple[Path, list[Memory]], model: Embedder
):
    path, (_, blue, *_) = memories
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("UPDATE memories SET text_hash = NULL")
    with Engine.open(path, embedder=model) as engine:
        assert engine.check() == []
    flip(path, b"blue kettle whistles", to=b"blue kettle Thistles")
    with Engine.open(path, embedder=model) as engine:
        assert blue.id in engine.check()[0]
        engine.repair()
        assert engine.check() == []
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("SELECT count(*) FROM memories WHERE text_hash IS NULL").fetchone() == (0,)


# Changed by SQL, behind the back of the product


def change_text(store_address: str, id: str, text: str) -> None:
    if store_address.startswith("postgres"):
        address = parse_address(store_address)
        with psycopg.connect(address.server, autocommit=True) as connection:
            connection.execute(f"SET search_path = {address.schema or 'retentive'}")  # type: ignore[arg-type]
            connection.execute("UPDATE memories SET text = %s WHERE id = %s", (text, id))
    else:
        # In another process: a second SQLite library in this one would release the locks of ours.
        script = (
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2], sys.argv[3:]); c.commit()"
        )
        statement = "UPDATE memories SET text = ? WHERE id = ?"
        subprocess.run([sys.executable, "-c", script, store_address, statement, text, id], check=True)


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return postgres_server.address() if request.param == "postgres" else str(tmp_path / "memories.db")


def test_doctor_finds_a_text_that_sql_changed_and_a_repair_mends_words_vector_and_hash(address: str, model: Embedder):
    with Engine.open(address, embedder=model) as engine:
        changed, other = engine.remember("The ferry leaves at noon."), engine.remember("Bread needs salt.")
        change_text(address, changed.id, "Violins are stored upstairs!")

        assert changed.id in " ".join(engine.check())
        answer = engine.recall("violins upstairs ferry bread")
        assert ([hit.id for hit in answer], answer.degraded) == ([other.id], "incomplete")
        assert engine.list().damaged == (Damage(changed.id, NOT_ITS_TEXT),)

        done = engine.repair()

        assert (done.memories, done.changed) == (2, (changed.id,))
        assert (engine.check(), engine.stats().unembedded) == ([], 0)
        best = engine.recall("violins upstairs")[0]
        assert (best.id, best.memory.text) == (changed.id, "Violins are stored upstairs!")
        assert engine.recall("where are the violins?", tuning={"keyword_weight": 0})[0].id == changed.id
        assert changed.id not in {hit.id for hit in engine.recall("ferry", tuning={"semantic_weight": 0})}


def test_a_repair_of_an_intact_store_changes_nothing_that_can_be_seen(store: Store, model: Embedder):
    engine = Engine(store, model, settings=Settings(store=""), clock=lambda: NOW)
    engine.remember_many([{"text": text, "session": "s", "project": "p"} for text in TEXTS])
    before = (engine.list(), store.stats().vectors, engine.recall("kettle", record_use=False).hits)

    done = engine.repair()

    assert (done.memories, done.changed, done.set_aside, done.vectors_removed) == (4, (), (), 0)
    assert (engine.list(), store.stats().vectors, engine.recall("kettle", record_use=False).hits) == before


@pytest.mark.parametrize("column", ["terms", "id"])
def test_a_value_that_was_lost_altogether_stops_neither_the_check_nor_the_list(
    memories: tuple[Path, list[Memory]], model: Embedder, column: str
):
    path, _ = memories
    with closing(sqlite3.connect(path)) as file:
        [[table]] = file.execute("SELECT sql FROM sqlite_schema WHERE name = 'memories'").fetchall()
        lines = [line for line in table.splitlines() if line.split()[:1] == [column]]
        file.execute("PRAGMA writable_schema = ON")
        file.execute(
            "UPDATE sqlite_schema SET sql = ? WHERE name = 'memories'",
            (table.replace(lines[0], lines[0].replace("NOT NULL", "")),),
        )
        file.commit()
    with closing(sqlite3.connect(path)) as file:
        file.execute(f"UPDATE memories SET {column} = NULL WHERE text LIKE '%blue%'")
        file.commit()

    with Engine.open(path, embedder=model) as engine:
        engine.store.check()
        pages = [engine.list(limit=1)]
        while pages[-1].next_cursor and len(pages) < 9:
            pages.append(engine.list(limit=1, cursor=pages[-1].next_cursor))
        assert {"The red kettle is broken.", "The green kettle is new."} <= {
            memory.text for page in pages for memory in page.memories
        }
