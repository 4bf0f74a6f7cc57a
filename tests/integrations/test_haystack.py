"""The component in real pipelines: run, awaited, serialised and loaded."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest
from haystack import Pipeline
from haystack.components.builders import PromptBuilder

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.integrations.haystack import RetentiveRetriever
from retentive.tenancy import ProfileView

PROMPT = "{% for document in documents %}{{ document.content }}\n{% endfor %}{{ query }}"


@pytest.fixture
def opened(tmp_path, model):
    """An engine on a file, opened by its address as a user's is."""
    with Engine.open(tmp_path / "home.db", embedder=model, profile="ana") as engine:
        engine.remember("The spare key is under the blue pot", project="home", metadata={"room": "porch"})
        engine.remember("The plumber comes on Monday", project="home")
        engine.remember("The plumber of the office comes on Friday", project="office")
        yield engine


def test_documents_are_the_hits_of_a_recall_with_their_ids_texts_and_scores(household):
    hits = household.recall("where is the key?", project="home", limit=2, record_use=False).hits

    answer = RetentiveRetriever(household, project="home", top_k=2).run("where is the key?")

    assert [(one.id, one.content, one.score) for one in answer["documents"]] == [
        (hit.id, hit.memory.text, hit.score) for hit in hits
    ]
    assert answer["documents"][0].meta["room"] == "porch"
    assert answer["degraded"] is None


def test_it_says_what_was_missing_from_a_recall(open_engine):
    engine = open_engine(None)
    engine.remember("The spare key is under the blue pot")

    answer = RetentiveRetriever(engine).run("key")

    assert [one.content for one in answer["documents"]] == ["The spare key is under the blue pot"]
    assert "embedder" in answer["degraded"]


def test_a_pipeline_puts_memories_into_a_prompt(household):
    pipeline = Pipeline()
    pipeline.add_component("memory", RetentiveRetriever(household, top_k=1))
    pipeline.add_component("prompt", PromptBuilder(PROMPT, required_variables=["documents", "query"]))
    pipeline.connect("memory.documents", "prompt.documents")

    answer = pipeline.run({"memory": {"query": "where is the key?"}, "prompt": {"query": "Where?"}})

    assert answer["prompt"]["prompt"] == "The spare key is under the blue pot\nWhere?"


def test_a_pipeline_can_be_awaited(household):
    pipeline = Pipeline()
    pipeline.add_component("memory", RetentiveRetriever(household))

    answer = asyncio.run(pipeline.run_async({"memory": {"query": "where is the key?", "top_k": 1}}))

    assert [one.content for one in answer["memory"]["documents"]] == ["The spare key is under the blue pot"]


def test_a_run_may_ask_in_another_place(opened):
    retriever = RetentiveRetriever(opened, project="home", top_k=5)

    found = retriever.run("when does the plumber come?", project="office")["documents"]

    assert [one.content for one in found] == ["The plumber of the office comes on Friday"]


def test_it_sees_one_profile_alone(household):
    found = RetentiveRetriever(ProfileView(household, "neighbours"), top_k=50).run("spare key")["documents"]

    assert [one.content for one in found] == ["The spare key of the neighbours is in the mailbox"]


def test_a_loaded_pipeline_finds_the_same(opened):
    pipeline = Pipeline()
    inside = ProfileView(opened, "ana", project="home")
    pipeline.add_component("memory", RetentiveRetriever(inside, top_k=4, kinds=["episodic"], tuning={"dedup": False}))
    query = {"memory": {"query": "when does the plumber come?"}}
    before = pipeline.run(query)["memory"]["documents"]

    read = Pipeline.loads(pipeline.dumps(), allowed_modules=[RetentiveRetriever.__module__])
    after = read.run(query)["memory"]["documents"]
    again = read.dumps()
    read.get_component("memory").close()

    assert [(one.id, one.content) for one in after] == [(one.id, one.content) for one in before]
    assert [one.score for one in after] == pytest.approx([one.score for one in before])
    assert len(after) == 2
    assert again == pipeline.dumps()


def test_a_component_without_an_engine_opens_the_store_of_the_settings(opened, monkeypatch):
    monkeypatch.setenv("RETENTIVE_STORE", opened.settings.store)
    monkeypatch.setenv("RETENTIVE_PROFILE", "ana")
    retriever = RetentiveRetriever(top_k=1)

    found = retriever.run("where is the key?")["documents"]
    retriever.close()

    assert [one.content for one in found] == ["The spare key is under the blue pot"]


def test_runs_that_begin_at_the_same_time_open_one_store(opened, monkeypatch):
    retriever = RetentiveRetriever.from_dict(RetentiveRetriever(opened).to_dict())
    engines, opens, second = [], Engine.open, threading.Barrier(2)

    def counted(*given, **named):
        with contextlib.suppress(threading.BrokenBarrierError):
            second.wait(timeout=0.2)  # leaves a second run the time to come here too
        engines.append(opens(*given, **named))
        return engines[-1]

    monkeypatch.setattr(Engine, "open", counted)
    threads = [threading.Thread(target=retriever.run, args=["where is the key?"]) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    retriever.close()

    assert len(engines) == 1


def test_a_store_without_an_address_cannot_be_serialised(household):
    with pytest.raises(Invalid, match="opened by its address"):
        RetentiveRetriever(household).to_dict()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:secret@localhost/memories",
        "postgresql://localhost/memories?user=ana&password=secret",
        "https://localhost:6333/memories?api_key=secret",
    ],
)
def test_no_password_is_serialised(open_engine, address):
    engine = open_engine(None)
    engine.settings = engine.settings.model_copy(update={"store": address})

    with pytest.raises(Invalid, match="contains a password") as refused:
        RetentiveRetriever(engine).to_dict()

    assert "secret" not in str(refused.value)
