"""Kill -9 of a Qdrant server, or of one node of a cluster of three, while three threads write and one recalls.

The program of the server is given: `python -m tests.attack.kill_qdrant --binary PATH --nodes 3 --seconds 120`. Servers
listen on loopback and store their data in a temporary folder. A write with an idempotency key that fails is sent again
until it is acknowledged. Every acknowledged write must be there once, on every node, and `doctor` must find nothing. A
store on Qdrant has no transactions: of a write without a key that failed, parts may be there.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from retentive.engine import Engine
from retentive.errors import RetentiveError
from retentive.stores import open_store
from tests.attack.changes import Expected
from tests.attack.harness import SHOWN, Run, TextVectors
from tests.attack.kill_postgres import WRITERS, Load

COUNTED = ("kills", "acknowledged writes", "sent again", "unknown", "recalls", "failed recalls")
WRONG = ("lost", "half written", "problems")

ROUNDS_PER_STORE = 5


class Node:
    """A server with its own folder and ports. `peer` is the first node of its cluster."""

    def __init__(self, binary: str, folder: Path, *, cluster: bool = False, peer: Node | None = None) -> None:
        self._binary, self._folder, self._cluster, self._peer = binary, folder, cluster, peer
        self.port, self._grpc, self._p2p = (_free_port() for _ in range(3))
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it is ready."""
        settings = {
            "TELEMETRY_DISABLED": "true",
            "LOG_LEVEL": "WARN",
            "SERVICE__HOST": "127.0.0.1",
            "SERVICE__HTTP_PORT": str(self.port),
            "SERVICE__GRPC_PORT": str(self._grpc),
            "STORAGE__STORAGE_PATH": str(self._folder / "storage"),
            "STORAGE__SNAPSHOTS_PATH": str(self._folder / "snapshots"),
            "CLUSTER__ENABLED": "true" if self._cluster else "false",
            "CLUSTER__P2P__PORT": str(self._p2p),
        }
        command = [self._binary]
        if self._cluster:
            command += ["--uri", f"http://127.0.0.1:{self._p2p}"]
        if self._peer is not None:
            command += ["--bootstrap", f"http://127.0.0.1:{self._peer._p2p}"]
        environment = {**os.environ, **{f"QDRANT__{name}": value for name, value in settings.items()}}
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=log, stderr=log)
        until(lambda: _answers(f"{self.url}/readyz"), what=f"{self._folder.name} is ready")

    def kill(self) -> None:
        """Kill the server, if it runs."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None


@contextmanager
def servers(binary: str, folder: Path, nodes: int) -> Iterator[Sequence[Node]]:
    """Start servers, and kill them at the end."""
    started: list[Node] = []
    try:
        for number in range(nodes):
            peer = started[0] if started else None
            started.append(Node(binary, folder / f"node{number}", cluster=nodes > 1, peer=peer))
        yield started
    finally:
        for node in started:
            node.kill()


class Reader:
    """A thread that recalls until it is stopped."""

    def __init__(self, address: str, run: Run) -> None:
        self._engine, self._run, self._stopped = Engine(open_store(address), TextVectors()), run, threading.Event()
        self.errors: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _read(self) -> None:
        with self._engine as engine:
            while not self._stopped.is_set():
                try:
                    engine.recall("balo bemi", record_use=False)
                    self._run.count("recalls")
                except RetentiveError as error:
                    self._run.count("failed recalls")
                    self.errors[f"{type(error).__name__}: {error}"] += 1
                time.sleep(0.02)


def attack(run: Run, nodes: Sequence[Node], settings: str) -> None:
    """Kill one node in each round, of several not the first, which the clients are connected to."""
    address, expected = "", Expected()
    for number in run.rounds():
        if number % ROUNDS_PER_STORE == 0:
            address, expected = f"/round{number}?{settings}", Expected()
        killed = nodes[0] if len(nodes) == 1 else run.dice.choice(nodes[1:])
        kill_once(killed, f"qdrant+{nodes[0].url}{address}", expected, run, number)
        for node in nodes:
            until(lambda node=node: _is_green(node), what=f"the collections of {node.url} are green")
            with Engine(open_store(f"qdrant+{node.url}{address}"), TextVectors()) as engine:
                expected.compare(engine, run)


def kill_once(node: Node, address: str, expected: Expected, run: Run, number: int) -> None:
    """Kill and restart a node while threads write and one recalls."""
    load = Load(address, expected, run, number)
    for _ in range(run.dice.randrange(10, 40)):
        load.written.acquire(timeout=60)
    reader = Reader(address, run)
    try:
        node.kill()
        run.count("kills")
        before, started = dict(run.counts), time.monotonic()
        time.sleep(run.dice.choice((0, 2, 8)))
        down = {name: run.counts[name] - before[name] for name in ("acknowledged writes", "recalls", "failed recalls")}
        node.start()
        print(f"  round {number}: down for {time.monotonic() - started:.1f} s, meanwhile {down}", flush=True)
        for _ in range(5 * WRITERS):
            load.written.acquire(timeout=60)
    finally:
        load.stop()
        reader.stop()
    for what, errors in (("writes", load.errors), ("recalls", reader.errors)):
        for error, times in errors.items():
            print(f"  {times} {what} failed: {error[:200]}", flush=True)


def until(condition: object, *, what: str, seconds: float = 120) -> None:
    """Wait for a condition."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2).is_success
    except httpx.HTTPError:
        return False


def _is_green(node: Node) -> bool:
    """Whether all shards of all collections are active, as this node sees them."""
    try:
        collections = httpx.get(f"{node.url}/collections", timeout=5).json()["result"]["collections"]
        for one in collections:
            info = httpx.get(f"{node.url}/collections/{one['name']}/cluster", timeout=5).json()["result"]
            if any(shard["state"] != "Active" for shard in info["local_shards"] + info["remote_shards"]):
                return False
    except (httpx.HTTPError, KeyError):
        return False
    return True


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack.kill_qdrant", description=__doc__)
    parser.add_argument("--binary", required=True, help="the program of the server")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--settings", default="timeout=2", help="those of the address of the store, after its ?")
    parser.add_argument("--folder", help="where temporary folders are made")
    parser.add_argument("--seconds", type=float, default=60, help="how long new rounds are started")
    parser.add_argument("--rounds", type=int, help="end after this many rounds")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="attack", dir=given.folder, ignore_cleanup_errors=True) as folder:
        run = Run("kill_qdrant", given.seed, given.seconds, Path(folder), given.rounds)
        run.counts, run.wrong = dict.fromkeys(COUNTED, 0), dict.fromkeys(WRONG, 0)
        with servers(given.binary, Path(folder), given.nodes) as nodes:
            attack(run, nodes, given.settings)
    for problem in run.problems[:SHOWN]:
        print(f"  {problem}")
    print(run.verdict)
    sys.exit(not run.passed)


if __name__ == "__main__":
    main()
