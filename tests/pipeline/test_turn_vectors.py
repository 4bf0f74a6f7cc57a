"""Vectors of a turn and the one before it, by the default model: which there are, and what deletions do to them."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from retentive import Engine, Scope
from retentive.inference.embedders.onnx import ALONE_WORDS, CONTEXT_WORDS, SHORT_WORDS, open_memory_small

LONG = " ".join(f"word{at}" for at in range(ALONE_WORDS + 1))
"""A turn that is embedded with the one before it, and not alone."""


@pytest.fixture(scope="module")
def embedder():
    with_model = open_memory_small()
    yield with_model
    with_model.close()


@pytest.fixture
def engine(tmp_path, embedder):
    from retentive.settings import Settings
    from retentive.stores import open_store

    path = str(tmp_path / "memories.db")
    with Engine(open_store(path), embedder, settings=Settings(store=path)) as opened:
        yield opened


def turns_of(engine):
    """The number of vectors of each memory, and the text of the turn that is in the last one."""
    records = engine.store.scan().records
    texts = {one.memory.id: one.memory.text for one in records}
    return {
        one.memory.text: (0 if one.vectors is None else len(one.vectors), one.previous and texts[one.previous.id])
        for one in records
    }


def test_only_a_very_short_turn_is_embedded_alone_as_well(engine):
    for text in ("Shall we go?", f"first {LONG}", "Yes", "a long turn " * SHORT_WORDS):
        engine.remember(text, session="s")

    assert list(turns_of(engine).values()) == [
        (1, None),
        (1, "Shall we go?"),
        (2, f"first {LONG}"),
        (1, None),
    ]


def test_turns_that_are_given_in_another_order_are_embedded_with_the_one_before_them(engine):
    turns = [{"text": f"{at} {LONG}", "session": "s", "position": at} for at in (5, 1, 3, 0)]
    engine.remember_many(turns)
    engine.remember_many([{"text": f"{at} {LONG}", "session": "s", "position": at} for at in (4, 2)])

    order = [f"{at} {LONG}" for at in range(6)]
    assert turns_of(engine) == {text: (1, before) for text, before in zip(order, [None, *order], strict=False)}


def test_an_import_into_a_session_embeds_the_turns_after_it_again(engine, tmp_path):
    def take(*positions: int) -> None:
        lines = [json.dumps({"text": f"{at} {LONG}", "session": "s", "position": at}) for at in positions]
        (tmp_path / "turns.jsonl").write_text("\n".join(lines))
        engine.import_from(tmp_path / "turns.jsonl")

    take(1, 4)
    take(0, 1, 2, 3, 4, 5)

    order = [f"{at} {LONG}" for at in range(6)]
    assert turns_of(engine) == {text: (1, before) for text, before in zip(order, [None, *order], strict=False)}


def test_of_the_turn_before_the_first_words_are_read(embedder):
    before = " ".join(str(at) for at in range(2 * CONTEXT_WORDS))

    assert embedder.in_context("Yes", before) == "Yes [SEP] " + " ".join(str(at) for at in range(CONTEXT_WORDS))


def test_a_turn_is_embedded_again_when_the_one_before_it_is_forgotten(engine):
    first, second, third = (engine.remember(f"{name} {LONG}", session="s") for name in ("first", "second", "third"))

    engine.forget(second.id)
    assert turns_of(engine) == {first.text: (1, None), third.text: (1, first.text)}

    engine.forget(first.id)
    assert turns_of(engine) == {third.text: (1, None)}
    assert engine.embeddings.count_missing() == 0


def test_a_turn_is_embedded_again_when_several_before_it_are_forgotten(engine):
    turns = [engine.remember(f"{name} {LONG}", session="s") for name in ("first", "second", "third", "fourth")]

    engine.forget(turns[1].id, turns[2].id)

    assert turns_of(engine) == {turns[0].text: (1, None), turns[3].text: (1, turns[0].text)}


def test_a_turn_waits_to_be_embedded_if_the_embedder_does_not_work_when_the_one_before_it_is_forgotten(engine):
    first, second = (engine.remember(f"{name} {LONG}", session="s") for name in ("first", "second"))

    with Engine(engine.store, None, settings=engine.settings) as without:
        assert without.forget(first.id) == [first.id]

        assert turns_of(engine) == {second.text: (0, None)}


def test_turns_are_embedded_again_when_memories_of_one_kind_are_forgotten(engine):
    fact = engine.remember("Ana lives in Porto", session="s", kind="semantic")
    turn = engine.remember(f"first {LONG}", session="s")
    assert turns_of(engine)[turn.text] == (1, fact.text)

    engine.forget_scope(Scope("default", kinds=("semantic",)), confirm=True)

    assert turns_of(engine) == {turn.text: (1, None)}


def test_turns_are_embedded_again_when_expired_ones_are_swept(engine):
    engine.remember(f"first {LONG}", session="s", expires=timedelta(seconds=-1))
    turn = engine.remember(f"second {LONG}", session="s")

    assert engine.sweep() == 1

    assert turns_of(engine) == {turn.text: (1, None)}


def test_turns_are_embedded_again_when_an_import_before_them_is_undone(engine, tmp_path):
    (tmp_path / "turns.jsonl").write_text(f'{{"text": "first {LONG}", "session": "s"}}\n', encoding="utf-8")
    done = engine.import_from(tmp_path / "turns.jsonl")
    turn = engine.remember(f"second {LONG}", session="s")
    assert turns_of(engine)[turn.text][1] is not None

    engine.imports.undo(done.run)

    assert turns_of(engine) == {turn.text: (1, None)}
