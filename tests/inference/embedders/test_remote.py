"""The remote embedder with a real server on this machine whose failures are scripted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from retentive.errors import Invalid, MissingExtra, Refused, Unavailable
from retentive.extras import pip_install
from retentive.inference.embedders.remote import RemoteEmbedder
from tests.inference.embedders.embedding_service import (
    Behaviour,
    Handler,
    Service,
    backwards,
    dripping,
    dropping,
    embedding_service,
    failing,
    hanging,
    hanging_up,
    refusing,
    saying,
    unit,
    well,
)

KEY = "sk-very-secret-4711"
Opener = Callable[..., RemoteEmbedder]


@pytest.fixture
def service() -> Iterator[Service]:
    with embedding_service() as server:
        yield server


@pytest.fixture
def open_remote(service: Service) -> Iterator[Opener]:
    with contextlib.ExitStack() as stack:

        def open_it(url: str | None = None, **options: Any) -> RemoteEmbedder:
            embedder = RemoteEmbedder(url or service.url, **{"model": "m", "wait_initial": 0.001, **options})
            stack.callback(embedder.close)
            return embedder

        yield open_it


def failure(embedder: RemoteEmbedder, texts: list[str] | None = None) -> str:
    with pytest.raises(Unavailable) as caught:
        embedder.embed(texts or ["a"])
    assert type(caught.value) is Unavailable
    return str(caught.value)


def test_rows_are_unit_vectors_of_the_texts_in_order(open_remote: Opener) -> None:
    rows = open_remote().embed(["a", "bbb"])
    assert rows.dtype == np.float32
    assert np.allclose(rows, [unit("a"), unit("bbb")])


def test_the_query_names_the_model_and_carries_the_key(open_remote: Opener, service: Service) -> None:
    open_remote(model="nomic", api_key=f" {KEY}\n").embed(["tea", "Tee ☕"])
    (request,) = service.seen
    assert (request["model"], request["input"]) == ("nomic", ["tea", "Tee ☕"])
    assert request["headers"]["Authorization"] == f"Bearer {KEY}"


def test_without_a_key_none_is_sent(open_remote: Opener, service: Service) -> None:
    open_remote().embed(["a"])
    assert "Authorization" not in service.seen[0]["headers"]


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("", "/v1/embeddings"),
        ("/", "/v1/embeddings"),
        ("/v1", "/v1/embeddings"),
        ("/v1/", "/v1/embeddings"),
        ("/v1/embeddings", "/v1/embeddings"),
        ("/v1/embeddings/", "/v1/embeddings"),
        ("/api/v4", "/api/v4/embeddings"),
        ("/ollama", "/ollama/v1/embeddings"),
        ("/deployments/x/embeddings?api-version=2", "/deployments/x/embeddings?api-version=2"),
    ],
)
def test_a_base_and_a_full_address_both_work(open_remote: Opener, service: Service, given: str, asked: str) -> None:
    open_remote(service.url + given).embed(["a"])
    assert service.seen[0]["path"] == asked


@pytest.mark.parametrize("url", ["", "localhost:11434", "ftp://host", "http://", "http://host:port", "http://ho\0st"])
def test_an_address_that_is_none_is_invalid(url: str) -> None:
    with pytest.raises(Invalid, match="address"):
        RemoteEmbedder(url, model="m")


def test_a_password_in_the_address_is_refused_without_repeating_it() -> None:
    with pytest.raises(Invalid, match="api_key") as caught:
        RemoteEmbedder("http://me:hunter2@host", model="m")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("option", ["timeout", "deadline", "batch", "max_chars", "dimension"])
def test_an_option_of_zero_is_invalid(option: str) -> None:
    options: dict[str, Any] = {option: 0}
    with pytest.raises(Invalid, match=f"{option} must be above 0"):
        RemoteEmbedder("http://host", model="m", **options)


@pytest.mark.parametrize("option", ["retries", "wait_initial", "open_seconds"])
def test_an_option_below_zero_is_invalid(option: str) -> None:
    options: dict[str, Any] = {option: -1}
    with pytest.raises(Invalid, match=f"{option} must not be below 0"):
        RemoteEmbedder("http://host", model="m", **options)


def test_texts_are_sent_in_batches_and_come_back_in_order(open_remote: Opener, service: Service) -> None:
    texts = ["x" * length for length in range(1, 8)]
    rows = open_remote(batch=3).embed(texts)
    assert [len(request["input"]) for request in service.seen] == [3, 3, 1]
    assert np.allclose(rows, [unit(text) for text in texts])


def test_no_texts_ask_nothing(open_remote: Opener, service: Service) -> None:
    assert len(open_remote().embed([])) == 0
    assert service.seen == []


def test_rows_are_put_in_order_by_their_index(open_remote: Opener, service: Service) -> None:
    service.script = [backwards]
    assert np.allclose(open_remote().embed(["a", "bb", "ccc"]), [unit("a"), unit("bb"), unit("ccc")])


def test_half_a_surrogate_pair_is_sent_as_the_replacement_character(open_remote: Opener, service: Service) -> None:
    open_remote().embed(["a\ud83d", "\ud83d\udc69"])
    assert service.seen[0]["input"] == ["a\ufffd", "\U0001f469"]


def test_numbers_too_large_or_small_to_square_are_normalised(open_remote: Opener, service: Service) -> None:
    service.script = [saying({"data": [{"index": 0, "embedding": [size, size]}]}) for size in (1e200, 1e-200)]
    embedder = open_remote()
    assert np.allclose([embedder.embed(["a"]), embedder.embed(["a"])], math.sqrt(0.5))


def test_the_dimension_is_learnt_by_one_request(open_remote: Opener, service: Service) -> None:
    embedder = open_remote(model="nomic")
    assert service.seen == []
    first, second = embedder.model, embedder.model
    assert first == second
    assert (first.name, first.dimension) == ("nomic", 3)
    assert first.fingerprint == hashlib.sha256(b"remote\0nomic\0003").hexdigest()
    assert len(service.seen) == 1


def test_a_given_dimension_needs_no_request(open_remote: Opener, service: Service) -> None:
    assert open_remote(dimension=768).model.dimension == 768
    assert service.seen == []


@pytest.mark.parametrize("trouble", [failing(500), failing(503), failing(429), dropping, hanging_up])
def test_a_failure_that_passes_is_tried_again(open_remote: Opener, service: Service, trouble: Behaviour) -> None:
    service.script = [trouble, trouble]
    assert np.allclose(open_remote().embed(["a"]), [unit("a")])
    assert len(service.seen) == 3


def test_a_service_that_hangs_once_is_asked_again(open_remote: Opener, service: Service) -> None:
    service.script = [hanging]
    assert np.allclose(open_remote(timeout=0.2).embed(["a"]), [unit("a")])


def test_it_gives_up_after_the_retries_and_names_the_status(open_remote: Opener, service: Service) -> None:
    service.script = [failing(500, "out of memory")] * 9
    text = failure(open_remote(retries=2))
    assert f"{service.url}/v1/embeddings (model 'm') answered 500 with 39 bytes." in text
    assert text.endswith("Tried 3 times.")
    assert len(service.seen) == 3


@pytest.mark.parametrize(
    ("status", "advice"),
    [(401, "API key"), (403, "API key"), (404, "has this model"), (418, "address")],
)
def test_a_rejected_request_is_not_tried_again(open_remote: Opener, service: Service, status: int, advice: str) -> None:
    service.script = [failing(status, "cannot")]
    text = failure(open_remote())
    assert f"answered {status} with 32 bytes." in text
    assert advice in text
    assert len(service.seen) == 1


# Texts that the service does not accept


@pytest.mark.parametrize("status", [400, 413, 415, 422])
def test_a_text_that_is_refused_is_another_error_than_a_service_that_is_down(
    open_remote: Opener, service: Service, status: int
) -> None:
    service.script = [refusing("poison", status)] * 9
    embedder = open_remote()
    for texts in (["poison"], ["a", "poison"]):
        with pytest.raises(Refused, match=f"answered {status} with"):
            embedder.embed(texts)
    assert embedder.outage is None
    assert np.allclose(embedder.embed(["a"]), [unit("a")])


@pytest.mark.parametrize("status", [400, 422])
def test_a_service_that_accepts_no_text_at_all_does_not_refuse_a_text(
    open_remote: Opener, service: Service, status: int
) -> None:
    service.script = [failing(status, "there is no model 'm'")] * 9
    assert f"answered {status}" in failure(open_remote())
    assert [request["input"] for request in service.seen] == [["a"], ["dimension"]]


@pytest.mark.parametrize(
    "trouble",
    [
        lambda handler, texts: handler.answer(json.dumps({"error": {"message": texts[0]}}).encode(), status=400),
        lambda handler, texts: handler.answer(texts[0].encode(), status=500),
        lambda handler, texts: handler.answer(texts[0].encode()),
        lambda handler, texts: handler.answer(json.dumps({"error": texts[0]}).encode()),
        lambda handler, texts: handler.answer(b"", status=307, headers={"Location": f"/{texts[0]}"}),
        lambda handler, texts: handler.wfile.write(f"HTTP/1.1 200 OK\r\n{texts[0]}\r\n\r\n".encode()),
    ],
)
def test_what_the_service_says_about_a_text_is_in_no_error_and_no_log(
    open_remote: Opener, service: Service, caplog: pytest.LogCaptureFixture, trouble: Behaviour
) -> None:
    caplog.set_level(logging.WARNING)
    service.script = [trouble, trouble]
    text = "x".join("abcdefgh")  # not written in this file, whose lines are in a traceback
    with pytest.raises(Unavailable) as caught:
        open_remote(retries=1).embed([text])
    shown = [str(caught.value), *traceback.format_exception(caught.value), caplog.text]
    assert all(text not in one for one in shown)


# A service that is down


def test_after_a_failure_calls_fail_at_once_and_send_nothing(open_remote: Opener, service: Service) -> None:
    service.script = [failing(500)] * 9
    embedder = open_remote(retries=2, open_seconds=3600)
    first = failure(embedder)
    again = failure(embedder)
    assert len(service.seen) == 3
    assert "answered 500" in first
    assert "answered 500" in again
    assert embedder.outage is not None


def test_when_the_circuit_is_half_open_one_attempt_is_made_until_the_service_answers(
    open_remote: Opener, service: Service
) -> None:
    service.script = [failing(500)] * 4
    embedder = open_remote(retries=2, open_seconds=0)
    failure(embedder)
    assert "Tried 1 time." in failure(embedder)
    assert len(service.seen) == 4
    assert np.allclose(embedder.embed(["a"]), [unit("a")])
    assert embedder.outage is None
    service.script = [failing(500)] * 2
    assert np.allclose(embedder.embed(["a"]), [unit("a")])  # closed again: failures are retried


def test_while_one_call_tries_a_service_again_others_fail_at_once(open_remote: Opener, service: Service) -> None:
    arrived = threading.Event()

    def waiting(handler: Handler, texts: list[str]) -> None:
        arrived.set()
        handler.server.released.wait()
        well(handler, texts)

    service.script = [failing(500), waiting]
    embedder = open_remote(retries=0, open_seconds=0)
    failure(embedder)
    with ThreadPoolExecutor(1) as threads:
        trying = threads.submit(embedder.embed, ["a"])
        assert arrived.wait(60)
        failure(embedder)
        service.released.set()
        assert np.allclose(trying.result(60), [unit("a")])
    assert len(service.seen) == 2


def test_a_retry_prints_nothing(open_remote: Opener, service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    service.script = [failing(500), failing(503)]
    open_remote().embed(["a"])
    assert capsys.readouterr() == ("", "")


def test_the_pause_that_the_service_asks_for_replaces_the_usual_one(open_remote: Opener, service: Service) -> None:
    service.script = [failing(429, Retry_After="0.01"), failing(503, Retry_After="0")]
    open_remote(wait_initial=20).embed(["a"])  # the usual pause would outlast the test's time-out
    assert len(service.seen) == 3


def test_a_pause_longer_than_the_deadline_is_not_waited_for(open_remote: Opener, service: Service) -> None:
    service.script = [failing(429, "slow down", Retry_After="3600")]
    assert "answered 429 with 35 bytes (retry after 3600 s)" in failure(open_remote(deadline=5))
    assert len(service.seen) == 1


def test_a_date_to_retry_after_is_not_a_number_and_the_usual_pause_is_taken(
    open_remote: Opener, service: Service
) -> None:
    service.script = [failing(503, Retry_After="Wed, 21 Oct 2065 07:28:00 GMT")]
    open_remote().embed(["a"])
    assert len(service.seen) == 2


def test_a_pause_that_would_pass_the_deadline_is_not_begun(open_remote: Opener, service: Service) -> None:
    service.script = [failing(500)] * 9
    assert "Tried 1 time." in failure(open_remote(deadline=4, wait_initial=4))


def test_the_deadline_is_shorter_than_the_time_out_of_a_request(open_remote: Opener, service: Service) -> None:
    service.script = [hanging] * 9
    assert "did not answer within 0." in failure(open_remote(deadline=0.5))


def test_a_deadline_that_has_passed_sends_nothing_more(open_remote: Opener, service: Service) -> None:
    assert "deadline of 1e-09 s" in failure(open_remote(deadline=1e-9))
    assert service.seen == []


@pytest.mark.parametrize("trouble", [hanging, dripping])
def test_an_answer_that_does_not_end_in_time_is_a_timeout(
    open_remote: Opener, service: Service, trouble: Behaviour
) -> None:
    service.script = [trouble, trouble]
    text = failure(open_remote(timeout=0.1, retries=1))
    assert "did not answer within 0.1 s" in text
    assert "Tried 2 times." in text


def test_a_service_that_is_not_there_is_named(open_remote: Opener) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    text = failure(open_remote(f"http://127.0.0.1:{port}", retries=1))
    assert f"http://127.0.0.1:{port}/v1/embeddings" in text
    assert "could not be reached" in text


def test_a_redirect_is_not_followed(open_remote: Opener, service: Service) -> None:
    service.script = [saying({}, status=307, Location="/elsewhere")]
    assert "answered 307, a redirect" in failure(open_remote())
    assert len(service.seen) == 1


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    open_remote: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    open_remote(retries=0).embed(["a"])


ONE = {"index": 0, "embedding": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"<html>hello</html>", "it is not JSON (18 bytes)"),
        (b"", "it is not JSON (0 bytes)"),
        (b"[" * 100_000, "it is not JSON"),
        ([1, 2], "no list 'data'"),
        ({"error": {"message": "model is loading"}}, "no list 'data' of objects (42 bytes)"),
        ({"data": None}, "no list 'data'"),
        ({"data": [[1.0, 2.0], [1.0, 2.0]]}, "no list 'data'"),
        ({"data": [ONE]}, "it has 1 embeddings for 2 texts"),
        ({"data": [ONE, ONE, ONE]}, "it has 3 embeddings for 2 texts"),
        ({"data": [ONE, ONE]}, "'index' are not the numbers 0 to 1"),
        ({"data": [ONE, {"embedding": [1.0, 2.0]}]}, "'index' are not the numbers 0 to 1"),
        ({"data": [ONE, {"index": True, "embedding": [1.0, 2.0]}]}, "'index' are not the numbers 0 to 1"),
        ({"data": [ONE, {"index": [1], "embedding": [1.0, 2.0]}]}, "'index' are not the numbers 0 to 1"),
        ({"data": [ONE, {"index": 1}]}, "'embedding' of text 1 is not a list of numbers"),
        ({"data": [ONE, {"index": 1, "embedding": "AACAPw=="}]}, "'embedding' of text 1 is not a list of numbers"),
        ({"data": [ONE, {"index": 1, "embedding": []}]}, "'embedding' of text 1 is not a list of numbers"),
        ({"data": [ONE, {"index": 1, "embedding": [[1.0], [2.0]]}]}, "'embedding' of text 1 is not a list of numbers"),
        ({"data": [ONE, {"index": 1, "embedding": [1.0, {}]}]}, "'embedding' of text 1 is not a list of numbers"),
        ({"data": [ONE, {"index": 1, "embedding": [1.0, 10**400]}]}, "'embedding' of text 1 is not a list of numbers"),
        (
            {"data": [ONE, {"index": 1, "embedding": [1.0, math.nan]}]},
            "vector of text 1 has numbers that are not finite",
        ),
        (
            {"data": [ONE, {"index": 1, "embedding": [1.0, math.inf]}]},
            "vector of text 1 has numbers that are not finite",
        ),
        ({"data": [ONE, {"index": 1, "embedding": [1.0, None]}]}, "vector of text 1"),
        ({"data": [ONE, {"index": 1, "embedding": [0, 0.0]}]}, "vector of text 1 is zero"),
        ({"data": [ONE, {"index": 1, "embedding": [1.0, 2.0, 3.0]}]}, "has 3 numbers where 2 were expected"),
    ],
)
def test_a_wrong_answer_is_named_and_not_asked_for_again(
    open_remote: Opener, service: Service, body: object, what: str
) -> None:
    service.script = [saying(body)]
    text = failure(open_remote(), ["a", "b"])
    assert what in text
    assert f"{service.url}/v1/embeddings" in text
    assert len(service.seen) == 1


def test_a_dimension_that_changes_between_calls_is_noticed(open_remote: Opener, service: Service) -> None:
    embedder = open_remote()
    embedder.embed(["a"])
    service.script = [saying({"data": [ONE]})]
    assert "a vector has 2 numbers where 3 were expected" in failure(embedder)


def test_a_dimension_other_than_the_given_one_is_noticed(open_remote: Opener) -> None:
    assert "a vector has 3 numbers where 768 were expected" in failure(open_remote(dimension=768))


def test_a_wrong_answer_teaches_no_dimension(open_remote: Opener, service: Service) -> None:
    service.script = [saying({"data": [{"index": 0, "embedding": [0.0] * 7}]})]
    embedder = open_remote()
    failure(embedder)
    assert embedder.model.dimension == 3


def test_the_key_is_in_no_error_repr_or_log(
    open_remote: Opener, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = f"Bearer {KEY} is wrong"
    service.script = [failing(500, echo), saying(echo.encode(), status=503), failing(401, "y" * 190 + echo)]
    embedder = open_remote(api_key=KEY)
    with pytest.raises(Unavailable) as caught:
        embedder.embed(["a"])
    shown = [repr(embedder), repr(caught.value), *traceback.format_exception(caught.value), caplog.text]
    shown += [repr(vars(record)) for record in caplog.records]
    assert all(KEY not in text and KEY[:8] not in text for text in shown)


@pytest.mark.parametrize("key", ["sk-line\nbreak", "sk-schlüssel", "sk-nul\0"])
def test_a_key_that_cannot_be_sent_is_refused_without_repeating_it(key: str) -> None:
    with pytest.raises(Invalid, match="API key") as caught:
        RemoteEmbedder("http://host", model="m", api_key=key)
    assert "sk-" not in str(caught.value)


def test_a_closed_embedder_says_so(open_remote: Opener) -> None:
    embedder = open_remote()
    embedder.close()
    assert "was closed" in failure(embedder)


def test_without_the_package_the_error_is_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(MissingExtra) as caught:
        RemoteEmbedder("http://host", model="m")
    assert str(caught.value) == f"The remote embedder needs an optional package: {pip_install('remote')}"


def test_long_texts_are_split_at_max_chars(open_remote: Opener) -> None:
    parts = open_remote(max_chars=50).split("One more sentence. " * 10)
    assert parts == ["One more sentence. One more sentence."] * 5
