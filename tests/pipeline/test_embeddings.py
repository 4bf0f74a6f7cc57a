"""Vectors from a real embedding service that refuses some texts, or is down."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from retentive.engine import Engine
from retentive.errors import Damaged, Unavailable
from retentive.inference.embedders.remote import RemoteEmbedder
from tests.inference.embedders.embedding_service import Service, embedding_service, failing, refusing

OpenEngine = Callable[..., Engine]


@pytest.fixture
def service() -> Iterator[Service]:
    with embedding_service() as server:
        yield server


def remote(service: Service, *, model: str = "m", **options: float) -> RemoteEmbedder:
    return RemoteEmbedder(service.url, model=model, wait_initial=0.001, **{"retries": 1, **options})  # type: ignore[arg-type]


def test_a_damaged_memory_without_a_vector_ends_reembed_with_an_error(tmp_path: Path):
    path = tmp_path / "store.db"
    with Engine.open(path, embedder="none") as engine:
        engine.remember("a red cat")
        engine.remember("a green cat")
    with closing(apsw.Connection(str(path))) as connection:  # another program
        connection.execute("UPDATE memories SET text = 'a blue cat' WHERE text = 'a red cat'")
    with Engine.open(path) as engine:
        with pytest.raises(Damaged, match=r"doctor --repair"):
            engine.embeddings.reembed()
        engine.repair()
        assert engine.embeddings.reembed() == 0
        assert {hit.memory.text for hit in engine.recall("cat")} == {"a blue cat", "a green cat"}


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_that_is_refused_is_stored_without_a_vector_and_the_others_with_theirs(
    open_engine: OpenEngine, service: Service, status: int
):
    engine = open_engine(remote(service))
    service.script = [refusing("poison", status)] * 99

    stored = engine.remember_many([{"text": f"memory {n}" if n != 5 else "poison"} for n in range(20)])

    assert len(stored) == 20
    assert [memory.text for memory in engine.store.unembedded(remote(service).model, limit=9)] == ["poison"]
    assert engine.recall("poison").degraded == "keyword-only"
    assert [hit.memory.text for hit in engine.recall("poison")] == ["poison"]
    assert engine.recall("memory").degraded is None
    assert engine.embeddings.problem() is None


def test_reembed_reports_what_is_refused_and_embeds_the_rest(open_engine: OpenEngine, service: Service):
    first = open_engine(remote(service, model="old"))
    ids = [memory.id for memory in first.remember_many([{"text": f"memory {n}"} for n in range(70)])]
    poison = first.remember("poison").id
    engine = open_engine(remote(service, model="new"))
    service.script = [refusing("poison", 400)] * 999
    refused: list[str] = []
    done: list[int] = []

    count = engine.embeddings.reembed(refused=refused.append, progress=done.append)

    assert (count, refused, sum(done)) == (70, [poison], 71)
    assert engine.store.model() == remote(service, model="new").model
    assert [memory.id for memory in engine.store.unembedded(remote(service, model="new").model, limit=9)] == [poison]
    assert engine.recall("memory").degraded is None
    again: list[str] = []
    assert engine.embeddings.reembed(refused=again.append) == 0
    assert again == [poison]
    assert set(ids) == {memory.id for memory in engine.get_many(ids)}


def test_if_every_text_is_refused_the_old_vectors_stay(open_engine: OpenEngine, service: Service):
    first = open_engine(remote(service, model="old"))
    first.remember("poison")
    engine = open_engine(remote(service, model="new"))
    service.script = [refusing("poison", 400)] * 99

    assert engine.embeddings.reembed() == 0
    assert engine.store.model() == remote(service, model="old").model


@pytest.mark.parametrize("status", [400, 500])
def test_a_model_that_the_service_does_not_have_refuses_no_memory(
    open_engine: OpenEngine, service: Service, status: int
):
    engine = open_engine(remote(service))
    engine.remember("a memory")
    other = open_engine(remote(service, model="other", dimension=3))
    service.script = [failing(status, "there is no model 'other'")] * 99
    refused: list[str] = []

    with pytest.raises(Unavailable, match=f"answered {status}"):
        other.embeddings.reembed(refused=refused.append)

    service.script = []
    assert refused == []
    assert engine.store.model() == remote(service).model


def test_while_the_service_is_down_recalls_send_it_nothing_and_the_state_says_why(
    open_engine: OpenEngine, service: Service
):
    engine = open_engine(remote(service, open_seconds=3600))
    engine.remember("the cat eats at eight")
    service.script = [failing(500)] * 99
    engine.recall("when does the dog eat?")
    sent = len(service.seen)

    answer = engine.recall("when does the cat eat?")

    assert (answer.degraded, len(answer.hits)) == ("keyword-only", 1)
    assert len(service.seen) == sent
    problem = engine.embeddings.problem()
    assert problem is not None
    assert "answered 500" in problem


def test_a_service_that_repeats_a_query_in_its_error_does_not_get_it_into_the_log(
    open_engine: OpenEngine, service: Service, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.DEBUG, logger="retentive")
    engine = open_engine(remote(service))
    engine.remember("the cat eats at eight")
    service.script = [refusing("diary", 400)] * 9

    answer = engine.recall("what is in my diary?")

    assert answer.degraded == "keyword-only"
    assert answer.degraded_reason is not None
    assert "diary" not in answer.degraded_reason
    assert "answered 400" in caplog.text
    assert "diary" not in caplog.text


def test_a_long_text_is_embedded_in_batches_up_to_a_bound(
    open_engine: OpenEngine, service: Service, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("retentive.pipeline.remember.MAX_PARTS", 100)
    engine = open_engine(remote(service, max_chars=100))
    done: list[int] = []

    stored = engine.remember_many([{"text": "One more sentence. " * 5000}], progress=done.append)

    assert done == [64, 36]
    assert engine.stats().vectors == 100
    assert [hit.id for hit in engine.recall("sentence")] == [stored[0].id]


def test_every_part_of_a_long_text_is_embedded_with_its_speaker(open_engine: OpenEngine, service: Service):
    engine = open_engine(remote(service, max_chars=100))

    engine.remember("One more sentence. " * 12, speaker="Ada")

    embedded = [text for request in service.seen for text in request["input"]]
    assert len(embedded) > 2
    assert all(text.startswith("Ada: One more sentence.") for text in embedded)
