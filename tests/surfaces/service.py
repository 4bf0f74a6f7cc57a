"""Run `retentive serve` in its own process, and send requests to it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

PROGRAM = (sys.executable, "-c", "from retentive.cli import main; main()")


class Answer(NamedTuple):
    """A response."""

    status: int
    headers: Mapping[str, str]
    body: Any


class Service:
    """A running service."""

    def __init__(self, process: subprocess.Popen[str], port: int, said: list[str]) -> None:
        self.process, self.port, self._said = process, port, said

    def connect(self, *, timeout: float = 90) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request on a new connection."""
        connection = self.connect()
        try:
            return ask(connection, method, path, body, **headers)
        finally:
            connection.close()

    def remember(self, text: str, **headers: str) -> Answer:
        return self.ask("POST", "/v1/memories", {"text": text}, **headers)

    def recall(self, query: str) -> Answer:
        return self.ask("POST", "/v1/recall", {"query": query})

    def wait_until_ready(self) -> None:
        until(lambda: self.ask("GET", "/readyz").status == 200)

    def end(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Stop it and return its exit code."""
        self.process.send_signal(how)
        return self.process.wait(90)

    @property
    def said(self) -> str:
        """Its standard error so far; complete once it has ended."""
        return "".join(self._said)


def ask(connection: HTTPConnection, method: str, path: str, body: Any = None, **headers: str) -> Answer:
    """Send one request on this connection. Header names have underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json", **named} if sent else named)
    response = connection.getresponse()
    raw = response.read()
    is_json = "json" in (response.getheader("content-type") or "")
    return Answer(response.status, response.headers, json.loads(raw) if is_json else raw.decode())


def until(come: Callable[[], bool], *, seconds: float = 90) -> None:
    """Wait until a condition holds."""
    deadline = monotonic() + seconds
    while not come():
        assert monotonic() < deadline, "the condition did not hold in time"
        sleep(0.01)


@contextmanager
def served(store: Path, *options: str, before: Callable[[], None] | None = None, **env: str) -> Iterator[Service]:
    """Run a service on a free port. Settings are environment variables in lower case, without the prefix."""
    named = {f"RETENTIVE_{name.upper()}": value for name, value in env.items()}
    process = subprocess.Popen(
        [*PROGRAM, "--store", str(store), "serve", "--port", "0", *options],
        stderr=subprocess.PIPE, text=True, env={**os.environ, **named}, preexec_fn=before,
    )  # fmt: skip
    said: list[str] = []
    listening = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    listening.start()
    try:
        until(lambda: bool(said) or process.poll() is not None)
        found = re.search(r"serves http://[^:]+:(\d+)", "".join(said))
        assert found, said
        yield Service(process, int(found[1]), said)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(90)
        listening.join()
        if process.stderr:
            process.stderr.close()


def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program in its own process until it ends."""
    named = {f"RETENTIVE_{name.upper()}": value for name, value in env.items()}
    return subprocess.run(
        [*PROGRAM, *words], env={**os.environ, **named}, capture_output=True, text=True, check=False, timeout=120
    )
