"""Recall over HTTP."""

from __future__ import annotations

import pytest

from retentive.engine import Engine
from retentive.errors import Unavailable
from retentive.models import Scope
from retentive.ranking import Tuning
from retentive.stores import open_store
from tests.surfaces.serving import client, wrong_fields


@pytest.fixture
def words():
    """An engine that knows words alone."""
    with Engine(open_store("memory://")) as engine:
        yield engine


def test_a_recall_finds_by_meaning_and_explains_each_score(engine):
    engine.remember("I am allergic to peanuts", session="s", metadata={"someKey": 1})
    engine.remember("The cello needs new strings", session="s")

    found = client(engine).post("/v1/recall", json={"query": "What food makes me ill?"}).json()

    best = found["hits"][0]
    assert best["memory"]["text"] == "I am allergic to peanuts"
    assert best["memory"]["metadata"] == {"someKey": 1}
    assert best["score"] == pytest.approx(sum(reason["change"] for reason in best["why"]))
    assert (found["degraded"], found["query"]) == (None, "What food makes me ill?")
    assert [retriever["name"] for retriever in found["retrievers"]] == ["semantic", "keyword"]
    assert "dropped" not in found


def test_reasons_can_be_left_out_and_what_was_dropped_asked_for(words):
    words.remember_many([{"text": f"tea number {number}"} for number in range(5)])
    asking = client(words)

    plain = asking.post("/v1/recall", json={"query": "tea", "limit": 2, "explain": False}).json()
    full = asking.post("/v1/recall", json={"query": "tea", "limit": 2, "dropped": True}).json()

    assert [set(hit) for hit in plain["hits"]] == [{"rank", "id", "score", "relevance", "memory"}] * 2
    assert [hit["rank"] for hit in full["hits"] + full["dropped"]] == [1, 2, 3, 4, 5]
    assert all(hit["why"] for hit in full["hits"])


def test_the_specific_terms_of_a_query_are_named_by_their_stems_beside_the_reasons(words):
    words.remember("tea")
    asking = client(words)
    query = {"query": "What does the parrot in Malmö eat?"}

    assert asking.post("/v1/recall", json=query).json()["terms"] == ["parrot", "malmo", "eat"]
    assert "terms" not in asking.post("/v1/recall", json={**query, "explain": False}).json()
    assert asking.post("/v1/recall/compare", json=query).json()["b"]["terms"] == ["parrot", "malmo", "eat"]


def test_a_tuning_is_for_one_recall_alone(words):
    words.remember("tea")
    asking = client(words)

    def weight(**body):
        retrievers = asking.post("/v1/recall", json={"query": "tea", **body}).json()["retrievers"]
        return next(retriever["weight"] for retriever in retrievers if retriever["name"] == "keyword")

    assert weight(tuning={"keywordWeight": 5, "rrfK": None}) == 5
    assert weight(tuning={"keyword_weight": 4}) == 4
    assert weight(tuning="weighted") == 0.3
    assert weight() == weight(tuning={}) == weight(tuning=None) == Tuning().keyword_weight


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tuning": {"keywordWeight": 6}}, "tuning.keywordWeight"),
        ({"tuning": {"nothing": 6}}, "tuning.nothing"),
        ({"tuning": "nothing"}, "tuning"),
        ({"tuning": 3}, "tuning"),
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": "10"}, "limit"),
        ({"kinds": ["odd"]}, "kinds.0"),
        ({"session": [1.5]}, "session.0"),
        ({"exclude": ["x"]}, "exclude.0"),
        ({"recentIds": ["x"]}, "recentIds.0"),
        ({"now": "soon"}, "now"),
        ({"now": 5}, "now"),
        ({"now": "9999-12-31T23:59:59-12:00"}, "now"),
        ({"query": ""}, "query"),
        ({"query": "x" * 10_001}, "query"),
        ({"profile": "other"}, "profile"),
    ],
)
def test_what_is_wrong_with_a_query_is_named(words, body, field):
    assert wrong_fields(client(words).post("/v1/recall", json={"query": "tea", **body})) == [field]


def test_a_recall_keeps_to_its_scope_and_leaves_out_what_the_caller_has(words):
    had = words.remember("tea for one", session="a")
    words.remember("tea for two", session="b")
    words.remember("tea for three", session="c", kind="semantic")
    asking = client(words)

    def found(**body):
        hits = asking.post("/v1/recall", json={"query": "tea", **body}).json()["hits"]
        return sorted(hit["memory"]["text"] for hit in hits)

    assert found(session="a") == ["tea for one"]
    assert found(session=["a", "b"], onlySession=True) == ["tea for one", "tea for two"]
    assert found(session="") == []
    assert found(kinds=["semantic"]) == ["tea for three"]
    for name in ("exclude", "recentIds", "recent_ids"):
        assert found(**{name: [had.id]}) == ["tea for three", "tea for two"]
    assert found(project="none") == []


def test_excluded_memories_are_explained_as_excluded(words):
    had = words.remember("tea for one")

    found = client(words).post("/v1/recall/explain", json={"query": "tea", "id": had.id, "recentIds": [had.id]}).json()

    assert (found["query"], found["outcome"]) == ("tea", "excluded")


def test_a_recall_without_its_embedder_answers_from_words_and_says_so():
    def down():
        raise Unavailable("the embedder does not answer")

    with Engine(open_store("memory://"), down) as engine:
        engine.remember("Ana drinks tea")

        answer = client(engine).post("/v1/recall", json={"query": "tea"})

        assert answer.status_code == 200
        found = answer.json()
        assert [hit["memory"]["text"] for hit in found["hits"]] == ["Ana drinks tea"]
        assert found["degraded"] == "keyword-only"
        assert "does not answer" in found["degradedReason"]


def test_a_comparison_shows_both_lists_and_what_moved(words):
    low, high = words.remember_many(
        [{"text": "tea tea", "importance": 0.0, "source": "a"}, {"text": "tea and milk and sugar", "source": "b"}]
    )
    query = {"query": "tea", "a": {"sourceWeights": {"b": 0.01}}, "b": {"sourceWeights": {"a": 0.01}}}

    compared = client(words).post("/v1/recall/compare", json=query).json()

    assert [hit["id"] for hit in compared["a"]["hits"]] == [low.id, high.id]
    assert [hit["id"] for hit in compared["b"]["hits"]] == [high.id, low.id]
    assert compared["moved"] == [
        {"id": low.id, "rankA": 1, "rankB": 2, "change": -1},
        {"id": high.id, "rankA": 2, "rankB": 1, "change": 1},
    ]


def test_a_memory_in_one_list_only_has_no_rank_in_the_other(words):
    stored = words.remember("tea")

    compared = client(words).post("/v1/recall/compare", json={"query": "tea", "b": "semantic-only"}).json()

    assert compared["moved"] == [{"id": stored.id, "rankA": 1, "rankB": None, "change": None}]
    assert compared["a"]["hits"][0]["score"] != 0


def test_comparing_tells_what_was_dropped_if_that_is_wished(words):
    words.remember("tea")
    words.remember("tea again")
    query = {"query": "tea", "limit": 1}
    asking = client(words)

    compared = asking.post("/v1/recall/compare", json={**query, "dropped": True}).json()

    assert [len(compared[side]["dropped"]) for side in ("a", "b")] == [1, 1]
    assert compared["b"]["dropped"][0]["rank"] == 2
    assert "dropped" not in asking.post("/v1/recall/compare", json=query).json()["a"]


def test_comparing_leaves_no_trace_and_recalling_does(open_engine):
    with Engine(open_store("memory://")) as engine:
        stored = engine.remember("tea")
        asking = client(engine)
        for _ in range(64):  # as many as are recorded together
            asking.post("/v1/recall/compare", json={"query": "tea"})
            asking.get("/episodes/search?q=tea&sessionIds=1")
        assert engine._recall_log._unrecorded == []
        asking.post("/v1/recall", json={"query": "tea"})
        assert [ids for _, ids in engine._recall_log._unrecorded] == [(stored.id,)]


def test_an_episode_search_finds_words_inside_exactly_those_sessions(words):
    for session in ("1", "2", "3", "4"):
        words.remember(f"hello from {session}", session=session, project="p")
    words.remember("a neighbour without the word", session="1")
    words.remember("hello as a fact", session="1", kind="semantic")
    asking = client(words)

    def found(query):
        hits = asking.get(f"/episodes/search?{query}").json()["hits"]
        return sorted(hit["memory"]["text"] for hit in hits)

    assert found("q=hello&sessionIds=1,2,3") == ["hello from 1", "hello from 2", "hello from 3"]
    assert found("q=hello&session_ids=4") == ["hello from 4"]
    assert found("q=hello&sessionIds=1&sessionIds=2&limit=1") in (["hello from 1"], ["hello from 2"])
    assert found("q=hello&sessionIds=unknown") == found("q=hello&sessionIds=") == []
    assert found("q=absent&sessionIds=1") == []
    assert found("q=hello&sessionIds=%201%20,%202") == ["hello from 1", "hello from 2"]
    assert found("q=hello&sessionIds=[1,2]") == ["hello from 1", "hello from 2"]
    assert set(found("q=hello")) > {"hello from 1", "hello from 2", "hello from 3"}


def test_an_episode_search_gives_what_was_said_twice_twice_whatever_the_settings_are(words):
    words.remember("hello", session="1")
    words.remember("hello", session="2")
    asking = client(words)
    asking.patch("/settings", json={"keywordWeight": 0, "minScore": 10})

    found = asking.get("/episodes/search?q=hello&sessionIds=1,2").json()

    assert sorted(hit["memory"]["session"] for hit in found["hits"]) == ["1", "2"]
    assert found["degraded"] is None


def test_an_episode_has_the_fields_that_clients_of_other_systems_read(words):
    stored = client(words).post("/v1/memories", json={"text": "hello", "session": 7, "created": "2026-05-08"}).json()
    words.remember("hello there", session="trip")

    hits = client(words).get("/episodes/search?q=hello").json()["hits"]
    fields = [{name: hit[name] for name in ("id", "sessionId", "content", "createdAt")} for hit in hits]

    assert {"id": stored["id"], "sessionId": 7, "content": "hello", "createdAt": stored["created"]} in fields
    assert "trip" in [hit["sessionId"] for hit in hits]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("sessionIds=1", "q"),
        ("q=hello&q=bye", "q"),
        ("q=hello&limit=1&limit=2", "limit"),
        ("q=hello&sessionIds=1&limit=x", "limit"),
        ("q=&sessionIds=1", "q"),
    ],
)
def test_an_episode_search_names_what_is_wrong(words, query, field):
    assert wrong_fields(client(words).get(f"/episodes/search?{query}")) == [field]


def test_a_recall_is_filtered_by_time_and_metadata(words):
    words.remember("old tea", occurred="2026-05-08", metadata={"topic": "tea", "cups": 2})
    words.remember("new tea", occurred="2026-06-01")
    asking = client(words)

    def texts(**body):
        found = asking.post("/v1/recall", json={"query": "tea", **body}).json()["hits"]
        return [hit["memory"]["text"] for hit in found]

    assert texts(until="2026-05-08") == texts(metadata={"topic": "tea", "cups": 2}) == ["old tea"]
    assert texts(since="2026-05-09T00:00:00Z") == ["new tea"]
    [id] = [hit.id for hit in words.recall("tea", until="2026-05-08").hits]
    body = {"query": "tea", "id": id, "since": "2026-05-09"}
    assert asking.post("/v1/recall/explain", json=body).json()["part"] == "time"
    for wrong in ({"since": "soon"}, {"metadata": {"topic": ["tea"]}}, {"until": 5}):
        answer = asking.post("/v1/recall", json={"query": "tea", **wrong})
        assert answer.status_code == 422
        assert [field.split(".")[0] for field in wrong_fields(answer)] == [*wrong]


def test_a_recall_can_leave_the_use_of_memories_unrecorded(tmp_path):
    path = str(tmp_path / "store.db")
    for record_use, count in ((False, 0), (True, 1)):
        with Engine(open_store(path)) as engine:  # what is recorded is stored when the engine is closed
            engine.remember("the cat eats at eight", on_duplicate="count")
            client(engine).post("/v1/recall", json={"query": "cat", "recordUse": record_use})
        store = open_store(path)
        assert [memory.access_count for memory in store.list(Scope()).memories] == [count]
        store.close()


def test_the_period_that_a_query_names_is_told_with_its_words(words):
    words.remember("tea")
    asking = client(words)

    named = asking.post("/v1/recall", json={"query": "tea in May 2023"}).json()["period"]

    assert named == {"words": "in May 2023", "since": "2023-05-01T00:00:00+00:00", "until": "2023-06-01T00:00:00+00:00"}
    assert asking.post("/v1/recall", json={"query": "tea"}).json()["period"] is None
