"""The front of the MCP server on standard input and output: it says at once what tools there are.

A client gives a server little time to say what it offers, and importing the engine takes a second. So this process,
which imports the standard library only, starts the server in a child process and answers the first requests itself,
from `mcp_front.json`, which `tools.references` writes. Everything else goes to the server and back, line by line.
"""

from __future__ import annotations

import os
import sys
from threading import Lock, Thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

BEHIND = "RETENTIVE_MCP_BEHIND"
"""This variable is set in the environment of the server behind a front."""

_VALUES = ("--store", "--profile", "--embedder", "--config")
"""The common options, which are followed by a value."""

_OF_SERVER = ("--project", "--session", "--read-only", "--explain")

MODERN = "io.modelcontextprotocol/protocolVersion"
"""Requests of protocols without `initialize` name their version in `_meta`."""


def is_front(words: Sequence[str]) -> bool:
    """Whether the arguments of the program start a server for one client, with options that are valid."""
    rest = list(words)
    while rest and rest[0] != "mcp":
        name, equals, _ = rest.pop(0).partition("=")
        if name not in _VALUES or (not equals and not rest):
            return False
        if not equals:
            rest.pop(0)
    while rest[1:]:
        name, equals, _ = rest.pop(1).partition("=")
        if name not in (*_VALUES, *_OF_SERVER):
            return False
        if not equals and name not in ("--read-only", "--explain"):
            if not rest[1:]:
                return False
            rest.pop(1)
    return rest == ["mcp"] and BEHIND not in os.environ and not sys.stdin.isatty()


def run_front(words: Sequence[str]) -> NoReturn:
    """Serve the client until it disconnects or the server ends, and end the process with the server's exit code."""
    import signal
    from subprocess import PIPE, Popen

    # -P: a file `retentive.py` in the folder of the client must not be taken for the package.
    server = Popen(
        [sys.executable, "-P", "-m", "retentive", *words], stdin=PIPE, stdout=PIPE, env={**os.environ, BEHIND: "1"}
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: server.send_signal(number))
    front = Front(answers_of(words))
    if server.stdin is None:
        raise RuntimeError("the server has no standard input")
    Thread(target=_copy_answers, args=(server, front), daemon=True).start()
    for line in sys.stdin.buffer:
        if front.passes_on(line):
            try:
                server.stdin.write(line)
                server.stdin.flush()
            except OSError:
                break  # it has ended
    server.stdin.close()
    os._exit(server.wait())


def _copy_answers(server: Any, front: Front) -> None:
    for line in server.stdout:
        front.write(line)
    os._exit(server.wait())


class Front:
    """Answers what needs no engine, and leaves out the server's answer to the same request."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers
        self._lock = Lock()
        self._initialized: object = None

    def passes_on(self, line: bytes) -> bool:
        """Answer a message, if it is one of those; return whether the server is to get it."""
        from json import loads

        try:
            message = loads(line)
            method, id, given = message["method"], message["id"], message.get("params") or {}
            modern = (given.get("_meta") or {}).get(MODERN) in self._answers["modern"]
        except (ValueError, KeyError, TypeError, AttributeError):
            return True  # a notification, an answer, or what the server will report as invalid
        if method == "initialize" and given.get("protocolVersion") in self._answers["legacy"]:
            self._initialized = id
            self._answer(id, {**self._answers["initialize"], "protocolVersion": given["protocolVersion"]})
            return True  # the server must know the client, too
        if method == "tools/list" and "cursor" not in given and (modern or self._initialized is not None):
            self._answer(id, {**(self._answers["wrapping"] if modern else {}), "tools": self._answers["tools"]})
            return False
        if method == "server/discover" and modern:
            self._answer(id, self._answers["discover"])
            return False
        return True

    def write(self, line: bytes) -> None:
        """Write a line of the server, unless the request has been answered."""
        from json import loads

        if self._initialized is not None and b'"protocolVersion"' in line:
            message = loads(line)
            if message.get("id") == self._initialized and "protocolVersion" in (message.get("result") or {}):
                return
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def _answer(self, id: object, result: dict[str, Any]) -> None:
        from json import dumps

        line = dumps({"jsonrpc": "2.0", "id": id, "result": result}, ensure_ascii=False, separators=(",", ":"))
        with self._lock:
            sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()


def answers_of(words: Sequence[str]) -> dict[str, Any]:
    """The answers of a server with these options."""
    from json import loads

    with open(os.path.join(os.path.dirname(__file__), "mcp_front.json"), encoding="utf-8") as file:
        stored = loads(file.read())
    kind = "read" if "--read-only" in words else "write"
    hidden = () if "--explain" in words else stored["explain"]
    tools = [one for one in stored["tools"] if (kind == "write" or one["name"] not in stored["writes"])]
    instructions = {"instructions": stored["instructions"][kind]}
    return {
        **stored,
        "tools": [one for one in tools if one["name"] not in hidden],
        "initialize": {**stored["initialize"], **instructions},
        "discover": {**stored["discover"], **instructions},
    }
