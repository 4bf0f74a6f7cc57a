"""The wall: nothing of another profile, and nothing outside of a project where one is drawn."""

from __future__ import annotations

from dataclasses import replace

import pytest

from retentive.errors import Invalid, NotFound
from retentive.models import Scope
from retentive.stores.values import Profile
from retentive.tenancy import ProfileView

BOS = "01900000-0000-7000-8000-0000000000b0"


@pytest.fixture
def engine(open_engine):
    """An engine in which Ana and Bo both remember tea, Ana in two projects."""
    engine = open_engine()
    engine.remember("tea at home", profile="ana", project="home", session="h")
    engine.remember("tea at work", profile="ana", project="work", session="w")
    engine.remember("tea is secret", profile="bo", project="home", session="h", id=BOS)
    return engine


def texts(found) -> list[str]:
    return sorted(memory.text for memory in found)


def test_one_profile_recalls_lists_and_counts_its_own_alone(engine):
    ana = ProfileView(engine, "ana")

    assert texts(hit.memory for hit in ana.recall("tea secret").hits) == ["tea at home", "tea at work"]
    assert texts(ana.list().memories) == ["tea at home", "tea at work"]
    assert [session.memories for session in ana.sessions()] == [1, 1]
    assert [project.name for project in ana.projects()] == ["home", "work"]
    assert ana.counts() == Profile("ana", 2, 2, 2)
    assert ProfileView(engine, "nobody").counts() == Profile("nobody", 0, 0, 0)


def test_another_ones_memory_is_as_if_it_were_not_there(engine):
    ana = ProfileView(engine, "ana")
    for touch in (ana.get, lambda one: ana.update(one, text="mine"), lambda one: ana.judge("tea?", good=[one])):
        with pytest.raises(NotFound, match=f"^there is no memory {BOS}$"):
            touch(BOS)

    assert len(ana.forget(BOS)) == 0
    assert engine.get(BOS).text == "tea is secret"


def test_what_is_remembered_goes_into_the_own_profile_whatever_is_said(engine):
    ana = ProfileView(engine, "ana")

    stored = ana.remember([{"text": "more tea"}])[0]

    assert stored.profile == "ana"
    with pytest.raises(NotFound, match="no profile 'bo'"):
        ana.remember([{"text": "fine"}, {"text": "planted", "profile": "bo"}])
    assert len(ana.list().memories) == 3


def test_the_same_key_of_two_profiles_is_two_writes(engine):
    ana, bo = ProfileView(engine, "ana"), ProfileView(engine, "bo")

    first = ana.remember([{"text": "more"}], idempotency_key="key")
    again = ana.remember([{"text": "more"}], idempotency_key="key")
    other = bo.remember([{"text": "more"}], idempotency_key="key")

    assert first == again
    assert other[0].id != first[0].id


def test_inside_a_project_nothing_else_of_the_profile_is_there(engine):
    home = ProfileView(engine, "ana", project="home")
    work = ProfileView(engine, "ana").list(project="work").memories[0]

    assert texts(hit.memory for hit in home.recall("tea").hits) == ["tea at home"]
    assert home.recall("tea", session="w").hits == ()
    assert texts(home.list().memories) == ["tea at home"]
    assert home.list(session="w", only_session=True).memories == ()
    assert [project.name for project in home.projects()] == ["home"]
    assert [session.name for session in home.sessions()] == ["h"]
    assert home.remember([{"text": "new"}])[0].project == "home"
    assert len(home.forget(work.id)) == 0
    with pytest.raises(NotFound):
        home.get(work.id)
    for wander in (lambda: home.recall("tea", project="work"), lambda: home.list(project="work")):
        with pytest.raises(NotFound, match="no project 'work' for this caller"):
            wander()
    with pytest.raises(Invalid, match="cannot be moved out"):
        home.move_session("h", project="work")


def test_judgements_are_those_of_the_profile(engine):
    ana, bo = ProfileView(engine, "ana"), ProfileView(engine, "bo")
    said = bo.judge("tea?", good=[BOS])

    assert ana.judgements() == []
    with pytest.raises(NotFound):
        ana.unjudge(*said)
    assert bo.judgements() == list(said)
    assert bo.unjudge(*said) == 1


def test_a_view_of_a_project_removes_nothing_of_another_one(engine):
    work, home = ProfileView(engine, "ana", project="work"), ProfileView(engine, "ana", project="home")
    [judged] = work.judge("tea?", good=[work.remember([{"text": "tea at work"}])[0].id])

    for judgement in (judged, replace(judged, project=None)):
        with pytest.raises(NotFound):
            home.unjudge(judgement)
    assert work.unjudge(judged) == 1
    with pytest.raises(Invalid, match="limited to one project"):
        home.sweep()


def test_a_query_or_a_scope_outside_the_view_is_refused(engine):
    home = ProfileView(engine, "ana", project="home")
    query = home.query("tea")

    for scope in (Scope("bo", "home"), Scope("ana"), Scope("ana", "work")):
        for outside in (
            lambda scope=scope: home.recall(replace(query, scope=scope)),
            lambda scope=scope: home.explain(query, BOS, within=scope),
            lambda scope=scope: home.get(BOS, within=scope),
            lambda scope=scope: home.update(BOS, within=scope, text="mine"),
            lambda scope=scope: home.forget(BOS, within=scope),
        ):
            with pytest.raises(NotFound):
                outside()

    assert texts(hit.memory for hit in home.recall(query).hits) == ["tea at home"]
    assert engine.get(BOS).text == "tea is secret"


def test_a_narrower_scope_limits_a_view_further(engine):
    home = ProfileView(engine, "ana", project="home")
    here = home.list().memories[0].id

    assert home.get(here, within=Scope("ana", "home", ("h",))).text == "tea at home"
    assert home.forget(here, within=Scope("ana", "home", ("other",))) == []
    assert home.forget(here) == [here]


def test_a_query_has_its_own_options(engine):
    ana = ProfileView(engine, "ana")

    with pytest.raises(TypeError, match="limit"):
        ana.recall(ana.query("tea"), limit=3)


def test_a_view_of_a_project_finds_and_explains_the_identity_of_the_profile_but_cannot_change_it(engine):
    who = engine.remember("Ana drinks tea", kind="identity")
    engine.remember("tea in the kitchen", project="p")
    view = ProfileView(engine, engine.settings.profile, project="p")

    assert {hit.memory.text for hit in view.recall("tea")} == {"Ana drinks tea", "tea in the kitchen"}
    assert view.explain("tea", who.id).outcome == "hit"
    assert view.explain("kitchen", who.id).outcome == "not_found"
    assert view.get(who.id) == who
    assert view.forget(who.id) == []
    with pytest.raises(NotFound, match=who.id):
        view.update(who.id, importance=1)
    assert engine.get(who.id) == who


def test_the_session_of_an_identity_memory_that_a_project_shares_stays_outside(engine):
    who = engine.remember("Ana designs long bridges", kind="identity", session="therapy")
    secret = engine.remember("Ana designs secret bridges", session="therapy")
    also = engine.remember("Ana designs small bridges", kind="identity", session="therapy")
    work = engine.remember("Ana designs the bridges of May", project="work", session="plans")
    shared = {who.id, also.id, work.id}

    for project, session in (("work", None), (None, "plans")):
        found = ProfileView(engine, "default", project=project).recall("Ana designs", session=session, limit=0)
        assert {hit.memory.id for hit in (*found.hits, *found.dropped)} == shared
    assert {one.id for one in engine.similar(who.id)} == {secret.id, also.id}
    assert {one.id for one in ProfileView(engine, "default", project="work").similar(who.id)} == {also.id, work.id}


@pytest.mark.parametrize("drafts", ["tea", {"text": "tea"}, ["tea"]])
def test_a_view_stores_a_list_of_objects_and_says_so(engine, drafts):
    with pytest.raises(Invalid, match=r'a list of objects, such as \[\{"text"'):
        ProfileView(engine, "ana").remember(drafts)


def test_an_unknown_decision_on_a_suggestion_is_refused(engine):
    engine.remember("My flat is in Paris near the river", occurred="2024-01-01")
    engine.remember("My flat is no longer in Paris near the river", occurred="2025-01-01")
    view = ProfileView(engine, engine.settings.profile)
    [review] = view.reviews()
    with pytest.raises(Invalid, match="action: confirm, dismiss or undo, not 'cofirm'"):
        view.review(review.suggestion.id, "cofirm")
    assert view.reviews() == [review]


def test_a_query_in_the_future_is_used_now_and_a_view_may_record_no_use(engine):
    engine.remember("The spare key is under the pot", profile="bo")
    read = engine.remember("The dentist is on Thursday", profile="ana")
    ProfileView(engine, "ana").recall("dentist")
    ProfileView(engine, "bo").recall("key", now="2999-01-01")
    ProfileView(engine, "ana", records_use=False).recall("dentist")
    engine._recall_log.record_use()

    used = engine.get(read.id)
    assert used.access_count == 1
    assert used.accessed <= engine.now()


def test_what_is_in_no_project_is_a_scope(engine):
    inside = engine.remember("The flat is in Paris", project="novel", occurred="2024-01-01")
    outside = engine.remember("The flat is no longer in Paris", occurred="2025-03-01")
    scope = Scope(engine.settings.profile, outside_projects=True)

    assert [one.id for one in engine.list(scope).memories] == [outside.id]
    assert engine.similar(outside.id) == [] == list(engine.reviews.list())
    assert engine.forget_scope(scope, confirm=True) == 1
    assert [one.id for one in engine.list().memories] == [inside.id]


def test_a_view_of_a_project_gets_no_other_memory_from_outside_of_it(engine):
    others = engine.remember_many(
        [
            {"text": "Ana drinks tea at work", "kind": "identity", "project": "work"},
            {"text": "tea is ready", "kind": "semantic"},
            {"text": "tea was ready", "session": "kitchen"},
            {"text": "Bo drinks tea", "kind": "identity", "profile": "bo"},
        ]
    )
    engine.remember("tea in the kitchen", project="p")
    who = engine.remember("Ana drinks tea", kind="identity")
    view = ProfileView(engine, engine.settings.profile, project="p")

    for memory in others:
        with pytest.raises(NotFound, match=f"^there is no memory {memory.id}$"):
            view.get(memory.id)
    for scope in (replace(view.within, kinds=("episodic",)), replace(view.within, sessions=("kitchen",))):
        with pytest.raises(NotFound, match=f"^there is no memory {who.id}$"):
            view.get(who.id, within=scope)
    with pytest.raises(NotFound, match=f"^there is no memory {who.id}$"):
        ProfileView(engine, engine.settings.profile, project="empty").get(who.id)
