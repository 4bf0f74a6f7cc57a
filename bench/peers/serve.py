"""Runs one adapter in its peer's environment: `python -m bench.peers.serve MODULE` reads requests, prints answers.

Only the standard library is imported here. Standard output belongs to the protocol: what the peer prints goes to
standard error. A connection to another machine is refused, so that a peer that reports its use or loads a model fails
visibly.
"""

from __future__ import annotations

import importlib
import ipaddress
import json
import os
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter, process_time
from types import ModuleType
from typing import Any, TextIO

from bench.peers.protocol import LIMIT, Peer, Setup, to_memory, to_query

Answer = dict[str, Any]


class Served:
    """An adapter and its peer, which answers requests."""

    def __init__(self, adapter: ModuleType) -> None:
        self._adapter = adapter
        self._peer: Peer | None = None
        self._folder = Path()
        self._requests: dict[str, Callable[[Answer], Answer]] = {
            "open": self._open,
            "add": self._add,
            "finish": self._finish,
            "search": self._search,
            "size": self._size,
            "close": self._close,
        }

    def answer(self, request: Answer) -> Answer:
        """Return the answer to a request; an error as `error`."""
        try:
            return self._requests[request.pop("do")](request)
        except Exception as error:  # whatever a peer raises is its result
            return {"error": f"{type(error).__name__}: {error}"[:2000]}

    @property
    def peer(self) -> Peer:
        """The open peer."""
        if self._peer is None:
            raise RuntimeError("the peer is not open")
        return self._peer

    def _open(self, request: Answer) -> Answer:
        setup = Setup(**request)
        self._folder = setup.path
        self._peer = self._adapter.open(setup)
        versions = {name: version(name) for name in self._adapter.PACKAGES}
        versions |= getattr(self._peer, "versions", {})
        return {"versions": versions, "configuration": self._adapter.CONFIGURATION}

    def _add(self, request: Answer) -> Answer:
        memories = [to_memory(plain) for plain in request["memories"]]
        prepare = getattr(self.peer, "prepare", None)
        if prepare:
            prepare(memories)
        return _timed(lambda: self.peer.add(memories))

    def _finish(self, _: Answer) -> Answer:
        return _timed(self.peer.finish)

    def _search(self, request: Answer) -> Answer:
        found, milliseconds, busy = [], [], []
        children = [number for number in _family(os.getpid()) if number != os.getpid()]
        for query in [to_query(plain) for plain in request["queries"]]:
            used = processor_seconds(children)
            started = perf_counter()
            ids = self.peer.search(query)
            milliseconds.append((perf_counter() - started) * 1000)
            busy.append((processor_seconds(children) - used) * 1000)
            found.append(list(dict.fromkeys(ids))[:LIMIT])
        return {"found": found, "milliseconds": milliseconds, "cpu_milliseconds": busy}

    def _size(self, _: Answer) -> Answer:
        files = (file for file in self._folder.rglob("*") if file.is_file())
        return {"rss": _resident(os.getpid()), "disk": sum(file.stat().st_size for file in files)}

    def _close(self, _: Answer) -> Answer:
        self.peer.close()
        return {}


def _timed(work: Callable[[], None]) -> Answer:
    started = perf_counter()
    work()
    return {"seconds": perf_counter() - started}


def processor_seconds(children: Iterable[int]) -> float:
    """Return the processor time of this process and of the threads of its children."""
    seconds = process_time()
    for number in children:
        for file in Path(f"/proc/{number}/task").glob("*/schedstat"):
            with suppress(OSError):  # it ended
                seconds += int(file.read_text(encoding="utf-8").split()[0]) / 1e9
    return seconds


def _resident(process: int) -> int:
    """Return the resident bytes of a process and of the processes that it started."""
    return sum(_family(process).values())


def _family(process: int) -> dict[int, int]:
    """Return a process and the processes that it started, with the resident bytes of each."""
    parents: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError:  # it ended
            continue
        fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
        number = int(fields["Pid"][0])
        parents.setdefault(int(fields["PPid"][0]), []).append(number)
        sizes[number] = 1024 * int(fields.get("VmRSS", ["0"])[0])
    family, waiting = {}, [process]
    while waiting:
        number = waiting.pop()
        family[number] = sizes.get(number, 0)
        waiting += parents.get(number, [])
    return family


def use_pysqlite3() -> None:
    """Put `pysqlite3` in the place of a `sqlite3` that loads no extensions, if the peer's environment has it."""
    if hasattr(sqlite3.Connection, "enable_load_extension") or not find_spec("pysqlite3"):
        return
    for name in ("", ".dbapi2"):
        sys.modules[f"sqlite3{name}"] = importlib.import_module(f"pysqlite3{name}")


def _refuse_other_machines(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse a connection that leaves this machine, and the look-up of a name, which would leave it as well."""
    if event == "socket.getaddrinfo":
        host = arguments[0]
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    else:
        return
    if not _is_here(host.decode() if isinstance(host, bytes) else host):
        raise ConnectionRefusedError(f"a peer connects to this machine only, not to {host}")


def _is_here(host: str | None) -> bool:
    if not host or host in ("localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:  # a name
        return False


def serve(module: str, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until `close` or the end of the input."""
    try:
        served = Served(importlib.import_module(module))
    except Exception as error:  # reported as the answer to `open`
        answers.write(json.dumps({"error": f"{type(error).__name__}: {error}"[:2000]}) + "\n")
        answers.flush()
        return
    for line in requests:
        request = json.loads(line)
        last = request["do"] == "close"
        answers.write(json.dumps(served.answer(request)) + "\n")
        answers.flush()
        if last:
            return


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.addaudithook(_refuse_other_machines)
    use_pysqlite3()
    serve(sys.argv[1], sys.stdin, own)
