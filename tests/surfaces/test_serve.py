"""`retentive serve` as a process: how it starts, which requests it accepts, and what is stored however it ends."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import pytest

from retentive.engine import Engine
from retentive.server.run import serve, warm_up
from retentive.server.runtime_file import announced, running_service
from retentive.stores import open_store
from tests.surfaces.service import Service, ask, served, until
from tests.surfaces.serving import token
from tests.surfaces.test_cli import run


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def test_it_says_what_is_served_where_and_what_to_try_and_ends_cleanly(store):
    with served(store, "--samples", embedder="none") as service:
        service.wait_until_ready()
        docs = service.ask("GET", "/docs")
        until(lambda: "mcp config" in service.said)
        shown = [line for line in service.said.splitlines() if "curl" in line]
        tried = [_try(service, line) for line in shown]
        code = service.end()
        again = service.process.poll()

    assert docs.status == 200
    assert tried == [200, 200]
    assert (code, again) == (0, 0)
    address = f"http://127.0.0.1:{service.port}"
    for said in (
        f"Retentive serves {address}", f"{address}/docs", f"{address}/mcp", f"{store}, 42 memories (42 samples loaded)",
        "none", f"curl {address}/v1/recall", f"curl -X PATCH {address}/settings", "mcp config",
    ):  # fmt: skip
        assert said in service.said
    assert re.search(rf"serves {address}.*\n +playground +{address}/\n", service.said)
    assert "Traceback" not in service.said
    assert not Path(f"{store}-wal").exists()  # the store was closed, not left


def _try(service: Service, line: str) -> int:
    """Send the request that a line with curl shows, and return the status of the response."""
    method = "PATCH" if "-X PATCH" in line else "POST"
    path = line.split(f":{service.port}")[1].split(maxsplit=1)[0]
    return service.ask(method, path, json.loads(line.split("-d '")[1].rstrip("'"))).status


def test_its_address_is_in_the_file_beside_the_store_once_it_accepts_connections_and_until_it_ends(store, monkeypatch):
    connected: list[str | None] = []

    class Connecting(announced):
        def __enter__(self) -> None:
            port = int(self._values["url"].rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port), timeout=60):
                super().__enter__()
            connected.append(running_service(str(store)))

    def stop(address: str) -> None:
        assert connected == [address]
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("retentive.server.run.announced", Connecting)
    monkeypatch.setenv("RETENTIVE_SERVER_PORT", "0")
    with Engine.open(store, embedder="none") as engine:
        serve(engine, started=stop)

    assert len(connected) == 1
    assert running_service(str(store)) is None


def test_samples_are_loaded_into_a_profile_of_their_own_which_is_served(store):
    with Engine.open(store, embedder="none") as engine:
        engine.remember("mine")

    with served(store, "--samples", embedder="none") as service:
        listed = service.ask("GET", "/v1/memories").body

    assert "mine" not in [memory["text"] for memory in listed["memories"]]
    assert len(listed["memories"]) > 20
    with Engine.open(store, embedder="none") as engine:
        assert [memory.text for memory in engine.list()] == ["mine"]


def test_it_is_ready_when_the_model_is_loaded(store):
    with served(store) as service:
        assert service.ask("GET", "/healthz").status == 200
        service.wait_until_ready()
        metrics = service.ask("GET", "/metrics").body

    assert "retentive_recall_seconds_count 0.0" in metrics  # what warms up is no recall of a user


def test_liveness_is_answered_at_a_port_of_its_own(store):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with served(store, embedder="none", server_liveness_port=str(port)):
        connection = HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", "/")
        assert connection.getresponse().status == 200
        connection.close()


def test_warming_up_loads_the_model_and_is_no_recall(model):
    events = []
    with Engine(open_store("memory://"), lambda: events.append("loaded") or model) as engine:
        engine.on_recall(lambda _: events.append("recall"))
        warm_up(engine)

    assert events == ["loaded"]


def test_a_port_that_is_taken_is_named_with_what_to_do(store):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = run("--store", str(store), "--embedder", "none", "serve", "--port", str(port), code=5)

    assert f"port {port} on 127.0.0.1 is used by another process" in done.stderr
    assert "--port 0" in done.stderr
    assert isinstance(done.exception, SystemExit)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--host", "0.0.0.0", "--port", "0"], 2, "create one first: retentive token create --access write"),
        (["--host", "1:2"], 2, "'1:2' is not an address to listen on"),
        (["--host", "192.0.2.1"], 5, "choose another --host or --port"),
        (["--port", "70000"], 2, "--port"),
    ],
)
def test_it_does_not_start_where_it_should_not(store, options, code, said):
    done = run("--store", str(store), "--embedder", "none", "serve", *options, code=code)

    assert said in done.stderr
    assert isinstance(done.exception, SystemExit)


def test_under_another_host_name_it_does_not_start_without_a_token(store, monkeypatch):
    monkeypatch.setenv("RETENTIVE_SERVER_HOSTS", "memory.example.org")

    done = run("--store", str(store), "--embedder", "none", "serve", "--port", "0", code=2)

    assert "every request needs a token (server.hosts has memory.example.org" in done.stderr
    assert "create one first: retentive token create --access write" in done.stderr


def test_off_loopback_it_starts_with_a_token_and_answers_nobody_without(store):
    with Engine.open(store, embedder="none") as engine:
        secret = token(engine)

    with served(store, "--host", "0.0.0.0", embedder="none") as service:
        until(lambda: "Try:" in service.said)
        without = service.remember("from outside")
        within = service.remember("from outside", Authorization=f"Bearer {secret}")
        figures = service.ask("GET", "/metrics", Authorization=f"Bearer {secret}")

    assert "Every request needs a token" in service.said
    assert "RETENTIVE_SERVER_HOSTS" in service.said
    assert (without.status, within.status) == (401, 201)
    assert figures.status == 403
    assert secret not in service.said


def _write_until_it_ends(service: Service, *, writers: int, enough: threading.Event, acknowledged: list[str]) -> None:
    """Writes from many connections at once, noting those that were answered with 201."""

    def work(number: int) -> None:
        connection = service.connect()
        try:
            for at in range(10_000):
                answer = ask(connection, "POST", "/v1/memories", {"text": f"writer {number} says sentence {at}"})
                if answer.status == 201:
                    acknowledged.append(answer.body["id"])
                if len(acknowledged) >= 40:
                    enough.set()
        except (OSError, ValueError, HTTPException):
            pass  # it has ended, perhaps between the headers and the body of an answer: nothing was acknowledged
        finally:
            connection.close()
            enough.set()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    enough.wait(90)
    yield
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_every_write_that_was_acknowledged_is_there_however_it_ended(store, how, code):
    acknowledged: list[str] = []
    with served(store, server_log="off") as service:
        service.wait_until_ready()
        writing = _write_until_it_ends(service, writers=8, enough=threading.Event(), acknowledged=acknowledged)
        next(writing)
        ended = service.end(how)
        next(writing, None)

    assert ended == code
    assert len(acknowledged) >= 40
    with Engine.open(store, embedder="none") as engine:
        assert [engine.get(id).id for id in acknowledged] == acknowledged
        stored = engine.stats().memories
    # One at most for each writer was stored and its answer lost on the way.
    assert len(acknowledged) <= stored <= len(acknowledged) + 8
    assert json.loads(run("--store", str(store), "doctor", "--json").stdout)["healthy"]


def test_a_request_that_hangs_does_not_keep_it_from_ending_when_it_is_interrupted_twice(store):
    with served(store, embedder="none") as service, socket.create_connection(("127.0.0.1", service.port)) as slow:
        slow.sendall(
            b"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
        )
        slow.settimeout(90)
        assert slow.recv(100).startswith(b"HTTP/1.1 100")  # the request is being handled, and waits for its body
        slow.sendall(b'{"text": ')
        service.process.send_signal(signal.SIGINT)
        until(lambda: not _listens(service.port))
        assert service.process.poll() is None
        code = service.end(signal.SIGINT)

    assert code == 130


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def test_tokens_are_shown_once_listed_without_secrets_and_taken_back(store):
    def command(*words: str, code: int = 0):
        return run("--store", str(store), "token", *words, code=code)

    secret = command("create", "--profile", "ana", "--note", "her phone").stdout.strip()

    listed = json.loads(command("list", "--json").stdout)
    assert [(one["profile"], one["access"], one["note"]) for one in listed] == [("ana", "read", "her phone")]
    assert secret.startswith("rtv_")
    assert secret not in json.dumps(listed)
    assert secret.encode() not in store.read_bytes()
    assert listed[0]["id"] in command("list").stdout

    command("revoke", listed[0]["id"])
    assert "retentive token list" in command("revoke", listed[0]["id"], code=3).stderr
    assert "no tokens" in command("list").stdout
    assert "read, write, admin" in command("create", "--access", "everything", code=2).stderr
