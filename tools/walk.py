"""Trace one call: `python -m tools.walk recall --via http --store sqlite` prints the files it passes through.

One warm call is traced, the second of two, from the entry point of the surface to its answer:

- `library`: `Engine.recall` or `Engine.remember` on an open engine
- `cli`: the command line in this process, which parses its arguments, opens the store and closes it again
- `http`: a request to the ASGI application in this process
- `mcp`: a tool call from the in-memory client of the MCP SDK

`python -m tools.walk --update` writes the tables of files in CONTRIBUTING.md again, each below a line like
`<!-- walk: recall --via cli -->`, with the first line of each file's docstring.

Files are listed in the order in which the call enters them, each with the functions entered, on every thread. Imports
are not counted, nor is what loads the model of a command line, nor are frames without a name (lambdas, comprehensions,
generator expressions), nor the making of a value: dataclasses have no file for it, so `checked.py` does not count
either. The stack is the longest chain of our own frames on one thread.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import importlib
import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import retentive
from tools.markdown import code, table

ROOT = Path(retentive.__file__).parent
CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
TOUR = re.compile(r"^<!-- walk: (?P<call>.+) -->\n(?P<table>(?:\|.*\n)*)", re.MULTILINE)
"""A call in a comment that readers of the page do not see, and the table of its files."""

QUERY = "Where is the key of the {}?"
TEXT = "The key of the {} hangs behind the kitchen door"

VALUES = "checked.py"
"""The file that makes settings and tunings."""

LOADER = "_load_model"
"""The function that loads a model; a service calls it once."""

Call = Callable[[str], None]
"""Performs the call once, about one object."""


@dataclass(slots=True)
class Trace:
    """The files and functions that a call entered, in order, and its deepest stack."""

    files: dict[str, list[str]] = field(default_factory=dict)
    stack: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return the trace as a table, with its totals at the end."""
        width = max(map(len, self.files), default=0)
        lines = [f"{file:{width}}  {', '.join(functions)}" for file, functions in self.files.items()]
        return "\n".join([*lines, "", "deepest stack:", *(f"  {frame}" for frame in self.stack), "", self.totals()])

    def table(self) -> str:
        """Return the files as a table in Markdown, each with the first line of its docstring."""
        return table(("file", "what it does"), [(code(file), _first_line(ROOT / file)) for file in self.files])

    def totals(self) -> str:
        """Return the number of files and the depth in one line."""
        return f"{len(self.files)} files; deepest stack: {len(self.stack)} frames"


class Tracer:
    """A profile function for all threads that records calls into our files while it is switched on."""

    def __init__(self, root: Path = ROOT) -> None:
        self.trace = Trace()
        self._root = f"{root.resolve()}{os.sep}"
        self._recording = False
        self._lock = threading.Lock()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Follow this thread and every thread that it starts."""
        threading.setprofile(self._follow)
        sys.setprofile(self._follow)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what is called. Work handed to a thread pool is done first, so that the order is always the same."""
        submit = ThreadPoolExecutor.submit

        def submit_and_wait(pool: ThreadPoolExecutor, *arguments: Any, **options: Any) -> Future[Any]:
            future = submit(pool, *arguments, **options)
            concurrent.futures.wait([future], timeout=30)
            return future

        with patch.object(ThreadPoolExecutor, "submit", submit_and_wait):
            self._recording = True
            try:
                yield
            finally:
                self._recording = False

    def _follow(self, frame: FrameType, event: str, _: object) -> None:
        if not self._recording or event != "call" or not self._is_ours(frame) or _is_unnamed(frame):
            return
        stack = [one for one in _frames(frame) if self._is_ours(one)]
        if any(one.f_code.co_name in ("<module>", LOADER) for one in stack):
            return  # an import, or the model is loaded
        with self._lock:
            functions = self.trace.files.setdefault(self._file(frame), [])
            if frame.f_code.co_qualname not in functions:
                functions.append(frame.f_code.co_qualname)
            named = [f"{self._file(one)} {one.f_code.co_qualname}" for one in stack if not _is_unnamed(one)]
            if len(named) > len(self.trace.stack):
                self.trace.stack = named[::-1]

    def _is_ours(self, frame: FrameType) -> bool:
        return frame.f_code.co_filename.startswith(self._root) and self._file(frame) != VALUES

    def _file(self, frame: FrameType) -> str:
        return frame.f_code.co_filename.removeprefix(self._root).replace(os.sep, "/")


def _first_line(file: Path) -> str:
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_unnamed(frame: FrameType) -> bool:
    return frame.f_code.co_name.startswith("<")


# Stores: each gives the address of an empty one


@contextmanager
def _sqlite() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield str(Path(folder) / "memories.db")


@contextmanager
def _postgres() -> Iterator[str]:
    yield importlib.import_module("tests.stores.postgres_server").address()


@contextmanager
def _qdrant() -> Iterator[str]:
    """Let the engine inside Qdrant's own client answer in place of a server."""
    importlib.import_module("retentive.stores.qdrant")
    local = importlib.import_module("tests.stores.local_qdrant").LocalQdrant()
    modules = [name for name in sys.modules if name.startswith("retentive.stores.qdrant")]
    with patch.object(local, "close", lambda *_, **__: None), ExitStack() as patches:
        for name in modules:
            if hasattr(sys.modules[name], "QdrantClient"):
                patches.enter_context(patch(f"{name}.QdrantClient", lambda *_, **__: local))
        yield "qdrant+http://localhost:6333"


STORES = {"sqlite": _sqlite, "postgres": _postgres, "qdrant": _qdrant}


# Surfaces: each gives the call on a store that holds memories


@contextmanager
def _library(action: str, store: str) -> Iterator[Call]:
    from retentive.engine import Engine

    with Engine.open(store) as engine:
        if action == "recall":
            yield lambda name: _check(bool(engine.recall(QUERY.format(name)).hits))
        else:
            yield lambda name: _check(bool(engine.remember(TEXT.format(name)).id))


@contextmanager
def _cli(action: str, store: str) -> Iterator[Call]:
    from typer.testing import CliRunner

    from retentive.cli.app import app

    text = QUERY if action == "recall" else TEXT

    def call(name: str) -> None:
        result = CliRunner().invoke(app, ["--store", store, action, text.format(name)])
        _check(result.exit_code == 0, result.output)

    yield call


@contextmanager
def _http(action: str, store: str) -> Iterator[Call]:
    from fastapi.testclient import TestClient

    from retentive.engine import Engine
    from retentive.server.http.app import create_app

    with Engine.open(store) as engine, TestClient(create_app(engine), base_url="http://127.0.0.1") as client:

        def call(name: str) -> None:
            if action == "recall":
                answer = client.post("/v1/recall", json={"query": QUERY.format(name)})
            else:
                answer = client.post("/v1/memories", json={"text": TEXT.format(name)})
            _check(answer.is_success, answer.text)

        yield call


@contextmanager
def _mcp(action: str, store: str) -> Iterator[Call]:
    from anyio.from_thread import start_blocking_portal
    from mcp import Client

    from retentive.engine import Engine
    from retentive.server.mcp.server import build_server
    from retentive.server.mcp.tools import open_scope

    with Engine.open(store) as engine, start_blocking_portal() as portal:
        scope = open_scope(engine)
        with portal.wrap_async_context_manager(Client(build_server(lambda _: scope))) as client:

            def call(name: str) -> None:
                argument = {"query": QUERY.format(name)} if action == "recall" else {"text": TEXT.format(name)}
                answer = portal.call(client.call_tool, f"memory_{action}", argument)
                _check(not answer.is_error, str(answer))

            yield call


SURFACES = {"cli": _cli, "http": _http, "mcp": _mcp, "library": _library}


def _check(good: bool, message: str = "the call found nothing") -> None:
    if not good:
        raise RuntimeError(message)


def walk(action: str, *, via: str, store: str) -> Trace:
    """Return the trace of the second of two calls. Its text is new, so that no cache of embeddings answers it."""
    from retentive.engine import Engine
    from retentive.transfer.samples import load_samples

    tracer = Tracer()
    with tracer.installed(), STORES[store]() as address:
        with Engine.open(address) as engine:
            load_samples(engine)
        with SURFACES[via](action, address) as call:
            call("tool box")
            with tracer.recording():
                call("front gate")
    return tracer.trace


def update_tours(page: Path = CONTRIBUTING) -> None:
    """Write the table of every tour on the page again."""

    def updated(tour: re.Match[str]) -> str:
        options = _parser().parse_args(tour["call"].split())
        traced = walk(options.action, via=options.via, store=options.store)
        return f"<!-- walk: {tour['call']} -->\n{traced.table()}"

    page.write_text(TOUR.sub(updated, page.read_text(encoding="utf-8")), encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.walk", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("action", choices=("recall", "remember"), nargs="?", default="recall")
    parser.add_argument("--via", choices=SURFACES, default="cli", help="the surface that is called (default: cli)")
    parser.add_argument("--store", choices=STORES, default="sqlite", help="the store behind it (default: sqlite)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--update", action="store_true", help="write the tours in CONTRIBUTING.md again")
    return parser


def main(arguments: list[str] | None = None) -> None:
    """Trace the call that the arguments name, and print it."""
    options = _parser().parse_args(arguments)
    if options.update:
        return update_tours()
    trace = walk(options.action, via=options.via, store=options.store)
    print(json.dumps({"files": trace.files, "stack": trace.stack}, indent=2) if options.json else trace.text())
    return None


if __name__ == "__main__":
    main()
