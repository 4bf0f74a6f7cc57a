"""Chat when the LLM server is down, slow, refuses or disconnects, or when the client disconnects."""

from __future__ import annotations

import json
import logging
import threading
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import httpx2
import pytest
from openai import APIError, APIStatusError, InternalServerError, RateLimitError

from retentive.chat.proxy import Reply, StreamRelay
from retentive.engine import Engine
from retentive.errors import Unavailable
from tests.surfaces.chatting import ask, chat_service, client, context_of, marks, said, until
from tests.surfaces.model_server import (
    Call,
    ModelServer,
    answers,
    breaks_off,
    completion,
    event,
    fails,
    hangs,
    stream_of,
    streams,
    unused_address,
)

HELLO = [{"role": "user", "content": "hello"}]


def test_without_a_model_the_error_says_which_setting_is_missing_and_is_not_tried_again(engine: Engine) -> None:
    with chat_service(engine, None) as url, client(url, retries=2) as openai:
        with pytest.raises(APIStatusError, match="RETENTIVE_LLM_URL") as raised:
            openai.chat.completions.create(model="m", messages=HELLO)
        with pytest.raises(APIStatusError, match="RETENTIVE_LLM_URL"):
            openai.models.list()
    assert raised.value.status_code == 501
    assert raised.value.code == "llm_not_configured"
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert engine.list().memories == ()


@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_is_down_gives_502_and_what_the_user_said_is_kept_once_however_often_the_client_tries(
    engine: Engine, stream: bool
) -> None:
    down = pytest.raises(InternalServerError, match="cannot be reached")
    with chat_service(engine, unused_address()) as url, client(url, retries=1) as openai, down as raised:
        openai.chat.completions.create(model="m", messages=HELLO, stream=stream)
    assert raised.value.status_code == 502
    assert raised.value.code == "llm_unreachable"
    assert said(engine) == [("user", "hello")]


def test_when_the_model_is_back_the_answer_joins_what_was_kept(engine: Engine, model: ModelServer) -> None:
    model.script = [fails(500, "out of memory"), answers("hello again")]
    with chat_service(engine, model.url) as url, client(url, retries=1) as openai:
        answer = openai.chat.completions.create(model="m", messages=HELLO)
    assert answer.choices[0].message.content == "hello again"
    assert said(engine) == [("user", "hello"), ("assistant", "hello again")]
    assert model.context == ""  # the first attempt is not told as something said before


@pytest.mark.parametrize("begun", [None, b""], ids=["without headers", "after the headers"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_model_that_says_nothing_in_time_gives_504(
    engine: Engine, model: ModelServer, stream: bool, begun: bytes | None
) -> None:
    model.script = [hangs(begun)]
    slow = pytest.raises(InternalServerError, match=r"sent nothing for 0\.3 s")
    with chat_service(engine, model.url, timeout=0.3) as url, client(url, retries=2) as openai, slow as raised:
        openai.chat.completions.create(model="m", messages=HELLO, stream=stream)
    assert raised.value.status_code == 504
    assert len(model.calls) == 1
    assert said(engine) == [("user", "hello")]


def test_a_model_that_refuses_is_passed_on_as_it_is(engine: Engine, model: ModelServer) -> None:
    model.script = [fails(429, "slow down", retry_after="7"), fails(400, "no such model")]
    with chat_service(engine, model.url) as url:
        with client(url) as openai, pytest.raises(RateLimitError, match="slow down") as raised:
            openai.chat.completions.create(model="m", messages=HELLO, stream=True)
        response = ask(url, "hello")
    assert raised.value.response.headers["retry-after"] == "7"
    assert raised.value.code == "some_code"
    assert response.status_code == 400
    assert response.json()["error"]["message"] == "no such model"
    assert said(engine) == [("user", "hello")]


def test_a_redirect_of_the_model_is_not_followed(engine: Engine, model: ModelServer) -> None:
    async def redirect(call):  # type: ignore[no-untyped-def]
        await call.answer(b"", status=307, headers={"location": "http://127.0.0.1:1/"})

    model.script = [redirect]
    with chat_service(engine, model.url) as url:
        response = ask(url, "hello")
    assert response.status_code == 502
    assert response.json()["error"]["code"] == "llm_redirect"


@pytest.mark.parametrize("tail", [b"", b'data: {"choices": [{"ind', event("!")[:-1]])
def test_a_stream_that_breaks_off_ends_with_an_error_and_without_done(
    engine: Engine, model: ModelServer, tail: bytes
) -> None:
    whole_events = event("Once ") + event("upon")
    model.script = [breaks_off(whole_events + tail)]
    with chat_service(engine, model.url) as url:
        content = ask(url, "Tell me a story", stream=True).content
    assert content.startswith(whole_events + b"data: ")
    error = json.loads(content[len(whole_events) + 6 :])["error"]
    assert error["code"] == "llm_disconnected"
    assert b"[DONE]" not in content
    assert said(engine) == [("user", "Tell me a story"), ("assistant", "Once upon")]
    assert marks(engine) == [{}, {"incomplete": True}]


def test_the_official_client_raises_where_a_stream_breaks_off_and_trying_again_stores_nothing_twice(
    engine: Engine, model: ModelServer
) -> None:
    model.script = [breaks_off(event("Once ") + event("upon")[:20]), streams(stream_of("Once upon a time"))]
    got: list[str | None] = []

    def listen(url: str) -> None:
        with client(url) as openai:
            for piece in openai.chat.completions.create(model="m", messages=HELLO, stream=True):
                got.append(piece.choices[0].delta.content)

    with chat_service(engine, model.url) as url:
        with pytest.raises(APIError, match="closed the connection"):
            listen(url)
        listen(url)
    assert got == ["Once ", "Once upon a time", None]
    assert said(engine) == [("user", "hello"), ("assistant", "Once "), ("assistant", "Once upon a time")]
    assert marks(engine) == [{}, {"incomplete": True}, {}]


def test_under_a_key_a_broken_answer_is_stored_once_and_the_whole_one_after_it(
    engine: Engine, model: ModelServer
) -> None:
    broken = breaks_off(event("Once "))
    model.script = [broken, broken, streams(stream_of("All of it")), streams(stream_of("Again")), broken]
    with chat_service(engine, model.url) as url:
        for _ in range(5):
            ask(url, "hello", stream=True, headers={"Idempotency-Key": "k"})
    assert [text for _, text in said(engine)] == ["hello", "Once ", "All of it"]


def test_a_stream_that_just_ends_without_saying_so_is_told_as_broken_off(engine: Engine, model: ModelServer) -> None:
    model.script = [streams(event("Once upon")), streams(event("The end.", finish="stop"))]
    with chat_service(engine, model.url) as url:
        broken = ask(url, "one", stream=True).content
        finished = ask(url, "two", stream=True).content
    assert b"llm_disconnected" in broken
    assert finished == event("The end.", finish="stop")
    assert marks(engine) == [{}, {"incomplete": True}, {}, {}]


def test_an_error_that_the_model_itself_streams_is_passed_on_alone(engine: Engine, model: ModelServer) -> None:
    content = event("Once ") + b'data: {"error": {"message": "overloaded"}}\n\n'
    model.script = [streams(content)]
    with chat_service(engine, model.url) as url:
        assert ask(url, "hello", stream=True).content == content
    assert marks(engine) == [{}, {"incomplete": True}]


def test_silence_in_the_middle_of_a_stream_ends_it_with_an_error(engine: Engine, model: ModelServer) -> None:
    model.script = [hangs(event("Once "))]
    with chat_service(engine, model.url, timeout=3) as url:
        content = ask(url, "hello", stream=True).content
        assert model.left.wait(60)
    assert content.startswith(event("Once "))
    assert b"llm_timeout" in content
    assert said(engine) == [("user", "hello"), ("assistant", "Once ")]


def test_when_the_client_goes_in_mid_stream_the_model_is_let_go_and_what_came_is_kept(
    engine: Engine, model: ModelServer
) -> None:
    model.script = [hangs(event("Once upon"))]
    with chat_service(engine, model.url) as url:
        with (
            httpx2.Client(timeout=90) as plain,
            plain.stream("POST", f"{url}/v1/chat/completions", json={"messages": HELLO, "stream": True}) as response,
        ):
            assert next(response.iter_bytes()) == event("Once upon")
        assert model.left.wait(60)
        until(lambda: len(said(engine)) == 2)  # and not only when the service ends
    assert said(engine) == [("user", "hello"), ("assistant", "Once upon")]
    assert marks(engine) == [{}, {"incomplete": True}]


@pytest.mark.parametrize("stream", [False, True])
def test_when_the_client_goes_before_the_answer_the_model_is_let_go_and_the_query_kept(
    engine: Engine, model: ModelServer, stream: bool
) -> None:
    model.script = [hangs()]
    with chat_service(engine, model.url) as url:
        with closing(HTTPConnection(urlsplit(url).netloc)) as connection:
            body = json.dumps({"model": "m", "messages": HELLO, "stream": stream})
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            assert model.asked.wait(60)
        assert model.left.wait(60)
    assert said(engine) == [("user", "hello")]


def test_a_client_that_leaves_at_done_has_a_whole_answer_stored(engine: Engine, model: ModelServer) -> None:
    model.script = [hangs(stream_of("All of it"))]
    with chat_service(engine, model.url) as url:
        with client(url) as openai:
            pieces = openai.chat.completions.create(model="m", messages=HELLO, stream=True)
            assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "All of it"
            pieces.close()
        assert model.left.wait(60)
    assert said(engine) == [("user", "hello"), ("assistant", "All of it")]
    assert marks(engine) == [{}, {}]


@pytest.mark.parametrize("begun", [None, event("Once upon")], ids=["before the answer", "in mid-stream"])
def test_a_service_that_ends_keeps_what_was_said_and_what_came(
    engine: Engine, model: ModelServer, begun: bytes | None
) -> None:
    model.script = [hangs(begun)]
    cut_off: list[Exception] = []

    def listen(url: str) -> None:
        with httpx2.Client(timeout=90) as plain:
            try:
                request = {"messages": HELLO, "stream": True}
                with plain.stream("POST", f"{url}/v1/chat/completions", json=request) as response:
                    for piece in response.iter_bytes():
                        arrived.set() if piece else None
            except httpx2.HTTPError as error:
                cut_off.append(error)

    arrived = threading.Event()
    with chat_service(engine, model.url, grace=0.1) as url:
        client = threading.Thread(target=listen, args=[url])
        client.start()
        assert (model.asked if begun is None else arrived).wait(60)
    client.join(60)
    assert model.left.wait(60)
    assert said(engine) == [("user", "hello")] + [("assistant", "Once upon")] * (begun is not None)
    assert len(cut_off) == 1 or begun is None


def test_a_session_that_several_projects_have_is_refused_before_the_model_is_asked(
    engine: Engine, model: ModelServer
) -> None:
    for project in ("p", "q"):
        engine.remember("x", session="s", project=project)
    with chat_service(engine, model.url) as url:
        response = ask(url, "hello", retentive={"session": "s"})
    assert response.status_code == 409
    assert "name the project" in response.json()["error"]["message"]
    assert model.calls == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": HELLO, "retentive": {"sesion": "s"}}, "retentive.sesion"),
        ({"messages": HELLO, "retentive": {"budget": -1}}, "retentive.budget"),
        ({"messages": HELLO, "retentive": {"session": " "}}, "retentive.session"),
    ],
)
def test_a_request_that_is_not_valid_names_the_field_in_openais_shape(
    engine: Engine, model: ModelServer, body: dict[str, object], param: str
) -> None:
    with chat_service(engine, model.url) as url, httpx2.Client(timeout=90) as plain:
        response = plain.post(f"{url}/v1/chat/completions", json=body)
    assert response.status_code == 422
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert model.calls == []
    assert engine.list().memories == ()


def test_what_cannot_be_stored_does_not_cost_the_answer_and_is_logged_without_its_text(
    engine: Engine, model: ModelServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(engine.store, "add", full)
    with chat_service(engine, model.url) as url, caplog.at_level(logging.INFO):
        response = ask(url, "a secret word")
    assert response.json()["choices"][0]["message"]["content"] == "You said: a secret word"
    assert "a chat turn could not be stored (unavailable): the disk is full" in caplog.text
    assert "secret" not in caplog.text


def test_an_unreachable_store_is_an_error_before_the_model_is_asked(
    engine: Engine, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object, **__: object) -> None:
        raise Unavailable("the store is locked")

    monkeypatch.setattr(engine.store, "list", locked)
    with chat_service(engine, model.url) as url:
        response = ask(url, "hello")
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "unavailable"
    assert model.calls == []


def test_text_that_no_store_can_hold_is_refused_before_the_model_is_asked(engine: Engine, model: ModelServer) -> None:
    with chat_service(engine, model.url) as url, httpx2.Client(timeout=90) as plain:
        body = b'{"messages": [{"role": "user", "content": "half \\ud83d of a pair"}]}'
        response = plain.post(f"{url}/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert (model.calls, said(engine)) == ([], [])


def test_the_turn_before_is_awaited_by_the_context(engine: Engine, model: ModelServer) -> None:
    model.script = [streams(stream_of("Kuzco"))]
    with chat_service(engine, model.url) as url:
        ask(url, "Who is it?", stream=True, retentive={"session": "s"})
        found = context_of(url, query="And now?", session="s")
    assert [item["text"] for item in found["items"]] == ["Who is it?", "Kuzco"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_header_outside_latin_1_is_passed_on_byte_for_byte(engine: Engine, model: ModelServer, stream: bool) -> None:
    async def behave(call: Call) -> None:
        kind = "text/event-stream" if stream else "application/json"
        await call.start(headers={"content-type": kind, "openai-organization": "東京 é"})
        content = stream_of("hi") if stream else json.dumps(completion("hi")).encode()
        await call.send(content, more=False)

    model.script = [behave]
    with chat_service(engine, model.url) as url:
        answer = ask(url, "hello", stream=stream)
    assert answer.status_code == 200
    assert dict(answer.headers.raw)[b"openai-organization"] == "東京 é".encode()
    assert said(engine) == [("user", "hello"), ("assistant", "hi")]


def test_a_list_of_models_with_a_header_outside_latin_1_is_passed_on(engine: Engine, model: ModelServer) -> None:
    async def behave(call: Call) -> None:
        await call.answer({"object": "list", "data": []}, headers={"openai-organization": "東京"})

    model.script = [behave]
    with chat_service(engine, model.url) as url:
        answer = httpx2.get(f"{url}/v1/models", timeout=90)
    assert answer.status_code == 200
    assert dict(answer.headers.raw)[b"openai-organization"] == "東京".encode()


def test_a_clients_header_outside_ascii_reaches_the_model_byte_for_byte(engine: Engine, model: ModelServer) -> None:
    with chat_service(engine, model.url) as url:
        answer = ask(url, "hello", headers={"OpenAI-Project": "Zürich".encode()})
    assert answer.status_code == 200
    assert model.calls[-1].headers["openai-project"] == "Zürich"


def test_a_stream_of_which_no_response_can_be_made_is_ended_and_its_message_stored(
    engine: Engine, model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[StreamRelay] = []

    def fail(self: object, relay: StreamRelay, reply: Reply) -> None:
        started.append(relay)
        raise UnicodeEncodeError("latin-1", "東", 0, 1, "ordinal not in range(256)")

    monkeypatch.setattr("retentive.server.http.routes.chat._RelayResponse.__init__", fail)
    model.script = [hangs(event("Only the "))]
    with chat_service(engine, model.url) as url:
        assert ask(url, "hello", stream=True).status_code == 500
        assert model.left.wait(90)  # the connection to the model is closed while the service goes on
        until(lambda: said(engine) == [("user", "hello")])
        assert started[0].chat.relays == set()
    assert said(engine) == [("user", "hello")]


@pytest.mark.parametrize("depth", [250, 900, 945, 950, 100_000])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/context"])
def test_a_body_that_is_nested_too_deeply_is_not_valid_at_any_depth(
    engine: Engine, model: ModelServer, path: str, depth: int
) -> None:
    body = '{"messages": [{"role": "user", "content": "hi"}], "x": ' + "[" * depth + "]" * depth + "}"
    with chat_service(engine, model.url) as url, httpx2.Client(timeout=90) as plain:
        answer = plain.post(f"{url}{path}", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert "nested too deeply" in answer.text
    assert model.calls == []
    assert engine.list().memories == ()


def test_a_body_may_be_nested_as_deeply_as_schemas_of_tools_are(engine: Engine, model: ModelServer) -> None:
    nested: object = "end"
    for _ in range(98):
        nested = {"of": nested}
    with chat_service(engine, model.url) as url:
        answer = ask(url, "hello", x=nested)
    assert answer.status_code == 200
    assert model.calls[-1].body["x"] == nested
