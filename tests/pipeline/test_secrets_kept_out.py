"""No way in writes a secret to the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.chat.context import assemble, log_context
from retentive.chat.sse import Answer
from retentive.chat.turn_recorder import Turn, store_turn
from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.settings import Settings
from retentive.stores import open_store
from retentive.tenancy import ProfileView

TOKEN = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"


def open_engine(folder: Path, **settings: bool) -> Engine:
    return Engine(open_store(str(folder / "memories.db")), settings=Settings(store="", **settings))


def test_no_file_of_the_store_has_a_secret_that_was_remembered_imported_or_said_in_a_chat(tmp_path: Path) -> None:
    store, notes = tmp_path / "store", tmp_path / "notes.md"
    store.mkdir()
    notes.write_text(f"# Deploying\n\nCI needs the token {TOKEN} to push.\n")
    with open_engine(store) as engine:
        view = ProfileView(engine, "default")
        first = engine.remember(f"The token is {TOKEN}")
        engine.update(engine.remember("soon to change").id, text=f"CI uses {TOKEN}")
        assert engine.import_from(notes).added == 1
        turn = Turn(f"my key {TOKEN}", "s", idempotency_key="k")
        stored = store_turn(view, turn, Answer(text=f"I have noted {TOKEN}"))
        again = store_turn(view, turn, Answer(text=f"I have noted {TOKEN}"))
        query = f"what is {TOKEN}?"
        log_context(view, assemble(view, query), client="context", query=query)
        engine.given.write()

        assert first.text == "The token is [secret: GitHub token]"
        assert (len(stored), len(again)) == (2, 0)
        assert engine.given.list()[0].query == "what is [secret: GitHub token]?"
    assert not [file for file in store.rglob("*") if file.is_file() and TOKEN.encode() in file.read_bytes()]


def test_a_text_that_is_private_as_a_whole_is_refused_and_a_chat_leaves_it_out(tmp_path: Path) -> None:
    with open_engine(tmp_path) as engine:
        with pytest.raises(Invalid, match="all of it is private"):
            engine.remember("<private>I am moving out</private>")
        turn = Turn("<private>I am moving out</private>", "s")
        [reply] = store_turn(ProfileView(engine, "default"), turn, Answer(text="I see."))
        assert reply.text == "I see."
        assert len(engine.list().memories) == 1


def test_secrets_are_stored_if_the_user_wants_them(tmp_path: Path) -> None:
    with open_engine(tmp_path, redact_secrets=False) as engine:
        assert engine.remember(f"The token is {TOKEN}").text == f"The token is {TOKEN}"
