"""The log of what was given: kept for some days and for some entries, separately for each profile, and erased."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from retentive.chat.context import assemble, log_context
from retentive.engine import Engine
from retentive.errors import NotFound, Unavailable
from retentive.pipeline import given
from retentive.settings import Settings
from retentive.stores import open_store
from retentive.tenancy import ProfileView
from tests.stores.openers import OPENERS


class Clock:
    """A clock that goes on by a minute with every reading."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 8, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=OPENERS)
def engine(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Engine]:
    with Engine(OPENERS[request.param](tmp_path), clock=clock) as opened:
        yield opened


def give(
    engine: Engine, query: str, *, profile: str = "default", project: str | None = None, session: str | None = None
) -> None:
    view = ProfileView(engine, profile)
    log_context(view, assemble(view, query, project=project), client="context", query=query, session=session)


def queries(engine: Engine, profile: str = "default") -> list[str]:
    return [one.query for one in engine.given.list(profile)]


def test_what_a_prompt_got_is_listed_with_the_reasons_for_what_it_did_not_get(engine: Engine) -> None:
    tea = engine.remember("Ana drinks green tea", project="home")
    give(engine, "which tea does Ana drink?", project="home", session="s")
    give(engine, "x" * 1000)

    nothing, got = engine.given.list()
    assert (nothing.query, nothing.notes, nothing.project) == ("x" * 300, (), None)
    assert (got.client, got.profile, got.project, got.session) == ("context", "default", "home", "s")
    [note] = got.notes
    assert (note.id, note.part, note.text) == (tea.id, "recalled", tea.text)
    assert got.tokens > 5
    engine.forget(tea.id)
    assert [note.text for one in engine.given.list(project="home") for note in one.notes] == [None]
    assert engine.given.list(project="elsewhere") == []
    assert "tea" not in "".join(engine.store.list_values("given/").values()).replace("which tea does", "")


def test_entries_are_deleted_when_they_are_old_or_too_many(
    engine: Engine, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given, "PRUNE_EVERY", 1_000_000_000)
    engine.remember("green tea")
    give(engine, "old")
    clock.now += timedelta(days=31)
    for number in range(4):
        give(engine, f"tea {number}")
    assert queries(engine) == ["tea 3", "tea 2", "tea 1", "tea 0"]
    monkeypatch.setattr(given, "MAX_ENTRIES", 2)
    assert len(engine.store.list_values("given/")) == 5
    engine.sweep()
    assert queries(engine) == ["tea 3", "tea 2"]
    assert len(engine.store.list_values("given/")) == 2
    monkeypatch.setattr(given, "PRUNE_EVERY", 1)
    give(engine, "tea 4")
    assert queries(engine) == ["tea 4", "tea 3"]


def test_forgetting_a_profile_a_project_or_a_session_erases_what_it_was_given(engine: Engine) -> None:
    for profile in ("ana", "bo"):
        engine.remember("green tea", profile=profile, project="home", session="s")
        for project, session in ((None, None), ("home", "s"), ("home", "t")):
            give(engine, f"tea {project} {session}", profile=profile, project=project, session=session)
    engine.forget_scope(engine.scope(profile="ana", project="home", session="s", only_session=True), confirm=True)
    assert queries(engine, "ana") == ["tea home t", "tea None None"]
    engine.forget_scope(engine.scope(profile="ana", project="home"), confirm=True)
    assert queries(engine, "ana") == ["tea None None"]
    engine.forget_scope(engine.scope(profile="ana"), confirm=True)  # which has no memories any more
    assert queries(engine, "ana") == []
    assert len(queries(engine, "bo")) == 3


def test_no_view_sees_the_log_of_another_profile_or_project(engine: Engine) -> None:
    engine.remember("green tea", profile="ana", project="home")
    engine.remember("Ana is a sailor", profile="ana", kind="identity")
    give(engine, "which green tea?", profile="ana", project="home")
    give(engine, "black tea", profile="ana", project="work")
    give(engine, "tea everywhere", profile="ana")

    assert len(ProfileView(engine, "ana").given()) == 3
    assert ProfileView(engine, "bo").given() == []
    assert engine.given.list() == []
    [one] = ProfileView(engine, "ana", project="home").given()
    assert [note.text for note in one.notes] == ["Ana is a sailor", "green tea"]
    with pytest.raises(NotFound):
        ProfileView(engine, "ana", project="home").given(project="work")


def test_with_no_days_nothing_is_logged_and_a_sweep_deletes_what_was(tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    with Engine(open_store(path)) as engine:
        engine.remember("green tea")
        give(engine, "tea")
    with Engine(open_store(path), settings=Settings(store=path, given_days=0)) as engine:
        give(engine, "more tea")
        assert queries(engine) == []
        assert len(engine.store.list_values("given/")) == 1
        engine.sweep()
        assert engine.store.list_values("given/") == {}


def test_a_store_that_cannot_be_written_is_reported_in_the_log_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> bool:
        raise Unavailable("the disk is full")

    with Engine(OPENERS["memory"](Path())) as engine:
        engine.remember("green tea")
        monkeypatch.setattr(engine.store, "compare_and_set", fail)
        give(engine, "tea")
        engine.given.write()
    assert "what was given was not logged: the disk is full" in caplog.text
