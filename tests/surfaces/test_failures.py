"""Failures of the embedder, the disk, the store and the client, with the service in a real process."""

from __future__ import annotations

import json
import os
import resource
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from retentive.engine import Engine
from tests.surfaces.service import Service, served, until
from tests.surfaces.test_cli import json_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def texts_in(store: Path) -> set[str]:
    """Every memory of a store that is whole: `check` compares text, words and vectors."""
    with Engine.open(store, embedder="none") as engine:
        assert engine.check() == []
        return {memory.text for memory in engine.list(limit=1000).memories}


def variables(settings: dict[str, str]) -> dict[str, str]:
    return {f"RETENTIVE_{name.upper()}": value for name, value in settings.items()}


# A stopped embedder


class _Embeddings(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        rows = [np.random.default_rng(len(text)).standard_normal(8).tolist() for text in asked]
        body = json.dumps({"data": [{"index": at, "embedding": row} for at, row in enumerate(rows)]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Embedder:
    """An embedding service that can be stopped and started again at its address."""

    def __init__(self) -> None:
        self.port = 0
        self.start()

    def start(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), _Embeddings)
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def test_with_a_stopped_embedder_recall_answers_from_words_and_writes_wait_for_their_vectors(store):
    embedder = Embedder()
    settings = {
        "embedder": f"http://127.0.0.1:{embedder.port}", "embedder_model": "small", "embedder_retries": "0",
        "embedder_timeout": "2",
    }  # fmt: skip
    try:
        with served(store, **settings) as service:
            service.wait_until_ready()
            service.remember("the spare key is under the blue pot")
            assert service.recall("where is the spare key?").body["degraded"] is None
            embedder.stop()

            stored = service.remember("the bicycle is in the cellar")
            answer = service.recall("where are the bicycle and the key?")

            assert stored.status == 201
            assert answer.status == 200
            assert len(answer.body["hits"]) == 2
            assert answer.body["degraded"] == "keyword-only"
            assert f"127.0.0.1:{embedder.port}" in answer.body["degradedReason"]
            assert service.ask("GET", "/readyz").status == 200
            status = service.ask("GET", "/v1/status")
            assert (status.status, status.body["degraded"]) == (200, True)
            assert f"127.0.0.1:{embedder.port}" in status.body["degradedReason"]
            assert 'retentive_recalls_degraded_total{kind="keyword-only"} 1.0' in service.ask("GET", "/metrics").body

            embedder.start()
            assert json_of("--store", str(store), "reembed", env=variables(settings)) == {"embedded": 1, "refused": []}
            until(lambda: service.recall("is the bicycle in the cellar?").body["degraded"] is None)
            assert service.ask("GET", "/v1/status").body["degraded"] is False
            assert "bicycle" not in service.said
    finally:
        embedder.stop()


def test_with_an_embedder_that_was_never_there_the_status_is_degraded_and_json_is_all_that_is_printed(store):
    with Engine.open(store, embedder="none") as engine:
        engine.remember("the spare key is under the blue pot")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = {"embedder": f"http://127.0.0.1:{port}", "embedder_model": "small", "embedder_retries": "1"}

    with served(store, **settings) as service:
        service.wait_until_ready()
        status = service.ask("GET", "/v1/status")
        metrics = service.ask("GET", "/metrics").body
        recalled = service.recall("where is the key?")

    assert (status.status, status.body["degraded"], status.body["model"]) == (200, True, None)
    assert "could not be reached" in status.body["degradedReason"]
    assert (status.body["recalls"], status.body["latency"]["recalls"]) == (0, 0)  # the warm-up is not counted
    assert "retentive_recall_seconds_count 0.0" in metrics
    assert len(recalled.body["hits"]) == 1
    for words in (["recall", "where is the key?"], ["status"], ["remember", "another one"], ["list"]):
        json_of("--store", str(store), *words, env=variables(settings))


# A full disk


class SmallDisk:
    """A file system of 4 MB where that can be had, and a limit on the size of the service's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
        self.mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        self.ways = ["filled", "limited"] if self.mounted else ["limited"]

    def fill(self, service: Service, way: str) -> None:
        """Leave no room. A limit shows as an error of writing, as a quota does."""
        if way == "limited":
            largest = max(file.stat().st_size for file in self.folder.iterdir())
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
            return
        with (self.folder / "other").open("wb", buffering=0) as other:
            for size in (2**16, 2**12, 1):
                try:
                    while other.write(b"x" * size) == size:
                        pass
                except OSError:
                    continue

    def make_room(self, service: Service, way: str) -> None:
        if way == "filled":
            (self.folder / "other").unlink()
        else:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, unlimited)

    def close(self) -> None:
        if self.mounted:
            subprocess.run(["umount", str(self.folder)], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path / "disk")
    yield small
    small.close()


def test_a_full_disk_is_said_and_nothing_is_half_written_and_reads_go_on(disk):
    store = disk.folder / "store.db"
    long = " ".join(f"word{number}" for number in range(20_000))
    with served(store, embedder="none") as service:
        for way in disk.ways:
            assert service.remember(f"before it was {way}").status == 201
            disk.fill(service, way)

            refused = [service.remember(f"{long} {number}") for number in range(3)]

            for answer in refused:
                assert answer.status == 503
                assert answer.headers["Retry-After"]
                assert answer.body["code"] == "unavailable"
                assert "is full; make room and try again, nothing was changed" in answer.body["detail"]
            found = service.recall(f"before it was {way}").body["hits"]
            assert found[0]["memory"]["text"] == f"before it was {way}"
            assert service.ask("GET", "/readyz").status == 200

            disk.make_room(service, way)
            assert service.remember(f"after it was {way}").status == 201
        assert service.end() == 0

    assert texts_in(store) == {f"{when} it was {way}" for when in ("before", "after") for way in disk.ways}


# A locked store


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failures") / "store.db"


@pytest.fixture(scope="module")
def service(shared_store: Path) -> Iterator[Service]:
    with served(shared_store, embedder="none", busy_seconds="0.3") as found:
        found.wait_until_ready()
        yield found
        assert found.end() == 0
    assert "Traceback" not in found.said


def test_a_store_that_another_process_keeps_locked_is_said_and_the_write_can_be_sent_again(service, shared_store):
    service.remember("before")
    other = sqlite3.connect(shared_store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    refused = service.remember("now or later", Idempotency_Key="one")

    answers: list[int] = []
    writers = [threading.Thread(target=lambda: answers.append(service.remember("in between").status)) for _ in range(4)]
    for writer in writers:
        writer.start()
    found = service.recall("before")
    for writer in writers:
        writer.join()
    other.execute("ROLLBACK")
    other.close()
    again = [service.remember("now or later", Idempotency_Key="one") for _ in range(2)]

    assert refused.status == 503
    assert refused.headers["Retry-After"] == "1"
    assert "another process held the lock" in refused.body["detail"]
    assert answers == [503] * 4
    assert found.status == 200
    assert [answer.status for answer in again] == [201, 201]
    assert again[0].body["id"] == again[1].body["id"]
    assert {"before", "now or later"} <= texts_in(shared_store)
    assert "in between" not in texts_in(shared_store)


# A killed client


def test_a_client_that_is_gone_in_the_middle_of_a_request_leaves_nothing_half_behind(service, shared_store):
    before = texts_in(shared_store)
    whole = {f"whole number {number}" for number in range(20)}
    for text in whole:
        _send_and_vanish(service, text, part=1.0)
    for number in range(20):
        _send_and_vanish(service, f"half number {number}", part=0.5)
    service.remember("the last one")

    until(lambda: service.said.count("request_id=vanished") == 40)  # each leaves its line when it has ended
    listed = {one["text"] for one in service.ask("GET", "/v1/memories?limit=100").body["memories"]}
    assert texts_in(shared_store) == listed
    assert listed - before <= whole | {"the last one"}
    assert "the last one" in listed


def _send_and_vanish(service: Service, text: str, *, part: float) -> None:
    """Send a part of a request and close the connection, as happens when a process is killed."""
    body = json.dumps({"text": text}).encode()
    with socket.create_connection(("127.0.0.1", service.port)) as client:
        client.sendall(
            b"POST /v1/memories HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"X-Request-Id: vanished\r\nContent-Length: %d\r\n\r\n" % len(body) + body[: int(len(body) * part)]
        )
