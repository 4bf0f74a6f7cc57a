"""`retentive serve --workers`: real processes on one store, which behave as one service."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from retentive.engine import Engine
from retentive.errors import Invalid
from retentive.inference.embedders import Embedder
from retentive.server.runtime_file import running_service
from retentive.server.workers import check_workers
from retentive.settings import Settings
from retentive.stores import open_store
from tests.stores import postgres_server
from tests.surfaces.service import Service, ask, served, until
from tests.surfaces.test_cli import run

WORKERS = 2


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, model: Embedder) -> Path:
    path = tmp_path_factory.mktemp("workers") / "m.db"
    with Engine(open_store(str(path)), model) as engine:
        engine.remember("The key is under the pot")
    return path


@pytest.fixture(scope="module")
def service(store: Path) -> Iterator[Service]:
    with ThreadPoolExecutor(1) as threads:
        announced = threads.submit(connect_when_announced, store)
        with served(store, "--workers", str(WORKERS), server_log="off") as found:
            found.wait_until_ready()
            assert announced.result() == f"http://127.0.0.1:{found.port}"
            yield found
            workers = pids(found)
            assert found.end() == 0
            assert not any(psutil.pid_exists(pid) for pid in workers)
    assert "Fatal" not in found.said
    assert running_service(str(store)) is None


def connect_when_announced(store: Path) -> str | None:
    """Wait for the file with the address of the service, and connect at once: it must accept connections by then."""
    until(lambda: running_service(str(store)) is not None)
    url = running_service(str(store)) or ""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))):
        return url


def pids(service: Service) -> list[int]:
    """The process ids of the workers."""

    def is_worker(child: psutil.Process) -> bool:
        return child.status() != psutil.STATUS_ZOMBIE and any("spawn_main" in word for word in child.cmdline())

    return sorted(child.pid for child in psutil.Process(service.process.pid).children() if is_worker(child))


def from_each_worker(service: Service, method: str, path: str, body: Any = None, **headers: str) -> list[Any]:
    """Send a request on so many new connections that each worker answers some: the system distributes them."""
    answers = [service.ask(method, path, body, **headers) for _ in range(24)]
    assert {answer.status for answer in answers} <= {200, 201, 202}
    return [answer.body for answer in answers]


def test_the_workers_share_the_connections(service: Service) -> None:
    before = {pid: psutil.Process(pid).cpu_times().user for pid in pids(service)}
    assert len(before) == WORKERS

    def all_have_worked() -> bool:
        for _ in range(20):
            service.recall("key")
        return all(psutil.Process(pid).cpu_times().user > used for pid, used in before.items())

    until(all_have_worked)


def test_a_saved_parameter_applies_in_every_worker_from_the_next_request(service: Service) -> None:
    for weight in (2.5, 3.5):
        assert service.ask("PATCH", "/settings", {"keywordWeight": weight}).status == 200
        assert {body["keywordWeight"] for body in from_each_worker(service, "GET", "/settings")} == {weight}


def test_a_write_that_is_sent_to_several_workers_at_once_is_done_once(service: Service, store: Path) -> None:
    def send(number: int) -> Any:
        return service.ask("POST", "/v1/memories", {"text": "once", "session": "idem"}, Idempotency_Key="k1")

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(send, range(24)))
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body["id"] for answer in answers}) == 1
    with Engine.open(store, embedder="none") as engine:
        assert len(engine.list(engine.scope(session="idem")).memories) == 1


def test_metrics_are_those_of_the_whole_service(service: Service) -> None:
    def counted() -> float:
        lines = service.ask("GET", "/metrics").body.splitlines()
        return float(next(line.split()[-1] for line in lines if line.startswith("retentive_recall_seconds_count")))

    before = counted()
    for _ in range(30):
        service.recall("key")
    assert {counted() - before for _ in range(12)} == {30.0}
    assert 'retentive_memories{kind="episodic"}' in service.ask("GET", "/metrics").body


def test_a_tuning_run_needs_one_worker(service: Service) -> None:
    refused = service.ask("POST", "/v1/tune", {})
    assert (refused.status, refused.body["code"]) == (409, "conflict")
    assert "--workers 1" in refused.body["detail"]


def test_a_worker_that_is_killed_is_replaced_and_the_service_answers_meanwhile(service: Service) -> None:
    first, second = pids(service)
    os.kill(first, signal.SIGKILL)
    until(lambda: len(pids(service)) == WORKERS and first not in pids(service))
    until(lambda: service.remember("still here").status == 201)
    assert second in pids(service)


def test_a_store_in_memory_and_a_port_in_use_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="belongs to one process"):
        check_workers(Settings(store="memory://"))
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        words = ("--store", str(tmp_path / "m.db"), "--embedder", "none", "serve", "--port", port, "--workers", "2")
        assert "is used by another process" in run(*words, code=5).stderr


def test_several_workers_serve_postgresql_and_end_with_their_supervisor() -> None:
    address: Any = postgres_server.address()
    with served(address, "--workers", "2", embedder="none", server_log="off") as service:
        service.wait_until_ready()
        ids = {body["id"] for body in from_each_worker(service, "POST", "/v1/memories", {"text": "The key"})}
        assert len(ids) == 24
        assert {len(body["hits"]) for body in from_each_worker(service, "POST", "/v1/recall", {"query": "key"})} == {1}
        connection = service.connect()
        assert ask(connection, "GET", "/v1/status").body["memories"] == 24
        connection.close()
        workers = [psutil.Process(pid) for pid in pids(service)]
        service.end(signal.SIGKILL)
        psutil.wait_procs(workers, timeout=90)
        assert not any(worker.is_running() for worker in workers)
