"""What is alike, exact repeats, and suggestions of what has replaced what."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from retentive.engine import Engine
from retentive.errors import Conflict, Invalid, NotFound, Unavailable
from retentive.models import Memory, Scope
from retentive.pipeline.remember import Draft
from retentive.stores.values import OnDuplicate
from retentive.tenancy import ProfileView
from tests.compass import Compass
from tests.stores.openers import OPENERS

NOW = datetime(2026, 5, 8, 12, tzinfo=UTC)


@pytest.fixture(params=OPENERS)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    with Engine(OPENERS[request.param](tmp_path), Compass(), clock=lambda: NOW) as opened:
        yield opened


@pytest.fixture
def local() -> Iterator[Engine]:
    with Engine(OPENERS["memory"](Path()), Compass(), clock=lambda: NOW) as opened:
        yield opened


def moved(engine: Engine, **fields: str) -> tuple[str, str]:
    """Two memories of which the second says that it has replaced the first."""
    old = engine.remember("my flat is in Paris at10", occurred="2024-01-01", **fields)  # type: ignore[arg-type]
    new = engine.remember("my flat is no longer in Paris at30", occurred="2025-01-01", **fields)  # type: ignore[arg-type]
    return old.id, new.id


def test_the_most_similar_memories_are_reported_with_cosine_and_shared_words(engine: Engine) -> None:
    near = engine.remember("green tea at20")
    engine.remember("green tea at80")
    gone = engine.remember("green tea at21")
    engine.retract(gone.id)
    engine.remember("green tea at20", project="elsewhere")
    stored = engine.remember("green tea and milk at10")
    [found] = [one for one in engine.similar(stored.id, threshold=0.9) if one.id == near.id]
    assert found.cosine == pytest.approx(0.985, abs=0.002)
    assert {"green", "tea"} <= set(found.words)
    assert gone.id not in {one.id for one in engine.similar(stored.id, threshold=0.0)}
    assert engine.get(near.id).valid_to is None


def test_without_vectors_similar_memories_share_at_least_half_of_the_words(local: Engine) -> None:
    with Engine(OPENERS["memory"](Path())) as engine:
        near = engine.remember("green tea in the morning")
        engine.remember("tea")
        stored = engine.remember("green tea in the evening")
        assert [(one.id, one.cosine) for one in engine.similar(stored.id)] == [(near.id, None)]


@pytest.mark.parametrize("how", ["forget", "scope", "sweep", "undo"])
def test_nothing_of_a_forgotten_memory_stays_in_the_queue(engine: Engine, tmp_path: Path, how: str) -> None:
    if how == "undo":
        file = tmp_path / "m.jsonl"
        file.write_text('{"text": "my flat is in Paris at10", "id": "1", "occurred": "2024-01-01"}\n')
        run = engine.import_from(file).run
        engine.remember("my flat is no longer in Paris at30", occurred="2025-01-01")
    else:
        old, _ = moved(engine)
    kept = engine.remember("the cat is in the garden at50", occurred="2024-01-01")
    newer = engine.remember("the cat is no longer in the garden at60", occurred="2025-01-01")
    assert len(engine.store.list_values("review/")) == 2
    if how == "forget":
        engine.forget(old)
    elif how == "scope":
        engine.remember("the flat", project="p")
        engine.forget(old)
        engine.forget_scope(Scope(project="p"), confirm=True)
    elif how == "sweep":
        engine.update(old, expires="2026-05-01")
        assert engine.sweep() == 1
    else:
        assert run is not None
        assert engine.imports.undo(run).memories == 1
    [left] = engine.store.list_values("review/").values()
    assert kept.id in left
    assert newer.id in left
    assert "Paris" not in left


def test_a_suggestion_does_not_keep_the_words_of_a_text_that_was_replaced(engine: Engine) -> None:
    old, new = moved(engine)
    confirmed = engine.reviews.list()[0].suggestion.id
    engine.reviews.confirm(confirmed)
    engine.remember("my flat is no longer in Paris but near at40", occurred="2026-01-01")
    assert engine.reviews.list()
    engine.update(new, text="nothing to see")
    engine.update(old, text="nothing either")
    assert engine.reviews.list() == []
    assert not any("flat" in text for text in engine.store.list_values("review/").values())
    engine.reviews.undo(confirmed)
    assert engine.get(old).valid_to is None


def test_an_update_that_says_that_something_changed_raises_a_suggestion(engine: Engine) -> None:
    old, new = moved(engine)
    engine.update(new, text="my flat is not in Paris any more at30")
    engine.update(new, text="my flat has moved: it is no longer in Paris at30")
    [review] = engine.reviews.list()
    assert (review.old.id, review.new.id) == (old, new)


@pytest.mark.parametrize("how", ["count", "refuse"])
def test_a_request_that_is_sent_again_is_neither_counted_nor_refused(engine: Engine, how: OnDuplicate) -> None:
    old = engine.remember("Ana likes green tea")
    drafts = [{"text": "Bo likes coffee"}] if how == "refuse" else [{"text": "ana likes GREEN tea"}, {"text": "new"}]

    first = engine.remember_many(drafts, on_duplicate=how, idempotency_key="k")
    again = engine.remember_many(drafts, on_duplicate=how, idempotency_key="k")

    assert [one.id for one in again] == [one.id for one in first]
    assert len(engine.list().memories) == 2
    for _ in range(2):
        draft = {"text": "Ana likes green tea"}
        [counted] = engine.remember_many([draft], on_duplicate="count", idempotency_key="only repeats")
    assert counted.id == old.id
    assert engine.get(old.id).metadata == {"repeats": 2 if how == "count" else 1}


@pytest.mark.parametrize("how", ["count", "refuse"])
def test_a_request_whose_answer_was_lost_is_completed_when_it_is_sent_again(
    engine: Engine, how: OnDuplicate, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = engine.remember("Ana likes green tea")
    drafts = [{"text": "Bo likes coffee"}, *([{"text": "ana likes GREEN tea"}] if how == "count" else [])]
    add = engine.store.add

    def lost(*given: Any, **options: Any) -> list[Memory]:
        add(*given, **options)
        raise Unavailable("the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(engine.store, "add", lost)
        with pytest.raises(Unavailable):
            engine.remember_many(drafts, on_duplicate=how, idempotency_key="k")
    again = engine.remember_many(drafts, on_duplicate=how, idempotency_key="k")
    stored = next(one for one in engine.list().memories if one.text == "Bo likes coffee")
    assert [one.id for one in again] == [stored.id, old.id][: len(drafts)]
    assert len(engine.list().memories) == 2
    assert engine.get(old.id).metadata == ({"repeats": 1} if how == "count" else {})

    engine.update(stored.id, text="Bo likes espresso")
    once_more = engine.remember_many(drafts, on_duplicate=how, idempotency_key="k")
    assert once_more[0].text == "Bo likes espresso"
    with pytest.raises(Conflict, match="used for another request"):
        engine.remember_many([{"text": "something else"}], on_duplicate=how, idempotency_key="k")


def test_a_text_twice_in_a_request_is_counted_or_refused(engine: Engine) -> None:
    twice = [{"text": "Ana likes green tea"}, {"text": "Bo likes milk"}, {"text": "ana likes green TEA."}]
    with pytest.raises(Conflict, match="memory 1 of the request"):
        engine.remember_many(twice, on_duplicate="refuse")
    assert engine.list().memories == ()
    found = engine.remember_many(twice, on_duplicate="count")
    assert found[2].id == found[0].id
    assert found[2].metadata == {"repeats": 1}
    assert len(engine.list().memories) == 2


@pytest.mark.parametrize("how", ["count", "refuse"])
def test_a_text_of_another_profile_or_with_another_sign_is_no_repeat(engine: Engine, how: OnDuplicate) -> None:
    drafts = [Draft("It is -5 degrees", profile="ana"), Draft("It is -5 degrees", profile="ben")]
    assert [one.profile for one in engine.remember_many(drafts, on_duplicate=how)] == ["ana", "ben"]
    stored = engine.remember("It is 5 degrees", profile="ana", on_duplicate=how)
    assert stored.text == "It is 5 degrees"
    assert engine.stats().memories == 3


def test_a_repeat_does_not_create_its_session(engine: Engine) -> None:
    engine.remember("the gate is green")
    engine.remember("The gate is green.", session="s", on_duplicate="count")
    assert engine.sessions() == []


def test_a_text_remembered_by_many_threads_at_once_is_stored_once(engine: Engine) -> None:
    with ThreadPoolExecutor(8) as threads:
        stored = list(threads.map(lambda _: engine.remember("the gate is green", on_duplicate="count").id, range(16)))
    assert len(set(stored)) == 1
    assert engine.get(stored[0]).metadata == {"repeats": 15}


def test_a_repeat_is_sought_in_the_project_of_the_session(engine: Engine) -> None:
    engine.remember("the gate is green", project="home", session="s")
    with pytest.raises(Conflict, match="has the same text"):
        engine.remember("the gate is green", session="s", on_duplicate="refuse")
    outside = engine.remember("the gate is green", on_duplicate="refuse")
    assert outside.project is None


def test_texts_that_repeat_a_word_do_not_hide_a_repeat(local: Engine) -> None:
    local.remember_many([{"text": "bell bell bell"} for _ in range(60)])
    local.remember("bell")
    with pytest.raises(Conflict, match="has the same text"):
        local.remember("bell", on_duplicate="refuse")


def test_a_repeat_is_not_counted_if_the_request_fails(engine: Engine) -> None:
    old = engine.remember("Ana likes green tea")
    with pytest.raises(Conflict):
        engine.remember_many([{"text": old.text}, {"text": "new", "id": old.id}], on_duplicate="count")
    assert engine.get(old.id).metadata == {}


def test_copies_in_other_projects_do_not_hide_a_repeat(local: Engine) -> None:
    for at in range(60):
        local.remember("the same words", project=f"p{at}")
    local.remember("the same words")
    with pytest.raises(Conflict, match="has the same text already"):
        local.remember("the same words", on_duplicate="refuse")


def test_a_repeat_is_kept_counted_or_refused_as_the_caller_asks(engine: Engine) -> None:
    first = engine.remember("Ana likes green tea.")
    assert engine.remember("Ana likes green tea.").id != first.id
    engine.forget(*(one.id for one in engine.list().memories if one.id != first.id))
    counted = engine.remember("ana likes  GREEN tea", on_duplicate="count")
    assert (counted.id, counted.metadata) == (first.id, {"repeats": 1})
    assert engine.remember("Ana likes green tea", on_duplicate="count").metadata == {"repeats": 2}
    with pytest.raises(Conflict, match="has the same text already"):
        engine.remember("Ana likes green tea", on_duplicate="refuse")
    assert engine.stats().memories == 1
    other = engine.remember("Ana likes green tea", project="p", on_duplicate="refuse")
    assert other.project == "p"
    both = engine.remember_many([{"text": "Ana likes green tea"}, {"text": "Bo likes milk"}], on_duplicate="count")
    assert [one.id == first.id for one in both] == [True, False]
    with pytest.raises(Invalid, match="on_duplicate"):
        engine.remember("x", on_duplicate="maybe")  # type: ignore[arg-type]


def test_a_phrase_of_change_about_the_same_subject_raises_a_suggestion_that_acts_when_confirmed(engine: Engine) -> None:
    old, new = moved(engine)
    [review] = engine.reviews.list()
    assert (review.old.id, review.new.id) == (old, new)
    assert review.suggestion.reason == '"no longer", and both are about flat, Paris'
    assert engine.get(old).valid_to is None

    engine.reviews.confirm(review.suggestion.id, actor="ana")
    assert (engine.get(old).superseded_by, engine.get(old).actor) == (new, "ana")
    assert engine.reviews.list() == []
    with pytest.raises(Conflict, match="confirmed already"):
        engine.reviews.dismiss(review.suggestion.id)
    engine.reviews.undo(review.suggestion.id)
    assert engine.get(old).valid_to is None
    assert engine.reviews.list() == [review]
    engine.reviews.dismiss(review.suggestion.id)
    assert engine.reviews.list() == []
    assert len(engine.reviews.list(status="dismissed")) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("my flat is in Paris at10", "my flat is in Berlin at12"),
        ("my flat is in Paris at10", "my car is actually red at12"),
        ("my flat is in Paris at10", "my flat in Paris is no longer cold at85"),
    ],
    ids=["no phrase of change", "another subject", "not near"],
)
def test_facts_that_may_both_be_true_raise_no_suggestion(local: Engine, first: str, second: str) -> None:
    local.remember(first, occurred="2024-01-01")
    local.remember(second, occurred="2025-01-01")
    assert local.reviews.list() == []


def test_an_import_raises_no_suggestions_and_a_forgotten_memory_leaves_the_queue(local: Engine) -> None:
    old, _ = moved(local)
    drafts = [{"text": f"my flat is no longer in Paris {number} at30"} for number in range(20)]
    local.remember_many(drafts)
    assert len(local.reviews.list()) == 1
    local.forget(old)
    assert local.reviews.list() == []


def test_suggestions_of_another_profile_or_project_cannot_be_seen_or_decided(local: Engine) -> None:
    moved(local, profile="bob")
    moved(local, project="work")
    [theirs] = local.reviews.list(profile="bob")
    [at_work] = local.reviews.list()
    view = ProfileView(local, "default", project="home")
    assert view.reviews() == []
    assert ProfileView(local, "default").reviews() == [at_work]
    for suggestion in (theirs.suggestion, at_work.suggestion):
        for action in ("confirm", "dismiss", "undo"):
            with pytest.raises(NotFound):
                view.review(suggestion.id, action)
    assert local.reviews.list(profile="bob", within=Scope("bob")) == [theirs]
